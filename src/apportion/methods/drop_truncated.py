"""Drop truncated: rollouts that a limit cut off are compared with, and not trained on.

    keep[s]  <=>  the trajectory of s was not truncated

Use       where a cut-off rollout says little of what was wrong with it, but its score still tells how hard the task is.
          `apportion.on_truncated` has the other policies: another score, or none.
Source    TRL, ``mask_truncated_completions``; the overlong filtering of arXiv:2503.14476.
Compared  by reading, with trl/trainer/grpo_trainer.py: the advantage is made with the row's reward, then its mask is 0.
Deviates  1. The row leaves the denominator of every aggregation too. Some of TRL's count its tokens there (TRL issue
             6439), which shrinks the loss of the others.
"""

from dataclasses import replace

import numpy as np

from apportion.credit import Credit
from apportion.methods.registry import register


@register(
    "drop_truncated",
    unit="step",
    family="transform",
    source="TRL, mask_truncated_completions",
    holds=("scale_equivariant", "local_to_trajectory", "local_to_group"),
    kind="transform",
)
def drop_truncated(credit: Credit) -> Credit:
    """Drop the units of trajectories that a limit cut off.

    Args:
        credit: of S units of any kind.

    Returns:
        The same credit with dropped units (`Credit.train_S`), which leave numerator and denominator of the loss. The
        note ``truncated_dropped`` counts trajectories that were known before.
    """
    units = credit.units
    cut_S = units.truncated_N[units.traj_of_S]
    lost = len(np.unique(units.traj_of_S[credit.weight_S & cut_S]))
    notes = {**credit.notes, "truncated_dropped": lost} if lost else credit.notes
    return replace(credit, train_S=np.asarray(credit.train_S) & ~cut_S, notes=notes)
