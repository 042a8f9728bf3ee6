"""Anchor: each unit's return to go against the units that acted in the same state of the same group.

    A[s] = G[s] - mean_anchor G          G[s] = sum_k gamma^k r[s+k]

Use       as a summand: it is GiGPO's step part. Alone it is 0 wherever a state was visited once.
Source    arXiv:2505.10978, eqs. 5-7.
Compared  by reading, with verl-agent gigpo/core_gigpo.py, `step_norm_reward`.
Deviates  1. scale="std" adds no epsilon; the code adds 1e-6.
          2. Equal texts are one state only inside a group (ROLL and Trinity pool them over the batch).
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.registry import register
from apportion.numerics import FloatArray, centre, labels, seg_count, to_go
from apportion.units import Units


@register(
    "anchor",
    unit="step",
    units=("step", "turn"),
    family="monte-carlo",
    reads=("reward_S", "state_S"),
    source="arXiv:2505.10978",
    holds=("scale_equivariant", "local_to_group", "relabel_invariant"),
    chain=True,
)
def anchor(units: Units, *, gamma: float = 0.95, scale: str = "none", ddof: int = 1) -> Credit:
    """Credit each unit with what followed it, compared in its anchor state.

    Args:
        units: S steps or turns. Reads reward_S (reward units) and state_S (equal keys are one anchor state,
            compared inside one group only; several visits by one trajectory are several members).
        gamma: discount per unit, in [0, 1].
        scale: "none" keeps reward units; "std" divides by the anchor group's std (no unit).
        ddof: of that std.

    Returns:
        Credit; units without company get 0 and are counted in the notes.
    """
    advantage_S, notes = anchor_part(units, gamma=gamma, scale=scale, ddof=ddof)
    return Credit(advantage_S, units, notes=notes)


def anchor_part(
    units: Units, *, gamma: float, scale: str, ddof: int
) -> tuple[FloatArray, dict[str, int | float | str]]:
    """The step part and its notes: states, units without company, visits that repeat one's own."""
    if scale not in ("none", "std"):
        raise ConfigError(f"anchor: scale is {scale!r}; give 'none' or 'std'")
    assert units.state_S is not None
    valid_S = units.valid_S
    anchor_S = labels(units.group_of_S, units.state_S)
    return_S = to_go(units.reward_S, units.traj_of_S, gamma=gamma)
    advantage_S = centre(return_S, anchor_S, scale=scale, ddof=ddof, where=valid_S)

    visits_A = seg_count(anchor_S, where=valid_S)
    first_visits = len(np.unique(labels(anchor_S[valid_S], units.traj_of_S[valid_S])))
    total = int(np.count_nonzero(valid_S))
    notes: dict[str, int | float | str] = {
        "states": int(np.count_nonzero(visits_A)),
        "units_without_company": int(np.count_nonzero(visits_A == 1)),
        "share_with_company": float((total - np.count_nonzero(visits_A == 1)) / total) if total else 0.0,
        "own_repeats": total - first_visits,
    }
    return advantage_S, notes
