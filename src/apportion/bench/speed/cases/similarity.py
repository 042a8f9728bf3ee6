"""GiGPO's grouping by likeness of texts, with the very groups of verl-agent's code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from apportion.bench.speed.batches import objects, prose
from apportion.bench.speed.compare import Comparison, Contender, Peer, Run
from apportion.bench.speed.peers import Peers, quietly
from apportion.bench.speed.registry import Setting, case
from apportion.numerics import labels
from apportion.units import Blocks, similar

PEER = "verl-agent"
THRESHOLD = 0.95
STEEPEST = 3.5
"""Of texts that all differ, each is compared with all before it."""


@case("similarity")
def similarity_cases(setting: Setting) -> Iterator[Comparison]:
    """One task: states that are met again, and texts that all differ."""
    peer: Any = setting.beside_torch(Peers.gigpo)
    few, many = (60, 20) if setting.quick else (400, 100)
    yield _comparison("revisited", observations(few, distinct=False), peer, floor=50.0)
    yield _comparison("all distinct", observations(many, distinct=True), peer, floor=150.0)
    yield _comparison(
        "all distinct",
        observations(4 * many, distinct=True),
        "minutes at this size",
        floor=None,
        steepest=STEEPEST,
    )


LETTERS = "etaoinshrdlucmfwypvbgkqjxz"
"""By frequency. Of a dozen equally frequent letters difflib would ignore all, and compare nothing."""


def observations(n: int, *, distinct: bool, states: int = 60, seed: int = 0) -> list[str]:
    """Texts of 300 to 2,000 signs that begin alike: all different, or a few states with a heavy tail, some edited."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, len(LETTERS) + 1)
    text = prose(rng, LETTERS, share / share.sum())
    head = text(int(rng.integers(150, 400)))
    pool = [f"{head} | {text(int(rng.integers(150, 1600)))}" for _ in range(n if distinct else states)]
    if distinct:
        return pool
    out = []
    for step in range(n):
        seen = pool[min(int(rng.pareto(1.1) * 4), states - 1)]
        edit = f" step {step % 50} of 50, rollout {step // 50}"[: int(rng.integers(8, 24))]
        out.append(seen + edit if rng.random() < 0.3 else seen)
    return out


def group(texts: Sequence[str]) -> list[str]:
    """Ours: a key for each text."""
    return Blocks(THRESHOLD).keys(texts, [0] * len(texts))


def without_rapidfuzz(run: Run) -> Run:
    """The same call where rapidfuzz is not installed."""

    def plain() -> Any:
        before: Callable[..., Any] = similar._rapidfuzz
        similar._rapidfuzz = lambda: None  # type: ignore[assignment]
        try:
            return run()
        finally:
            similar._rapidfuzz = before  # type: ignore[assignment]

    return plain


def _comparison(
    kind: str, texts: list[str], peer: Any, *, floor: float | None, steepest: float | None = None
) -> Comparison:
    half = texts[: len(texts) // 2]
    theirs: Peer | str = peer
    if not isinstance(peer, str):
        build = quietly(peer.build_step_group)
        observation, task = objects(texts), objects(["task"] * len(texts))
        theirs = Peer(lambda: build(observation, task, True, THRESHOLD), lambda result: labels(result))
    return Comparison(
        kernel="GiGPO similarity",
        batch=f"{len(texts)} {kind}",
        items=len(texts),
        item="step",
        peers={PEER: theirs},
        contenders={
            "rapidfuzz bound": Contender(
                run=lambda: group(texts),
                value=lambda result: labels(result),
                floor={} if floor is None else {PEER: floor},
                half=lambda: group(half),
                steepest=steepest,
                compiled=False,
            ),
            "without rapidfuzz": Contender(
                run=without_rapidfuzz(lambda: group(texts)),
                value=lambda result: labels(result),
                half=without_rapidfuzz(lambda: group(half)),
                compiled=False,
            ),
        },
    )
