"""The guide: rules and cautions read from ``guide.toml`` and checked."""

from __future__ import annotations

import pkgutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import ge, gt, le, lt
from typing import Any

from apportion.errors import FormatError
from apportion.recommend.facts import FACTS

COMPARISONS: dict[str, Callable[[float, float], bool]] = {">=": ge, ">": gt, "<": lt, "<=": le}


@dataclass(frozen=True, slots=True)
class Condition:
    """``fact comparison number``, like ``recurring >= 0.05``."""

    fact: str
    comparison: str
    number: float

    def holds(self, facts: Mapping[str, float]) -> bool:
        """Whether it does, of these facts."""
        return COMPARISONS[self.comparison](facts[self.fact], self.number)

    def told(self, facts: Mapping[str, float]) -> str:
        """The condition with what the rollouts say."""
        return f"{self.fact} {self.comparison} {self.number:g} (here {facts[self.fact]:.3g})"


@dataclass(frozen=True, slots=True)
class Rule:
    """One answer of the guide; see the head of ``guide.toml``.

    ``trains``: what the methods read comes from a model that is trained, so rollouts that lack it are no hindrance.
    """

    id: str
    question: int
    when: tuple[Condition, ...]
    methods: tuple[str, ...]
    elsewhere: tuple[str, ...]
    why: str
    why_not: str
    source: str
    trains: bool = False

    def fires(self, facts: Mapping[str, float]) -> bool:
        """Every condition holds."""
        return all(condition.holds(facts) for condition in self.when)


@dataclass(frozen=True, slots=True)
class Caution:
    """What to mind with some methods, where its conditions hold."""

    methods: tuple[str, ...]
    when: tuple[Condition, ...]
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Guide:
    """Rules in the order of the guide's questions, cautions, and methods that are good for anything."""

    rules: tuple[Rule, ...]
    cautions: tuple[Caution, ...]
    generic: tuple[str, ...]


@cache
def guide() -> Guide:
    """The guide of this version."""
    data = pkgutil.get_data("apportion.recommend", "guide.toml")
    assert data is not None
    return parsed(data.decode("utf-8"))


def parsed(text: str) -> Guide:
    """A guide from its text.

    Raises:
        FormatError: a rule that lacks something, an unknown fact or comparison, or two rules of one id.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise FormatError(f"the guide is no TOML: {problem}") from None
    rules = [_rule(row) for row in table.get("rule", [])]
    if len({rule.id for rule in rules}) < len(rules):
        raise FormatError("the guide has two rules of one id; give each its own")
    rules.sort(key=lambda rule: rule.question)  # stable: inside a question the file's order
    cautions = [
        Caution(tuple(row["methods"]), _conditions("a caution", row["when"]), row["text"], row["source"])
        for row in table.get("caution", [])
    ]
    return Guide(tuple(rules), tuple(cautions), tuple(table.get("generic", {}).get("methods", ())))


def _rule(row: Mapping[str, Any]) -> Rule:
    name = f"rule {row.get('id')!r}"
    for field in ("id", "question", "when", "methods", "why", "why_not", "source"):
        if field not in row:
            raise FormatError(f"the guide's {name} has no {field}")
    return Rule(
        row["id"],
        row["question"],
        _conditions(name, row["when"]),
        tuple(row["methods"]),
        tuple(row.get("elsewhere", ())),
        row["why"],
        row["why_not"],
        row["source"],
        bool(row.get("trains", False)),
    )


def _conditions(name: str, rows: Sequence[Sequence[Any]]) -> tuple[Condition, ...]:
    out = []
    for row in rows:
        fact, comparison, number = row
        if fact not in FACTS:
            raise FormatError(f"the guide's {name} asks for {fact!r}; facts are {', '.join(FACTS)}")
        if comparison not in COMPARISONS:
            raise FormatError(f"the guide's {name} compares by {comparison!r}; there are {', '.join(COMPARISONS)}")
        out.append(Condition(fact, comparison, float(number)))
    if not out:
        raise FormatError(f"the guide's {name} has no condition, so that it says nothing of the rollouts")
    return tuple(out)
