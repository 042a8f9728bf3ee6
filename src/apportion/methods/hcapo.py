"""HCAPO: the same policy, told how it ended, says how likely each action was; likelier ones carry more of the outcome.

    h[t] = exp(mean_j log pi(y_j | y_<j, context, outcome) / temperature)      over the tokens of unit t
    rho[t] = clip(h[t] / mean_t h, low, high)         Q[t] = rho[t] * gamma^(T-t) * R
    A[t] = (R - mean_group R) / std_group R + omega * (Q[t] - mean_group Q) / std_group Q

Use       for sparse outcomes from 0 on, at one teacher-forced pass over the taken actions. A ratio of likelihoods in
          hindsight is correlation, not cause: an action that was certain anyway counts as much as one that decided.
Source    arXiv:2603.08754, by a transcript of its equations (RainyFields/Agentic-RL-CA); no code found.
Compared  with worked numbers (ddof 0).
Deviates  1. Sample std without epsilon; the paper does not say.
          2. Where a unit of a success would be blamed it gets 0 of the second part, as in the paper; a success is an
             outcome above ``success``. Outcomes below 0 turn that logic around and are counted in the notes.
          3. How the outcome is told could not be had: our text (``frame``) tells the return and what came last.
          4. Nothing is asked about outcomes of 0 and single units, whose Q does not hang on it.
"""

import numpy as np

from apportion.asks import Answer, Ask, Logprob, Place, Span
from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.frames import frame_of
from apportion.methods.groups import compared, one_of
from apportion.methods.moments import spans
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.methods.told import count, token_numbers
from apportion.numerics import FloatArray, IntArray
from apportion.units import Units


def plan(units: Units, *, frame: str) -> list[Ask]:
    """Each run of tokens of each unit whose hindsight matters, in a context that tells the outcome."""
    text = frame_of("hcapo", "frame", frame, also=("score",))
    return [
        Logprob(
            Place(traj, span.step, span.first),
            until=span.last,
            frame=text.replace("{score}", f"{float(units.outcome_N[traj]):g}"),
        )
        for traj, own in _asked(units).items()
        for _, runs in own
        for span in runs
    ]


@register(
    "hcapo",
    unit="turn",
    family="extra scoring",
    reads=("reward_S",),
    needs=("policy",),
    source="arXiv:2603.08754",
    holds=("local_to_group",),
    chain=True,
    plan=plan,
)
def hcapo(
    units: Units,
    answers: list[Answer],
    *,
    frame: str = "hindsight",
    temperature: float = 5.0,
    low: float = 0.8,
    high: float = 1.2,
    gamma: float = 0.95,
    omega: float = 1.0,
    smoothing: float | None = None,
    harmless: bool = True,
    success: float = 0.0,
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
) -> Credit:
    """Credit each turn with the outcome's place in the group, and its own share of it in hindsight.

    Args:
        units: units along time, turns as a rule. Reads outcome_N, reward units; outcomes from 0 on, 0 = failure.
        answers: one for each `Logprob` of the plan.
        frame: what takes the context's place: "hindsight", or a text of your own with the slots ``{context}``,
            ``{outcome}`` and ``{score}`` (the return).
        temperature: of the hindsight likelihoods, above 0.
        low: smallest ratio.
        high: largest ratio.
        gamma: discount per unit, counted from the end.
        omega: weight of the second part.
        smoothing: share of a unit's own Q when it is mixed with the next unit's (the paper's α, 0.5); None = unmixed.
        harmless: no unit of a success is blamed by the second part.
        success: outcomes above it are successes.
        scale: "std" divides by the std, "none" only centres.
        ddof: of the std.
        epsilon: added to the std.

    Returns:
        Credit; the parts "macro" and "micro" add up. A unit is unknown where its hindsight could not be had; one
        without tokens stays out of the second part.
    """
    one_of("hcapo", ("std", "none"), scale=scale)
    if not (temperature > 0.0 and low <= high) or (smoothing is not None and not 0.0 <= smoothing <= 1.0):
        raise ConfigError(
            f"hcapo: temperature={temperature}, low={low}, high={high}, smoothing={smoothing}; give a temperature "
            "above 0, low up to high, and smoothing from 0 to 1"
        )
    ratio_S = _ratios(units, answers, temperature, low, high)
    after_S = _to_end(units)
    q_S = ratio_S * gamma**after_S * units.outcome_N[units.traj_of_S]
    spoke_S = units.valid_S & (units.tokens_S > 0)
    if smoothing is not None:
        q_S = _smoothed(q_S, spoke_S, units, smoothing)
    known_S = units.valid_S & (np.isfinite(q_S) | ~spoke_S)
    how = {"scale": scale, "ddof": ddof, "epsilon": epsilon}
    compare_S = known_S & spoke_S
    micro_S = compared(np.where(compare_S, q_S, 0.0), units.group_of_S, where=compare_S, **how)  # type: ignore[arg-type]
    outcome_S = units.outcome_N[units.traj_of_S]
    spared_S = harmless & (outcome_S > success) & (micro_S < 0.0) & compare_S
    macro_N = compared(units.outcome_N, units.group_of_N, where=units.valid_N, **how)  # type: ignore[arg-type]
    parts = {"macro": macro_N[units.traj_of_S], "micro": omega * np.where(spared_S, 0.0, micro_S)}
    parts = {name: np.where(known_S, part, 0.0) for name, part in parts.items()}
    notes = {
        **group_notes(units),
        **count(
            units_spared=int(np.count_nonzero(spared_S)),
            negative_outcomes=int(np.count_nonzero(units.valid_N & (units.outcome_N < 0.0))),
            units_without_hindsight=int(np.count_nonzero(units.valid_S & ~known_S)),
        ),
    }
    return Credit(np.asarray(sum(parts.values())), units, known_S=known_S, parts=parts, notes=notes)


def _asked(units: Units) -> dict[int, list[tuple[int, tuple[Span, ...]]]]:
    """For each rollout whose credit hangs on hindsight, its units with tokens and their runs."""
    own = spans(units)
    out: dict[int, list[tuple[int, tuple[Span, ...]]]] = {}
    for s in np.flatnonzero(units.valid_S & (units.tokens_S > 0)).tolist():
        traj = int(units.traj_of_S[s])
        if units.outcome_N[traj] != 0.0:
            out.setdefault(traj, []).append((s, own[s]))
    return {traj: mine for traj, mine in out.items() if len(mine) > 1}


def _ratios(units: Units, answers: list[Answer], temperature: float, low: float, high: float) -> FloatArray:
    """rho of each unit, NaN where it could not be had, 1 where nothing was asked."""
    ratio_S, waiting = np.ones(len(units)), iter(answers)
    for own in _asked(units).values():
        mean = [
            np.concatenate([token_numbers(next(waiting), span.last - span.first) for span in runs]).mean()
            for _, runs in own
        ]
        likely = np.exp(np.array(mean) / temperature)
        heard = likely[np.isfinite(likely)]
        level = heard.mean() if len(heard) else np.nan
        even = level == 0.0  # all of them impossible in hindsight
        ratio_S[[s for s, _ in own]] = np.clip(np.where(even, likely + 1.0, likely / (level or 1.0)), low, high)
    return ratio_S


def _to_end(units: Units) -> IntArray:
    """Units that come after each one in its trajectory."""
    stop_S = np.searchsorted(units.traj_of_S, units.traj_of_S, side="right")
    return stop_S - 1 - np.arange(len(units))


def _smoothed(q_S: FloatArray, spoke_S: np.ndarray, units: Units, own_share: float) -> FloatArray:
    """Each unit's Q mixed with that of the next unit with tokens in its trajectory; the last one's is unchanged."""
    out_S, own = q_S.copy(), np.flatnonzero(spoke_S)
    here, after = own[:-1], own[1:]
    same = units.traj_of_S[here] == units.traj_of_S[after]
    here, after = here[same], after[same]
    out_S[here] = own_share * q_S[here] + (1.0 - own_share) * q_S[after]
    return out_S
