"""States that hardly ever recur."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, places
from apportion.check.measures.state_groups import company
from apportion.check.moves import Moves, step_name
from apportion.check.registry import register
from apportion.units import Units

RARE = 0.05
"""Share of the steps after the first with company, below which methods on state groups have nothing to compare."""
LEAST = 8
"""Steps below which the share says nothing."""


@register("state-alone", on="units", cheap=True)
def state_alone(units: Units) -> Yields:
    """Rollouts in which hardly any state after the first is visited by a second rollout of the group."""
    if units.state_S is None or not len(units):
        return
    moves = Moves(units)
    later = np.flatnonzero(moves.comparable_S & (moves.time_S > 0))
    if len(later) < LEAST:
        return
    met = int(np.count_nonzero(company(moves)[later]))
    share = met / len(later)
    if share >= RARE:
        return
    yield Finding(
        "state-alone",
        "info",
        f"{met} of {count(len(later), 'step')} after the first ({share:.0%}) are in a state that another rollout of "
        "the group visits: methods on state groups (gigpo, anchor, hgpo) have next to nothing to compare and fall "
        "back to the episode",
        "loosen the key (`--states normalised`), sample more rollouts per task, or use a method that needs no "
        "recurring states (`apportion recommend`)",
        {"met": met, "of": len(later), "share": 1 - share},
        places(step_name(units.batch, int(s)) for s in later[~company(moves)[later]]),
    )
