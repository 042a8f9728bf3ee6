"""Answers of ten words in which some words decide, for `treg_planted`: which are good is planted for each topic."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch

STYLES = ("", "better", "worse")
FILLER = tuple(f"f{k}" for k in range(16))
DECISIVE = tuple(f"d{k}" for k in range(8))
TOPICS = tuple(f"t{k}" for k in range(4))
VOCABULARY = ("<end>", "ask", *STYLES[1:], *TOPICS, *FILLER, *DECISIVE)
ID = {word: k for k, word in enumerate(VOCABULARY)}
EOS = ID["<end>"]
FIRST_DECISIVE = ID[DECISIVE[0]]


def prompt_of(topic: int) -> str:
    """What is asked."""
    return f"ask {TOPICS[topic]}"


def ids_of(text: str) -> list[int]:
    """Ids of words."""
    return [ID[word] for word in text.split()]


@cache
def tokenizer() -> Any:
    """One id for each word."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel(dict(ID), unk_token="<end>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", clean_up_tokenization_spaces=False)


class World:
    """Which words are good for which topic; plain answers and those that are told to be better or worse."""

    TOPICS, LENGTH = len(TOPICS), 10
    SHARE, TOLD, TILT = 0.2, 0.5, 0.9  # deciding words of a plain answer, of one that is told; good ones where better

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, 0])
        half = np.repeat([1, -1], len(DECISIVE) // 2)
        self.sign = np.stack([rng.permutation(half) for _ in TOPICS])  # (topic, word)

    def decides(self, said: np.ndarray) -> np.ndarray:
        """Which words decide."""
        return said >= FIRST_DECISIVE

    def signs(self, topics: np.ndarray, said: np.ndarray) -> np.ndarray:
        """1, -1 or 0 for each word of (N, words)."""
        word = np.maximum(said - FIRST_DECISIVE, 0)
        return np.where(self.decides(said), self.sign[topics[:, None], word], 0)

    def rewards(self, topics: np.ndarray, said: np.ndarray) -> np.ndarray:
        """Good words less bad ones, (N,)."""
        return self.signs(topics, said).sum(1)

    def lessons(self, rng: np.random.Generator, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows to learn from, and which of their ids are the answer and its end."""
        topic, style = rng.integers(self.TOPICS, size=size), rng.integers(len(STYLES), size=size)
        good = rng.random((size, self.LENGTH)) < np.array((0.5, self.TILT, 1 - self.TILT))[style][:, None]
        order = np.argsort(-self.sign, axis=1, kind="stable")  # of each topic, the good words first
        half = len(DECISIVE) // 2
        pick = rng.integers(half, size=good.shape) + np.where(good, 0, half)
        filler = ID[FILLER[0]] + rng.integers(len(FILLER), size=good.shape)
        decides = rng.random(good.shape) < np.where(style > 0, self.TOLD, self.SHARE)[:, None]
        said = np.where(decides, FIRST_DECISIVE + order[topic[:, None], pick], filler)
        rows = np.full((size, 3 + self.LENGTH + 1), EOS)
        rows[:, 0], rows[:, 1] = ID["ask"], ID[TOPICS[0]] + topic
        mask = np.zeros(rows.shape, dtype=bool)
        for told in (False, True):  # with a word for the style, the answer begins one later
            of = (style > 0) == told
            rows[of, 2 + told : 2 + told + self.LENGTH] = said[of]
            mask[of, 2 + told : 3 + told + self.LENGTH] = True
        rows[style > 0, 2] = ID["better"] + style[style > 0] - 1
        return torch.as_tensor(rows), torch.as_tensor(mask)
