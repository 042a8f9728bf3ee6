"""Turn GAE: generalised advantages over turns, with the value at a chosen token of each turn.

    d[k] = r[k] + gamma v[k+1] - v[k]         A[k] = d[k] + gamma lam A[k+1]
    v[k]   value before the turn's first token (anchor="first") or before its last (anchor="last")

Use       for agents in several turns: a delay costs discount by turns, however long the turns are.
Source    Turn-PPO (arXiv:2512.17008) and VAGEN (arXiv:2510.16907); VAGEN's two variants differ in the anchor.
Compared  on recorded numbers, with VAGEN's no_concat_gae.py.
Deviates  1. No whitening inside. VAGEN's is ``turn_gae | whiten``, StepPO's ``turn_gae | whiten(over='unit')``.
          2. The default anchor is "first": at the last token the turn's action has been taken, so the value there is
             no value of the state.
          3. A truncated trajectory bootstraps with final_value where the data have one.
"""

from apportion.credit import Credit
from apportion.methods.bootstrap import advantages, last_token_values
from apportion.methods.groups import one_of
from apportion.methods.registry import register
from apportion.units import Units


@register(
    "turn_gae",
    unit="turn",
    units=("turn", "step", "token"),
    family="value",
    reads=("reward_S", "value_S"),
    source="arXiv:2512.17008",
    holds=("scale_equivariant", "local_to_trajectory", "local_to_group"),
    chain=True,
)
def turn_gae(units: Units, *, gamma: float = 0.99, lam: float = 0.9, anchor: str = "first") -> Credit:
    """Credit each turn with its generalised advantage.

    Args:
        units: S turns. Reads reward_S and value_S (value before the turn), for anchor="last" also Step.token_values;
            all reward units.
        gamma: discount per turn, in [0, 1].
        lam: 0 trusts the critic, 1 the sampled return.
        anchor: "first" or "last" token of the turn, see the formula.

    Returns:
        Credit in reward units.
    """
    one_of("turn_gae", ("first", "last"), anchor=anchor)
    assert units.value_S is not None
    value_S = units.value_S if anchor == "first" else last_token_values(units, f"turn_gae(anchor={anchor!r})")
    advantage_S, notes = advantages(units, value_S, gamma=gamma, lam=lam)
    return Credit(advantage_S, units, notes=notes)
