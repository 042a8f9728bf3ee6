"""The repetition score against counting substrings in a set, compiled and not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import DataError
from apportion.numerics.repetition import repetition

SOLVED = "So x=2. "
PARAPHRASED = "Thus x equals 2. Hence x is 2. So x=2. "


@pytest.fixture(params=["0", "1"], ids=["numpy", "numba"])
def kernels(request, monkeypatch):
    if request.param == "1":
        pytest.importorskip("numba")
    monkeypatch.setenv("APPORTION_NUMBA", request.param)


def slow(sequence):
    n = len(sequence)
    if n < 2:
        return 0.0
    distinct = {tuple(sequence[i:j]) for i in range(n) for j in range(i + 1, n + 1)}
    return 1 - len(distinct) / (n * (n + 1) / 2)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("aaaa", 0.6),
        ("abcabcabc", 0.4667),
        ("the cat sat on the mat", 0.0870),
        ("abcdefghij", 0.0),
        (SOLVED, 0.0278),
        (SOLVED * 2, 0.2721),
        (SOLVED * 3, 0.4567),
        (SOLVED * 5, 0.6451),
        (SOLVED * 10, 0.8114),
        (PARAPHRASED, 0.0487),
        ("", 0.0),
        ("a", 0.0),
    ],
)
def test_known_scores(kernels, text, score):
    assert repetition([text])[0] == pytest.approx(score, abs=5e-5)


@pytest.mark.parametrize("seed", range(20))
def test_equals_a_set_of_substrings(kernels, seed):
    rng = np.random.default_rng(seed)
    sequences = [rng.integers(0, int(rng.integers(1, 6)), size=int(rng.integers(0, 40))) for _ in range(6)]
    sequences.append(np.tile(rng.integers(0, 9, size=5), 6))
    np.testing.assert_allclose(repetition(sequences), [slow(s.tolist()) for s in sequences], atol=1e-12)


@given(st.lists(st.text(alphabet="ab🦊\ud800", max_size=12), max_size=4))
@settings(max_examples=50)
def test_any_text(texts):
    np.testing.assert_allclose(repetition(texts), [slow(text) for text in texts], atol=1e-12)


def test_ids_and_characters_are_the_same_thing(kernels):
    text = "to be or not to be"
    assert repetition([text]).tolist() == repetition([np.array([ord(sign) for sign in text])]).tolist()


def fibonacci(n):
    """The word whose suffixes are hardest to tell apart."""
    a, b = [0], [0, 1]
    while len(b) < n:
        a, b = b, b + a
    return np.array(b[:n])


HARD = {
    "one symbol": np.zeros(300, dtype=np.int64),
    "falling": np.arange(300)[::-1],
    "rising": np.arange(300),
    "fibonacci": fibonacci(300),
    "fibonacci, turned": fibonacci(300)[::-1],
    "a loop of seven": np.resize([3, 1, 2, 1, 3, 3, 0], 300),
    "below zero": np.resize([-5, 7, -5, -9], 90),
    "far apart": np.resize([10**12, 5, 10**12, 6], 90),
}


@pytest.mark.parametrize("name", HARD)
def test_texts_that_are_hard_to_sort(kernels, name):
    assert repetition([HARD[name]])[0] == pytest.approx(slow(HARD[name].tolist()), abs=1e-12)


def test_a_batch_is_its_texts_one_by_one(kernels):
    texts = ["", "abab", "x", "zzzzzz", "", "the cat sat on the mat", ""]
    assert repetition(texts).tolist() == [repetition([text])[0] for text in texts]
    assert repetition([]).tolist() == repetition([""])[1:].tolist() == []


@pytest.mark.parametrize("symbols", [2, 30, 10**6])
def test_both_kernels_agree_on_long_sequences(monkeypatch, symbols):
    """Among them ids by the thousand, and a text of which the first half is repeated."""
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    once = rng.integers(0, symbols, size=6_000)
    sequences = [np.concatenate([once, once]), rng.integers(0, symbols, size=5_000), np.resize(once[:70], 3_000)]
    scores = []
    for setting in ("0", "1"):
        monkeypatch.setenv("APPORTION_NUMBA", setting)
        scores.append(repetition(sequences))
    assert scores[0].tolist() == scores[1].tolist()
    if symbols == 10**6:  # hardly a pair of ids occurs twice but in the copy
        n, half = 12_000, 6_000
        assert scores[0][0] == pytest.approx(half * (half + 1) / 2 / (n * (n + 1) / 2), rel=1e-3)


def test_what_it_refuses():
    with pytest.raises(DataError, match="repetition: sequence 1 is neither a text nor a flat array of ids"):
        repetition(["a", np.array([0.5])])
