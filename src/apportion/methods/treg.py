"""T-REG token rewards: how much likelier a model finds a token when told to write well than when told to write badly.

    r[t] = sigmoid(log p(y_t | better, y_<t) - log p(y_t | worse, y_<t)) - 1/2        in (-1/2, 1/2)

Use       as token rewards that regularise a preference loss, or as a first look at which tokens a model holds to be
          good, where nobody can verify anything. Two teacher-forced passes per step, nothing is sampled.
Source    arXiv:2412.02685, by secondary accounts that agree (no copy of wzhouad/T-REG could be had).
Compared  with worked numbers, and with the closed form p_b / (p_b + p_w) - 1/2.
Deviates  1. The wording of the two contexts could not be had: ours are texts that you can replace.
          2. Any units, not tokens alone: their mean (``pool``).
          3. The paper uses these in a preference loss, never as advantages.
"""

import numpy as np

from apportion.asks import Answer, Ask, Logprob, Place
from apportion.credit import Credit
from apportion.methods.frames import frame_of
from apportion.methods.groups import one_of
from apportion.methods.moments import sizes
from apportion.methods.registry import register
from apportion.methods.told import askable_N, count, token_numbers
from apportion.numerics import FloatArray, seg_sum
from apportion.units import Units

POOLS = ("mean", "sum", "joint")


def plan(units: Units, *, better: str, worse: str, pool: str) -> list[Ask]:
    """Every step of every rollout under the two contexts."""
    one_of("treg", POOLS, pool=pool)
    frames = (frame_of("treg", "better", better), frame_of("treg", "worse", worse))
    return [
        Logprob(Place(traj, step), frame=frame, model="reference")
        for traj, step, _ in _steps(units)
        for frame in frames
    ]


@register(
    "treg",
    unit="token",
    family="extra scoring",
    needs=("reference",),
    source="arXiv:2412.02685",
    holds=("shift_invariant", "local_to_group", "local_to_trajectory"),
    plan=plan,
)
def treg(
    units: Units, answers: list[Answer], *, better: str = "better", worse: str = "worse", pool: str = "mean"
) -> Credit:
    """Credit each token with the contrast of its probability under two contexts.

    Args:
        units: tokens as a rule. Rewards are not read: unscored rollouts get credit too.
        answers: two `Logprob` for each step.
        better: what takes the context's place in the first pass: the name of one of our texts, or a text of your own
            with the slot ``{context}`` (`apportion.asks.Logprob`).
        worse: the same for the second pass.
        pool: of units of several tokens: "mean" or "sum" of the tokens' rewards; "joint" contrasts the probability of
            the whole unit.

    Returns:
        Credit without unit; a unit is unknown where one of its tokens is.
    """
    contrast_T = _contrast(units, answers)
    own_T = units.unit_of_T >= 0
    unit, contrast = units.unit_of_T[own_T], contrast_T[own_T]
    known_S = askable_N(units)[units.traj_of_S]
    lost = np.unique(unit[np.isnan(contrast)])
    unheard = int(np.count_nonzero(known_S[lost]))
    known_S[lost] = False
    told = np.isfinite(contrast)
    if pool == "joint":
        credit_S = _half(seg_sum(contrast, unit, where=told, n=len(units)))
    else:
        credit_S = seg_sum(_half(contrast), unit, where=told, n=len(units))
        if pool == "mean":
            credit_S = credit_S / np.maximum(units.tokens_S, 1)
    return Credit(credit_S, units, known_S=known_S, notes=count(units_without_answer=unheard))


def _steps(units: Units) -> list[tuple[int, int, int]]:
    """Trajectory, step and number of tokens of every step that has some, in rollouts that can be asked about."""
    return [
        (traj, step, size)
        for traj, (asked, own) in enumerate(zip(askable_N(units).tolist(), sizes(units), strict=True))
        for step, size in enumerate(own)
        if asked and size
    ]


def _contrast(units: Units, answers: list[Answer]) -> FloatArray:
    """Difference of the log-probabilities of each token, nats; NaN where it is not known. (T,)"""
    batch = units.batch
    out_T = np.full(len(batch.step_of_T), np.nan)
    own_T = np.flatnonzero(batch.sampled_T & (askable_N(units)[batch.traj_of_T]))
    told = [
        token_numbers(first, size) - token_numbers(second, size)
        for (_, _, size), first, second in zip(_steps(units), answers[::2], answers[1::2], strict=True)
    ]
    out_T[own_T] = np.concatenate([np.zeros(0), *told])
    return out_T


def _half(difference: FloatArray) -> FloatArray:
    """sigmoid(x) - 1/2, without overflow."""
    return np.asarray(0.5 * np.tanh(0.5 * difference), dtype=np.float64)
