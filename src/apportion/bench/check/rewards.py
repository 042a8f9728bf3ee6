"""Faults of rewards, masks and token ids."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apportion.bench.check.faults import Rollouts, fault
from apportion.bench.check.world import every, ids, said, some
from apportion.data import Step, Trajectory


def _zeros(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [replace(t, outcome=0.0) if rng.random() < 0.2 else t for t in rollouts]


@fault("unscored", likeness=_zeros)
def unscored(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """A verifier that gave nothing."""
    chosen = some(rng, len(rollouts), 0.05, 0.4)
    return [replace(t, outcome=None) if k in chosen else t for k, t in enumerate(rollouts)]


@fault("not-finite", likeness=_zeros)
def not_finite(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Rewards that are NaN or infinite."""
    value = float(rng.choice([np.nan, np.inf, -np.inf]))
    chosen = some(rng, len(rollouts), 0.02, 0.2)
    return [replace(t, outcome=value) if k in chosen else t for k, t in enumerate(rollouts)]


def _no_text(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [every(t, action=None) for t in rollouts]


@fault("broken-records", likeness=_no_text)
def broken(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Rollouts without steps, or with ids in some of them only."""
    chosen = some(rng, len(rollouts), 0.02, 0.2)
    return [
        t
        if k not in chosen
        else replace(t, steps=())
        if rng.random() < 0.5
        else every(t, ids=[None] + [s.ids for s in t.steps[1:]])
        for k, t in enumerate(rollouts)
    ]


def _one_failed(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [every(rollouts[0], failed=True), *rollouts[1:]]


@fault("failed", likeness=_one_failed)
def failed(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """A sandbox that breaks."""
    chosen = some(rng, len(rollouts), 0.25, 0.6)
    return [every(t, failed=True) if k in chosen else t for k, t in enumerate(rollouts)]


def _one_quiet_step(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [said(t, "", 0) if k % 4 == 0 else t for k, t in enumerate(rollouts)]


@fault("empty-response", likeness=_one_quiet_step)
def empty_response(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """A policy that says nothing at all."""
    chosen = some(rng, len(rollouts), 0.05, 0.4)
    return [every(t, action="", ids=[[] for _ in t.steps]) if k in chosen else t for k, t in enumerate(rollouts)]


@fault("empty-response/step", likeness=_no_text, level="info")
def empty_step(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Steps of which nothing was sampled."""
    return _one_quiet_step(rng, rollouts)


def _increments(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [every(t, reward=[0.0] * (len(t.steps) - 1) + [t.outcome]) for t in rollouts]


@fault("outcome-sum", likeness=_increments)
def outcome_sum(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """The outcome on every step, or running totals."""
    if rng.random() < 0.5:
        return [every(t, reward=t.outcome) for t in rollouts]
    return [every(t, reward=[(t.outcome or 0.0) * (k + 1) / 2 for k in range(len(t.steps))]) for t in rollouts]


def _reward_on_last(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [
        replace(t, outcome=None, steps=every(t, reward=[0.0] * (len(t.steps) - 1) + [t.outcome]).steps)
        for t in rollouts
    ]


@fault("reward-unsampled", likeness=_reward_on_last)
def reward_unsampled(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """The reward on an empty last step: one past the end."""
    out = []
    for t in rollouts:
        if rng.random() < 0.6:
            end = Step(
                observation="The end.", action="", prompt_ids=ids("The end."), ids=[], reward=t.outcome, terminated=True
            )
            body = every(t, terminated=False).steps
            t = replace(t, outcome=None, steps=(*body, end))
        out.append(t)
    return out


def _cut(t: Trajectory, flag: bool) -> Trajectory:
    return every(t, terminated=[False] * len(t.steps), truncated=[False] * (len(t.steps) - 1) + [flag])


def _valued(t: Trajectory) -> Trajectory:
    return every(replace(t, final_value=0.5), value=0.5)


def _flagged(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [_cut(_valued(t), True) if k % 8 == 0 else every(t, value=0.5) for k, t in enumerate(rollouts)]


@fault("truncation/end-unknown", likeness=_flagged)
def end_unknown(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """What a limit ended is not flagged."""
    chosen = some(rng, len(rollouts), 0.05, 0.3)
    return [_cut(t, False) if k in chosen else t for k, t in enumerate(rollouts)]


@fault("truncation/no-final-value", likeness=_flagged)
def no_final_value(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Values everywhere but after what was cut off."""
    return [every(_cut(t, True) if k % 8 == 0 else t, value=0.5) for k, t in enumerate(rollouts)]


def _own_lengths(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [_cut(t, False) for t in rollouts]


@fault("truncation/limit-suspected", likeness=_own_lengths)
def limit_suspected(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Answers that stop at one length, and no flag says so."""
    limit = 96
    longer = [t if rng.random() < 0.7 else said(t, " ".join(f"w{k}" for k in range(limit))) for t in rollouts]
    return [_cut(t, False) for t in longer]


@fault("text-only", likeness=_zeros, level="info")
def text_only(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """A log of texts."""
    return [every(t, ids=None, prompt_ids=None) for t in rollouts]


def _history(t: Trajectory, k: int) -> list[int]:
    """Every token up to the prompt of step k, that prompt included."""
    out: list[int] = []
    for s in t.steps[:k]:
        out += [*(s.prompt_ids if s.prompt_ids is not None else ()), *(s.ids if s.ids is not None else ())]
    own = t.steps[k].prompt_ids
    return out + [int(i) for i in (own if own is not None else ())]


def _fresh(t: Trajectory, k: int, prompt: list[int]) -> Trajectory:
    steps = list(t.steps)
    steps[k] = replace(steps[k], prompt_ids=prompt, fresh=True)
    return replace(t, steps=tuple(steps))


def _summary(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """History replaced by a summary."""
    return [
        _fresh(t, len(t.steps) - 1, [*ids("what was done so far in a few words"), *_history(t, len(t.steps) - 1)[-9:]])
        for t in rollouts
    ]


@fault("prefix-drift/drift", likeness=_summary)
def drift(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """A word that was sampled as one id comes back as two, or two as one."""
    out = []
    for t in rollouts:
        k = len(t.steps) - 1
        prompt = _history(t, k)
        first = t.steps[0]
        at = len(first.prompt_ids if first.prompt_ids is not None else ())
        if rng.random() < 0.6:
            new = [31_000, 31_001] if rng.random() < 0.5 else [31_002]
            prompt = [*prompt[:at], *new, *prompt[at + (1 if len(new) == 2 else 2) :]]
            t = _fresh(t, k, prompt)
        out.append(t)
    return out


def _drifted(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    out: Rollouts = drift(rng, rollouts)
    return out


@fault("prefix-drift/rewritten", likeness=_drifted, level="info")
def rewritten(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """A template that drops what was thought, or a summary."""
    return _summary(rng, rollouts)


@fault("prefix-drift/extends", likeness=_summary, level="info")
def extends(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """A fresh context that is none."""
    return [_fresh(t, 1, _history(t, 1)) for t in rollouts]
