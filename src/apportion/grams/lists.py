"""A list of grams with its provenance, and the file it is kept in."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from apportion.data.atomic import atomic_write
from apportion.errors import FormatError, other_version

SCHEMA = "apportion.grams/1"
LARGEST = 64 * 2**20
"""Bytes; a list of phrases is never this long."""


@dataclass(frozen=True, slots=True)
class Gram:
    """One phrase.

    Attributes:
        text: the phrase. ids: its token ids under some tokenizer, in several spellings (see `encode`).
        documents: solutions that contain it, 0 where not counted. cluster: its cluster, -1 where there is none.
    """

    text: str
    ids: tuple[tuple[int, ...], ...] = ()
    documents: int = 0
    cluster: int = -1


@dataclass(frozen=True, slots=True)
class GramList:
    """Grams, and where they come from: how they were made, of what, by which settings."""

    grams: tuple[Gram, ...]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def phrases(self) -> list[str]:
        """The texts."""
        return [gram.text for gram in self.grams]

    def for_hicra(self) -> list[str | list[int]]:
        """What the parameter ``grams`` takes: every phrase and every sequence of ids."""
        return [*self.phrases, *(list(ids) for gram in self.grams for ids in gram.ids)]

    def __len__(self) -> int:
        return len(self.grams)


def write_grams(path: str | os.PathLike[str], grams: GramList) -> None:
    """Write a list as JSON; the file is whole or absent."""
    rows = []
    for gram in grams.grams:
        row: dict[str, Any] = {"text": gram.text}
        if gram.documents:
            row["documents"] = gram.documents
        if gram.cluster >= 0:
            row["cluster"] = gram.cluster
        if gram.ids:
            row["ids"] = [list(ids) for ids in gram.ids]
        rows.append(json.dumps(row, ensure_ascii=False))
    head = json.dumps({"schema": SCHEMA, "provenance": dict(grams.provenance)}, ensure_ascii=False)
    body = ",\n  ".join(rows)
    with atomic_write(path) as file:
        file.write(f'{head[:-1]}, "grams": [\n  {body}\n]}}\n'.encode())


def read_grams(path: str | os.PathLike[str]) -> GramList:
    """Read a list that `write_grams` wrote.

    Raises:
        FormatError: the file is no such list; says where and why.
    """
    with open(path, "rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise FormatError(f"{path}: more than {LARGEST // 2**20} MiB; that is no list of phrases")
    return _parsed(content, str(path))


def starter() -> GramList:
    """The list that comes with the library: common planning phrases of English reasoning, written for it by hand."""
    file = resources.files("apportion.grams").joinpath("starter.json")
    return _parsed(file.read_bytes(), "starter.json")


def _parsed(content: bytes, where: str) -> GramList:
    try:
        told = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise FormatError(
            f"{where}: not JSON ({str(problem)[:80]}); make a list with `apportion grams build`"
        ) from None
    if not isinstance(told, dict) or told.get("schema") != SCHEMA:
        got = told.get("schema") if isinstance(told, dict) else type(told).__name__
        raise FormatError(f"{where}: {other_version(got, SCHEMA, 'make a list with `apportion grams build`')}")
    rows, provenance = told.get("grams"), told.get("provenance", {})
    if not isinstance(rows, list) or not isinstance(provenance, dict):
        raise FormatError(f"{where}: 'grams' must be a list and 'provenance' an object")
    return GramList(tuple(_gram(row, f"{where}: gram {k}") for k, row in enumerate(rows)), provenance)


def _gram(row: Any, where: str) -> Gram:
    if not isinstance(row, dict):
        raise FormatError(f'{where} is not an object; write {{"text": "let me check"}}')
    text, ids = row.get("text"), row.get("ids", [])
    documents, cluster = row.get("documents", 0), row.get("cluster", -1)
    if not isinstance(text, str) or not text.strip():
        raise FormatError(f"{where}: 'text' is {text!r}; give a phrase")
    if not _whole(documents) or not _whole(cluster):
        raise FormatError(f"{where}: 'documents' and 'cluster' are whole numbers, got {documents!r} and {cluster!r}")
    listed = isinstance(ids, list) and all(isinstance(one, list) and one for one in ids)
    if not listed or not all(_whole(i) and i >= 0 for one in ids for i in one):
        raise FormatError(f"{where}: 'ids' must be lists of token ids, whole numbers from 0 on")
    return Gram(text, tuple(tuple(one) for one in ids), documents, cluster)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
