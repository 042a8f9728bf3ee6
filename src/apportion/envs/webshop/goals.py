"""What is wanted, and what a purchase is worth.

    reward = type * (attributes met + options met + price met) / (attributes + options + 1)

``type`` is 1 for the same kind of thing (same search phrase, two shared categories, or a fifth of the title's words),
else 0.5, and 0.1 or 0 where the titles share almost or entirely nothing.

Source    the reward of arXiv:2207.01206 (WebShop), whose title match looks at nouns where this one looks at words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from random import Random

from apportion.envs.retrieval import words
from apportion.envs.webshop.products import Product

MOST_COMBINATIONS = 40  # of options that become goals of one product
PRICES = [10.0 * k for k in range(1, 100)]


@dataclass(frozen=True)
class Goal:
    """A purchase that is asked for. ``options`` are pairs of (kind, value); ``limit``: the price must not exceed it."""

    asin: str
    text: str
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    limit: float | None

    @property
    def name(self) -> str:
        """What tells it from every other goal."""
        return f"{self.asin} {self.options}"


def goals_of(products: Sequence[Product]) -> tuple[Goal, ...]:
    """A goal for each combination of options of each product with an instruction.

    WebShop draws price limits anew in every process; here the goal's name fixes its limit.
    """
    out = []
    for item in products:
        if not item.instruction:
            continue
        kinds = [kind for kind, _ in item.options]
        for values in islice(product(*(listed for _, listed in item.options)), MOST_COMBINATIONS):
            chosen = tuple(zip(kinds, values, strict=True))
            above = [price for price in PRICES if price > item.price][:4]
            limit = max(Random(f"webshop/{item.asin} {chosen}").sample(above, 2)) if len(above) > 1 else None
            text = item.instruction + (f" with {', and '.join(f'{k}: {v}' for k, v in chosen)}" if chosen else "")
            text += f", and price lower than {limit:.2f} dollars" if limit is not None else ""
            out.append(Goal(item.asin, text, item.wanted_attributes, chosen, limit))
    return tuple(out)


def reward(goal: Goal, bought: Product, chosen: Mapping[str, str], wanted: Product) -> float:
    """What buying this with these options is worth, from 0 to 1."""
    text = " ".join([bought.name, *bought.bullets, bought.description]).lower()
    met = sum(any(alike(a, b) for b in bought.attributes) or a.lower() in text for a in goal.attributes)
    met += sum(any(alike(value, v) for v in chosen.values()) for _, value in goal.options)
    met += goal.limit is None or bought.price <= goal.limit
    return kind_match(bought, wanted) * met / (len(goal.attributes) + len(goal.options) + 1)


def kind_match(bought: Product, wanted: Product) -> float:
    """Whether it is the kind of thing that was wanted."""
    of_bought, of_wanted = set(words(bought.name)), set(words(wanted.name))
    title = len(of_bought & of_wanted) / max(1, len(of_wanted))
    if title == 0:
        return 0.0
    if title < 0.1:
        return 0.1
    same = bought.query == wanted.query or len(bought.categories & wanted.categories) >= 2 or title > 0.2
    return 1.0 if same else 0.5


def alike(a: str, b: str) -> bool:
    """Whether the words of one contain those of the other, or almost all words are shared."""
    one, other = set(words(a)), set(words(b))
    if not one or not other:
        return a.strip().lower() == b.strip().lower()
    return one <= other or other <= one or len(one & other) / len(one | other) > 0.85
