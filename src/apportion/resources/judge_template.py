"""Prompt templates of judges: data files that a user can replace.

A template says what the judge is asked (``[text]``), on which scale it answers (``[scale]``), how units are called and
numbered (``[units]``), how much of a rollout it is shown (``[limits]``), and whether it sees the reference. It does not
say how the rollout is fenced in or how a reply is read: that is the same for every template (`judge_prompt`,
`judge_reply`), so that a template cannot be written that believes what a trajectory says about itself.
"""

from __future__ import annotations

import hashlib
import math
import re
import string
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from apportion.errors import ConfigError

FOLDER = "judge_templates"
KINDS = ("labels", "range", "wrong", "probability")
WORDS_IN_TEXT = ("unit", "first", "last", "count")
LARGEST_FILE = 2**18
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Scale:
    """How a judge answers.

    Attributes:
        kind: "labels" (one word for each unit), "range" (a number for each unit), "wrong" (the set of units that are
            wrong) or "probability" (one number from 0 to 1 about the whole rollout; for `Value` asks).
        low, high: ends of the scores; the middle is neutral. Labels and sets lie between -1 and 1.
        labels: score of each label.
    """

    kind: str
    low: float = -1.0
    high: float = 1.0
    labels: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a judge is shown and may write; longer texts are cut in the middle, with a visible mark.

    Attributes:
        observation, action: characters of each shown at most. prompt: characters of all of them together: where they
            are more, each is cut shorter.
        reply: characters of a reply that is read.
        tokens, tokens_per_unit: generated tokens allowed, whatever the number of units, and for each of them.
    """

    observation: int = 4000
    action: int = 8000
    prompt: int = 120_000
    reply: int = 100_000
    tokens: int = 200
    tokens_per_unit: int = 60


@dataclass(frozen=True, slots=True)
class Template:
    """One prompt template.

    Attributes:
        name, version: of the file. digest: of its content, part of every cache key.
        scale, limits: see there. unit: what a unit is called. first: number of the first.
        privileged: the judge is shown `Trajectory.reference`.
        instruction: what to judge by. reminder: said once more where a reply could not be read.
    """

    name: str
    version: int
    digest: str
    scale: Scale
    limits: Limits
    unit: str
    first: int
    privileged: bool
    instruction: str
    reminder: str

    def instruct(self, count: int, number: int | None = None) -> str:
        """The instruction with its words filled in; ``number``: the only unit that is asked about."""
        last = self.first + count - 1
        first, last = (self.first, last) if number is None else (number, number)
        values = {"unit": self.unit, "first": first, "last": last, "count": last - first + 1}
        return string.Template(self.instruction).substitute({k: str(v) for k, v in values.items()})

    def tokens(self, count: int) -> int:
        """Generated tokens that a verdict on so many units may take."""
        return self.limits.tokens + self.limits.tokens_per_unit * count


def load_template(name: str) -> Template:
    """A template of the library by its name, or the user's own by the path of its file (which ends in .toml).

    Raises:
        ConfigError: there is none, or it is not one; the file, the key, what is wrong.
    """
    if _NAME.match(name):
        file = resources.files("apportion.resources").joinpath(FOLDER, f"{name}.toml")
        if not file.is_file():
            raise ConfigError(
                f"no judge template named {name!r}; there are {', '.join(templates())}, or give the path of a .toml "
                "file"
            )
        return read_template(file.read_bytes(), name)
    path = Path(name)
    if path.suffix != ".toml" or not path.is_file():
        raise ConfigError(f"judge template {name!r} is neither a name ({', '.join(templates())}) nor a .toml file")
    if path.stat().st_size > LARGEST_FILE:
        raise ConfigError(f"judge template {name} is larger than {LARGEST_FILE >> 10} KiB; give a prompt, not data")
    return read_template(path.read_bytes(), name)


def templates() -> tuple[str, ...]:
    """Names of the library's own."""
    files = resources.files("apportion.resources").joinpath(FOLDER).iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def read_template(data: bytes, where: str) -> Template:
    """A template from the content of its file.

    Raises:
        ConfigError: what is wrong with it.
    """
    try:
        body = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise ConfigError(f"judge template {where} is no TOML: {problem}") from None
    read = _Reader(where)
    read.only(body, "", "name", "version", "privileged", "scale", "units", "limits", "text")
    text, units = read.table(body, "text"), read.table(body, "units")
    read.only(text, "text.", "instruction", "reminder")
    read.only(units, "units.", "word", "first")
    word = read.text(units, "units.word", default="step")
    if not re.match(r"[\w -]{1,30}\Z", word):
        raise ConfigError(f"judge template {where}: units.word is {word!r}; give a short word")
    instruction, reminder = read.text(text, "text.instruction"), read.text(text, "text.reminder")
    _check_words(where, instruction)
    return Template(
        name=read.text(body, "name"),
        version=read.whole(body, "version"),
        digest=hashlib.blake2b(data, digest_size=16).hexdigest(),
        scale=_scale(read, read.table(body, "scale")),
        limits=_limits(read, read.table(body, "limits", default={})),
        unit=word,
        first=read.whole(units, "units.first", default=1),
        privileged=read.flag(body, "privileged"),
        instruction=instruction,
        reminder=reminder,
    )


def _scale(read: _Reader, body: dict[str, Any]) -> Scale:
    kind = read.text(body, "scale.kind")
    if kind not in KINDS:
        raise ConfigError(f"judge template {read.where}: scale.kind is {kind!r}; it takes {', '.join(KINDS)}")
    fields = {"labels": ("labels",), "range": ("low", "high")}.get(kind, ())
    read.only(body, "scale.", "kind", *fields)
    if kind == "labels":
        labels = {
            name: read.number({"x": x}, f"scale.labels.{name}", "x") for name, x in read.table(body, "labels").items()
        }
        if len(labels) < 2 or not all(-1 <= x <= 1 for x in labels.values()):
            raise ConfigError(
                f"judge template {read.where}: scale.labels are {labels}; give two or more, each a number from -1 to 1"
            )
        return Scale(kind, labels=labels)
    if kind == "range":
        low, high = read.number(body, "scale.low"), read.number(body, "scale.high")
        if low >= high:
            raise ConfigError(f"judge template {read.where}: the scale goes from {low:g} to {high:g}; give low < high")
        return Scale(kind, low, high)
    return Scale(kind) if kind == "wrong" else Scale(kind, 0.0, 1.0)


def _limits(read: _Reader, body: dict[str, Any]) -> Limits:
    names = Limits.__slots__
    read.only(body, "limits.", *names)
    limits = Limits(**{name: read.whole(body, f"limits.{name}") for name in body})
    if min(limits.observation, limits.action, limits.prompt, limits.reply, limits.tokens) < 50:
        raise ConfigError(f"judge template {read.where}: {limits} show or allow next to nothing; give at least 50 each")
    return limits


def _check_words(where: str, instruction: str) -> None:
    try:
        string.Template(instruction).substitute(dict.fromkeys(WORDS_IN_TEXT, ""))
    except KeyError as problem:
        known = ", ".join(f"${word}" for word in WORDS_IN_TEXT)
        raise ConfigError(
            f"judge template {where}: text.instruction asks for ${problem.args[0]}; it may use {known}"
        ) from None
    except ValueError:
        raise ConfigError(f"judge template {where}: text.instruction has a lone $ sign; write $$ for one") from None


class _Reader:
    """Takes values of one kind out of tables, with one sentence for what does not fit."""

    def __init__(self, where: str) -> None:
        self.where = where

    def only(self, body: dict[str, Any], prefix: str, *names: str) -> None:
        if unknown := sorted(set(body) - set(names)):
            raise ConfigError(
                f"judge template {self.where}: no key is named {prefix}{unknown[0]}; there are {', '.join(names)}"
            )

    def table(self, body: dict[str, Any], key: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._take(body, key, dict, "a table", default)  # type: ignore[no-any-return]

    def text(self, body: dict[str, Any], key: str, default: str | None = None) -> str:
        found = self._take(body, key, str, "a text", default)
        if not found.strip():
            raise ConfigError(f"judge template {self.where}: {key} is empty; give a text")
        return str(found)

    def whole(self, body: dict[str, Any], key: str, default: int | None = None) -> int:
        found = self._take(body, key, int, "a whole number", default)
        if isinstance(found, bool) or found < 0:
            raise ConfigError(f"judge template {self.where}: {key} is {found!r}; give a whole number from 0 on")
        return int(found)

    def flag(self, body: dict[str, Any], key: str) -> bool:
        return bool(self._take(body, key, bool, "true or false", default=False))

    def number(self, body: dict[str, Any], key: str, field: str | None = None) -> float:
        found = body.get(field or key.rpartition(".")[2])
        if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
            raise ConfigError(f"judge template {self.where}: {key} is {found!r}; give a finite number")
        return float(found)

    def _take(self, body: dict[str, Any], key: str, kind: type, what: str, default: Any) -> Any:
        found = body.get(key.rpartition(".")[2], default)
        if not isinstance(found, kind):
            raise ConfigError(f"judge template {self.where}: {key} is {found!r}; give {what}")
        return found
