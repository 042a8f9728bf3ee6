"""Lists of grams: the file, the starter, token ids, what is refused."""

import dataclasses
import json

import pytest

from apportion.errors import FormatError
from apportion.grams import Gram, GramList, encode, read_grams, starter, write_grams


def test_round_trip(tmp_path):
    grams = (Gram("let me check", ((1, 2), (3,)), 7, 2), Gram("größe ist"), Gram('say "so"', documents=1))
    written = GramList(grams, {"made_by": "a test", "words": [3, 5]})
    write_grams(tmp_path / "g.json", written)
    assert read_grams(tmp_path / "g.json") == written
    assert json.loads((tmp_path / "g.json").read_text())["schema"] == "apportion.grams/1"
    write_grams(tmp_path / "empty.json", GramList(()))
    assert len(read_grams(tmp_path / "empty.json")) == 0


def test_what_hicra_takes():
    grams = GramList((Gram("a b", ((1, 2),)), Gram("c")))
    assert grams.for_hicra() == ["a b", "c", [1, 2]]


def test_the_starter_says_where_it_comes_from():
    first = starter()
    assert 40 <= len(first) <= 120
    assert len(set(first.phrases)) == len(first)
    assert all(3 <= len(phrase.split()) <= 5 for phrase in first.phrases)
    assert "by hand" in first.provenance["made_by"]
    assert {gram.cluster for gram in first.grams} == set(range(len(first.provenance["clusters"])))


def test_ids_in_every_spelling():
    def spell(text):  # one id per word, told apart by case and by the space in front
        return [sum(map(ord, word)) for word in text.replace(" ", "|_").split("|") if word]

    coded = encode(GramList((Gram("let me"),)), spell, name="toy")
    want = [spell(text) for text in ("let me", " let me", "Let me", " Let me", "Let Me", " Let Me")]
    assert coded.grams[0].ids == tuple(map(tuple, want))
    assert coded.provenance["tokenizer"] == "toy"
    assert encode(GramList((Gram("12"),)), lambda text: [1]).grams[0].ids == ((1,),)  # equal spellings once
    assert dataclasses.replace(coded.grams[0], ids=()) == Gram("let me")


BAD = {
    "not json": "not JSON",
    "[]": "written as 'list', and this apportion reads 'apportion.grams/1'",
    '{"schema": "other"}': "written as 'other'",
    '{"schema": "apportion.grams/1"}': "'grams' must be a list and 'provenance' an object",
    '{"schema": "apportion.grams/1", "grams": [1]}': "gram 0 is not an object",
    '{"schema": "apportion.grams/1", "grams": [{"text": " "}]}': "gram 0: 'text' is ' '; give a phrase",
    '{"schema": "apportion.grams/1", "grams": [{"text": "a", "ids": [[-1]]}]}': "gram 0: 'ids' must be lists of token",
    '{"schema": "apportion.grams/1", "grams": [{"text": "a", "ids": [[]]}]}': "gram 0: 'ids' must be lists",
    '{"schema": "apportion.grams/1", "grams": [{"text": "a", "cluster": "b"}]}': "'documents' and 'cluster' are whole",
}


@pytest.mark.parametrize("content", BAD)
def test_a_broken_file_is_explained(tmp_path, content):
    (tmp_path / "g.json").write_text(content)
    with pytest.raises(FormatError, match=r"g\.json") as found:
        read_grams(tmp_path / "g.json")
    assert BAD[content] in str(found.value)
