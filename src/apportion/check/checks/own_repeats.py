"""State groups that one rollout fills by coming back."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, places
from apportion.check.moves import Moves, step_name
from apportion.check.registry import register
from apportion.numerics import labels
from apportion.units import Units

VISITS, OWN = 4, 0.5
"""A state group is filled by one rollout that makes at least 4 of its visits and more than half of them."""
MANY = 0.1
"""Share of the steps in such groups from which on it is a warning."""


@register("own-repeats", on="units", cheap=True)
def own_repeats(units: Units) -> Yields:
    """States that one rollout visits again and again, so that it is mostly compared with itself."""
    if units.state_S is None or not len(units):
        return
    moves = Moves(units)
    state_S = moves.state_S
    visits = np.bincount(state_S)
    pair_S = labels(state_S, units.traj_of_S)
    own_P = np.bincount(pair_S)
    first_P = np.zeros(len(own_P), dtype=np.int64)
    first_P[pair_S[::-1]] = np.arange(len(state_S))[::-1]
    size_P = visits[state_S[first_P]]
    full_P = moves.comparable_S[first_P] & (own_P >= VISITS) & (own_P > OWN * size_P)
    steps = int(size_P[full_P].sum())
    of = int(np.count_nonzero(moves.comparable_S))
    if not steps or steps / of <= MANY:
        return
    order = np.flatnonzero(full_P)[np.argsort(-own_P[full_P], kind="stable")]
    worst = int(order[0])
    s = int(first_P[worst])
    name = units.batch.names()[int(units.traj_of_S[s])]
    alone = int(np.count_nonzero(own_P[full_P] == size_P[full_P]))
    yield Finding(
        "own-repeats",
        "warning",
        f"{steps} of {count(of, 'step')} ({steps / of:.0%}) are in {count(len(order), 'state')} that one rollout "
        f"fills: {name!r} makes {own_P[worst]} of the {size_P[worst]} visits to {moves.key_text(s)!r}; it is compared "
        "with itself",
        "count one visit per rollout (`gigpo(repeats='once')`, `anchor(repeats='once')`), or look why the policy "
        "stands still: an action without effect leads to the same state",
        {
            "states": len(order),
            "alone": alone,
            "steps": steps,
            "of": of,
            "share": steps / of,
            "visits": int(own_P[worst]),
            "visits_of_all": int(size_P[worst]),
        },
        places(step_name(units.batch, int(first_P[p])) for p in order),
    )
