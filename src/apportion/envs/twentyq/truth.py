"""Truth tables: what is true of which object. Generated, or read from a CSV file such as UCI Zoo's."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

from apportion.errors import ConfigError, FormatError

COLOURS = "black blue red white".split()
THINGS = (
    "ant apple ball bat bear bell boat bone book boot bread brush cactus candle canoe car cat chair clock coin".split()
)
THINGS += (
    "cow crab crow cup desk dog drum duck eagle fern fish flute fork fox frog goat gull hammer harp hat horse".split()
)
THINGS += (
    "jar kite knife lamp leaf lemon lion mole moth mouse oak owl pan pear pen piano pig plane plum pot rabbit".split()
)
THINGS += (
    "ring rose rug sail seal shell ship shoe snail snake soap spade spoon stone swan table tiger toad train".split()
)
TRAITS = "alive big edible fast furry heavy loud metal old round shiny soft sweet tall wet wooden".split()


@dataclass(frozen=True)
class TruthTable:
    """``true`` holds, for each object, the numbers of the questions whose answer is yes."""

    objects: tuple[str, ...]
    questions: tuple[str, ...]
    true: tuple[frozenset[int], ...]

    def only(self, objects: tuple[str, ...]) -> TruthTable:
        """The rows of these objects, with the questions that tell any two of them apart."""
        rows = tuple(self.true[self.objects.index(name)] for name in objects)
        kept = [q for q in range(len(self.questions)) if len({q in row for row in rows}) > 1]
        renumbered = tuple(frozenset(k for k, q in enumerate(kept) if q in row) for row in rows)
        return TruthTable(objects, tuple(self.questions[q] for q in kept), renumbered)


@lru_cache(maxsize=8)
def generated_table(world: int = 0) -> TruthTable:
    """A table of made-up truths over names of things, no two alike; another one for each world."""
    rng = Random(f"twentyq/{world}")
    rows: dict[frozenset[int], str] = {}
    for thing in (f"{colour} {thing}" for thing in THINGS for colour in COLOURS):
        row = frozenset(q for q in range(len(TRAITS)) if rng.random() < 0.5)
        while row in rows:
            row = row ^ {rng.randrange(len(TRAITS))}
        rows[row] = thing
    questions = tuple(f"is it {trait}?" for trait in TRAITS)
    return TruthTable(tuple(rows.values()), questions, tuple(rows))


@lru_cache(maxsize=8)
def read_table(path: str) -> TruthTable:
    """A CSV file: a header; in each row an object and what is true of it.

    A column of 0 and 1 is one question, a column of other values one question for each value. A column named "type" or
    "class" is left out. An object that stands there twice is numbered: frog, frog 2.

    Raises:
        ConfigError: no such file.
        FormatError: it is no such table.
    """
    if not Path(path).is_file():
        raise ConfigError(f"twentyq: {path}: no such file; give a CSV table of objects and what is true of them")
    with Path(path).open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, restval="", restkey="more"))
    names = list(rows[0]) if rows else []
    if len(rows) < 2 or len(names) < 2 or any("more" in row or "" in row.values() for row in rows):
        raise FormatError(f"{path}: is no table of objects; give a header, and in each row a name and its values")
    columns = [name for name in names[1:] if name.lower() not in ("type", "class")]
    asked = [(c, v) for c in columns for v in _values({row[c] for row in rows})]
    questions = tuple(f"is it {c}?" if v == "1" else f"is its {c} {v}?" for c, v in asked)
    true: dict[str, frozenset[int]] = {}
    for row in rows:
        name, copies = row[names[0]], 1
        while name in true:
            copies += 1
            name = f"{row[names[0]]} {copies}"
        true[name] = frozenset(q for q, (c, v) in enumerate(asked) if row[c] == v)
    return TruthTable(tuple(true), questions, tuple(true.values()))


def _values(values: set[str]) -> list[str]:
    return ["1"] if values <= {"0", "1"} else sorted(values, key=lambda v: (len(v), v))
