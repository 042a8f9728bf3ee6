"""Prompts that do not go on from the tokens before them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion.check.findings import Finding, Yields, count, places
from apportion.check.moves import step_name
from apportion.check.registry import register
from apportion.data import Batch
from apportion.numerics import Array, IntArray

RESYNC, WITHIN = 6, 4
"""After a difference of at most 4 ids on either side, 6 equal ids in a row make it another spelling of one text."""
SHARE = 0.5
"""Least share of the older tokens, after the difference, that must come again for that."""


@dataclass(frozen=True, slots=True)
class _Break:
    step: int
    at: int
    of: int
    kind: str
    sampled: bool


@register("prefix-drift", on="batch")
def prefix_drift(batch: Batch) -> Yields:
    """Prompts that do not begin with the tokens so far: ids that changed by encoding again, or history rewritten."""
    fresh = np.flatnonzero(batch.fresh_S & batch.has_ids_N[batch.traj_of_S])
    if not len(fresh):
        return
    bounds = np.searchsorted(batch.step_of_T, np.arange(len(batch.traj_of_S) + 1))
    found = [broken for s in fresh.tolist() if (broken := _compare(batch, bounds, s)) is not None]
    for kind, severity, what, remedy in (
        (
            "drift",
            "warning",
            "have other ids for the same text: credit would land on tokens that nobody sampled, and log-probabilities "
            "belong to others",
            "send and log token ids (token in, token out), do not decode and encode between steps; else train each "
            "step on the prompt that the sampler saw",
        ),
        (
            "rewritten",
            "info",
            "drop or rewrite history (a template that removes thoughts, a summary): steps are sound alone and must not "
            "be joined to one sequence",
            "nothing where each step is trained with its own prompt; else use a template that only appends",
        ),
        (
            "extends",
            "info",
            "are marked as a fresh context and do go on from the tokens so far",
            "leave Step.fresh out and give only what is new, so that a rollout is one sequence",
        ),
    ):
        alike = [one for one in found if one.kind == kind]
        if not alike:
            continue
        first = alike[0]
        yield Finding(
            f"prefix-drift/{kind}",
            severity,
            f"{len(alike)} of {count(len(fresh), 'prompt')} that do not extend the step before {what} "
            f"({step_name(batch, first.step)}: equal up to token {first.at} of {first.of}"
            + (", where the policy had sampled" if first.sampled else "")
            + ")",
            remedy,
            {
                "steps": len(alike),
                "of": len(fresh),
                "share": len(alike) / len(batch.traj_of_S),
                "in_sampled_tokens": sum(one.sampled for one in alike),
                "first_at": first.at,
                "first_of": first.of,
            },
            places(step_name(batch, one.step) for one in alike),
        )


def _compare(batch: Batch, bounds: IntArray, s: int) -> _Break | None:
    """The prompt of a fresh step against all tokens of the steps it follows."""
    before: list[Array] = []
    marks: list[Array] = []
    at = int(batch.parent_S[s])
    while at >= 0:
        span = slice(int(bounds[at]), int(bounds[at + 1]))
        before.append(batch.ids_T[span])
        marks.append(batch.sampled_T[span])
        if batch.fresh_S[at]:
            break
        at = int(batch.parent_S[at])
    if not before:
        return None
    full, sampled = np.concatenate(before[::-1]), np.concatenate(marks[::-1])
    own = slice(int(bounds[s]), int(bounds[s + 1]))
    prompt = batch.ids_T[own][~batch.sampled_T[own]]
    size = min(len(full), len(prompt))
    unlike = np.flatnonzero(full[:size] != prompt[:size])
    common = int(unlike[0]) if len(unlike) else size
    if common == len(full):
        return _Break(s, common, len(full), "extends", False)
    kind = "drift" if _same_text(full[common:], prompt[common:]) else "rewritten"
    return _Break(s, common, len(full), kind, bool(sampled[common]))


def _same_text(old: Array, new: Array) -> bool:
    """After a few ids that differ, the rest of the old tokens comes again: one text, encoded twice."""
    for gap in range(1, 2 * WITHIN + 1):
        for a in range(max(0, gap - WITHIN), min(WITHIN, gap) + 1):
            rest, again = old[a:], new[gap - a :]
            size = min(len(rest), len(again))
            if not len(rest):
                if a and len(again) and gap - a:  # the last few ids of the old tokens are the ones that differ
                    return True
                continue
            if size < min(RESYNC, len(rest)):
                continue
            equal = rest[:size] == again[:size]
            if equal[: min(RESYNC, size)].all() and np.count_nonzero(equal) >= SHARE * len(rest):
                return True
            if equal[: min(RESYNC, size)].all():
                return _same_text(rest[int(np.argmin(equal)) :], again[int(np.argmin(equal)) :])
    return False
