"""Builders that every test may use: small rollouts, ragged random batches, exact comparison.

Nothing here has hidden state: equal arguments, equal result.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.data import Batch, Step, Trajectory

if TYPE_CHECKING:
    from apportion.units import Units

TEXTS = ("go", "größe naïve", "鍵を取る", "🦊 a\n\tb", "", " leading", "trailing ", "a\u2028b", "key\r\n")
PER_TOKEN = ("logp", "ref_logp", "entropy", "token_values")


def traj(
    *steps: Step | tuple[Any, ...],
    group: str | None = None,
    id: str | None = None,
    tokens: int = 1,
    prompt: int = 2,
    **fields: Any,
) -> Trajectory:
    """A rollout from ``(state, reward)`` or ``(state, reward, tokens)`` tuples, or from `Step` objects.

    Every tuple becomes ``prompt`` context ids and ``tokens`` sampled ids, all different inside the rollout.
    A reward of None is an unscored step.
    """
    built: list[Step] = []
    next_id = 0
    for step in steps:
        if not isinstance(step, Step):
            state, reward, *rest = step
            size = rest[0] if rest else tokens
            ids = list(range(next_id, next_id + prompt + size))
            next_id += prompt + size
            step = Step(
                observation=str(state),
                state=str(state),
                reward=reward,
                prompt_ids=ids[:prompt],
                ids=ids[prompt:],
            )
        built.append(step)
    return Trajectory(built, group=group, id=id, **fields)


def batch_of(
    group: Sequence[Any], lengths: Sequence[int], steps: Sequence[tuple[Any, ...]], *, tokens: int = 1
) -> Batch:
    """Trajectories of ``lengths[i]`` steps in ``group[i]``; ``steps`` are the flat tuples of `traj`."""
    assert sum(lengths) == len(steps), f"{sum(lengths)} steps by lengths, {len(steps)} given"
    out, at = [], 0
    for name, length in zip(group, lengths, strict=True):
        out.append(traj(*steps[at : at + length], group=str(name), tokens=tokens))
        at += length
    return Batch.from_trajectories(out)


def units_of(
    group: Sequence[Any], lengths: Sequence[int], steps: Sequence[tuple[Any, ...]], *, tokens: int = 1
) -> Units:
    """One unit per step: ``units_of(group=[0, 0], lengths=[2, 1], steps=[("A", 0), ("B", 1), ("A", 0)])``."""
    from apportion.units import by_step

    return by_step(batch_of(group, lengths, steps, tokens=tokens))


def random_trajectories(
    seed: int,
    *,
    groups: int = 4,
    largest: int = 5,
    steps: int = 6,
    states: int = 4,
    ids: bool = True,
    logp: bool = True,
    values: bool = True,
    unscored: bool = True,
    rich: bool = True,
    forks: bool = True,
    parts: bool = False,
    columns: Sequence[str] = (),
) -> list[Trajectory]:
    """A ragged batch with everything that breaks careless code.

    Always: a group of one, a group without spread, a group named by unicode. With ``unscored``: members whose
    outcome is unknown. With ``rich``: empty responses, rollouts without any token, failed and truncated ones,
    fresh contexts, agents, turns, branches, a final value, free extras; some states never repeat.
    ``ids=False`` gives text only (then there are no per-token columns); ``forks=False`` leaves the branches out.
    ``parts`` adds named parts of rewards and outcomes, not everywhere; ``columns`` names further per-token columns.
    """
    rng = np.random.default_rng([seed, 20250])
    out: list[Trajectory] = []
    for g in range(groups):
        members = 1 if g == 0 else int(rng.integers(2, largest + 1))
        name = f"task {g}" if g % 2 else f"aufgabe-ß/{g}"
        constant = g == 1
        for _ in range(members):
            length = int(rng.integers(1, steps + 1))
            built = [_random_step(rng, s, length, states, ids, logp, values, constant, rich) for s in range(length)]
            if not forks:
                built = [dataclasses.replace(step, parent=None) for step in built]
            if rich and rng.random() < 0.1:  # a rollout in which the policy said nothing
                built = [_mute(step) for step in built]
            outcome = None
            if rng.random() < 0.3:
                outcome = 0.5 if constant else float(np.round(rng.normal(), 2))
            elif built[-1].reward is None:
                outcome = 0.5 if constant else float(rng.integers(0, 2))
            if unscored and rng.random() < 0.15:
                outcome, built[-1] = None, dataclasses.replace(built[-1], reward=None)
            final = float(rng.normal()) if values and built[-1].truncated else None
            if parts or columns:
                built = [_with_names(rng, step, parts, columns if ids else ()) for step in built]
            outcomes = {"correct": float(rng.integers(0, 2)), "länge": float(rng.normal())} if parts else {}
            if outcomes and rng.random() < 0.2:
                del outcomes["länge"]
            reference = "answer: 4²" if rich and rng.random() < 0.2 else None
            meta = {"seed": seed, "tags": ["a", None, 1.5]} if rich and rng.random() < 0.2 else {}
            out.append(
                Trajectory(
                    built,
                    group=name,
                    id=f"{seed}-{len(out)}",
                    outcome=outcome,
                    outcomes=outcomes,
                    final_value=final,
                    final_observation="done ✓" if rich and rng.random() < 0.2 else None,
                    reference=reference,
                    meta=meta,
                )
            )
    order = rng.permutation(len(out))  # members of a group are not neighbours
    return [out[i] for i in order]


def random_batch(seed: int, **options: Any) -> Batch:
    """`random_trajectories` as a checked batch."""
    return Batch.from_trajectories(random_trajectories(seed, **options))


def random_units(seed: int, **options: Any) -> Units:
    """One unit per step of a random ragged batch; options of `random_trajectories`."""
    from apportion.units import by_step

    return by_step(random_batch(seed, **options))


def _random_step(
    rng: np.random.Generator,
    s: int,
    length: int,
    states: int,
    ids: bool,
    logp: bool,
    values: bool,
    constant: bool,
    rich: bool,
) -> Step:
    state = f"state {rng.integers(states)}" if rng.random() < 0.8 else f"alone {rng.integers(1 << 40)}"
    reward: float | None = 0.5 if constant and s == length - 1 else 0.0
    if not constant:
        reward = None if rng.random() < 0.2 else float(np.round(rng.normal(), 3))
    last = s == length - 1
    size = int(rng.integers(0 if rich else 1, 5))
    fields: dict[str, Any] = {"observation": state, "action": str(rng.choice(TEXTS)), "reward": reward}
    if not ids:
        fields["action"] = " ".join(["word"] * size)
    else:
        fields["prompt_ids"] = rng.integers(0, 1000, size=int(rng.integers(0 if rich and s else 1, 6)))
        fields["ids"] = rng.integers(0, 1000, size=size)
        if logp:
            fields["logp"] = -rng.exponential(size=size)
            fields["ref_logp"] = -rng.exponential(size=size)
            fields["entropy"] = rng.exponential(size=size)
        if values:
            fields["token_values"] = rng.normal(size=size)
    if values:
        fields["value"] = float(rng.normal())
    if last:
        end = rng.random()
        fields["terminated"] = bool(end < 0.6)
        fields["truncated"] = bool(end > 0.8)
    if rich:
        fields["failed"] = bool(rng.random() < 0.03)
        fields["fresh"] = bool(s and rng.random() < 0.2)
        if rng.random() < 0.3:
            fields["agent"] = str(rng.choice(["planner", "coder"]))
        if rng.random() < 0.1:
            fields["turn"] = int(rng.integers(0, 4))
        if s >= 2 and rng.random() < 0.15:
            fields["parent"] = int(rng.integers(-1, s))
        if rng.random() < 0.2:
            fields["state"] = state + "!"
        if rng.random() < 0.2:
            fields["actions"] = ("left", "right", "")
        if rng.random() < 0.2:
            fields["extra"] = {"note": "ß", "deep": {"k": [1, 2.5, None, True]}}
        if fields.get("parent") == -1:  # a root follows nothing and has a prompt of its own
            fields["fresh"] = False
            if ids and not len(fields["prompt_ids"]):
                fields["prompt_ids"] = [7]
        if ids and not len(fields["prompt_ids"]):
            fields["fresh"] = False  # an empty prompt is no rewritten context
    return Step(**fields)


def _with_names(rng: np.random.Generator, step: Step, parts: bool, columns: Sequence[str]) -> Step:
    rewards = {"format": float(rng.integers(0, 2)), "work": float(rng.normal())} if parts else {}
    if rewards and rng.random() < 0.3:
        del rewards["work"]
    size = 0 if step.ids is None else len(step.ids)
    return dataclasses.replace(step, rewards=rewards, columns={name: rng.normal(size=size) for name in columns})


def _mute(step: Step) -> Step:
    fields: dict[str, Any] = {name: [] for name in PER_TOKEN if getattr(step, name) is not None}
    fields["columns"] = {name: [] for name in step.columns}
    if step.ids is not None:
        fields["ids"] = []
    return dataclasses.replace(step, action="", **fields)


def assert_same_trajectories(got: Iterable[Trajectory], want: Iterable[Trajectory]) -> None:
    """Every field of every step equal, bit by bit: -0.0 is not 0.0, None is not 0, 1 is not 1.0."""
    got, want = list(got), list(want)
    assert len(got) == len(want), f"{len(got)} trajectories, expected {len(want)}"
    for n, (a, b) in enumerate(zip(got, want, strict=True)):
        for field in dataclasses.fields(Trajectory):
            if field.name != "steps":
                _same(getattr(a, field.name), getattr(b, field.name), f"trajectory {n}: {field.name}")
        assert len(a.steps) == len(b.steps), f"trajectory {n}: {len(a.steps)} steps, expected {len(b.steps)}"
        for s, (x, y) in enumerate(zip(a.steps, b.steps, strict=True)):
            for field in dataclasses.fields(Step):
                _same(getattr(x, field.name), getattr(y, field.name), f"trajectory {n}, step {s}: {field.name}")


def _same(a: Any, b: Any, at: str) -> None:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        assert isinstance(a, np.ndarray), f"{at}: {a!r}, expected {b!r}"
        assert isinstance(b, np.ndarray), f"{at}: {a!r}, expected {b!r}"
        assert a.dtype == b.dtype, f"{at}: {a.dtype}, expected {b.dtype}"
        assert a.shape == b.shape, f"{at}: {a.shape}, expected {b.shape}"
        assert a.tobytes() == b.tobytes(), f"{at}: {a}, expected {b}"
    elif isinstance(a, dict) and isinstance(b, dict):
        if any(isinstance(value, np.ndarray) for value in (*a.values(), *b.values())):
            assert list(a) == list(b), f"{at}: {list(a)}, expected {list(b)}"
            for key in a:
                _same(a[key], b[key], f"{at}[{key!r}]")
        else:
            assert json.dumps(a) == json.dumps(b), f"{at}: {a!r}, expected {b!r}"
    elif isinstance(a, float) and isinstance(b, float):
        assert a == b, f"{at}: {a!r}, expected {b!r}"
        assert math.copysign(1, a) == math.copysign(1, b), f"{at}: {a!r}, expected {b!r}"
    else:
        assert type(a) is type(b), f"{at}: {a!r}, expected {b!r}"
        assert a == b, f"{at}: {a!r}, expected {b!r}"
