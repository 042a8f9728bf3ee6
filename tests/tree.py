"""A decision tree small enough to list: the batch *is* the distribution, so averages are exact, without sampling noise.

         root ── L (1/3), reward 1/4 ── left  ── l (1/2), reward 1
          │                               └───── r (1/2), reward 0
          └───── R (2/3), reward 0 ──── right ── l (1/4), reward 0 ── deep ── m (1), reward 1/2
                                          └───── r (3/4), reward 1/2

Every path stands in the batch as often as its probability says: Ll, Lr, Rlm, 3 × Rr.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from apportion.units import Units
from tests.make import units_of

Half, Third, Quarter = Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)
TREE = {
    "root": {"L": (Third, 0.25, "left"), "R": (2 * Third, 0.0, "right")},
    "left": {"l": (Half, 1.0, None), "r": (Half, 0.0, None)},
    "right": {"l": (Quarter, 0.0, "deep"), "r": (3 * Quarter, 0.5, None)},
    "deep": {"m": (Fraction(1), 0.5, None)},
}
Path = list[tuple[str, str, float]]


def paths(state: str | None = "root") -> Iterator[tuple[Fraction, Path]]:
    """Every path as (probability, [(state, action, reward), …])."""
    if state is None:
        yield Fraction(1), []
        return
    for action, (share, reward, after) in TREE[state].items():
        for rest, path in paths(after):
            yield share * rest, [(state, action, reward), *path]


def value(state: str | None, gamma: float) -> float:
    """V of the policy in the drawing."""
    return sum(float(p) * q(state, a, gamma) for a, (p, _, _) in TREE[state].items()) if state else 0.0


def q(state: str, action: str, gamma: float) -> float:
    """Q of the policy in the drawing."""
    _, reward, after = TREE[state][action]
    return reward + gamma * value(after, gamma)


def whole_batch() -> list[Path]:
    """Every path as often as its probability says."""
    listed = list(paths())
    times = math.lcm(*(p.denominator for p, _ in listed))
    return [path for p, path in listed for _ in range(int(p * times))]


def tree_units(gamma: float = 1.0) -> tuple[Units, list[tuple[str, str]]]:
    """The whole batch as one group cut by step, with exact values, and the (state, action) of each unit."""
    batch = whole_batch()
    steps = [step for path in batch for step in path]
    units = units_of([0] * len(batch), [len(path) for path in batch], [(s, r) for s, _, r in steps])
    units = _with_values(units, [value(s, gamma) for s, _, _ in steps])
    return units, [(s, a) for s, a, _ in steps]


def _with_values(units: Units, values: list[float]) -> Units:
    import dataclasses

    return dataclasses.replace(units, value_S=np.array(values))


def average(credit_S: np.ndarray, moves: list[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Mean credit of each (state, action)."""
    return {m: float(np.mean([c for c, other in zip(credit_S, moves, strict=True) if other == m])) for m in set(moves)}


def advantages(gamma: float) -> dict[tuple[str, str], float]:
    """The true advantage of each (state, action)."""
    return {(s, a): q(s, a, gamma) - value(s, gamma) for s in TREE for a in TREE[s]}
