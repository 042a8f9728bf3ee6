"""Step GAE: generalised advantages over steps, with the critic's value of the state before each step.

    d[t] = r[t] + gamma V[t+1] - V[t]         A[t] = d[t] + gamma lam A[t+1]         one A for all tokens of step t

Use       with a critic that is fitted at the end of each prompt: discount and trace count decisions, not tokens.
Source    Agent-R1 and StepPO (arXiv:2604.18401), estimator "gae" over step rows.
Compared  on recorded numbers, with arft/core_algos.py.
Deviates  1. The code whitens over step rows with 1e-8 on the std: write ``step_gae | whiten(over='unit')``.
          2. A truncated trajectory bootstraps with final_value where the data have one; the code treats it as terminal.
          3. A hole in the numbering of steps is no state of value 0 here: steps follow each other as they stand.
"""

from apportion.credit import Credit
from apportion.methods.bootstrap import advantages
from apportion.methods.registry import register
from apportion.units import Units


@register(
    "step_gae",
    unit="step",
    units=("step",),
    family="value",
    reads=("reward_S", "value_S"),
    source="arXiv:2604.18401",
    holds=("scale_equivariant", "local_to_trajectory", "local_to_group"),
    chain=True,
)
def step_gae(units: Units, *, gamma: float = 1.0, lam: float = 1.0) -> Credit:
    """Credit each step with its generalised advantage.

    Args:
        units: S steps. Reads reward_S and value_S (Step.value, else the value before the step's first token), reward
            units.
        gamma: discount per step, in [0, 1].
        lam: 0 trusts the critic, 1 the sampled return.

    Returns:
        Credit in reward units. The critic's target is this plus value_S.
    """
    assert units.value_S is not None
    advantage_S, notes = advantages(units, units.value_S, gamma=gamma, lam=lam)
    return Credit(advantage_S, units, notes=notes)
