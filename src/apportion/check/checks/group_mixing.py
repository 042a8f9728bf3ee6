"""Groups that were dealt out by position, across tasks."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.registry import register
from apportion.check.starts import start_of
from apportion.data import Batch
from apportion.numerics import IntArray, labels

LEAST = 2
"""Starts that must each occur in several groups, beside other starts, before groups count as mixed."""
FEWEST, MOST = 0.7, 1.5
"""Starts for each group between which it can be a mixture of tasks; a user who opens in his own words gives more, one
who opens in a few set phrases fewer."""


@register("group-mixing", on="batch", cheap=True)
def group_mixing(batch: Batch) -> Yields:
    """Groups that hold rollouts of several starts, each of which is in other groups too: mixed by position."""
    keys = [start_of(trajectory) for trajectory in batch.trajectories]
    known = np.array([key is not None for key in keys], dtype=bool)
    if not known.any():
        return
    start_N = labels(keys)
    pairs = np.unique(np.stack((start_N[known], batch.group_of_N[known]), axis=1), axis=0)
    groups_of_start = np.bincount(pairs[:, 0], minlength=int(start_N.max()) + 1)
    starts_of_group = np.bincount(pairs[:, 1], minlength=len(batch.group_names))
    crossed_P = (groups_of_start[pairs[:, 0]] > 1) & (starts_of_group[pairs[:, 1]] > 1)
    starts = np.unique(pairs[crossed_P, 0])
    mixed = np.unique(pairs[crossed_P, 1])
    if len(starts) < LEAST or len(mixed) < LEAST:
        return
    if not FEWEST <= len(np.unique(pairs[:, 0])) / len(np.unique(pairs[:, 1])) <= MOST:
        return
    crossed_N = known & np.isin(start_N, starts) & np.isin(batch.group_of_N, mixed)
    touched = int(np.count_nonzero(crossed_N))
    names = batch.names()
    pattern = _pattern(start_N, batch.group_of_N)
    first = int(np.flatnonzero(crossed_N)[0])
    elsewhere = int(np.flatnonzero((start_N == start_N[first]) & (batch.group_of_N != batch.group_of_N[first]))[0])
    yield Finding(
        "group-mixing",
        "error",
        f"{len(mixed)} of {count(len(batch.group_names), 'group')} hold rollouts of several starts that are in other "
        f"groups too ({named((batch.group_names[g] for g in mixed), len(mixed))}; {names[first]!r} in "
        f"{batch.group_names[batch.group_of_N[first]]!r} and {names[elsewhere]!r} in "
        f"{batch.group_names[batch.group_of_N[elsewhere]]!r} begin alike){pattern[1]}: they are compared with "
        "rollouts of other tasks",
        "take the group from the task that was sampled, not from the row's position; look for a shuffle, a filter or a "
        "reordering between sampling and grouping",
        {
            "groups": len(mixed),
            "of": len(batch.group_names),
            "starts": len(starts),
            "rollouts": touched,
            "share": touched / len(batch),
            "pattern": pattern[0],
            "example": [names[first], names[elsewhere]],
        },
        places(batch.group_names[g] for g in mixed),
    )


def _pattern(start_N: IntArray, group_N: IntArray) -> tuple[str, str]:
    """How the groups lie against the starts, where positions alone explain it."""
    n, starts = len(start_N), len(np.unique(start_N))
    if starts > 1 and n % starts == 0:
        position = np.arange(n)
        blocks, turns = position // (n // starts), position % starts
        for name, sentence, of_start, of_group in (
            ("interleaved groups", ", and groups go by position modulo the number of tasks", blocks, turns),
            ("interleaved starts", ", and groups are blocks of neighbours while the tasks take turns", turns, blocks),
        ):
            if _same_partition(start_N, of_start) and _same_partition(group_N, of_group):
                return name, sentence
        for shift in range(1, n // starts):
            if _same_partition(np.roll(start_N, shift), group_N):
                return "shifted", f", and a shift by {shift} rows would put every rollout into its group"
    return "none", ""


def _same_partition(a: IntArray, b: IntArray) -> bool:
    pairs = len(np.unique(np.stack((a, b), axis=1), axis=0))
    return pairs == len(np.unique(a)) == len(np.unique(b))
