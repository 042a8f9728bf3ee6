"""Strategic grams: planning tokens by id against the HICRA branch of TRL; phrases in text against `re`.

retrain, which searches text too, also marks the words before a phrase, so there is nothing equal to time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np

from apportion.bench.speed.compare import Comparison, Contender, Peer
from apportion.bench.speed.limit import traffic
from apportion.bench.speed.peers import Peers
from apportion.bench.speed.registry import Setting, case
from apportion.numerics import Array, gram_table, mark_grams
from apportion.units.phrases import Phrases

VOCABULARY = 151_643
ROW = 4000
SLOWEST = 1 / 60e6
"""Seconds a byte of text: 60 MB/s."""
TRL, SETS, REGEX = "TRL's HICRA branch", "n-gram sets", "one alternation of re"


@case("grams")
def grams_cases(setting: Setting) -> Iterator[Comparison]:
    """300 grams of 2 to 6 ids, 7 % of the tokens begin one; 300 phrases of 2 to 5 words."""
    share = 8 if setting.quick else 1
    yield _ids(1_000_000 // share, setting, trl=True)
    yield _ids(10_000_000 // share, setting, sets=False)
    yield _text(400_000 // share)


def _ids(n: int, setting: Setting, *, trl: bool = False, sets: bool = True) -> Comparison:
    n -= n % ROW
    ids, grams = _planted(n)
    table, bounds = gram_table(grams), np.arange(0, n + 1, ROW)
    half_bounds = bounds[: len(bounds) // 2 + 1]
    half_n = int(half_bounds[-1])
    whole = ids.tolist() if sets else []
    peers: dict[str, Peer | str] = {}
    if trl:
        peers[TRL] = _trl(ids, grams, setting)
    if sets:
        peers[SETS] = Peer(lambda: _by_sets(whole, grams), lambda mask: np.frombuffer(mask, dtype=np.uint8))

    def run() -> Array:
        return mark_grams(ids, bounds, table).mask_X

    return Comparison(
        kernel="HICRA mask on ids",
        batch=f"{n:,} tokens",
        items=n,
        item="token",
        peers=peers,
        contenders={
            "ours": Contender(
                run=run,
                value=lambda mask: mask,
                floor={TRL: 500.0, SETS: 100.0},
                slowest=12e-9,
                limit=traffic([ids], [np.bool_]),
                half=lambda: mark_grams(ids[:half_n], half_bounds, table),
            )
        },
        tolerance=0.0,
    )


def _trl(ids: Array, grams: list[tuple[int, ...]], setting: Setting) -> Peer | str:
    """The branch takes rows of equal length, padded as a trainer has them."""
    function = setting.beside_torch(Peers.hicra)
    if isinstance(function, str):
        return f"{function}; the branch is huggingface/trl pull request 4997"
    import torch

    by_length: dict[int, list[list[int]]] = {}
    for gram in grams:
        by_length.setdefault(len(gram), []).append(list(gram))
    trainer = SimpleNamespace(
        args=SimpleNamespace(use_hicra=True, use_planning_tokens=True), sg_token_ids=by_length, _sg_tensor_cache={}
    )
    rows = torch.from_numpy(ids.astype(np.int64)).view(-1, ROW)
    return Peer(lambda: function(trainer, rows), lambda mask: mask.reshape(-1).numpy())


def _by_sets(ids: list[int], grams: list[tuple[int, ...]]) -> bytearray:
    """What one writes first: every n-gram of the text looked up in a set."""
    by_length: dict[int, set[tuple[int, ...]]] = {}
    for gram in grams:
        by_length.setdefault(len(gram), set()).add(gram)
    mask = bytearray(len(ids))
    for size, known in by_length.items():
        for i in range(len(ids) - size + 1):
            if tuple(ids[i : i + size]) in known and i % ROW <= ROW - size:
                mask[i : i + size] = b"\1" * size
    return mask


def _text(words: int) -> Comparison:
    pieces, phrases = _prose(words)
    text = "".join(pieces)
    half = text[: len(text) // 2]
    matcher = Phrases(phrases)
    pattern = re.compile("|".join(rf"\b{re.escape(p)}\b" for p in sorted(phrases, key=len, reverse=True)))
    # An alternation finds no place inside another, so what is compared was found phrase by phrase, once.
    wanted = _covered(
        [(m.start(), m.start() + len(p)) for p in phrases for m in re.finditer(rf"\b(?={re.escape(p)}\b)", text)],
        len(text),
    )

    return Comparison(
        kernel="HICRA mask on text"
        + ("" if find_spec("ahocorasick_rs") else " (ahocorasick_rs absent: apportion[text])"),
        batch=f"{len(text) / 1e6:.1f} MB",
        items=len(text),
        item="byte",
        peers={REGEX: Peer(lambda: [match.span() for match in pattern.finditer(text)], lambda _: wanted)},
        contenders={
            "places": Contender(
                run=lambda: matcher.places(text),
                value=lambda found: _covered([(place.start, place.end) for place in found], len(text)),
                floor={REGEX: 30.0},
                slowest=SLOWEST,
                half=lambda: matcher.places(half),
                compiled=False,
            ),
            "tokens covered": Contender(
                run=lambda: matcher.covered(pieces),
                value=lambda mask: _by_character(mask, pieces, wanted),
                floor={REGEX: 30.0},
                slowest=SLOWEST,
                compiled=False,
            ),
        },
        tolerance=0.0,
    )


def _by_character(mask: Array, pieces: list[str], wanted: Array) -> Array:
    """The wanted characters if the tokens that hold one are those of the mask, else nothing."""
    start = np.cumsum([0, *map(len, pieces)])[:-1]
    return wanted if np.array_equal(np.logical_or.reduceat(wanted, start), mask) else np.zeros(0)


def _covered(spans: list[tuple[int, int]], size: int) -> Array:
    out = np.zeros(size, dtype=np.bool_)
    for lo, hi in spans:
        out[lo:hi] = True
    return out


def _planted(n: int) -> tuple[Array, list[tuple[int, ...]]]:
    """Ids with a heavy tail and grams over less frequent ones, one planted for every 400 tokens."""
    rng = np.random.default_rng(0)
    ids = np.minimum(rng.zipf(1.25, size=n), VOCABULARY - 1).astype(np.int32)
    made = [
        np.minimum(rng.zipf(1.25, size=int(rng.integers(2, 7))), VOCABULARY - 41).astype(np.int32) + 40
        for _ in range(300)
    ]
    grams = list(dict.fromkeys(tuple(gram.tolist()) for gram in made))
    for _ in range(n // 400):
        gram = grams[int(rng.integers(len(grams)))]
        at = int(rng.integers(0, n - 8))
        ids[at : at + len(gram)] = gram
    return ids, grams


def _prose(words: int) -> tuple[list[str], list[str]]:
    """Words with spaces before them, and phrases of less frequent words, one planted for every 400 words."""
    rng = np.random.default_rng(0)
    letters = list("etaoinshrdlucmfwypvbgk")
    vocabulary = list(dict.fromkeys("".join(rng.choice(letters, size=int(k))) for k in rng.integers(2, 9, size=6000)))
    last = len(vocabulary) - 1
    phrases = list(
        dict.fromkeys(
            " ".join(vocabulary[i] for i in np.minimum(rng.zipf(1.3, size=int(rng.integers(2, 6))) + 3, last))
            for _ in range(300)
        )
    )
    out = [vocabulary[i] for i in np.minimum(rng.zipf(1.3, size=words), last)]
    for _ in range(words // 400):
        planted = phrases[int(rng.integers(len(phrases)))].split()
        at = int(rng.integers(0, max(1, words - 8)))
        out[at : at + len(planted)] = planted
    return [" " + word for word in out], phrases
