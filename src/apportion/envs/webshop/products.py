"""Products on the shelf: read from files in WebShop's format, or generated.

WebShop's files are ``items_shuffle*.json``, a list of products (asin, name, query, product_category,
small_description, full_description, pricing, customization_options), and ``items_ins*.json``, which maps an asin to
attributes, instruction and instruction_attributes. A list with short field names (bullets, description, price,
options) is read too.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from apportion.errors import ConfigError, FormatError

PRICE = re.compile(r"\d[\d,]*\.?\d*")
DEFAULT_PRICE = 100.0  # of a product whose price nobody wrote down, as in WebShop


@dataclass(frozen=True)
class Product:
    """A product. ``options`` maps a kind to its values, as sorted pairs; ``wanted_attributes`` and ``instruction`` are
    those of the goal about it, empty where there is none."""

    asin: str
    name: str
    query: str
    categories: frozenset[str]
    bullets: tuple[str, ...]
    description: str
    price: float
    options: tuple[tuple[str, tuple[str, ...]], ...]
    attributes: tuple[str, ...]
    instruction: str = ""
    wanted_attributes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What a search looks in."""
        values = [value for _, listed in self.options for value in listed]
        return " ".join([self.name, self.query, self.description, *self.bullets, *self.attributes, *values])


@lru_cache(maxsize=4)
def read_products(folder: str) -> tuple[Product, ...]:
    """Every product of the JSON files of a folder, or of one file.

    A price range becomes a price within it that the asin fixes.

    Raises:
        ConfigError: no such place.
        FormatError: no product there, or one that cannot be read.
    """
    place = Path(folder)
    files = sorted(place.glob("*.json")) if place.is_dir() else [place]
    if not files or not all(file.is_file() for file in files):
        raise ConfigError(
            f"webshop: {folder}: no product files; give the folder of WebShop's items_shuffle and items_ins"
        )
    rows: list[tuple[Any, str]] = []
    goals: dict[str, dict[str, Any]] = {}
    for file in files:
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise FormatError(f"{file}: is no JSON ({error})") from None
        if isinstance(data, list):
            rows += [(row, f"{file}, product {k}") for k, row in enumerate(data, 1)]
        elif isinstance(data, dict):
            goals.update({key: value for key, value in data.items() if isinstance(value, dict)})
    out: dict[str, Product] = {}
    for row, at in rows:
        try:
            product = _product(row, goals.get(row["asin"], {}))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"{at}: cannot be read ({error!r}); give WebShop's format") from None
        out.setdefault(product.asin, product)
    if not out:
        raise FormatError(f"{folder}: holds no product")
    return tuple(out.values())


def _product(row: dict[str, Any], goal: dict[str, Any]) -> Product:
    told = {**row, **goal}
    options = told.get("options")
    if options is None:
        kinds = told.get("customization_options") or {}
        options = {kind: [entry["value"] for entry in entries or []] for kind, entries in kinds.items()}
    bullets = told["bullets"] if "bullets" in told else told.get("small_description") or []
    category = str(told.get("product_category") or "")
    return Product(
        asin=str(told["asin"]).lower(),
        name=str(told["name"]),
        query=str(told.get("query") or ""),
        categories=frozenset(part.strip() for part in category.split("\u203a") if part.strip()),
        bullets=tuple(map(str, [bullets] if isinstance(bullets, str) else bullets)),
        description=str(told.get("description", told.get("full_description")) or ""),
        price=_price(told.get("price", told.get("pricing")), str(told["asin"])),
        options=tuple(
            sorted((k.lower(), tuple(dict.fromkeys(v.strip().lower() for v in vs))) for k, vs in options.items() if vs)
        ),
        attributes=tuple(told.get("attributes") or ()),
        instruction=str(told.get("instruction") or "").rstrip(". "),
        wanted_attributes=tuple(told.get("instruction_attributes") or ()),
    )


def _price(given: Any, asin: str) -> float:
    """The price, or one between the two ends of a range."""
    numbers = [float(n.replace(",", "")) for n in PRICE.findall(str(given))] if given else []
    if not numbers:
        return DEFAULT_PRICE
    low, high = min(numbers[:2]), max(numbers[:2])
    return round(Random(f"webshop/{asin}").uniform(low, high), 2)


KINDS = {
    "shirt": ("clothing", ("cotton", "slim fit", "long sleeve", "machine wash")),
    "jacket": ("clothing", ("water proof", "light weight", "long sleeve", "warm lining")),
    "sneaker": ("shoes", ("rubber sole", "light weight", "wide fit", "non slip")),
    "boot": ("shoes", ("water proof", "rubber sole", "steel toe", "warm lining")),
    "lamp": ("home", ("energy saving", "easy assemble", "solid wood", "dimmable")),
    "chair": ("home", ("solid wood", "easy assemble", "high density", "easy clean")),
    "shampoo": ("beauty", ("sulfate free", "cruelty free", "for dry hair", "travel size")),
    "soap": ("beauty", ("cruelty free", "for sensitive skin", "natural oils", "travel size")),
    "coffee": ("grocery", ("gluten free", "fair trade", "low acid", "resealable bag")),
    "snack": ("grocery", ("gluten free", "low sugar", "resealable bag", "plant based")),
}
MAKERS = "Arvo Belen Corin Dasko Elmar Fenno Galia Hestra Ilvo Jorun Kelda Lumo".split()
COLOURS, SIZES = "black blue green grey red white".split(), "large medium small".split()


@lru_cache(maxsize=8)
def generated_products(world: int = 0, *, count: int = 120) -> tuple[Product, ...]:
    """A shelf of made-up products, each with an instruction; another one for each world."""
    rng = Random(f"webshop/{world}")
    out = []
    for k in range(count):
        kind = sorted(KINDS)[k % len(KINDS)]
        category, traits = KINDS[kind]
        has = tuple(sorted(rng.sample(traits, 3)))
        wanted = tuple(sorted(rng.sample(has, 2)))
        options = [("color", tuple(sorted(rng.sample(COLOURS, 3))))]
        if category in ("clothing", "shoes"):
            options.append(("size", tuple(SIZES)))
        name = f"{rng.choice(MAKERS)} {kind} {rng.randrange(100, 999)}, {', '.join(has)}"
        out.append(
            Product(
                asin=f"b{world:02d}{k:05d}",
                name=name,
                query=kind,
                categories=frozenset({category, kind}),
                bullets=tuple(f"This {kind} is made to be {trait}." for trait in has),
                description=f"A {kind} of the kind you know.",
                price=float(rng.randrange(5, 120)),
                options=tuple(options),
                attributes=has,
                instruction=f"Find me a {kind} with {' and '.join(wanted)}",
                wanted_attributes=wanted,
            )
        )
    return tuple(out)
