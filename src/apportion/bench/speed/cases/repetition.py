"""The repetition score of texts, against PURE's monitor: prose, and a policy that has fallen into a loop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from apportion.bench.speed.batches import prose
from apportion.bench.speed.compare import Comparison, Contender, Peer, without_numba
from apportion.bench.speed.peers import Peers
from apportion.bench.speed.registry import Setting, case
from apportion.numerics.repetition import repetition

PEER = "PURE's monitor"
CHARACTERS = 4.2
"""Of a token, in English."""
STEEPEST = 6**0.5
"""Four times the length costs at most six times as much."""
PHRASE = 200
"""Characters that a loop repeats."""


@case("repetition")
def repetition_cases(setting: Setting) -> Iterator[Comparison]:
    """Texts of 1k, 4k and 16k tokens; so many of them that together they are worth compiling for."""
    sizes = ((1, 16, 40.0, None), (4, 4, 120.0, 5.0), (16, 1, 200.0, None))
    for kind in ("prose", "loop"):
        for thousands, many, floor, plain in sizes[:1] if setting.quick else sizes:
            length = int(thousands * 1000 * CHARACTERS)
            texts = [text(kind, length, seed) for seed in range(many)]
            yield _comparison(f"{kind}, {many} × {thousands}k tokens", texts, setting, floor, plain)


def text(kind: str, length: int, seed: int) -> str:
    """Words with the frequencies of language; a loop is a phrase of them again and again."""
    rng = np.random.default_rng(seed)
    written = prose(rng, "etaoinshrdlcumwfgypbvkjxqz")(length)
    return written if kind == "prose" else (written[:PHRASE] * (length // PHRASE + 1))[:length]


def _comparison(batch: str, texts: list[str], setting: Setting, floor: float, plain: float | None) -> Comparison:
    half = [part[: len(part) // 2] for part in texts]
    peer: Peer | str
    theirs = setting.beside_torch(Peers.pure_repetition)  # its file imports torch, and must find the real one
    if isinstance(theirs, str):
        peer = theirs
    else:
        peer = Peer(lambda: [theirs(part) for part in texts], lambda result: np.array(result))
    return Comparison(
        kernel="PURE repetition",
        batch=batch,
        items=sum(map(len, texts)),
        item="character",
        peers={PEER: peer},
        contenders={
            "induced sorting": Contender(
                run=lambda: repetition(texts),
                value=lambda result: result,
                floor={PEER: floor},
                half=lambda: repetition(half),
                steepest=STEEPEST,
            ),
            "NumPy alone": Contender(
                run=without_numba(lambda: repetition(texts)),
                value=lambda result: result,
                floor={} if plain is None else {PEER: plain},
                half=without_numba(lambda: repetition(half)),
                compiled=False,
            ),
        },
        tolerance=1e-12,
    )
