"""What is searched and asked: paragraphs and multi-hop questions, generated or in HotpotQA's format."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from apportion.errors import ConfigError, FormatError

SYLLABLES = "ba be bo da de do ka ke ko la le lo ma me mo na ne no ra re ro sa se so ta te to va ve vo".split()
FIRST = "Ada Ben Cleo Dan Eva Finn Gus Hana Ivo Jane Kai Lena Max Nora Otto Pia Quin Rosa Sam Tess".split()
INSTRUMENTS = "cello clarinet drums flute guitar harp oboe piano trumpet viola violin zither".split()
PRODUCTS = (
    "boats bricks cables candles chairs clocks engines glasses kites lamps pens shoes soap tents toys wheels".split()
)


@dataclass(frozen=True)
class Question:
    """A question, its answer, and the titles of the paragraphs that it takes, in order."""

    name: str
    text: str
    answer: str
    needs: tuple[str, ...]


@dataclass(frozen=True)
class Corpus:
    """Paragraphs as (title, text), the questions about them, and every name that can be an answer or a search."""

    paragraphs: tuple[tuple[str, str], ...]
    questions: tuple[Question, ...]
    names: tuple[str, ...] = ()


@lru_cache(maxsize=4)
def generated_corpus(world: int = 0, *, cities: int = 60, companies: int = 80) -> Corpus:
    """Cities with mayors, mayors with instruments, companies with seats; questions of two and three hops."""
    rng = Random(f"searchqa/{world}")
    fresh = _names(rng)
    countries = [next(fresh) + "land" for _ in range(12)]
    towns = [next(fresh) for _ in range(cities)]
    people = [f"{rng.choice(FIRST)} {next(fresh)}" for _ in range(cities)]
    firms = [f"{next(fresh)} Works" for _ in range(companies)]
    paragraphs, questions = [], []
    land = {town: rng.choice(countries) for town in towns}
    mayor = dict(zip(towns, people, strict=True))
    plays = {person: rng.choice(INSTRUMENTS) for person in people}
    seat = {firm: rng.choice(towns) for firm in firms}
    for town in towns:
        year = rng.randrange(1100, 1900)
        paragraphs.append((town, f"{town} is a city in {land[town]}, founded in {year}. Its mayor is {mayor[town]}."))
    for person in people:
        born = rng.choice(towns)
        paragraphs.append((person, f"{person} was born in {born}, and plays the {plays[person]}."))
    for firm in firms:
        paragraphs.append((firm, f"{firm} is a company that makes {rng.choice(PRODUCTS)}. Its seat is {seat[firm]}."))
    for town in towns:
        text = f"Which instrument does the mayor of {town} play?"
        questions.append(Question(text, text, plays[mayor[town]], (town, mayor[town])))
    for firm in firms:
        town = seat[firm]
        asked = (
            (f"In which country is the seat of {firm}?", land[town], (firm, town)),
            (f"Who is the mayor of the city where {firm} has its seat?", mayor[town], (firm, town)),
            (
                f"Which instrument does the mayor of the seat of {firm} play?",
                plays[mayor[town]],
                (firm, town, mayor[town]),
            ),
        )
        questions += [Question(text, text, answer, needs) for text, answer, needs in asked]
    return Corpus(tuple(paragraphs), tuple(questions), (*towns, *people, *firms, *countries, *INSTRUMENTS))


@lru_cache(maxsize=4)
def read_corpus(path: str) -> Corpus:
    """HotpotQA's JSON (``.json``, or packed ``.json.xz``): question, answer, context, supporting_facts or supporting.

    The corpus is every paragraph of every question, each title once.

    Raises:
        ConfigError: no such file.
        FormatError: it is not in that format.
    """
    file = Path(path)
    if not file.is_file():
        raise ConfigError(f"searchqa: {path}: no such file; give HotpotQA's questions as JSON")
    try:
        packed = file.suffix == ".xz"
        text = lzma.decompress(file.read_bytes()).decode() if packed else file.read_text(encoding="utf-8")
        rows = json.loads(text)
        paragraphs = {title: _joined(body) for row in rows for title, body in row["context"]}
        questions = tuple(_question(row, k) for k, row in enumerate(rows))
    except (ValueError, KeyError, TypeError, lzma.LZMAError) as error:
        raise FormatError(f"{path}: holds no questions in HotpotQA's format ({error!r})") from None
    if not questions:
        raise FormatError(f"{path}: holds no question")
    return Corpus(tuple(paragraphs.items()), questions)


def _question(row: dict[str, Any], k: int) -> Question:
    needs = row["supporting"] if "supporting" in row else [title for title, _ in row["supporting_facts"]]
    name = str(row.get("id") or row.get("_id") or k)
    return Question(name, row["question"], row["answer"], tuple(dict.fromkeys(needs)))


def _joined(body: Any) -> str:
    return body if isinstance(body, str) else "".join(body)


def _names(rng: Random) -> Iterator[str]:
    """Made-up names, each once."""
    given = set()
    while True:
        name = "".join(rng.choice(SYLLABLES) for _ in range(3)).capitalize()
        if name not in given:
            given.add(name)
            yield name
