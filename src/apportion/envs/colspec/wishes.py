"""What the human may want: a function with open points, each with a few values; and what knowing one is worth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from apportion.envs.colspec.language import parse

TESTS = tuple(range(-4, 13))
"""The inputs of the hidden unit tests."""

Values = tuple[str, ...]  # a value per point


@dataclass(frozen=True)
class Wish:
    """A kind of function: ``form`` has a {name} for each point; ``points`` are (name, question, possible values)."""

    name: str
    about: str
    form: str
    points: tuple[tuple[str, str, Values], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The points, in order."""
        return tuple(name for name, _, _ in self.points)

    def program(self, values: Values) -> str:
        """The expression with these values."""
        return self.form.format(**dict(zip(self.names, values, strict=True)))

    def all_values(self) -> tuple[Values, ...]:
        """Every combination, each as likely."""
        return tuple(product(*(values for _, _, values in self.points)))


WISHES = (
    Wish(
        "fee", "a shipping fee for x kilograms", "if x {compare} {limit} then {base} + {rate} * x else {base}",
        (
            ("limit", "From which weight on is there a surcharge?", ("3", "5", "8")),
            ("compare", "Does the limit itself count?", (">=", ">")),
            ("base", "What is the fixed fee?", ("2", "4")),
            ("rate", "How much is it per kilogram above?", ("1", "2", "3")),
        ),
    ),
    Wish(
        "score", "points for x hits", "max(min({weight} * x {shift}, {top}), {bottom})",
        (
            ("weight", "How much is a hit worth?", ("1", "2", "3")),
            ("shift", "What is added or taken off?", ("+ 1", "- 1", "- 3")),
            ("top", "What is the most one can get?", ("10", "20")),
            ("bottom", "What is the least one can get?", ("0", "1")),
        ),
    ),
    Wish(
        "discount", "a discount for x items", "if x {compare} {limit} then {low} else {high} {change} x",
        (
            ("limit", "Up to how many items is it small?", ("2", "4", "6")),
            ("compare", "Does the limit itself count as small?", ("<=", "<")),
            ("low", "What is the small discount?", ("0", "1")),
            ("high", "What does the large one start from?", ("2", "5")),
            ("change", "Does it grow or shrink with the items?", ("+", "-")),
        ),
    ),
    Wish(
        "wage", "the pay for x hours",
        "if x > {limit} then {rate} * x + {extra} * (x - {limit}) else max({rate} * x, {least})",
        (
            ("limit", "After how many hours does overtime start?", ("6", "8")),
            ("rate", "What is paid per hour?", ("2", "3", "5")),
            ("extra", "What is added per hour of overtime?", ("1", "2")),
            ("least", "What is paid at least?", ("0", "6")),
        ),
    ),
)  # fmt: skip


@lru_cache(maxsize=4096)
def behaviour(program: str) -> tuple[int, ...]:
    """What an expression gives on the unit tests."""
    run = parse(program)
    return tuple(run(x) for x in TESTS)


def success(wish: Wish, known: tuple[str | None, ...], questions: int = 0) -> float:
    """Best probability of passing all tests, with so many more questions before writing.

        V(known, 0) = max over programs of P(it behaves as wanted | known)
        V(known, n) = max( V(known, 0), max over open points of E[V(known and its answer, n - 1)] )

    Args:
        wish: what is asked for.
        known: a value per point, None where it is open; open ones are as likely.
        questions: how many are left.
    """
    return _success(wish, known, questions)


def value_of_asking(wish: Wish, known: tuple[str | None, ...], point: str, questions: int) -> float:
    """How much higher the success is if this point is asked next, and all else done best, than without asking.

    ``questions`` counts this one.
    """
    at = wish.names.index(point)
    return _asked(wish, known, at, questions) - _success(wish, known, 0)


@lru_cache(maxsize=100_000)
def _success(wish: Wish, known: tuple[str | None, ...], questions: int) -> float:
    if questions == 0:
        possible = [v for v in wish.all_values() if all(k in (None, x) for k, x in zip(known, v, strict=True))]
        alike: dict[tuple[int, ...], int] = {}
        for values in possible:
            shown = behaviour(wish.program(values))
            alike[shown] = alike.get(shown, 0) + 1
        return max(alike.values()) / len(possible)
    open_ = [at for at, value in enumerate(known) if value is None]
    return max([_success(wish, known, 0), *(_asked(wish, known, at, questions) for at in open_)])


def _asked(wish: Wish, known: tuple[str | None, ...], at: int, questions: int) -> float:
    values = wish.points[at][2] if known[at] is None else (known[at],)
    answers = [_success(wish, (*known[:at], value, *known[at + 1 :]), questions - 1) for value in values]
    return sum(answers) / len(answers)


def best_program(wish: Wish, known: tuple[str | None, ...]) -> str:
    """A program that is most likely to behave as wanted."""
    possible = [v for v in wish.all_values() if all(k in (None, x) for k, x in zip(known, v, strict=True))]
    shown = [behaviour(wish.program(values)) for values in possible]
    return wish.program(possible[max(range(len(possible)), key=lambda k: (shown.count(shown[k]), -k))])
