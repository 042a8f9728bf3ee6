"""From phrases to vectors, so that phrases that say the same lie near each other."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from apportion.errors import missing_extra
from apportion.numerics import FloatArray

Encoder = Callable[[Sequence[str]], Any]
"""Phrases to one vector each, (phrases, dimensions)."""

DIMENSIONS = 256


def spelling(phrases: Sequence[str]) -> FloatArray:
    """Vectors of hashed words and letter triples, of length 1: near means *spelled* alike, nothing is understood.

    The fallback that needs no model: "let me check that" lies near "let me check this" and far from "verify it again".
    """
    out = np.zeros((len(phrases), DIMENSIONS))
    for row, phrase in enumerate(phrases):
        padded = f" {phrase} "
        parts = [f"w:{word}" for word in phrase.split()] + [padded[k : k + 3] for k in range(len(padded) - 2)]
        for part in parts:
            code = zlib.crc32(part.encode())
            out[row, code % DIMENSIONS] += 1.0 if code & 0x8000_0000 else -1.0
    return _of_length_one(out)


def transformer(folder: str | os.PathLike[str], *, batch_size: int = 256) -> Encoder:
    """An encoder from a local folder in the format of ``transformers``: last hidden states, averaged, of length 1.

    Raises:
        MissingExtra: torch or transformers are not installed.
    """
    try:
        import torch
        from transformers import AutoModel, AutoTokenizer
    except ImportError as problem:
        raise missing_extra("a sentence encoder from a folder", "transformers", "train") from problem
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    model = AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True, trust_remote_code=False)
    model.train(False)

    def encoder(phrases: Sequence[str]) -> FloatArray:
        rows = []
        for lo in range(0, len(phrases), batch_size):
            given = tokenizer(list(phrases[lo : lo + batch_size]), padding=True, truncation=True, return_tensors="pt")
            with torch.no_grad():
                hidden = model(**given).last_hidden_state
            mask = given["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            rows.append(((hidden * mask).sum(1) / mask.sum(1)).double().numpy())
        out = np.concatenate(rows) if rows else np.zeros((0, 1))
        return _of_length_one(out)

    return encoder


def _of_length_one(rows: FloatArray) -> FloatArray:
    length: FloatArray = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return rows / np.maximum(length, 1e-12)
