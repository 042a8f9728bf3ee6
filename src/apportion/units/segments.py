"""Cuts inside a step: a segment is a run of sampled tokens of one step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from apportion.data import Batch
from apportion.data.words import words
from apportion.errors import ConfigError, DataError
from apportion.numerics import IntArray, cutpoint_starts, seg_quantile
from apportion.units import splitters
from apportion.units.cut import cut
from apportion.units.merging import merge_small
from apportion.units.splitters import Splitter
from apportion.units.units import Units

Decode = Callable[[Sequence[int]], Sequence[str]]
"""Text of each token id of one step, e.g. ``token_texts(tokenizer.decode)``; see `apportion.units.token_texts`."""

TAKES = {
    "fixed": ("count", "size"),
    "newline": ("decode",),
    "paragraph": ("decode",),
    "sentence": ("splitter", "decode"),
    "parser": ("parser", "decode"),
    "cutpoint": ("count", "interval", "rho"),
    "entropy": ("count", "interval", "share"),
}
"""The criteria, and which arguments each has."""


def by_segment(
    batch: Batch,
    by: str = "newline",
    *,
    count: int | None = None,
    size: int | None = None,
    interval: int | None = None,
    rho: float | None = None,
    share: float | None = None,
    splitter: str | None = None,
    parser: Splitter | None = None,
    decode: Decode | None = None,
    min_tokens: int = 1,
    max_segments: int | None = None,
) -> Units:
    """Cut every step into runs of tokens. A step's end always ends a segment.

    Where a criterion cuts text, a token belongs to the part that holds its first visible character, and one without
    any text to the part before it.

    Args:
        batch: the rollouts.
        by: "fixed" counts tokens; "newline" starts a segment after every line break, "paragraph" after every blank
            line, "sentence" after every sentence, "parser" where your own function says; "cutpoint" starts one
            before tokens of low probability (SPO), "entropy" before tokens of high entropy.
        count: segments per step, fewer where the step has fewer tokens or cutpoints. "fixed" makes them nearly equally
            long (longer ones first), "cutpoint" and "entropy" give them nearly equally many cutpoints: the minimum of
            Σ_k (cutpoints in segment k)².
        size: tokens per segment, for "fixed"; the last of a step may be shorter.
        interval: cutpoints per segment, in place of ``count``; tokens before a step's first cutpoint are a segment
            of their own.
        rho: a cutpoint has probability below it, for "cutpoint"; default 0.9. Reads log-probabilities.
        share: a cutpoint is among this share of the highest entropies of its trajectory, and above 0, for "entropy";
            default 0.2.
        splitter: of sentences: "rules" (default; full stops and the like, line breaks, no package), "pysbd" or
            "syntok" (English; the extra ``text``). They differ, so the choice is yours and never what is installed.
        parser: text of a step to the offsets at which segments begin, for "parser" (clauses, phrases, code blocks).
        decode: text of each token id, for the criteria on text, as a rule ``token_texts(tokenizer.decode)``; text-only
            logs need none.
        min_tokens, max_segments: of a step; the smallest segments join a neighbour until they hold.

    Raises:
        ConfigError: unknown criterion, or an argument missing or out of place.
        DataError: the batch lacks what the criterion reads.

    Source: arXiv:2505.23564 (cutpoints); equal shares are the optimum of its minimisation.
    """
    given = {"count": count, "size": size, "interval": interval, "rho": rho, "share": share}
    options: dict[str, Any] = {"by": by} | {name: value for name, value in given.items() if value is not None}
    _check(by, {**given, "splitter": splitter, "parser": parser, "decode": decode}, min_tokens, max_segments)
    step = batch.step_of_T[batch.sampled_T]
    bounds_R = np.searchsorted(step, np.arange(len(batch.traj_of_S) + 1)).astype(np.int64)
    if by == "fixed":
        start_S = _fixed(bounds_R, step, count, size)
    elif by in ("cutpoint", "entropy"):
        level_X, threshold = _uncertain(batch, by, 0.9 if rho is None else rho, 0.2 if share is None else share)
        start_S = cutpoint_starts(level_X, bounds_R, rho=threshold, count=count, interval=interval)
    else:
        split = parser or {"newline": splitters.lines, "paragraph": splitters.paragraphs}.get(by)
        if parser is not None:
            options["parser"] = getattr(parser, "__name__", repr(parser))
        if split is None:
            options["splitter"] = splitter or "rules"
            split = splitters.named(options["splitter"])
        start_S = _of_text(batch, by, split, decode, bounds_R)
    if min_tokens > 1 or max_segments is not None:
        options |= {"min_tokens": min_tokens, "max_segments": max_segments}
        start_S = merge_small(start_S, bounds_R, min_tokens, max_segments)
    starts = np.zeros(len(step), dtype=np.int64)
    starts[start_S] = 1
    unit_of_T = np.full(len(batch.sampled_T), -1, dtype=np.int64)
    unit_of_T[batch.sampled_T] = np.cumsum(starts) - 1
    return cut(batch, "segment", unit_of_T, step[start_S], has_states=False, options=options)


def _check(by: str, given: dict[str, Any], min_tokens: int, max_segments: int | None) -> None:
    if by not in TAKES:
        raise ConfigError(f"by_segment: no criterion named {by!r}; there are {', '.join(map(repr, TAKES))}")
    who = f"by_segment({by!r})"
    for name, value in given.items():
        if value is not None and name not in TAKES[by]:
            takers = [repr(other) for other, takes in TAKES.items() if name in takes]
            raise ConfigError(f"{who} takes no {name}; drop it or cut by {' or '.join(takers)}")
    ways = [name for name in ("count", "size", "interval") if name in TAKES[by]]
    chosen = [name for name in ways if given[name] is not None]
    if ways and len(chosen) != 1:
        raise ConfigError(
            f"{who} needs {' or '.join(ways)}, one of them; got {', '.join(f'{w} {given[w]!r}' for w in ways)}"
        )
    whole: dict[str, Any] = {name: given[name] for name in chosen}
    whole |= {"min_tokens": min_tokens, "max_segments": max_segments}
    for name, value in whole.items():
        good = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1
        if not good and not (name == "max_segments" and value is None):
            raise ConfigError(f"{who}: {name} is {value!r}; give a whole number from 1 on")
    if by == "parser" and given["parser"] is None:
        raise ConfigError(f"{who} needs parser, a function from the text of a step to the offsets where segments begin")
    if given["share"] is not None and not 0.0 < given["share"] <= 1.0:
        raise ConfigError(f"{who}: share is {given['share']!r}; give a share in (0, 1]")


def _fixed(bounds_R: IntArray, step: IntArray, count: int | None, size: int | None) -> IntArray:
    place = np.arange(len(step)) - bounds_R[step]
    if size is not None:
        return np.flatnonzero(place % size == 0)
    assert count is not None
    length = np.diff(bounds_R)[step]
    parts = np.minimum(count, length)
    # part sizes differ by one, longer first: part p starts at p * (length // parts) + min(p, length % parts)
    short, extra = length // parts, length % parts
    big = extra * (short + 1)
    return np.flatnonzero(np.where(place < big, place % (short + 1) == 0, (place - big) % short == 0))


def _uncertain(batch: Batch, by: str, rho: float, share: float) -> tuple[Any, float]:
    """A column, and the probability below whose logarithm an entry marks a cutpoint."""
    column_T, field = (batch.logp_T, "logp") if by == "cutpoint" else (batch.entropy_T, "entropy")
    if column_T is None:
        raise DataError(
            f"by_segment({by!r}) reads {field}, which the batch lacks; give Step.{field} for every sampled token"
        )
    own = column_T[batch.sampled_T]
    if by == "cutpoint":
        return own, rho
    traj = batch.traj_of_T[batch.sampled_T]
    floor_N = seg_quantile(own, traj, 1.0 - share, n=len(batch))
    return np.where((own >= floor_N[traj]) & (own > 0), -1.0, 0.0), 0.9  # where most are certain, the floor is 0


def _of_text(batch: Batch, by: str, split: Splitter, decode: Decode | None, bounds_R: IntArray) -> IntArray:
    if batch.has_ids_N.any() and not batch.has_ids:
        raise DataError(f"by_segment({by!r}): the batch mixes ids and text-only trajectories; cut them apart first")
    if batch.has_ids and len(batch) and decode is None:
        raise ConfigError(f"by_segment({by!r}) on token ids needs decode, e.g. units.token_texts(tokenizer.decode)")
    starts: list[int] = []
    steps = (step for trajectory in batch for step in trajectory.steps)
    for first, step in zip(bounds_R[:-1].tolist(), steps, strict=True):
        if step.ids is None:
            pieces: Sequence[str] = words(step.action or "")
        else:
            assert decode is not None
            ids = np.asarray(step.ids).tolist()
            pieces = decode(ids) if ids else []
            if len(pieces) != len(ids):
                raise DataError(f"by_segment: decode gave {len(pieces)} texts for {len(ids)} ids; one per id")
        part = _part_of_tokens(pieces, _offsets(split, "".join(pieces)))
        starts += [first + k for k in range(len(part)) if k == 0 or part[k] != part[k - 1]]
    return np.array(starts, dtype=np.int64)


def _offsets(split: Splitter, text: str) -> list[int]:
    """What the splitter says, in order; it is somebody else's function as a rule."""
    offsets = sorted({int(offset) for offset in split(text)}) if text else []
    if offsets and not (offsets[0] >= 0 and offsets[-1] <= len(text)):
        bad = offsets[0] if offsets[0] < 0 else offsets[-1]
        raise DataError(f"by_segment: the parser cuts {len(text)} characters of text at {bad}; give offsets inside it")
    return offsets


def _part_of_tokens(pieces: Sequence[str], offsets: Sequence[int]) -> list[int]:
    part: list[int] = []
    at = 0
    for piece in pieces:
        visible = len(piece) - len(piece.lstrip())
        if piece:
            part.append(bisect_right(offsets, at + (visible if visible < len(piece) else 0)))
        else:
            part.append(part[-1] if part else 0)
        at += len(piece)
    return part
