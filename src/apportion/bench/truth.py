"""Credit against truth: how well each method's credit points where the exact policy gradient points.

    grad_cos        cosine of one batch's policy gradient with the exact one, averaged over batches (noise included)
    grad_cos_mean   cosine of the gradient averaged over all batches with the exact one (what is left is bias)
    corr, sign      correlation and sign agreement of the credit with the exact advantage, step by step

The gradient cosines are the yardstick. Plain correlation is easily gamed: marking only the rewarded step correlates
well on tasks where the reward falls at the end of a rare success, while its gradient points elsewhere.

Every number is (mean, low, high), a 95% interval over batches: percentile bootstrap for averages; for the cosine of
the averaged gradient the delete-one jackknife, since a bootstrap sample repeats batches and is noisier than the batch
of batches it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from apportion.assign import assign
from apportion.bench.exact import (
    Exact,
    Policy,
    Rollouts,
    advantage_of,
    batch_gradient,
    cosine,
    exact,
    policy_gradient,
    sample,
)
from apportion.data import Batch, Step, Trajectory
from apportion.envs.table import Table
from apportion.errors import DataError
from apportion.methods import methods as registered
from apportion.methods.spec import REQUIRED
from apportion.numerics import FloatArray, IntArray
from apportion.units import by_step

CONTROLS = ("exact advantage", "immediate reward", "random")
METRICS = ("grad_cos", "grad_cos_mean", "corr", "sign")
RESAMPLES = 1000

Interval = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Measured:
    """Truth of one task: the policy's return, a row of `METRICS` per method, and who could not run, with the reason."""

    J: float
    rows: Mapping[str, Mapping[str, Interval]]
    skipped: Mapping[str, str]
    batches: int
    steps: int


def runnable() -> list[str]:
    """Every registered method that has a default for each parameter, in the order of the registry."""
    return [s.name for s in registered() if s.kind == "method" and REQUIRED not in s.defaults.values()]


def measure(
    table: Table,
    policy: Policy,
    *,
    methods: Iterable[str] | None = None,
    batches: int = 40,
    groups: int = 8,
    n: int = 8,
    seed: int = 0,
    progress: Callable[[], object] | None = None,
) -> Measured:
    """Sample batches of grouped rollouts, credit them with every method, and compare with the exact answer.

    Args:
        table: an enumerated task, ``task("crafttree").table``.
        policy: anything `apportion.bench.exact.probabilities` takes, a transformer included.
        methods: expressions; default every registered method that can run on these rollouts, and the controls.
        batches, groups, n: batches of ``groups`` start states with ``n`` rollouts each.
        seed: of the sampling.
        progress: called after every batch.
    """
    truth = exact(table, policy)
    goal = policy_gradient(truth)
    rng = np.random.default_rng(seed)
    names = list(runnable() if methods is None else methods)
    asking = {spec.name: spec.needs for spec in registered() if spec.plan is not None}
    skipped = {name: f"{name} asks a {' and '.join(asking[name])}" for name in names if name in asking}
    names = [name for name in names if name not in asking]
    gradients: dict[str, list[FloatArray]] = {}
    agreement: dict[str, list[tuple[float, float]]] = {}
    steps = 0
    for _ in range(batches):
        rollouts = sample(truth.table, truth.policy, groups=groups, n=n, rng=rng)
        right = advantage_of(truth, rollouts)
        steps += len(right)
        units = by_step(to_batch(truth, rollouts))
        credits = dict(zip(CONTROLS, (right, rollouts.reward_S, rng.normal(size=len(right))), strict=True))
        for name in names:
            try:
                credits[name] = assign(name, units).advantage_S
            except DataError as reason:
                skipped[name] = str(reason)
        for name, credit in credits.items():
            gradients.setdefault(name, []).append(batch_gradient(truth.table, truth.policy, rollouts, credit))
            agreement.setdefault(name, []).append(_agreement(credit, right))
        if progress is not None:
            progress()
    picks = np.random.default_rng(seed + 1).integers(batches, size=(RESAMPLES, batches), dtype=np.int64)
    rows = {
        name: _row(np.array([np.ravel(g) for g in got]), np.array(agreement[name]), np.ravel(goal), picks)
        for name, got in gradients.items()
        if name not in skipped
    }
    return Measured(J=truth.J, rows=rows, skipped=skipped, batches=batches, steps=steps)


def to_batch(truth: Exact, rollouts: Rollouts) -> Batch:
    """Sampled rollouts as the library sees them: texts, rewards, start-state groups, and the exact V as values.

    The horizon belongs to the task, so an episode that reaches it has ended, not been cut off.
    """
    table = truth.table
    trajectories = []
    first = np.searchsorted(rollouts.traj_of_S, np.arange(len(rollouts.group_of_N) + 1))
    for i, group in enumerate(rollouts.group_of_N.tolist()):
        steps = []
        for s in range(first[i], first[i + 1]):
            x, t = int(rollouts.state_S[s]), int(rollouts.time_S[s])
            steps.append(
                Step(
                    observation=table.text(x, t),
                    action=table.actions[x][int(rollouts.action_S[s])],
                    reward=float(rollouts.reward_S[s]),
                    value=float(truth.value_HX[t, x]),
                    terminated=s + 1 == first[i + 1],
                )
            )
        trajectories.append(Trajectory(steps, group=str(group)))
    return Batch.from_trajectories(trajectories)


def _agreement(credit: FloatArray, right: FloatArray) -> tuple[float, float]:
    """Correlation, and share of equal signs among steps whose exact advantage is not 0."""
    spread = np.std(credit) > 0 and np.std(right) > 0
    corr = float(np.corrcoef(credit, right)[0, 1]) if spread else 0.0
    counts = np.abs(right) > 1e-9
    sign = float(np.mean(np.sign(credit[counts]) == np.sign(right[counts]))) if counts.any() else 0.0
    return corr, sign


def _row(gradient_BK: FloatArray, agree_B2: FloatArray, goal: FloatArray, picks: IntArray) -> dict[str, Interval]:
    each = np.array([cosine(g, goal) for g in gradient_BK])
    return {
        "grad_cos": _bootstrap(each, picks),
        "grad_cos_mean": _jackknife(gradient_BK, goal),
        "corr": _bootstrap(agree_B2[:, 0], picks),
        "sign": _bootstrap(agree_B2[:, 1], picks),
    }


def _bootstrap(each_B: FloatArray, picks: IntArray) -> Interval:
    low, high = np.percentile(each_B[picks].mean(axis=1), [2.5, 97.5])
    return float(each_B.mean()), float(low), float(high)


def _jackknife(gradient_BK: FloatArray, goal: FloatArray) -> Interval:
    """Cosine of the mean gradient; its standard error from leaving out one batch at a time."""
    n, total = len(gradient_BK), gradient_BK.sum(axis=0)
    value = cosine(total, goal)
    if n < 2:
        return value, -1.0, 1.0
    without = np.array([cosine(total - g, goal) for g in gradient_BK])
    error = float(np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2)))
    return value, max(value - 1.96 * error, -1.0), min(value + 1.96 * error, 1.0)


__all__ = ["CONTROLS", "METRICS", "Measured", "measure", "runnable", "to_batch"]
