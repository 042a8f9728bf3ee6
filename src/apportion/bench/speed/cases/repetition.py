"""The repetition score of texts, against PURE's monitor: prose, and a policy that has fallen into a loop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from apportion.bench.speed.compare import Comparison, Contender, Peer, without_numba
from apportion.bench.speed.peers import Absent
from apportion.bench.speed.registry import Setting, case
from apportion.numerics.repetition import repetition

PEER = "PURE's monitor"
CHARACTERS = 4.2
"""Of a token, in English."""
PHRASE = 200
"""Characters that a loop repeats."""


@case("repetition")
def repetition_cases(setting: Setting) -> Iterator[Comparison]:
    """Texts of 1k, 4k and 16k tokens; so many of them that together they are worth compiling for."""
    sizes = ((1, 16, 40.0, 2.0), (4, 4, 120.0, 5.0), (16, 1, 200.0, 10.0))
    for kind in ("prose", "loop"):
        for thousands, many, floor, plain in sizes[:1] if setting.quick else sizes:
            length = int(thousands * 1000 * CHARACTERS)
            texts = [text(kind, length, seed) for seed in range(many)]
            yield _comparison(f"{kind}, {many} × {thousands}k tokens", texts, setting, floor, plain)


def text(kind: str, length: int, seed: int) -> str:
    """Words with the frequencies of language; a loop is a phrase of them again and again."""
    rng = np.random.default_rng(seed)
    signs = np.array(list("etaoinshrdlcumwfgypbvkjxqz"))
    words = ["".join(rng.choice(signs, size=int(k))) for k in rng.integers(2, 10, size=1500)]
    picked = np.minimum(rng.pareto(0.9, size=length // 2) * 12, len(words) - 1).astype(int)
    prose = " ".join(words[i] for i in picked)
    return prose[:length] if kind == "prose" else (prose[:PHRASE] * (length // PHRASE + 1))[:length]


def _comparison(batch: str, texts: list[str], setting: Setting, floor: float, plain: float) -> Comparison:
    half = [part[: len(part) // 2] for part in texts]
    peer: Peer | str
    try:
        import torch  # noqa: F401  the file imports it, and must find the real one

        theirs = setting.peers.pure_repetition()
        peer = Peer(lambda: [theirs(part) for part in texts], lambda result: np.array(result))
    except (Absent, ImportError) as reason:
        peer = str(reason)
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
            ),
            "NumPy alone": Contender(
                run=without_numba(lambda: repetition(texts)),
                value=lambda result: result,
                floor={PEER: plain},
                half=without_numba(lambda: repetition(half)),
                compiled=False,
            ),
        },
        tolerance=1e-12,
    )
