"""SWEET-RL: each turn gets what a critic says of it that saw the reference artefact at training time.

    A[turn] = the critic's mean log-ratio over the turn's tokens, in `Step.rewards` under ``part``

Use       with a fitted `apportion.models.SweetCritic`: ``assign("sweet_rl", units, values=model)``; for tasks with
          something hidden from the policy (tests, a gold answer) that tells good turns from bad ones.
Source    arXiv:2503.15478, equation 3.
Compared  with worked numbers; the public code is not read (its licence is non-commercial).
Deviates  1. The paper ranks candidate turns by A and trains with DPO of turns: `apportion.train.ranking` and
             `apportion.train.preference`. As an advantage A has no scale of its own: write ``sweet_rl | whiten``.
          2. Preferences identify the sum of a rollout's advantages only; how it divides is what the model's form and
             the artefact add. Nothing is centred here.
"""

import numpy as np

from apportion.credit import Credit
from apportion.methods.registry import register
from apportion.units import Units


@register(
    "sweet_rl",
    unit="turn",
    units=("turn", "step"),
    family="value",
    reads=("reward_S", "reward_parts"),
    source="arXiv:2503.15478",
    holds=("scale_equivariant", "shift_invariant", "local_to_trajectory", "local_to_group"),
    chain=True,
    example={"part": "work"},
)
def sweet_rl(units: Units, *, part: str = "advantage") -> Credit:
    """Credit each turn with the number that a critic gave it.

    Args:
        units: S turns. Reads reward_parts (Step.rewards), nats per token as a rule; of reward_S, if it is told.
        part: name of the part that holds the critic's number.

    Returns:
        Credit in the unit of the part; unknown where a turn has no number.
    """
    units.require("sweet_rl", f"reward_parts:{part}")
    told_S = units.reward_parts[part]
    known_S = units.valid_S & np.isfinite(told_S)
    missing = int(np.count_nonzero(units.valid_S & ~known_S))
    notes = {"units_without_value": missing} if missing else {}
    return Credit(np.where(known_S, told_S, 0.0), units, known_S=known_S, notes=notes)
