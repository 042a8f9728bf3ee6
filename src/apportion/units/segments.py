"""Cuts inside a step: a segment is a run of sampled tokens of one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from apportion.data import Batch
from apportion.errors import ConfigError, DataError
from apportion.numerics import BoolArray
from apportion.units.cut import cut
from apportion.units.units import Units

Decode = Callable[[Sequence[int]], Sequence[str]]
"""Text of each token id, e.g. ``lambda ids: [tokenizer.decode([i]) for i in ids]``."""


def by_segment(batch: Batch, by: str = "newline", *, count: int | None = None, decode: Decode | None = None) -> Units:
    """Cut every step into runs of tokens.

    Args:
        batch: the rollouts.
        by: "fixed" makes ``count`` parts of nearly equal length in every step (longer parts first; fewer where the
            step has fewer tokens); "newline" starts a segment after every line break.
        count: parts per step, for "fixed".
        decode: text of each token id, for "newline" on ids; text-only logs need none.

    Raises:
        ConfigError: unknown criterion, or an argument missing or out of place.
    """
    if by == "fixed":
        if decode is not None:
            raise ConfigError("by_segment('fixed') counts tokens and takes no decode; drop it or cut by 'newline'")
        starts = _fixed(batch, count)
    elif by == "newline":
        if count is not None:
            raise ConfigError("by_segment('newline') takes no count; drop it or cut by 'fixed'")
        starts = _newline(batch, decode)
    else:
        raise ConfigError(f"by_segment: no criterion named {by!r}; there are 'fixed' and 'newline'")
    step = batch.step_of_T[batch.sampled_T]
    starts = starts | np.append(True, np.diff(step) != 0)[: len(step)]
    unit_of_T = np.full(len(batch.sampled_T), -1, dtype=np.int64)
    unit_of_T[batch.sampled_T] = np.cumsum(starts) - 1
    options = {"by": by} | ({} if count is None else {"count": count})
    return cut(batch, "segment", unit_of_T, step[starts], has_states=False, options=options)


def _fixed(batch: Batch, count: int | None) -> BoolArray:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ConfigError(f"by_segment('fixed') needs count, a whole number from 1 on; got {count!r}")
    step = batch.step_of_T[batch.sampled_T]
    size = np.bincount(step, minlength=len(batch.traj_of_S))[step]
    first = np.flatnonzero(np.append(True, np.diff(step) != 0)[: len(step)])
    place = np.arange(len(step)) - np.repeat(first, np.diff(np.append(first, len(step))))
    parts = np.minimum(count, size)
    # part sizes differ by one, longer first: part p starts at p * (size // parts) + min(p, size % parts)
    short, extra = size // parts, size % parts
    big = extra * (short + 1)
    in_big = np.where(place < big, place % (short + 1) == 0, (place - big) % short == 0)
    return np.asarray(in_big, dtype=bool)


def _newline(batch: Batch, decode: Decode | None) -> BoolArray:
    if not batch.has_ids_N.any():
        pieces: Sequence[str] = batch.pieces()
    elif not batch.has_ids:
        raise DataError("by_segment('newline'): the batch mixes ids and text-only trajectories; cut them apart first")
    elif decode is None:
        raise ConfigError("by_segment('newline') on token ids needs decode, the text of each token id")
    else:
        pieces = decode(batch.ids_T.tolist())
        if len(pieces) != len(batch.ids_T):
            raise DataError(f"by_segment: decode gave {len(pieces)} texts for {len(batch.ids_T)} ids; one per id")
    sampled = np.flatnonzero(batch.sampled_T)
    starts = np.zeros(len(sampled), dtype=bool)
    ended = False
    for k, t in enumerate(sampled.tolist()):
        piece = pieces[t]
        body = piece.lstrip()
        starts[k] = ended or ("\n" in piece[: len(piece) - len(body)] and bool(body))
        ended = "\n" in (body if body else piece)
    return starts
