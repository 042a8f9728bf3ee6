"""Phrases in text, by both engines, against every place tried."""

import importlib.util
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import ConfigError, DataError, MissingExtra
from apportion.units.phrases import Phrases

ENGINES = [
    "stdlib",
    pytest.param(
        "ahocorasick_rs",
        marks=pytest.mark.skipif(importlib.util.find_spec("ahocorasick_rs") is None, reason="needs ahocorasick_rs"),
    ),
]


def found(phrases, text, engine="stdlib"):
    return [(place.phrase, text[place.start : place.end]) for place in Phrases(phrases, engine=engine).places(text)]


@pytest.mark.parametrize("engine", ENGINES)
def test_by_hand(engine):
    phrases = ["Let me  check", "me check", "wait"]
    assert found(phrases, "let\n me CHECK: wait", engine) == [(0, "let\n me CHECK"), (1, "me CHECK"), (2, "wait")]
    assert found(phrases, "outlet me check", engine) == [(1, "me check")]
    assert found(phrases, "let me checkmate, waiter", engine) == []
    assert found(["b", "a b c", "a"], "a b c", engine) == [(2, "a"), (1, "a b c"), (0, "b")]
    assert found(["let's"], "So let's go; lets go", engine) == [(0, "let's")]
    assert found(["WAIT", "wait"], "Wait.", engine) == [(0, "Wait")]
    assert found(["鍵を"], "銀の鍵を取る", engine) == [(0, "鍵を")]
    assert found(["so"], "İ so İso", engine) == [(0, "so")]
    assert found([], "anything", engine) == []
    assert found(["a b"], "", engine) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_half_a_surrogate_pair_is_a_character_like_any_other(engine):
    assert found(["wait"], "\ud83d wait, wait\udc00", engine) == [(0, "wait"), (0, "wait")]


@pytest.mark.parametrize("engine", ENGINES)
def test_tokens_that_overlap_a_place(engine):
    phrases = Phrases(["let me check"], engine=engine)
    assert phrases.covered(["So", " le", "t", " me", "", " che", "ck", " it"]).tolist() == [0, 1, 1, 1, 0, 1, 1, 0]
    assert phrases.covered(["solet me check", " let me checks"]).tolist() == [0, 0]
    assert phrases.covered(["(let me check)", "."]).tolist() == [1, 0]
    assert phrases.covered([]).tolist() == []


def slow(phrases, text):
    """Every span of the text whose words are those of a phrase, and that does not end inside a word."""
    squeeze = [" ".join(phrase.lower().split()) for phrase in phrases]
    for lo in range(len(text)):
        for hi in range(lo + 1, len(text) + 1):
            span = text[lo:hi]
            if span[0].isspace() or span[-1].isspace():
                continue
            if lo and text[lo - 1].isalnum() and span[0].isalnum():
                continue
            if hi < len(text) and text[hi].isalnum() and span[-1].isalnum():
                continue
            words = " ".join(span.lower().split())
            if words in squeeze:
                yield squeeze.index(words), span


TEXTS = st.text("aBß.' \n\u3000", max_size=14) | st.text("aB1.' \n\0\x1f", max_size=14)


@pytest.mark.parametrize("engine", ENGINES)
@given(st.lists(TEXTS.filter(str.strip), max_size=4), TEXTS)
def test_slow_reference(engine, phrases, text):
    assert sorted(found(phrases, text, engine)) == sorted(slow(phrases, text))


PIECES = st.lists(st.text("aBé_.' \n\0\x1f", max_size=4), max_size=8)


@pytest.mark.parametrize("engine", ENGINES)
@given(st.lists(TEXTS.filter(str.strip), max_size=4), PIECES)
def test_tokens_covered_are_those_that_hold_a_character_of_a_place(engine, phrases, pieces):
    matcher, text = Phrases(phrases, engine=engine), "".join(pieces)
    inside = {at for place in matcher.places(text) for at in range(place.start, place.end)}
    edge = [0, *itertools.accumulate(map(len, pieces))]
    wanted = [any(at in inside for at in range(lo, hi)) for lo, hi in itertools.pairwise(edge)]
    assert matcher.covered(pieces).tolist() == wanted


@pytest.mark.skipif(importlib.util.find_spec("ahocorasick_rs") is None, reason="needs ahocorasick_rs")
@given(st.lists(TEXTS.filter(str.strip), max_size=4), PIECES, st.booleans())
def test_the_engines_agree(phrases, pieces, table):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("apportion.units.phrases.LARGEST_TABLE", 1 << 14 if table else 0)
        compiled, plain = (Phrases(phrases, engine=engine) for engine in ("ahocorasick_rs", "stdlib"))
    text = "".join(pieces)
    assert compiled.places(text) == plain.places(text)
    assert compiled.covered(pieces).tolist() == plain.covered(pieces).tolist()


def test_what_it_refuses():
    with pytest.raises(DataError, match=r"phrase 1 is ' '; give text with something visible in it"):
        Phrases(["a", " "])
    with pytest.raises(ConfigError, match=r"Phrases: engine is 'trie'; give one of 'auto', 'ahocorasick_rs', 'stdlib'"):
        Phrases(["a"], engine="trie")
    if importlib.util.find_spec("ahocorasick_rs") is None:
        with pytest.raises(MissingExtra, match=r"needs the package 'ahocorasick_rs'.*'apportion\[text\]'"):
            Phrases(["a"], engine="ahocorasick_rs")
