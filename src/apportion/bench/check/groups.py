"""Faults of groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apportion.bench.check.faults import Rollouts, fault
from apportion.bench.check.world import seen_as, some


def _groups(rollouts: Rollouts) -> list[str]:
    return list(dict.fromkeys(str(t.group) for t in rollouts))


def _in(rng: np.random.Generator, rollouts: Rollouts, low: float, high: float) -> set[str]:
    names = _groups(rollouts)
    return {names[k] for k in some(rng, len(names), low, high)}


def _pairs(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [replace(t, group=f"{t.group}/{k % 6 // 2}") for k, t in enumerate(rollouts)]


@fault("group-of-one", likeness=_pairs)
def group_of_one(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """A fresh id for each rollout."""
    return [replace(t, group=t.id) if rng.random() < 0.3 else t for t in rollouts]


def _few_constant(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    chosen = _in(rng, rollouts, 0.1, 0.3)
    return [replace(t, outcome=1.0) if t.group in chosen else t for t in rollouts]


@fault("constant-group", likeness=_few_constant)
def constant_group(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Most tasks are always or never solved."""
    chosen = _in(rng, rollouts, 0.6, 1.0)
    ends = {name: float(rng.integers(2)) for name in chosen}
    return [replace(t, outcome=ends[t.group]) if t.group in ends else t for t in rollouts]


def _later(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [
        seen_as(
            t, [s.observation or "" for s in t.steps[:1]] + [f"{s.observation} A cat walks by." for s in t.steps[1:]]
        )
        if k % 3 == 0
        else t
        for k, t in enumerate(rollouts)
    ]


@fault("first-observation", likeness=_later)
def first_observation(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Members of a group start under another seed."""
    chosen = set(some(rng, len(rollouts), 0.1, 0.4))
    return [
        seen_as(t, [f"{t.steps[0].observation} The lamp is {k}."] + [s.observation or "" for s in t.steps[1:]])
        if k in chosen
        else t
        for k, t in enumerate(rollouts)
    ]


OPENINGS = ("Hello, I need help.", "Hi there!", "I have a question about my order.")


def _one_task_twice(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Two batches of each task under names of their own; or users who open in set phrases, or in words of their own."""
    way = int(rng.integers(3))
    if way:
        said = [OPENINGS[k] for k in rng.integers(3, size=len(rollouts))]
        said = [f"{text} It is number {k // 4}." if way == 2 else text for k, text in enumerate(said)]
        texts = [[s.observation or "" for s in t.steps[1:]] for t in rollouts]
        return [seen_as(t, [first, *rest]) for t, first, rest in zip(rollouts, said, texts, strict=True)]
    return [replace(t, group=f"{t.group} batch {k % 2}") for k, t in enumerate(rollouts)]


@fault("group-mixing", likeness=_one_task_twice)
def group_mixing(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Groups by position: shifted, taken modulo, or shuffled after sampling."""
    way, names = int(rng.integers(3)), [t.group for t in rollouts]
    if way == 0:
        shift = int(rng.integers(1, 5))
        names = names[shift:] + names[:shift]
    elif way == 1:
        each = _groups(rollouts)
        names = [each[k % len(each)] for k in range(len(rollouts))]
    else:
        names = [names[k] for k in rng.permutation(len(names))]
    return [replace(t, group=name) for t, name in zip(rollouts, names, strict=True)]


def _named_anew(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [replace(t, id=f"{t.id}-{k}") for k, t in enumerate(rollouts)]


@fault("duplicate-id", likeness=_named_anew)
def duplicate_id(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Rollouts twice, or two under one name."""
    chosen = some(rng, len(rollouts) - 1, 0.05, 0.2)
    if rng.random() < 0.5:
        return [*rollouts, *(rollouts[k] for k in chosen)]
    return [replace(t, id=rollouts[-1].id) if k in chosen else t for k, t in enumerate(rollouts)]
