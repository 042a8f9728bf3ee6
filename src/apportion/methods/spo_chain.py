"""SPO-chain: each segment of a solution gets what it changed in the value, by fresh continuations from its ends.

    V[k] = mean_j R(continuation j from the beginning of segment k)
    A[k] = r[k] + V[k+1] - V[k],     V = 0 after the last segment

Use       on segments that begin where the policy was unsure, by_segment(by="cutpoint", interval=5): fewer values than
          one per token, where they matter. Then `spo_chain | probability_mask`, which is half of the method.
Source    arXiv:2505.23564, section 3; AIFrameResearch/SPO, the chain episode generator (n 9, interval 5, rho 0.9).
Compared  by reading, and by the worked numbers of the specification.
Deviates  1. As in the code by default: tokens before the first cutpoint get 0, and a rollout without cutpoints gets 0
             and asks nothing. The paper's formula values both: ``first_segment="value"``, ``on_no_cutpoint="single"``.
          2. In a rollout of several steps each step ends a segment; only the very first segment can lie before a
             cutpoint.
          3. A token at exactly rho is no cutpoint, as in the mask; in the code the two tests disagree.
"""

from collections.abc import Sequence

import numpy as np

from apportion.asks import Answer, Ask, Continue
from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.continuations import change_of_value, last_units, mean_or_nan, returns_of
from apportion.methods.groups import one_of, position_S
from apportion.methods.moments import starts
from apportion.methods.registry import register
from apportion.numerics import BoolArray, below_probability, seg_count
from apportion.units import Units


def plan(units: Units, *, n: int, rho: float, first_segment: str, on_no_cutpoint: str) -> list[Ask]:
    """One `Continue` at the beginning of each segment whose value is needed."""
    valued_S, _ = _choose(units, n, rho, first_segment, on_no_cutpoint)
    place_S = starts(units)
    return [Continue(place_S[s], n) for s in np.flatnonzero(valued_S).tolist()]


@register(
    "spo_chain",
    unit="segment",
    units=("segment", "step", "token"),
    family="extra samples",
    reads=("reward_S", "logp_S"),
    needs=("policy",),
    source="arXiv:2505.23564",
    holds=("local_to_group", "local_to_trajectory"),
    chain=True,
    plan=plan,
)
def spo_chain(
    units: Units,
    answers: Sequence[Answer],
    *,
    n: int = 9,
    rho: float = 0.9,
    first_segment: str = "zero",
    on_no_cutpoint: str = "zero",
    unfinished: float | None = 0.0,
) -> Credit:
    """Credit each segment with the change of value over it.

    Args:
        units: S segments along time. Reads reward_S (reward units) and the log-probabilities of first tokens.
        answers: one for each `Continue` of the plan.
        n: continuations from each beginning of a segment.
        rho: a segment begins at a cutpoint if its first token's probability is below; as given to the cut.
        first_segment: of a rollout, where it does not begin at a cutpoint: "zero" as in the code, or "value", which
            asks once more, from the prompt.
        on_no_cutpoint: of a rollout without cutpoints: "zero" gives it no signal, "single" values its segments.
        unfinished: return of a continuation that was cut by its length (the authors': 0); None = as it was scored.

    Returns:
        Credit in reward units, unknown where a value could not be had.
    """
    valued_S, zero_S = _choose(units, n, rho, first_segment, on_no_cutpoint)
    value_S = np.full(len(units), np.nan)
    for s, answer in zip(np.flatnonzero(valued_S).tolist(), answers, strict=True):
        value_S[s] = mean_or_nan(returns_of(answer, unfinished=unfinished))
    last_S = last_units(units)
    after_S = np.append(value_S[1:], 0.0)[: len(units)]
    # what was left out changes nothing: its value is what follows, reward included, or anything where that is unknown
    stand_in_S = units.reward_S + np.where(last_S | ~np.isfinite(after_S), 0.0, after_S)
    credit = change_of_value(units, np.where(zero_S, stand_in_S, value_S), gamma=1.0, notes={})
    advantage_S = np.where(zero_S, 0.0, credit.advantage_S)
    notes = {"states_valued": int(valued_S.sum()), **credit.notes}
    if left_out := int(zero_S.sum()):
        notes["segments_before_cutpoints"] = left_out
    known_S = np.asarray(credit.known_S) | zero_S
    return Credit(advantage_S, units, known_S=known_S, notes=notes)


def _choose(units: Units, n: int, rho: float, first_segment: str, on_no_cutpoint: str) -> tuple[BoolArray, BoolArray]:
    """Segments whose beginning is valued, and those that get 0 without."""
    one_of("spo_chain", ("zero", "value"), first_segment=first_segment)
    one_of("spo_chain", ("zero", "single"), on_no_cutpoint=on_no_cutpoint)
    if n < 1 or not 0.0 < rho <= 1.0:
        raise ConfigError(f"spo_chain: n={n}, rho={rho}; give a whole number from 1 on, and a probability above 0")
    logp_T = units.batch.logp_T
    own_T = np.flatnonzero(units.unit_of_T >= 0)[::-1]
    first_S = np.zeros(len(units))  # of a segment without tokens: certain
    if logp_T is not None:
        first_S[units.unit_of_T[own_T]] = logp_T[own_T]  # the first token is written last
    cut_S = below_probability(first_S, rho)
    cuts_N = seg_count(units.traj_of_S, where=cut_S, n=len(units.group_of_N))
    without_S = cuts_N[units.traj_of_S] == 0
    zero_S = np.zeros(len(units), dtype=np.bool_)
    if on_no_cutpoint == "zero":
        zero_S |= without_S
    if first_segment == "zero":
        zero_S |= (position_S(units) == 0) & ~cut_S & ~without_S
    zero_S &= units.valid_S
    return units.valid_S & ~zero_S, zero_S
