"""IGPO: each turn earns what it adds to the policy's own probability of the right answer; the last one the outcome.

    p[k] = exp(mean_j log pi(gold_j | context before unit k, gold_<j))          p[0] before anything was done
    r[k] = p[k+1] - p[k] of every unit but the last,      r[last] = outcome
    A[k] = sum_{j >= k} gamma^(j-k) * z(r[j])             z: against the group, gains and outcomes each on their own

Use       for search and tool use with a known answer text: dense rewards without a judge, a critic or another rollout.
          One teacher-forced pass over the answer per turn.
Source    arXiv:2510.14967; code GuoqingWang1/IGPO (2025-11), fork debajoycs98/IGPO. MIG: arXiv:2602.01034 (notes);
          delta-belief: arXiv:2602.12342; the normalisation by turn and the root: arXiv:2605.06200 (abstract).
Compared  with worked numbers of the formula (ddof 0, epsilon 1e-6) and of the released loop (``mode="legacy"``).
Deviates  1. Normalised, then summed, with gamma per turn, across observations; the released code of November 2025
             sums first, stops at each observation, so that gains are lost, and subtracts the group's mean at the same
             token position without a std. ``mode="legacy"`` does that.
          2. Sample std without epsilon; the code has ddof 0 and 1e-6. A set of one gets 0, as there.
          3. The code wraps the answer in tags: ``frame``. By default it follows the context as it is, token for token.
          4. A gain of exactly 0 counts; forks that test ``reward != 0`` leave it out (``skip_zeros``).
"""

import numpy as np

from apportion.asks import Answer, Ask, Logprob
from apportion.credit import Credit
from apportion.errors import DataError
from apportion.methods.frames import frame_of
from apportion.methods.groups import compared, one_of, position_S
from apportion.methods.igpo_legacy import at_same_position
from apportion.methods.moments import starts
from apportion.methods.registry import register
from apportion.methods.told import count
from apportion.numerics import BoolArray, FloatArray, IntArray, labels, to_go
from apportion.units import Units

MODES = ("paper", "legacy")
GAINS = ("prob_diff", "log_prob_diff", "rise", "watermark")
NORMS = ("separate", "joint", "turn", "none")


def plan(units: Units, *, frame: str | None) -> list[Ask]:
    """The answer's log-probability at the beginning of every unit of rollouts with a reference and several units."""
    text = None if frame is None else frame_of("igpo", "frame", frame)
    place_S, rollouts = starts(units), units.batch.trajectories
    if not any(rollout.reference for rollout in rollouts):
        raise DataError("igpo reads the right answers, which the rollouts lack; give Trajectory.reference")
    asked = np.flatnonzero(_asked(units))
    pairs = zip(asked.tolist(), units.traj_of_S[asked].tolist(), strict=True)
    return [Logprob(place_S[s], target=rollouts[traj].reference, frame=text) for s, traj in pairs]


@register(
    "igpo",
    unit="turn",
    family="extra scoring",
    reads=("reward_S",),
    needs=("policy",),
    source="arXiv:2510.14967",
    holds=("shift_invariant", "local_to_group"),
    chain=True,
    plan=plan,
)
def igpo(
    units: Units,
    answers: list[Answer],
    *,
    gain: str = "prob_diff",
    frame: str | None = None,
    norm: str = "separate",
    scale: str = "std",
    gamma: float = 1.0,
    gain_weight: float = 1.0,
    root: bool = False,
    skip_zeros: bool = False,
    ddof: int = 1,
    epsilon: float = 0.0,
    mode: str = "paper",
) -> Credit:
    """Credit each turn with the normalised gains and the outcome from it on.

    Args:
        units: units along time, turns as a rule. Reads outcome_N, and `Trajectory.reference` as the right answer.
        answers: one for each `Logprob` of the plan.
        gain: "prob_diff"; "log_prob_diff" of mean log-probabilities; "rise", its positive part (delta-belief);
            "watermark", what exceeds the highest log-probability so far, so that lost ground pays once (MIG).
        frame: text around the context before the answer: None = nothing, "answer" or a text of your own with the slot
            ``{context}``.
        norm: "separate" compares gains with gains and outcomes with outcomes of the group; "joint" all together, where
            small positive gains fall below a mean that the outcomes raise; "turn" compares gains at the same turn;
            "none" leaves them as they are.
        scale: "std" divides by the std, "none" only centres.
        gamma: discount per unit.
        gain_weight: of the gains, after normalisation.
        root: divide each sum by the root of the number of its terms.
        skip_zeros: leave rewards of exactly 0 out of the statistics, where they stay 0.
        ddof: of the std.
        epsilon: added to the std.
        mode: "paper", or "legacy", the released loop of November 2025: of the options only ``gain``, ``frame`` and
            ``gamma`` (there per token) count, and the mean over a unit's tokens is its credit.

    Returns:
        Credit; the parts "gain" and "outcome" add up in mode "paper". A unit is unknown where a gain from it on is.
    """
    one_of("igpo", GAINS, gain=gain)
    one_of("igpo", NORMS, norm=norm)
    one_of("igpo", MODES, mode=mode)
    one_of("igpo", ("std", "none"), scale=scale)
    last_S, asked_S = units.last_S, _asked(units)
    logp_S = np.full(len(units), np.nan)
    logp_S[asked_S] = [np.nan if not answer.one else float(np.mean(answer.one)) for answer in answers]
    reward_S = np.where(last_S, units.outcome_N[units.traj_of_S], _gains(logp_S, units, gain))
    told_S = units.valid_S & np.isfinite(reward_S)
    known_S = units.valid_S & (to_go((~told_S).astype(np.float64), units.traj_of_S) == 0)
    reward_S = np.where(told_S, reward_S, 0.0)
    notes = count(
        rollouts_without_reference=int(np.count_nonzero(units.valid_N & ~_referenced_N(units))),
        units_without_gain=int(np.count_nonzero(units.valid_S & ~told_S)),
        gains_of_zero=int(np.count_nonzero(told_S & ~last_S & (reward_S == 0.0))),
    )
    if mode == "legacy":
        credit_S = at_same_position(units, reward_S, gamma)
        return Credit(np.where(known_S, credit_S, 0.0), units, known_S=known_S, notes=notes)
    where_S = told_S & (reward_S != 0.0) if skip_zeros else told_S
    normal_S = reward_S
    if norm != "none":
        set_S = _sets(units, norm)
        normal_S = compared(reward_S, set_S, where=where_S, scale=scale, ddof=ddof, epsilon=epsilon)
    parts = {"gain": np.where(last_S, 0.0, gain_weight * normal_S), "outcome": np.where(last_S, normal_S, 0.0)}
    shrink_S = np.sqrt(to_go(np.ones(len(units)), units.traj_of_S)) if root else np.ones(len(units))
    parts = {
        name: np.where(known_S, to_go(part, units.traj_of_S, gamma=gamma) / shrink_S, 0.0)
        for name, part in parts.items()
    }
    return Credit(np.asarray(sum(parts.values())), units, known_S=known_S, parts=parts, notes=notes)


def _referenced_N(units: Units) -> BoolArray:
    return np.array([bool(rollout.reference) for rollout in units.batch.trajectories], dtype=bool)


def _asked(units: Units) -> BoolArray:
    """Units before which the answer's probability is asked for: all of rollouts in which there is a gain to know."""
    several_N = np.bincount(units.traj_of_S, minlength=len(units.group_of_N)) > 1
    asked: BoolArray = (units.valid_N & several_N & _referenced_N(units))[units.traj_of_S]
    return asked


def _gains(logp_S: FloatArray, units: Units, gain: str) -> FloatArray:
    """What each unit added, (S,); the entry of a rollout's last unit means nothing."""
    before_S, after_S = logp_S, np.append(logp_S[1:], np.nan)[: len(logp_S)]
    if gain == "prob_diff":
        return np.asarray(np.exp(after_S) - np.exp(before_S))
    if gain == "watermark":
        before_S = before_S.copy()
        for s in np.flatnonzero(position_S(units) > 0).tolist():
            before_S[s] = np.maximum(before_S[s], before_S[s - 1])
    change_S = np.asarray(after_S - before_S)
    return change_S if gain == "log_prob_diff" else np.maximum(change_S, 0.0)


def _sets(units: Units, norm: str) -> IntArray:
    """With whom each unit is compared."""
    if norm == "joint":
        return units.group_of_S
    turn_S = np.where(units.last_S, -1, position_S(units) if norm == "turn" else 0)
    return labels(units.group_of_S, turn_S)
