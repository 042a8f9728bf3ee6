"""A policy as rows of probabilities, one a state: asked of a function, put end to end, checked and normalised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.envs.table import Floats, Table
from apportion.errors import ConfigError

Scorer = Callable[[list[str], list[tuple[str, ...]]], Sequence[ArrayLike]]

ROUNDING = 1e-3  # rows this far from 1 are float32 or float16 softmaxes and are normalised; others are wrong


def scored(table: Table, scorer: Scorer, unreached: Floats) -> Floats:
    """What a function says of every text, asked once: [K], or [H, K] where the text shows the clock.

    Args:
        scorer: (texts, action lists) to one probability vector a text.
        unreached: [K], for what cannot be reached at a time.
    """
    timed = table.rules.show_time
    places = np.argwhere(table.reached_HX if timed else np.ones((1, len(table.states)), dtype=bool))
    asked: dict[tuple[str, tuple[str, ...]], int] = {}
    which = [asked.setdefault((table.text(x, t), table.actions[x]), len(asked)) for t, x in places]
    rows = scorer([text for text, _ in asked], [actions for _, actions in asked])
    if len(rows) != len(asked):
        raise ConfigError(f"exact: the policy returned {len(rows)} rows for {len(asked)} texts; give one a text")
    pi = np.tile(unreached, (table.horizon if timed else 1, 1))
    for t in range(len(pi)):
        states = [int(x) for u, x in places if u == t]
        at = [rows[i] for (u, _), i in zip(places, which, strict=True) if u == t]
        slots = np.flatnonzero(np.isin(table.state_of_K, states))
        pi[t, slots] = flat(table, states, at)
    return normalised(table, pi if timed else pi[0])


def flat(table: Table, states: Sequence[int], rows: Sequence[ArrayLike]) -> Floats:
    """Vectors of some states end to end, each as long as its state has actions."""
    vectors = [np.asarray(row, dtype=np.float64) for row in rows]
    for x, vector in zip(states, vectors, strict=True):
        if vector.shape != (len(table.actions[x]),):
            raise ConfigError(
                f"exact: the policy gives shape {vector.shape} in state {table.states[x]!r}; "
                f"give one probability for each of {len(table.actions[x])} actions"
            )
    return np.concatenate(vectors)


def normalised(table: Table, pi: NDArray[Any]) -> Floats:
    """Rows divided by their sums; one that is no distribution is refused."""
    values = np.asarray(pi, dtype=np.float64)
    total = table.sum_by_state(values)
    wrong = ~(np.abs(total - 1.0) <= ROUNDING)
    negative = ~(np.minimum.reduceat(values, table.first_slot_X[:-1], axis=-1) >= 0.0)
    for bad, what in ((negative, "has a negative or NaN entry"), (wrong, "does not sum to 1")):
        if bad.any():
            x = int(np.argwhere(bad)[0][-1])
            raise ConfigError(f"exact: the policy in state {table.states[x]!r} {what}; give probabilities")
    return values / total[..., table.state_of_K]
