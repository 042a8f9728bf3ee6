"""What a generated household may hold: rooms, what opens, what lies where, what can be done with it."""

from __future__ import annotations

ROOMS: dict[str, dict[str, int]] = {  # receptacle type: how many there are at most
    "kitchen": {
        "countertop": 3, "cabinet": 8, "drawer": 5, "fridge": 1, "microwave": 1, "sinkbasin": 1, "garbagecan": 1,
        "diningtable": 1, "shelf": 3, "stoveburner": 4,
    },
    "bathroom": {
        "sinkbasin": 2, "countertop": 1, "cabinet": 4, "drawer": 4, "garbagecan": 1, "toilet": 1, "bathtubbasin": 1,
        "shelf": 2,
    },
    "bedroom": {
        "bed": 1, "desk": 2, "dresser": 1, "drawer": 8, "sidetable": 2, "shelf": 6, "garbagecan": 1, "safe": 1,
        "armchair": 1,
    },
    "livingroom": {
        "sofa": 1, "armchair": 2, "coffeetable": 2, "sidetable": 3, "drawer": 6, "shelf": 4, "diningtable": 1,
        "garbagecan": 1, "cabinet": 4, "tvstand": 1,
    },
}  # fmt: skip

OPENABLE = ("cabinet", "drawer", "fridge", "microwave", "safe")
LAMPS = {"desklamp": ("desk", "sidetable", "dresser", "shelf"), "floorlamp": ("coffeetable", "sidetable", "tvstand")}

# object type: features (c clean, h heat, k cool, s slice, v vessel), and the receptacle types that take it
THINGS: dict[str, tuple[str, str]] = {
    "apple": ("chks", "countertop diningtable fridge microwave sinkbasin garbagecan"),
    "bread": ("hks", "countertop diningtable fridge microwave garbagecan"),
    "butterknife": ("c", "countertop diningtable drawer sinkbasin"),
    "cup": ("chkv", "countertop cabinet diningtable fridge microwave shelf sinkbasin"),
    "egg": ("chk", "countertop fridge microwave sinkbasin garbagecan diningtable"),
    "fork": ("c", "countertop diningtable drawer sinkbasin"),
    "knife": ("c", "countertop diningtable drawer sinkbasin"),
    "lettuce": ("cks", "countertop diningtable fridge sinkbasin garbagecan"),
    "mug": ("chkv", "countertop cabinet diningtable fridge microwave shelf sinkbasin desk coffeetable"),
    "pan": ("ckv", "countertop cabinet diningtable fridge sinkbasin stoveburner"),
    "plate": ("chkv", "countertop cabinet diningtable fridge microwave shelf sinkbasin"),
    "potato": ("chks", "countertop diningtable fridge microwave sinkbasin garbagecan"),
    "saltshaker": ("", "countertop cabinet diningtable drawer shelf"),
    "spatula": ("c", "countertop diningtable drawer sinkbasin"),
    "tomato": ("chks", "countertop diningtable fridge microwave sinkbasin garbagecan"),
    "cloth": ("c", "countertop cabinet drawer sinkbasin bathtubbasin garbagecan"),
    "candle": ("", "countertop cabinet drawer toilet shelf bathtubbasin coffeetable"),
    "soapbar": ("c", "countertop cabinet drawer sinkbasin toilet bathtubbasin garbagecan"),
    "spraybottle": ("", "countertop cabinet drawer toilet garbagecan shelf"),
    "toiletpaper": ("", "countertop cabinet drawer toilet shelf garbagecan"),
    "alarmclock": ("", "desk dresser sidetable shelf drawer"),
    "book": ("", "bed desk dresser sidetable shelf drawer sofa coffeetable diningtable"),
    "box": ("v", "bed desk dresser sidetable sofa coffeetable diningtable armchair"),
    "cd": ("", "desk dresser sidetable shelf drawer safe garbagecan"),
    "cellphone": ("", "bed desk dresser sidetable shelf drawer safe armchair sofa"),
    "creditcard": ("", "desk dresser sidetable shelf drawer armchair sofa coffeetable"),
    "keychain": ("", "desk dresser sidetable shelf drawer safe sofa coffeetable tvstand"),
    "laptop": ("", "bed desk dresser sofa coffeetable diningtable armchair"),
    "newspaper": ("", "sofa coffeetable diningtable sidetable drawer armchair garbagecan"),
    "pen": ("", "desk dresser sidetable shelf drawer garbagecan"),
    "pencil": ("", "desk dresser sidetable shelf drawer garbagecan"),
    "pillow": ("", "bed sofa armchair"),
    "remotecontrol": ("", "sofa coffeetable sidetable drawer armchair tvstand cabinet"),
    "statue": ("", "dresser sidetable shelf coffeetable diningtable tvstand"),
    "vase": ("", "dresser sidetable shelf coffeetable diningtable cabinet"),
    "watch": ("", "dresser sidetable shelf drawer safe coffeetable tvstand"),
}

SENTENCES = {
    "place": ("put some {thing} on {goal}.", "put a {thing} in {goal}."),
    "look": ("look at {thing} under the {lamp}.", "examine the {thing} with the {lamp}."),
    "clean": ("put a clean {thing} in {goal}.", "clean some {thing} and put it in {goal}."),
    "heat": ("put a hot {thing} in {goal}.", "heat some {thing} and put it in {goal}."),
    "cool": ("put a cool {thing} in {goal}.", "cool some {thing} and put it in {goal}."),
    "two": ("put two {thing} in {goal}.", "find two {thing} and put them in {goal}."),
}


def takers(thing: str) -> tuple[str, ...]:
    """Receptacle types that a thing may be put into."""
    return tuple(THINGS[thing][1].split())
