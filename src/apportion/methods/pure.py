"""PURE: process rewards counted by the worst step that is still to come, not by their sum.

    A[s] = w (v[i] - mean_others v) + sum_{later} r* - base        r* = softmax(-r / temperature) r

v is the rollout's outcome, r the rewards of its scored steps, base the others' mean of r* to go over the tokens of a
rollout of full length.

Use       with a process reward model: the sum form pays for many harmless steps, this one does not. Give Step.reward
          to the steps and Trajectory.outcome to the verifier, or name a part of Step.rewards; a fitted model of
          `apportion.models` (`StepPRM`) fills the part "prm", or the column of that name where steps are segments of
          one response; it is read where it is there.
Source    arXiv:2504.15275, eqs. 3 and 7.
Compared  by reading, with CJReinforce/PURE, branches main and verl.
Deviates  1. Only scored steps compete for the minimum; the strict form of the verl branch scans token positions, zeros
             and the verdict included, and is hardly ever positive (``form="grid_min"``).
          2. The base divides by `max_tokens`, by default the longest response of the group; the code by the width of
             the padded batch.
          3. The base is that of the process part alone; the verl branch pools it with the verifier's
             (``baseline="pooled"``), and does not compare verdicts otherwise.
          4. The main branch takes its base off each step: the others' reward per token times the tokens of the step in
             its script (``baseline="token"``), the mean of their means per step by default
             (``baseline="step_means"``).
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import BoolArray, FloatArray, centre, seg_count, seg_sum, to_go
from apportion.numerics.minform import grid_min, min_form
from apportion.units import Units, has_process_rewards, process_rewards, verdicts

FORMS = ("soft", "strict", "sum", "grid_min")
BASELINES = ("length", "pooled", "step", "step_means", "token", "none")
BY_UNIT = ("step", "step_means", "token")
"""Those that are taken off the rewards of single units, before they are summed."""
FITTED = "prm"
"""Part of the rewards that a fitted process reward model fills."""


@register(
    "pure",
    unit="step",
    units=("step", "turn", "segment", "token", "episode"),  # an agent's share has no place in time
    family="process-reward",
    reads=("reward_S",),
    source="arXiv:2504.15275",
    holds=("local_to_group",),
    chain=True,
)
def pure(
    units: Units,
    *,
    temperature: float = 0.1,
    form: str = "soft",
    outcome_weight: float = 1.0,
    baseline: str = "length",
    max_tokens: int | None = None,
    process: str = "",
) -> Credit:
    """Credit each unit with the worst process reward from here on, and with the verdict on its rollout.

    Args:
        units: S steps, segments or tokens. Reads the steps' rewards and outcome_N (both reward units); a trajectory
            whose outcome was not given for itself has no verdict, and no outcome part.
        temperature: of the soft form, reward units, above 0; small approaches "strict", large r / n.
        form: "soft"; "strict" keeps the smallest reward (equal ones share it) and makes the others 0; "sum" keeps all;
            "grid_min" is the verl branch's strict form: every token without a reward, and padding up to `max_tokens`,
            counts as a 0, w v joins the reward of the last unit, and the sum is the smallest of what is to come. With
            by_token it is that branch's number; a coarser unit has that of its first token.
        outcome_weight: w above.
        baseline: of the process part: "length" (eq. 7, each of max_tokens positions counts), "pooled" (the same, with
            the verdicts inside), "step" (the rejected eq. 8: the others' mean r* off every scored unit), "step_means"
            (the same, each of the others with one vote), "token" (the others' r* per sampled token, times the tokens
            of each scored unit), "none".
        max_tokens: sampled tokens of a rollout of full length; None takes the longest of the group.
        process: named part of the rewards that holds the process rewards; default "prm" where there is such a part,
            else the rewards themselves.

    Returns:
        Credit with the parts "process" and "outcome", reward units. A group of one has no baseline.

    Raises:
        ConfigError: an unknown option, or a max_tokens below the longest rollout. DataError: no such reward part.
    """
    if not temperature > 0:
        raise ConfigError(f"pure: temperature is {temperature}; give a number above 0, or form='strict'")
    for name, value, known in (("form", form, FORMS), ("baseline", baseline, BASELINES)):
        if value not in known:
            raise ConfigError(f"pure: {name} is {value!r}; give one of {', '.join(map(repr, known))}")
    if form == "grid_min" and baseline in BY_UNIT:
        raise ConfigError(
            f"pure: form='grid_min' has no rewards of single steps for baseline={baseline!r}; give 'length'"
        )
    process = process or (FITTED if has_process_rewards(units, FITTED) else "")
    valid_N, valid_S, group_of_N, n = units.valid_N, units.valid_S, units.group_of_N, len(units.group_of_N)
    reward_S = process_rewards(units, process)
    told_S = np.isfinite(reward_S)
    length_N = _full_length(units, max_tokens)
    verdict_N = verdicts(units) if not process else valid_N
    v_N = np.where(verdict_N, outcome_weight * units.outcome_N, 0.0)
    notes = {
        **group_notes(units),
        "scored_units": int(np.count_nonzero(told_S & valid_S)),
        "without_verdict": int(np.count_nonzero(valid_N & ~verdict_N)),
    }

    if form == "grid_min":
        process_S, v_N = _on_the_grid(units, reward_S, v_N, length_N), np.zeros(n)
    else:
        star_S = min_form(reward_S, units.traj_of_S, temperature=temperature, form=form, where=told_S)
        less_S = _base_of_units(units, star_S, told_S, baseline) if baseline in BY_UNIT else 0.0
        process_S = to_go(np.where(told_S, star_S - less_S, 0.0), units.traj_of_S)
    outcome_N = centre(v_N, group_of_N, where=verdict_N, leave_one_out=True)
    if baseline in ("length", "pooled"):
        area_N = seg_sum(units.tokens_S * process_S, units.traj_of_S, n=n)
        process_S = process_S - (_mean_of_others(units, area_N) / length_N)[units.traj_of_S]
    if baseline == "pooled":
        tokens_N = seg_sum(units.tokens_S, units.traj_of_S, n=n)
        outcome_N = v_N - _mean_of_others(units, v_N * tokens_N) / length_N

    outcome_S = outcome_N[units.traj_of_S]
    parts: dict[str, FloatArray] = {"process": process_S, "outcome": outcome_S}
    return Credit(process_S + outcome_S, units, parts=parts, notes=notes)


def _base_of_units(units: Units, star_S: FloatArray, told_S: BoolArray, baseline: str) -> FloatArray:
    """What is taken off each scored unit: a mean over the others' scored units, or their reward per token."""
    traj_of_S, n = units.traj_of_S, len(units.group_of_N)
    total_N = seg_sum(star_S, traj_of_S, where=told_S, n=n)
    scored_N = seg_count(traj_of_S, where=told_S, n=n).astype(np.float64)
    if baseline == "token":
        rate_N = _ratio(_others(units, total_N), _others(units, seg_sum(units.tokens_S, traj_of_S, n=n)))
        return rate_N[traj_of_S] * units.tokens_S
    if baseline == "step_means":
        total_N, scored_N = _ratio(total_N, scored_N), (scored_N > 0).astype(np.float64)
    return _ratio(_others(units, total_N), _others(units, scored_N))[traj_of_S]


def _ratio(x_N: FloatArray, by_N: FloatArray) -> FloatArray:
    """Quotient, 0 where there is nothing to divide by."""
    return np.where(by_N > 0, x_N / np.where(by_N > 0, by_N, 1.0), 0.0)


def _on_the_grid(units: Units, reward_S: FloatArray, v_N: FloatArray, length_N: FloatArray) -> FloatArray:
    """The smallest number from the first token of each unit to the end of a padded row; rewards sit on last tokens."""
    traj_of_S, told_S = units.traj_of_S, np.isfinite(reward_S)
    verdict_S = np.where(units.last_S, v_N[traj_of_S], 0.0)
    grid_S = np.where(told_S, reward_S, 0.0) + verdict_S
    held_S = told_S | (verdict_S != 0.0)
    tokens_S = units.tokens_S.astype(np.float64)
    empty_S = to_go(tokens_S - (held_S & (tokens_S > 0)), traj_of_S) > 0
    padded_N = seg_sum(tokens_S, traj_of_S, n=len(v_N)) < length_N
    return grid_min(grid_S, traj_of_S, where=held_S, zeros=empty_S | padded_N[traj_of_S])


def _full_length(units: Units, max_tokens: int | None) -> FloatArray:
    """N of the baseline for each trajectory, at least 1."""
    tokens_N = seg_sum(units.tokens_S, units.traj_of_S, n=len(units.group_of_N))
    longest = tokens_N[units.valid_N].max(initial=0.0)
    if max_tokens is None:
        longest_G = np.ones(len(units.batch.group_names))
        np.maximum.at(longest_G, units.group_of_N, np.where(units.valid_N, tokens_N, 0.0))
        return longest_G[units.group_of_N]
    if max_tokens < max(longest, 1):
        raise ConfigError(
            f"pure: max_tokens is {max_tokens}, and a rollout has {longest:.0f}; give the limit it was under"
        )
    return np.full(len(tokens_N), float(max_tokens))


def _others(units: Units, x_N: FloatArray) -> FloatArray:
    """Sum over the other valid members of the group."""
    own_N = np.where(units.valid_N, x_N, 0.0)
    total_G = seg_sum(own_N, units.group_of_N, n=len(units.batch.group_names))
    return total_G[units.group_of_N] - own_N


def _mean_of_others(units: Units, x_N: FloatArray) -> FloatArray:
    """Mean over the other valid members of the group, 0 where there is none."""
    size_N = seg_count(units.group_of_N, where=units.valid_N, n=len(units.batch.group_names))[units.group_of_N]
    return np.where(size_N > 1, _others(units, x_N) / np.maximum(size_N - 1, 1), 0.0)
