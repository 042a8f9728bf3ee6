"""Rollouts that say they are done, while nothing says so."""

from __future__ import annotations

import re

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.moves import short
from apportion.check.registry import register
from apportion.check.solved import solved
from apportion.data import Batch, Trajectory

LEAST, MANY = 2, 0.2
"""From 2 rollouts, and this share of those that failed (or were not scored), on."""
TAIL = 400
"""Signs at the end of the last action in which a claim is looked for."""
CLAIM = re.compile(
    r"(?i)\b(?:(?:all|every|the) (?:\w+ )?(?:tests?|checks?) (?:now )?(?:pass|passes|passed|succeed(?:ed)?|are green)|"
    r"(?:successfully|correctly) (?:\w+ed|done|built|made)|(?:has|have|is|are|was|were) (?:now )?(?:been )?"
    r"(?:fixed|solved|resolved|completed|verified|done|booked|cancell?ed|updated)|(?:i|we) (?:have |'ve "
    r")?(?:fixed|solved|resolved|"
    r"completed|verified|finished)|(?:task|problem|issue|goal) (?:is )?(?:complete|completed|solved|done|achieved)|"
    r"works (?:now|as expected)|mission accomplished)\b"
)
"""Wordings of a claim, in English."""
DOUBT = re.compile(
    r"(?i)\b(?:not|cannot|can't|could ?n[o']t|couldn't|unable|failed "
    r"to|unless|if|whether|until|once|before|after|please|should|would|"
    r"will|to be)\b|n't\b|\?"
)
"""Words in the same sentence that take a claim back."""
CHECKED = re.compile(
    r"(?i)\b(?:pytest|unittest|run (?:the "
    r")?tests?|tests?|verify|verified|validate|check(?:ed|ing)?|assert|confirm(?:ed)?|"
    r"reproduce|diff|inspect|look)\b"
)
"""What an action says that looks whether the work is right."""


@register("claimed-success", on="batch", cheap=True)
def claimed_success(batch: Batch) -> Yields:
    """Last actions that claim success in rollouts that failed, or that nobody scored, and whether they looked first."""
    claims = [_claim(trajectory) for trajectory in batch.trajectories]
    claimed_N = np.array([claim is not None for claim in claims], dtype=bool)
    if not claimed_N.any():
        return
    won_N = solved(batch)
    failed_N = np.zeros(len(batch), dtype=bool) if won_N is None else batch.valid_N & ~won_N
    open_N = ~batch.scored_N & batch.has_tokens_N & ~batch.failed_N
    for code, among_N, severity, what, remedy in (
        (
            "contradicted",
            failed_N,
            "warning",
            "failed rollouts end with a claim of success",
            "look whether the reward is wrong or the claim is; a judge that reads the last message would believe it",
        ),
        (
            "unverified",
            open_N,
            "warning",
            "rollouts without a reward end with a claim of success that nothing verifies",
            "score them by what was done (tests, the environment's state), not by what is said; unscored stays None",
        ),
    ):
        wrong = np.flatnonzero(claimed_N & among_N)
        of = int(np.count_nonzero(among_N))
        if len(wrong) < LEAST or len(wrong) < MANY * of:
            continue
        names = batch.names()
        looked = sum(_looked(batch.trajectories[n]) for n in wrong.tolist())
        n = int(wrong[0])
        yield Finding(
            f"claimed-success/{code}",
            severity,
            f"{len(wrong)} of {of} {what} ({named((names[k] for k in wrong), len(wrong))}; {names[n]!r}, last step: "
            f"{short(claims[n])!r}); "
            + (
                f"{len(wrong) - looked} of them never looked whether it is so"
                if looked < len(wrong)
                else "all had looked"
            ),
            remedy,
            {
                "rollouts": len(wrong),
                "of": of,
                "share": len(wrong) / len(batch),
                "never_checked": len(wrong) - looked,
                "example": short(claims[n], 160),
                "claims": int(np.count_nonzero(claimed_N)),
            },
            places(f"{names[k]!r}, step {len(batch.trajectories[k].steps) - 1}" for k in wrong),
        )
    yield from _unchecked(batch, claimed_N, claims, won_N)


def _unchecked(batch: Batch, claimed_N: np.ndarray, claims: list[str | None], won_N: np.ndarray | None) -> Yields:
    """Paid claims of agents that act in several steps and never look."""
    if won_N is None:
        return
    several_N = np.array([len(t.steps) > 2 for t in batch.trajectories], dtype=bool)
    paid = np.flatnonzero(claimed_N & won_N & several_N)
    blind = [n for n in paid.tolist() if not _looked(batch.trajectories[n])]
    if len(blind) < LEAST or len(blind) < MANY * len(paid):
        return
    names = batch.names()
    yield Finding(
        "claimed-success/unchecked",
        "info",
        f"{len(blind)} of {count(len(paid), 'rewarded rollout')} that claim success never looked whether it is so "
        f"({named((names[k] for k in blind), len(blind))}; {names[blind[0]]!r}: {short(claims[blind[0]])!r})",
        "fine where the reward is a verifier's; where it is a judge's, it may have been paid for the claim",
        {"rollouts": len(blind), "of": len(paid), "share": len(blind) / len(batch)},
        places(names[k] for k in blind),
    )


def _claim(trajectory: Trajectory) -> str | None:
    """The sentence of the last action that claims success."""
    text = next((step.action for step in reversed(trajectory.steps) if step.action), None)
    if not text:
        return None
    for sentence in re.split(r"(?<=[.!?])\s+|\n+", text[-TAIL:]):
        if CLAIM.search(sentence) and not DOUBT.search(sentence):
            return sentence
    return None


def _looked(trajectory: Trajectory) -> bool:
    """Some action before the last one looks whether the work is right."""
    return any(step.action and CHECKED.search(step.action) for step in trajectory.steps[:-1])
