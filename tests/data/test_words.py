import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.data import words


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
