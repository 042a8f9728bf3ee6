"""ABC: the reward of a response, divided as the reward model's own attention was.

    w[i] = a[i] / sum a                                  a = attention of the model's last token to unit i
    A[i] = mix * w[i] * R + (1 - mix) * R * 1[i = last]

Use       where a reward model with attention exists and nothing beyond the one pass that scores may be spent. No
          credit has another sign than R: what harmed a good response is praised too.
Source    arXiv:2402.00782; code XanderJC/attention-based-credit.
Compared  with worked numbers of the code's formula.
Deviates  1. Units of any size: the sum of their tokens' weights.
          2. No attention at all on the response is shared by token, as in the paper's uniform baseline.
          3. The paper's claim of potential-based shaping is not exact: the last token attends to the whole response.
"""

import numpy as np

from apportion.asks import Answer, Ask, Attend, Span
from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.moments import spans
from apportion.methods.registry import register
from apportion.methods.told import askable_N, count
from apportion.numerics import FloatArray, IntArray, seg_sum
from apportion.units import Units


def plan(units: Units, *, mix: float) -> list[Ask]:
    """One `Attend` for each rollout, over the runs of tokens of its units."""
    if not 0.0 <= mix <= 1.0:
        raise ConfigError(f"abc: mix is {mix!r}; give a number from 0 to 1")
    return [Attend(traj, runs) for traj, (runs, _) in _runs(units).items()]


@register(
    "abc",
    unit="token",
    family="extra scoring",
    needs=("reward_model",),
    source="arXiv:2402.00782",
    holds=("shift_invariant", "local_to_group", "local_to_trajectory"),
    chain=True,
    plan=plan,
)
def abc(units: Units, answers: list[Answer], *, mix: float = 0.5) -> Credit:
    """Credit each unit with its share of the reward model's attention.

    Args:
        units: units along time, tokens as a rule. Rewards are not read: the score is the reward model's.
        answers: one for each `Attend` of the plan.
        mix: share that is divided (the paper's β); the rest arrives with the last unit.

    Returns:
        Credit in the unit of the score, which it sums to. The parts "dense" and "sparse" add up. A rollout is unknown
        where the model gave no answer.
    """
    weight_S, score_N = np.zeros(len(units)), np.full(len(units.group_of_N), np.nan)
    unseen = 0
    for (traj, (runs, unit)), answer in zip(_runs(units).items(), answers, strict=True):
        told = answer.one
        if told is None or len(told.weights) != len(runs):
            continue
        score_N[traj] = told.score
        own = _units_of(units, traj)
        share = seg_sum(np.maximum(told.weights, 0.0), unit, n=own.stop - own.start)
        if share.sum() <= 0.0:
            unseen += 1
            share = units.tokens_S[own].astype(np.float64)
        weight_S[own] = share / share.sum()
    known_S = np.isfinite(score_N)[units.traj_of_S]
    score_S: FloatArray = np.where(known_S, score_N[units.traj_of_S], 0.0)
    parts = {"dense": mix * weight_S * score_S, "sparse": (1.0 - mix) * score_S * units.last_S}
    notes = count(
        rollouts_without_attention=unseen,
        rollouts_without_answer=len(answers) - int(np.count_nonzero(np.isfinite(score_N))),
    )
    return Credit(np.asarray(sum(parts.values())), units, known_S=known_S, parts=parts, notes=notes)


def _runs(units: Units) -> dict[int, tuple[tuple[Span, ...], IntArray]]:
    """For each rollout that can be asked about, its runs of tokens, and the unit of each, counted in the rollout."""
    of_unit = spans(units)
    out: dict[int, tuple[tuple[Span, ...], IntArray]] = {}
    for traj in np.flatnonzero(askable_N(units)).tolist():
        own = of_unit[_units_of(units, traj)]
        if runs := tuple(run for mine in own for run in mine):
            out[traj] = (runs, np.repeat(np.arange(len(own)), [len(mine) for mine in own]))
    return out


def _units_of(units: Units, traj: int) -> slice:
    first, stop = np.searchsorted(units.traj_of_S, [traj, traj + 1]).tolist()
    return slice(first, stop)
