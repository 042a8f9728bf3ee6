"""Rollouts as plain lists, for slow references: read from the trajectories as given, with none of our arithmetic."""

from __future__ import annotations

from types import SimpleNamespace

from apportion.data import Batch, Trajectory


def plain(batch: Batch) -> list[SimpleNamespace]:
    """One namespace per rollout: group, outcome, valid, and a list per step of rewards, states, values, tokens.

    The reward of a step stands at that step. Where the last step has none but the outcome is told, what the outcome
    has beyond the step rewards arrives there.
    """
    return [_rollout(n, trajectory) for n, trajectory in enumerate(batch.trajectories)]


def _rollout(n: int, t: Trajectory) -> SimpleNamespace:
    told = [step.reward for step in t.steps if step.reward is not None]
    scored = t.outcome is not None or t.steps[-1].reward is not None
    outcome = t.outcome if t.outcome is not None else sum(told) if scored else None
    rewards = [0.0 if step.reward is None else step.reward for step in t.steps]
    if scored and t.steps[-1].reward is None:
        rewards[-1] = outcome - sum(told)
    tokens = [len((step.action or "").split()) if step.ids is None else len(step.ids) for step in t.steps]
    failed = any(step.failed for step in t.steps)
    return SimpleNamespace(
        group=t.group if t.group is not None else ("alone", n),
        outcome=outcome,
        valid=scored and sum(tokens) > 0 and not failed,
        rewards=rewards,
        states=[step.observation if step.state is None else step.state for step in t.steps],
        values=[step.value for step in t.steps],
        tokens=tokens,
        truncated=t.steps[-1].truncated and not t.steps[-1].terminated,
        final=t.final_value,
    )


def peers(rollouts: list[SimpleNamespace], group: object) -> list[float]:
    """Outcomes of the members of a group that take part in its statistics."""
    return [r.outcome for r in rollouts if r.group == group and r.valid]


def spread(xs: list[float], ddof: int) -> float:
    """Standard deviation; 0 for too few values and for a spread that is only rounding."""
    if len(xs) <= ddof:
        return 0.0
    mean = sum(xs) / len(xs)
    std = (sum((x - mean) ** 2 for x in xs) / (len(xs) - ddof)) ** 0.5
    return std if std > 1e-9 * max(abs(x) for x in xs) else 0.0
