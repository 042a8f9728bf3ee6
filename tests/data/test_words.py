import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.data import words
from apportion.data.words import count_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ", [" "]),
        ("go north", ["go", " north"]),
        ("  go\tnorth \n", ["  go", "\tnorth", " \n"]),
        ("take key.", ["take", " key."]),
        ("鍵を取る", ["鍵", "を", "取", "る"]),
        ("go 北 now", ["go", " 北", " now"]),
        ("abc鍵def", ["abc", "鍵", "def"]),
        ("한국", ["한", "국"]),
        ("𠮷𠮷野", ["𠮷", "𠮷", "野"]),
        ("🦊🦊 x", ["🦊🦊", " x"]),
        ("größe\u00a0naïve", ["größe", "\u00a0naïve"]),
    ],
)
def test_examples(text, expected):
    assert words(text) == expected


@given(st.text(st.characters(exclude_categories=())))
def test_joined_again_they_are_the_text(text):
    assert "".join(words(text)) == text


@given(st.lists(st.sampled_from(["a", "é", " ", "\n", "鍵", "\u3000", "x-y", "\x1f", "\u200b"])).map("".join))
def test_equals_the_slow_reference(text):
    # walk character by character: a word starts at white space after a word, or at or after an ideograph
    out, seen = [], False
    for c in text:
        space, ideograph = bool(re.match(r"\s", c)), c == "鍵"
        if not out or (seen and (space or ideograph or out[-1].endswith("鍵"))):
            out.append("")
            seen = False
        out[-1] += c
        seen = seen or not space
    assert words(text) == out


def test_no_word_is_empty_and_none_but_the_last_is_blank():
    pieces = words("  a   b \n\n c   ")
    assert all(pieces)
    assert all(piece.strip() for piece in pieces[:-1])


def test_long_blanks_are_linear():
    assert len(words(" " * 200_000)) == 1
    assert len(words((" " * 50 + "a") * 5_000)) == 5_000


SIGNS = ["a", "x-y", " ", "\n", "\t", "\0", "\x0e", "\x1b", "\x1c", "\x1f", "\x7f"]
WIDER = [*SIGNS, "é", "鍵", "한", "\u3000", "\u00a0", "\u200b", "🦊", "\ud800"]


@given(st.data(), st.sampled_from([1, 4, 2**17]))
def test_counted_without_making_them(data, chunk):
    signs = data.draw(st.sampled_from([SIGNS, WIDER]))  # text of ASCII alone goes its own way
    texts = data.draw(st.lists(st.lists(st.sampled_from(signs), max_size=8).map("".join), max_size=8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(count_words.__globals__, "_CHUNK", chunk)  # the package has a function of the module's name
        assert count_words(texts).tolist() == [len(words(text)) for text in texts]
