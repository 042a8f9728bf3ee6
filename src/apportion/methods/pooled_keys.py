"""What may count as one state for `pooled`: numbers that are equal in every process, so that they can be remembered."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
from numpy.typing import NDArray

from apportion.methods.groups import position_S
from apportion.numerics import IntArray, labels
from apportion.units import Units

Hashes = NDArray[np.uint64]

KINDS = ("state+time", "state", "task+state+time", "history")
"""The first is the default. "history" is every state and action so far, for states that do not tell everything."""


def keys_of(units: Units, action: Hashes | None = None) -> dict[str, Hashes]:
    """A 64-bit key of each unit, (S,), for every kind of `KINDS`; ``action`` is what `actions_of` gives."""
    assert units.state_S is not None
    state = _by_label(units.state_S, "state")
    time = position_S(units).astype(np.uint64)
    names = np.array(units.batch.group_names, dtype=object)
    task = _by_label(names, "task")[units.group_of_S] if len(names) else state
    timed = _mixed(state, time)
    return {
        "state+time": timed,
        "state": state,
        "task+state+time": _mixed(task, timed),
        "history": _history(units, state, actions_of(units) if action is None else action),
    }


def numbered(hash_S: Hashes) -> IntArray:
    """Ids from 0 on for equal keys."""
    return np.unique(hash_S, return_inverse=True)[1].astype(np.int64).ravel()


def actions_of(units: Units) -> Hashes:
    """A 64-bit key of what each unit sampled, (S,)."""
    batch = units.batch
    ids_T = batch.ids_T if batch.has_ids else labels(np.array(batch.pieces(), dtype=object))
    own_T = np.flatnonzero(units.unit_of_T >= 0)
    unit = units.unit_of_T[own_T]
    order = np.argsort(unit, kind="stable")
    sampled = np.ascontiguousarray(np.asarray(ids_T, dtype=np.int64)[own_T][order])
    bounds = np.searchsorted(unit[order], np.arange(len(units) + 1)).tolist()
    pieces = [sampled[a:b].tobytes() for a, b in itertools.pairwise(bounds)]
    digest = {piece: _digest(piece) for piece in set(pieces)}  # few actions, many units
    return np.array([digest[piece] for piece in pieces], dtype=np.uint64)


def _history(units: Units, state: Hashes, action: Hashes) -> Hashes:
    """Each unit's state with all states and actions before it; the task is not part of it."""
    position = position_S(units)
    out = state.copy()
    for t in range(1, int(position.max(initial=0)) + 1):
        here: IntArray = np.flatnonzero(position == t)
        out[here] = _mixed(_mixed(out[here - 1], action[here - 1]), state[here])
    return out


def _by_label(names: NDArray[np.object_], salt: str) -> Hashes:
    label = labels(names)
    first = np.unique(label, return_index=True)[1]
    digests = [_digest(f"{salt}\x1f{name}".encode("utf-8", "surrogatepass")) for name in names[first]]
    return np.array(digests, dtype=np.uint64)[label]


def _digest(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _mixed(a: Hashes, b: Hashes) -> Hashes:
    """One number of two, in this order: splitmix64's finaliser, whose bits all hang on all bits."""
    with np.errstate(over="ignore"):
        x = a * np.uint64(0x9E3779B97F4A7C15) + _finish(b)
        return _finish(x)


def _finish(x: Hashes) -> Hashes:
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), dtype=np.uint64)
