"""ArCHer: each utterance gets its advantage by twin Q and V of a critic that learned off-policy.

    A(s,a) = min_j Q_j(s,a) - min_j V_j(s)        both in `Step.rewards`, under ``q`` and ``v``
    "awr"    exp(A inv_temp)                      weight of a regression on the utterances of the data (offline)

Use       with a fitted `apportion.models.ArCHerCritic`: ``assign("archer", units, values=model)``; every token of an
          utterance gets the same, and sampled rewards enter through the critic alone, so old rollouts can be used.
Source    ArCHer (arXiv:2402.19446), and OfflineArcher for "awr".
Compared  with worked numbers of the specification.
Deviates  1. The minimum over V is pessimistic as well, which raises A; that is the paper's, and kept.
          2. The code takes log-probabilities of text that it tokenises again; here tokens are those that were sampled.
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError, DataError
from apportion.methods.groups import one_of
from apportion.methods.registry import register
from apportion.units import Units


@register(
    "archer",
    unit="turn",
    units=("turn", "step"),
    family="value",
    reads=("reward_S", "reward_parts"),
    source="arXiv:2402.19446",
    holds=("scale_equivariant", "shift_invariant", "local_to_trajectory", "local_to_group"),
    chain=True,
    example={"q": "work", "v": "format"},
)
def archer(units: Units, *, q: str = "q", v: str = "v", form: str = "advantage", inv_temp: float = 1.0) -> Credit:
    """Credit each utterance with what a critic finds it better than its state.

    Args:
        units: S utterances, turns or steps as the critic was fitted. Reads reward_parts (Step.rewards), reward units;
            of rewards only whether there are any: rollouts without a score take no part.
        q: name of the part that holds min_j Q_j.
        v: name of the part that holds min_j V_j.
        form: "advantage", or "awr", the weight of advantage-weighted regression.
        inv_temp: of "awr", per reward unit; from 0 up.

    Returns:
        Credit in reward units ("awr": positive weights, not cut off); unknown where an utterance lacks a number.

    Raises:
        DataError: a weight that overflows.
    """
    one_of("archer", ("advantage", "awr"), form=form)
    if inv_temp < 0:
        raise ConfigError(f"archer: inv_temp is {inv_temp}; give a number from 0 up")
    units.require("archer", f"reward_parts:{q}", f"reward_parts:{v}")
    q_S, v_S = units.reward_parts[q], units.reward_parts[v]
    known_S = units.valid_S & np.isfinite(q_S) & np.isfinite(v_S)
    parts = {name: np.where(known_S, x, 0.0) for name, x in (("q", q_S), ("v", -v_S))}
    advantage_S = parts["q"] + parts["v"]
    missing = int(np.count_nonzero(units.valid_S & ~known_S))
    notes = {"units_without_value": missing} if missing else {}
    if form == "advantage":
        return Credit(advantage_S, units, known_S=known_S, parts=parts, notes=notes)
    with np.errstate(over="ignore"):
        weight_S = np.where(known_S, np.exp(inv_temp * advantage_S), 0.0)
    if not np.isfinite(weight_S).all():
        worst = float(advantage_S.max())
        raise DataError(f"archer: exp({inv_temp:g} * {worst:g}) overflows; lower inv_temp, or scale the rewards")
    return Credit(weight_S, units, known_S=known_S, notes=notes)
