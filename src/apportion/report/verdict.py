"""Which step of a rollout was decisive, by how much, and whether that can be trusted, in words.

One sentence says what stands out, further ones on what it rests. ``trust`` is

    good   those who chose otherwise in the same state fared so differently that chance would do it in 5% of cases
    weak   the number is known, and nothing in these rollouts speaks for it or against it strongly
    none   no step stands out, or nothing is known
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from typing import Any

from apportion.report.texts import short
from apportion.report.unit_runs import idle_steps, step_values

LIKELY_CHANCE = 0.05
"""Above this chance a comparison is called weak."""
CLEAR = 1.25
"""A step is called decisive if its credit is this many times the next one."""
SAME = 1e-9
"""Steps within this share of the largest credit have the same credit."""


def signed(value: float | None) -> str:
    """``+0.42``, ``−1.30``, ``0``, ``?`` where unknown."""
    if value is None:
        return "?"
    return f"{value:+.3g}".replace("-", "−") if value else "0"


def peaks(values: Sequence[float | None]) -> list[int]:
    """Steps that share the largest credit in size; none where all are zero or unknown."""
    sizes = [abs(value or 0.0) for value in values]
    most = max(sizes, default=0.0)
    return [s for s, size in enumerate(sizes) if size >= most * (1 - SAME)] if most else []


def is_flat(values: Sequence[float | None]) -> bool:
    """More than one known step, and all of them have the same credit."""
    known = [value for value in values if value is not None]
    return len(known) > 1 and max(known) - min(known) <= SAME * max(abs(max(known)), abs(min(known)))


def verdict(
    trajectory: Mapping[str, Any],
    c: str,
    credits: Sequence[Mapping[str, Any]],
    state_of: Mapping[int, Mapping[str, Any]],
    group: Mapping[str, Any],
    own: int,
) -> dict[str, Any]:
    """What to say about one credit of one trajectory.

    Args:
        trajectory: an entry of a report model. c: which of its credits.
        credits: ``credits`` of the model.
        state_of: the shared state of each step that is in one, by the position of the step.
        group: the trajectory's entry of ``groups``.
        own: position of the trajectory in the model.

    Returns:
        ``step`` (None where none stands out), ``trust``, ``head`` and ``why``, sentences.
    """
    entry = trajectory["credit"][c]
    values = step_values(entry)
    label = credits[int(c)]["label"]
    why: list[str] = []
    if all(value is None for value in values):
        return _said(None, "none", f"{label} knows nothing about this rollout", [_why_unknown(trajectory, label)])
    tops = peaks(values)
    if not tops:
        return _said(None, "none", f"no step stands out: {label} gives every step 0", [_why_zero(group)])
    if is_flat(values):
        head = f"no step stands out: {label} gives every step {signed(values[tops[0]])}"
        return _said(None, "none", head, [_why_flat(trajectory, group, label, len(values))])
    s = tops[0]
    value = values[s]
    assert value is not None
    sizes = sorted((abs(x or 0.0) for x in values), reverse=True)
    if len(tops) > 1:
        head = f"{_steps(tops)} share the largest {'credit' if value > 0 else 'blame'}, {signed(value)} each"
    elif len(sizes) > 1 and sizes[1] > sizes[0] / CLEAR:
        head = f"step {s} has the largest {'credit' if value > 0 else 'blame'}, {signed(value)}, but others are close"
    else:
        head = f"step {s} was decisive: {signed(value)}"
        if len(sizes) > 1 and sizes[1] > 0:
            head += f", {sizes[0] / sizes[1]:.2g} times the next"
    trust, told = _compared(value, s, state_of.get(s), own)
    why.append(told)
    agreement = _agreement(trajectory, c, credits, tops)
    if agreement:
        why.append(agreement)
    if idle_steps(entry)[s]:
        why.append("the method does not train on this step")
    if trajectory.get("truncated"):
        why.append("a limit cut the rollout off, so its outcome may be incomplete")
    return _said(s, trust, head, why)


def _said(step: int | None, trust: str, head: str, why: list[str]) -> dict[str, Any]:
    return {"step": step, "trust": trust, "head": head, "why": why}


def _compared(value: float, s: int, state: Mapping[str, Any] | None, own: int) -> tuple[str, str]:
    if state is None:
        return "weak", "no other step of the group was taken in this state, so no choice was compared with another here"
    place = state["visits"].index([own, s])
    action = next(each for each in state["actions"] if place in each["visits"])
    rollouts = len({t for t, _ in state["visits"]})
    if len(state["actions"]) == 1:
        whom = "by this rollout alone" if rollouts == 1 else f"by {rollouts} rollouts"
        return "weak", f"this state was visited {whom}, and the same was done each time: nothing to compare"
    if "chance" not in action:
        return "weak", "nobody scored who did otherwise in this state, so the choice cannot be held against another"
    gap = action["mean"] - action["others_mean"]
    told = (
        f"in this state, {_rollouts(action['n'])} that did the same reached {short(round(action['mean'], 3)):g} on "
        f"average, {_rollouts(action['others'])} that did otherwise {short(round(action['others_mean'], 3)):g}; "
    )
    if gap == 0:
        return "weak", told + "outcomes see no difference"
    if (gap > 0) != (value > 0):
        return "weak", told + "outcomes point the other way"
    told += f"chance alone would differ as much in {_percent(action['chance'])} of cases"
    least = least_chance(action["n"] + action["others"])
    if least > LIKELY_CHANCE:
        told += f", which with so few rollouts is never under {_percent(least)}"
    return ("good" if action["chance"] <= LIKELY_CHANCE else "weak"), told


def least_chance(rollouts: int) -> float:
    """The smallest chance that a permutation test of so many rollouts in one state can come to, whatever happened."""
    splits = range(1, rollouts // 2 + 1)
    return min(((1 + (2 * n == rollouts)) / comb(rollouts, n) for n in splits), default=1.0)


def _agreement(
    trajectory: Mapping[str, Any], c: str, credits: Sequence[Mapping[str, Any]], tops: Sequence[int]
) -> str | None:
    """Whether the other methods put the same step first."""
    with_us, against, silent = [], [], []
    for other, entry in trajectory["credit"].items():
        if other == c:
            continue
        values = step_values(entry)
        label = credits[int(other)]["label"]
        first = peaks(values)
        if not first or is_flat(values):
            silent.append(label)
        elif set(first) & set(tops):
            with_us.append(label)
        else:
            against.append(f"{label} (step {first[0]})")
    told = []
    if with_us:
        told.append(f"also first by {', '.join(with_us)}")
    if against:
        told.append(f"not first by {', '.join(against)}")
    if silent:
        told.append(f"{', '.join(silent)} {'tells' if len(silent) == 1 else 'tell'} no steps apart")
    return f"other methods: {'; '.join(told)}" if told else None


def _why_unknown(trajectory: Mapping[str, Any], label: str) -> str:
    if trajectory.get("failed"):
        return "infrastructure broke in it, so it says nothing about the policy"
    if trajectory["outcome"] is None:
        return "nobody scored it"
    return f"{label} was not asked about it, or could not say"


def _why_zero(group: Mapping[str, Any]) -> str:
    if len(group["members"]) == 1:
        return "it is alone in its group, so there is nobody to compare it with"
    if group["valid"] and group["low"] == group["high"]:
        return f"all {group['valid']} scored rollouts of its group ended with {group['mean']:g}: nothing to compare"
    return "the comparison came out even"


def _why_flat(trajectory: Mapping[str, Any], group: Mapping[str, Any], label: str, steps: int) -> str:
    if trajectory["outcome"] is None or group["mean"] is None:
        return f"{label} does not tell its {steps} steps apart"
    return (
        f"{label} does not tell its {steps} steps apart: the outcome {trajectory['outcome']:g} is compared with "
        f"a group mean of {group['mean']:.3g} over {_rollouts(group['valid'])}"
    )


def _steps(tops: Sequence[int]) -> str:
    shown = [str(s) for s in tops[:4]]
    if len(tops) > 4:
        return f"steps {', '.join(shown)} and {len(tops) - 4} more"
    return f"steps {', '.join(shown[:-1])} and {shown[-1]}"


def _rollouts(n: int) -> str:
    return f"{n} rollout{'' if n == 1 else 's'}"


def _percent(share: float) -> str:
    return "under 1%" if share < 0.01 else f"{share:.0%}"
