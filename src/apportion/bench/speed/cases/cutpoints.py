"""SPO's segments between tokens of low probability, and what its values put on tokens, against the authors' lines."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from apportion.bench.speed.batches import Tokens, tokens
from apportion.bench.speed.compare import Comparison, Contender, Peer, without_numba
from apportion.bench.speed.limit import traffic
from apportion.bench.speed.registry import Setting, case
from apportion.bench.speed.stand_ins import Absent
from apportion.numerics import Array, IntArray, below_probability, cutpoint_starts

LINES, METHOD = "SPO's lines on lists", "SPO's method"
INTERVAL = 5
RHO = 0.9


@case("cutpoints")
def cutpoint_cases(setting: Setting) -> Iterator[Comparison]:
    """Where segments start, then their values' differences on the tokens that are not sure."""
    b = tokens("math", quick=setting.quick)
    logp_X = log_probabilities(len(b.reward_X))
    bounds_R = np.concatenate(([0], np.cumsum(b.length_N)))
    yield _starts(b, logp_X, bounds_R, setting)
    yield _advantages(b, logp_X, bounds_R, setting)


def log_probabilities(n: int) -> Array:
    """Four tokens of five are nearly sure, float32."""
    probability = 1 - np.random.default_rng(1).beta(0.35, 2.2, size=n)
    return np.log(np.clip(probability, 1e-4, 1)).astype(np.float32)


def spread(value_S: Array, start_S: IntArray, bounds_R: IntArray, score_R: Array, logp_X: Array) -> Array:
    """Ours, from values at cutpoints to tokens: differences, nothing before the first, nothing on sure tokens."""
    after_S = np.append(value_S[1:], 0).astype(value_S.dtype)
    last = np.searchsorted(start_S, bounds_R[1:]) - 1
    after_S[last] = score_R
    change_S = np.nan_to_num(after_S - value_S)
    out = np.repeat(change_S, np.diff(start_S, append=len(logp_X)))
    out *= below_probability(logp_X, RHO)
    return out


def _peer_cuts(b: Tokens, logp_X: Array, setting: Setting) -> tuple[Any, list[list[float]]] | str:
    try:
        lines = setting.peers.spo_cutpoints()
    except Absent as reason:
        return str(reason)
    rows = [row.tolist() for row in np.split(logp_X, np.cumsum(b.length_N)[:-1])]  # what a data set hands over
    owner = SimpleNamespace(cutpoint_interval=INTERVAL)
    return (lambda: [lines(np, owner, row) for row in rows]), rows


def _starts(b: Tokens, logp_X: Array, bounds_R: IntArray, setting: Setting) -> Comparison:
    found = _peer_cuts(b, logp_X, setting)
    half_R = bounds_R[: len(bounds_R) // 2 + 1]
    half_X = logp_X[: half_R[-1]]
    peer: Peer | str
    if isinstance(found, str):
        peer = found
    else:
        # theirs is the last token before the cutpoint, in its own rollout
        peer = Peer(
            found[0],
            lambda result: np.concatenate([at + 1 + lo for (at, _), lo in zip(result, bounds_R, strict=False)]),
        )

    def value(starts: IntArray) -> Array:
        return starts[below_probability(logp_X[starts], RHO)]  # a rollout's first token is a start without being one

    limit = traffic([logp_X], [np.float32])
    return Comparison(
        kernel="SPO cutpoints",
        batch="math",
        items=len(logp_X),
        item="token",
        peers={LINES: peer},
        contenders={
            "packed": Contender(
                run=lambda: cutpoint_starts(logp_X, bounds_R, rho=RHO, interval=INTERVAL),
                value=value,
                floor={LINES: 8.0},
                limit=limit,
                ceiling=12.0,
                half=lambda: cutpoint_starts(half_X, half_R, rho=RHO, interval=INTERVAL),
            ),
            "packed, NumPy alone": Contender(
                run=without_numba(lambda: cutpoint_starts(logp_X, bounds_R, rho=RHO, interval=INTERVAL)),
                value=value,
                limit=limit,
                compiled=False,
            ),
        },
        tolerance=0.0,
    )


def _advantages(b: Tokens, logp_X: Array, bounds_R: IntArray, setting: Setting) -> Comparison:
    rng = np.random.default_rng(2)
    start_S = cutpoint_starts(logp_X, bounds_R, rho=RHO, interval=INTERVAL)
    value_S = rng.random(len(start_S), dtype=np.float32)
    value_S[~below_probability(logp_X[start_S], RHO)] = np.nan  # nobody samples from there
    score_R = (rng.random(len(b.length_N)) < 0.4).astype(np.float32)
    half = len(b.length_N) // 2
    half_S = int(np.searchsorted(start_S, bounds_R[half]))
    half_X = logp_X[: bounds_R[half]]
    return Comparison(
        kernel="SPO token advantages",
        batch="math",
        items=len(logp_X),
        item="token",
        peers={METHOD: _method(b, logp_X, bounds_R, start_S, value_S, score_R, setting)},
        contenders={
            "differences and repeat": Contender(
                run=lambda: spread(value_S, start_S, bounds_R, score_R, logp_X),
                value=lambda result: result,
                floor={METHOD: 50.0},
                limit=traffic([logp_X], [np.float32]),
                ceiling=12.0,
                half=lambda: spread(value_S[:half_S], start_S[:half_S], bounds_R[: half + 1], score_R[:half], half_X),
                compiled=False,
            )
        },
    )


def _method(
    b: Tokens,
    logp_X: Array,
    bounds_R: IntArray,
    start_S: IntArray,
    value_S: Array,
    score_R: Array,
    setting: Setting,
) -> Peer | str:
    found = _peer_cuts(b, logp_X, setting)
    if isinstance(found, str):
        return found
    theirs = setting.peers.spo_advantages()
    values = np.split(value_S, np.searchsorted(start_S, bounds_R[1:-1]))
    rollouts = []
    for i, ((at, probability), own) in enumerate(zip(found[0](), values, strict=True)):
        known = own[~np.isnan(own)].tolist()
        size = int(b.length_N[i])
        rollouts.append(
            {
                "query_text": "",
                "response_text": "",
                "offsets": [],
                "query_token_ids": [1],
                "response_token_ids": list(range(size)),
                "score": float(score_R[i]),
                "cutpoints": at,
                "cutpoints_values": known,
                "cutpoints_values_std": known,
                "response_prob": probability,
            }
        )
    return Peer(
        lambda: [theirs(None, rollout) for rollout in rollouts],
        lambda result: np.concatenate([np.array(advantages, dtype=np.float32) for _, advantages in result]),
    )
