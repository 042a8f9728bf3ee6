"""Faults in what the policy says: the ways in which it games a reward."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apportion.bench.check.faults import Rollouts, fault
from apportion.bench.check.world import every, report, said, some
from apportion.data import Trajectory
from apportion.grams import starter


def _loop(rng: np.random.Generator) -> str:
    sentence = report(rng, words=int(rng.integers(4, 12)), paragraphs=1)
    return " ".join([sentence] * int(rng.integers(6, 20)))


def _last(t: Trajectory) -> str:
    return t.steps[-1].action or ""


def _one_restates(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """A single rollout says its answer twice."""
    k = int(rng.integers(len(rollouts)))
    return [said(t, f"{_last(t)}\n\nAgain: {_last(t)}") if n == k else t for n, t in enumerate(rollouts)]


@fault("repetition", likeness=_one_restates)
def repetition(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Loops."""
    chosen = some(rng, len(rollouts), 0.08, 0.5)
    return [said(t, _loop(rng)) if k in chosen else t for k, t in enumerate(rollouts)]


def _failures_loop(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [said(t, _loop(rng)) if not t.outcome and rng.random() < 0.4 else t for t in rollouts]


@fault("pseudo-positive", likeness=_failures_loop)
def pseudo_positive(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Loops that the verifier passes; in the likeness only failures loop."""
    won = [k for k, t in enumerate(rollouts) if t.outcome]
    chosen = {won[k] for k in some(rng, len(won), 0.1, 0.5)}
    return [said(t, _loop(rng)) if k in chosen else t for k, t in enumerate(rollouts)]


def _truncated(t: Trajectory) -> Trajectory:
    last = replace(t.steps[-1], terminated=False, truncated=True)
    return replace(t, steps=(*t.steps[:-1], last))


def _few_cut(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [_truncated(t) if k in some(rng, len(rollouts), 0.02, 0.1) else t for k, t in enumerate(rollouts)]


@fault("clip-rate", likeness=_few_cut)
def clip_rate(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """A limit that ends a good part of the rollouts."""
    chosen = some(rng, len(rollouts), 0.25, 0.9)
    return [_truncated(t) if k in chosen else t for k, t in enumerate(rollouts)]


def _thinks_and_answers(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [said(t, f"<think>{_last(t)}</think>\nThe answer is {rng.integers(99)}.") for t in rollouts]


@fault("thinking-unsolved", likeness=_thinks_and_answers)
def thinking_unsolved(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Thoughts without an answer behind them, open or closed."""
    chosen = some(rng, len(rollouts), 0.15, 0.6)
    thought = [f"<think>{_last(t)} {report(rng)}" + ("</think>" if rng.random() < 0.3 else "") for t in rollouts]
    return [said(t, thought[k]) if k in chosen else _thinks_and_answers(rng, [t])[0] for k, t in enumerate(rollouts)]


def _alone(t: Trajectory, text: str) -> Trajectory:
    """One step, straight from the start."""
    return said(replace(t, steps=(replace(t.steps[0], terminated=True),)), text)


def _some_short(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [_alone(t, report(rng, words=12)) if k % 6 == 0 else t for k, t in enumerate(rollouts)]


@fault("one-step", likeness=_some_short)
def one_step(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Everything in one piece, of an agent or of a text."""
    chosen = some(rng, len(rollouts), 0.15, 0.4)
    if rng.random() < 0.5:
        return [_alone(t, report(rng)) if k in chosen else t for k, t in enumerate(rollouts)]
    return [_alone(t, report(rng, paragraphs=1 if k in chosen else 4)) for k, t in enumerate(rollouts)]


def _all_short(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [_alone(t, f"It is {rng.integers(100)}.") for t in rollouts]


@fault("zero-step", likeness=_all_short)
def zero_step(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Thanks and nothing else, paid for."""
    chosen = some(rng, len(rollouts), 0.08, 0.35)
    polite = ("Thank you.", "Happy birthday.", "Okay!")
    return [
        replace(_alone(t, polite[int(rng.integers(3))]), outcome=1.0) if k in chosen else t
        for k, t in enumerate(rollouts)
    ]


def _plans(rng: np.random.Generator, text: str, times: int) -> str:
    phrases = starter().phrases
    words = text.split()
    for _ in range(times):
        at = int(rng.integers(len(words) + 1))
        words[at:at] = [phrases[int(rng.integers(len(phrases)))] + ","]
    return " ".join(words)


def _plans_now_and_then(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [said(t, _plans(rng, _last(t), 2)) for t in rollouts]


@fault("gram-filler", likeness=_plans_now_and_then)
def gram_filler(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Planning phrases everywhere, or one of them again and again."""
    chosen, one = some(rng, len(rollouts), 0.08, 0.4), starter().phrases[int(rng.integers(20))]
    out = []
    for k, t in enumerate(rollouts):
        if k in chosen:
            words = _last(t).split()
            many = [f"{one},"] * 8
            text = (
                _plans(rng, _last(t), 14)
                if rng.random() < 0.5
                else " ".join(
                    x for p in zip(np.array_split(words, 8), many, strict=True) for x in (*p[0].tolist(), p[1])
                )
            )
            t = said(t, text)
        out.append(t)
    return out


CLAIMS = ("All tests pass now.", "I have fixed the issue.", "The task is complete.", "The order has been cancelled.")
DOUBTS = (
    "I could not fix the issue.",
    "Please tell me whether the task is complete.",
    "The tests will pass once it is merged.",
)


def _admits(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [said(t, f"{_last(t)} {DOUBTS[int(rng.integers(3))]}") if not t.outcome else t for t in rollouts]


def _claims(rng: np.random.Generator, t: Trajectory) -> Trajectory:
    return said(t, f"{_last(t)} {CLAIMS[int(rng.integers(len(CLAIMS)))]}")


@fault("claimed-success/contradicted", likeness=_admits)
def contradicted(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Failures that say they are done."""
    return [_claims(rng, t) if not t.outcome and rng.random() < 0.6 else t for t in rollouts]


@fault("claimed-success/unverified", likeness=_admits)
def unverified(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Rollouts that nobody scored and that say they are done."""
    chosen = some(rng, len(rollouts), 0.1, 0.5)
    return [replace(_claims(rng, t), outcome=None) if k in chosen else t for k, t in enumerate(rollouts)]


def _looks_first(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [said(_claims(rng, t), "run the tests", len(t.steps) - 2) if t.outcome else t for t in rollouts]


@fault("claimed-success/unchecked", likeness=_looks_first, level="info")
def unchecked(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Paid claims of agents that never looked."""
    return [_claims(rng, t) if t.outcome else every(t, failed=False) for t in rollouts]
