"""Random ragged rollouts with everything that breaks careless methods, and cutting changed rollouts the same way."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.units import CUTS, Units

PER_TOKEN = ("ids", "logp", "ref_logp", "entropy", "token_values")
SEGMENTS: dict[str, Any] = {"by": "fixed", "count": 2}
"""How `random_units` cuts segments."""


def random_trajectories(seed: int, *, columns: Iterable[str] = ()) -> tuple[Trajectory, ...]:
    """A batch of 7 to 15 rollouts with token ids and every column; equal seeds, equal rollouts.

    Always: a group of one, a group of equal outcomes, a member that nobody scored, one whose sandbox broke and one in
    which the policy said nothing, rewards on steps and rewards only at the end, states that recur and states that do
    not, truncated ends with a value, turns of several steps, two agents one after the other, members of a group that
    are not neighbours, named parts of rewards and outcomes, a right answer.
    Never: forks.

    Args:
        seed: of everything.
        columns: names for `Step.columns`. A name says what its numbers are: …logp is a log-probability (≤ 0), prob… a
            probability (Σ π² of the token's distribution, so it is possible beside `logp`), anything else is normal.
    """
    return _random_trajectories(seed, tuple(columns))


@functools.lru_cache(maxsize=128)
def _random_trajectories(seed: int, columns: tuple[str, ...]) -> tuple[Trajectory, ...]:
    rng = np.random.default_rng([seed, 707])
    out: list[Trajectory] = []
    sizes = [1, int(rng.integers(2, 4)), int(rng.integers(2, 6)), int(rng.integers(2, 6))]
    for g, size in enumerate(sizes):
        rollouts = [_rollout(rng, constant=g == 1) for _ in range(size)]
        out += [dataclasses.replace(rollout, group=f"task-{g}") for rollout in rollouts]
    for spoil in (unscored, failed, mute):
        spoilt = spoil(_rollout(rng, constant=False))
        out.append(dataclasses.replace(spoilt, group=f"task-{rng.integers(2, 4)}"))
    order = rng.permutation(len(out))
    extra = np.random.default_rng([seed, 708])
    out = [_with_columns(_with_parts(rollout, extra), columns, extra) for rollout in out]
    named = [dataclasses.replace(rollout, id=f"{seed}-{n}") for n, rollout in enumerate(out)]
    return tuple(named[n] for n in order)


def random_units(seed: int, level: str = "step", *, columns: Iterable[str] = ()) -> Units:
    """`random_trajectories` cut into units of one level; segments are halves of a step."""
    options: dict[str, Any] = SEGMENTS if level == "segment" else {}
    units: Units = CUTS[level](Batch.from_trajectories(random_trajectories(seed, columns=columns)), **options)
    return units


def recut(units: Units, trajectories: Iterable[Trajectory]) -> Units:
    """Cut other rollouts as these units were cut.

    Raises:
        ConfigError: the cut cannot be repeated from what the units record (a cut of your own, a callable key).
    """
    if units.level not in CUTS or "state" in units.options:
        raise ConfigError(
            f"the checks cut rollouts again, and a cut by {units.level} with {dict(units.options)} is not recorded "
            "in full; give units of a built-in cut without callables"
        )
    again: Units = CUTS[units.level](Batch.from_trajectories(trajectories), **units.options)
    return again


def unscored(rollout: Trajectory) -> Trajectory:
    """The same rollout, but nobody said how it went."""
    steps = [dataclasses.replace(step, reward=None, rewards={}) for step in rollout.steps]
    return dataclasses.replace(rollout, steps=steps, outcome=None, outcomes={})


def failed(rollout: Trajectory) -> Trajectory:
    """The same rollout, but the infrastructure broke in its last step."""
    broken = dataclasses.replace(rollout.steps[-1], failed=True)
    return dataclasses.replace(rollout, steps=[*rollout.steps[:-1], broken])


def mute(rollout: Trajectory) -> Trajectory:
    """The same rollout, but the policy sampled no token."""
    steps = []
    for step in rollout.steps:
        silent: dict[str, Any] = {name: [] for name in PER_TOKEN if getattr(step, name) is not None}
        silent["columns"] = {name: [] for name in step.columns}
        steps.append(dataclasses.replace(step, action="", **silent))
    return dataclasses.replace(rollout, steps=steps)


def _with_parts(rollout: Trajectory, rng: np.random.Generator) -> Trajectory:
    """Named parts where something was scored, the end included; one part of the outcome is missing now and then."""
    if rollout.total is None:
        return rollout
    steps = [
        dataclasses.replace(step, rewards={"format": float(rng.integers(0, 2)), "work": float(rng.normal())})
        if step.reward is not None or step is rollout.steps[-1]
        else step
        for step in rollout.steps
    ]
    outcomes = {"correct": float(rng.integers(0, 2)), "length": float(rng.normal())}
    if rng.random() < 0.1:
        del outcomes["length"]
    return dataclasses.replace(rollout, steps=steps, outcomes=outcomes)


def _with_columns(rollout: Trajectory, names: tuple[str, ...], rng: np.random.Generator) -> Trajectory:
    steps = []
    for step in rollout.steps:
        assert step.logp is not None
        p = np.exp(np.asarray(step.logp))
        drawn = {}
        for name in names:
            if name.endswith("logp"):
                drawn[name] = -rng.exponential(size=len(p))
            elif name.startswith("prob"):
                drawn[name] = rng.uniform(p**2, p**2 + (1 - p) ** 2)
            else:
                drawn[name] = rng.normal(size=len(p))
        steps.append(dataclasses.replace(step, columns=drawn))
    return dataclasses.replace(rollout, steps=steps)


def _rollout(rng: np.random.Generator, *, constant: bool) -> Trajectory:
    length = int(rng.integers(1, 6))
    sparse = bool(constant or rng.random() < 0.3)  # no step rewards, only an outcome
    handover = int(rng.integers(1, 6))
    built = []
    for s in range(length):
        size = int(rng.integers(0, 4)) if s else int(rng.integers(1, 4))
        end = rng.random() if s == length - 1 else 0.5
        state = f"state {rng.integers(3)}" if rng.random() < 0.8 else f"alone {rng.integers(1 << 40)}"
        same_turn = s > 0 and rng.random() < 0.2
        built.append(
            Step(
                observation=state,
                action="words " * size,
                prompt_ids=[] if same_turn else rng.integers(0, 1000, size=int(rng.integers(1, 5))),
                ids=rng.integers(0, 1000, size=size),
                logp=-rng.exponential(size=size),
                ref_logp=-rng.exponential(size=size),
                entropy=rng.exponential(size=size),
                token_values=rng.normal(size=size),
                value=float(rng.normal()),
                reward=None if sparse or (s < length - 1 and rng.random() < 0.2) else float(rng.normal()),
                terminated=bool(end < 0.3),
                truncated=bool(end > 0.7),
                agent="planner" if s < handover else "coder",
            )
        )
    truncated = built[-1].truncated
    outcome = 0.7 if constant else float(rng.normal()) if sparse else None
    value = float(rng.normal()) if truncated and rng.random() < 0.7 else None
    return Trajectory(built, outcome=outcome, final_value=value, reference=f"the answer {length}")
