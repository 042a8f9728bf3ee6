"""Per-token floats in 32 bits, in files whose columns 32 bits hold exactly.

Models compute log-probabilities and entropies in 32 bits or fewer, and files of half the size keep them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from apportion.data.batch import Batch
from apportion.data.columnar import STEP_COLUMNS
from apportion.data.trajectory import Trajectory
from apportion.numerics import FloatArray

Written = TypeVar("Written")

BEYOND = (1 << 29) - 1
"""The bits of a float64 for which the fraction of a float32 has no room."""
PIECE = 1 << 16
"""Numbers that are looked at together, to end soon at one that does not fit."""


def narrowed(write: Callable[[frozenset[str]], Written], trajectories: Iterable[Trajectory]) -> Written:
    """``write`` with the columns that 32 bits hold exactly; of a stream nobody knows them yet, so none.

    A number has to fit in its digits, which is looked up before, and in its size, which the conversion itself tells:
    float32 ends at 3.4e38, and below 1.2e-38 it loses digits. Both happen to no model's numbers, so all is
    written again, in 64 bits, if ``write`` meets one and raises `FloatingPointError`.
    """
    try:
        return write(_narrow(trajectories))
    except FloatingPointError:
        return write(frozenset())


def _narrow(trajectories: Iterable[Trajectory]) -> frozenset[str]:
    if not isinstance(trajectories, Batch | Sequence):
        return frozenset()
    if isinstance(trajectories, Batch) and not trajectories.has_ids_N.any():  # then there are none
        return frozenset()
    names = [name for name, kind in STEP_COLUMNS.items() if kind in ("floats", "named")]
    return frozenset(name for name in names if _short(_arrays(trajectories, name)))


def _arrays(trajectories: Batch | Sequence[Trajectory], name: str) -> Iterable[Any]:
    """What all steps have of a per-token column; of ``columns``, which share a type, all of them."""
    steps = (step for trajectory in trajectories for step in trajectory.steps)
    if name == "columns":
        return (array for step in steps for array in step.columns.values())
    whole = getattr(trajectories, {"token_values": "token_value_T"}.get(name, f"{name}_T"), None)
    if whole is not None:
        return [whole]
    return (array for step in steps if (array := getattr(step, name)) is not None)


def _short(arrays: Iterable[FloatArray]) -> bool:
    """Whether there are numbers, none with more digits than a float32 has."""
    some = False  # a column that nobody fills has the type that it always had
    for x in _joined(arrays):
        bits = x.view(np.int64)
        for first in range(0, len(bits), PIECE):
            some = True
            if int(np.bitwise_or.reduce(bits[first : first + PIECE])) & BEYOND:
                return False
    return some


def _joined(arrays: Iterable[FloatArray]) -> Iterator[FloatArray]:
    """The same numbers in arrays of `PIECE` or more: a look costs as much as a thousand of them."""
    held: list[FloatArray] = []
    size = 0
    for array in arrays:
        held.append(array)
        size += len(array)
        if size >= PIECE:
            yield held[0] if len(held) == 1 else np.concatenate(held)
            held, size = [], 0
    if held:
        yield np.concatenate(held)
