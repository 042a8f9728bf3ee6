"""Texts of single tokens: of byte-level tokens, of tokenizers that eat a space, of a real one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.data import Batch, Step, Trajectory
from apportion.units import by_segment, token_texts


def of_bytes(ids):
    return bytes(ids).decode("utf-8", errors="replace")


def slow_texts(text):
    """Each character on its first byte."""
    out = []
    for sign in text:
        out += [sign, *[""] * (len(sign.encode()) - 1)]
    return out


@given(st.text(alphabet="ab .\n。鍵é🦊", max_size=20))
def test_a_character_of_several_tokens_is_the_text_of_the_first(text):
    assert token_texts(of_bytes)(list(text.encode())) == slow_texts(text)


@given(st.lists(st.sampled_from(["a", "。", "🦊", "a\ufffd"]), max_size=12).map("".join), st.integers(1, 3))
def test_a_replacement_sign_in_the_text_and_a_character_cut_off_at_the_end(text, cut):
    for data in (text.encode(), (text + "🦊").encode()[:-cut]):
        texts = token_texts(of_bytes)(list(data))
        assert len(texts) == len(data)
        assert "".join(texts) == of_bytes(data)


@given(st.binary(max_size=20))
def test_bytes_that_are_no_text_break_nothing(data):
    assert len(token_texts(of_bytes)(list(data))) == len(data)


def test_a_tokenizer_that_knows_nothing_is_asked_for_few_ids_at_a_time():
    asked = []

    def decode(ids):
        asked.append(len(ids))
        return "\ufffd" * len(ids)

    assert "".join(token_texts(decode)(list(range(1000)))) == "\ufffd" * 1000
    assert max(asked) <= 33


@given(st.lists(st.sampled_from(["▁a", "▁b", "c", ".", "▁", "\n"]), max_size=9))
def test_a_space_in_front_that_the_decoder_drops(words):
    def decode(ids):
        text = "".join(words[i] for i in ids).replace("▁", " ")
        return text[1:] if text.startswith(" ") else text

    texts = token_texts(decode)(list(range(len(words))))
    assert "".join(texts) == decode(list(range(len(words))))
    assert texts[1:] == [word.replace("▁", " ") for word in words[1:]]


def test_sentences_of_byte_level_tokens_are_found():
    text = "鍵を取る。扉を開ける。"
    ids = list(text.encode())
    batch = Batch.from_trajectories([Trajectory([Step(ids=ids)], outcome=1.0)])
    units = by_segment(batch, "sentence", decode=token_texts(of_bytes))
    assert units.tokens_S.tolist() == [15, 18]
    alone = by_segment(batch, "sentence", decode=lambda ids: [of_bytes([i]) for i in ids])
    assert alone.tokens_S.tolist() == [33]  # what it is there for


def test_a_real_tokenizer():
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet)
    text = "鍵を取る。 Open the door. 🦊 sees it!"
    model.train_from_iterator([text], trainer)
    ids = model.encode(text).ids
    texts = token_texts(model.decode)(ids)
    assert len(texts) == len(ids)
    assert "".join(texts) == text
    batch = Batch.from_trajectories([Trajectory([Step(ids=ids)], outcome=1.0)])
    units = by_segment(batch, "sentence", decode=token_texts(model.decode))
    parts = ["".join(t for t, u in zip(texts, units.unit_of_T, strict=True) if u == s) for s in range(len(units))]
    assert [part.strip() for part in parts] == ["鍵を取る。", "Open the door.", "🦊 sees it!"]
