"""Preference pairs of turns: one history, a turn that was preferred, and one that was not; on disk a pair is a line.

    {"schema": "apportion.pairs/1", "prompt": "…", "chosen": "…", "rejected": "…",
     "prompt_ids": [5, 6], "chosen_ids": [7], "rejected_ids": [8, 9], "chosen_mask": [1], "rejected_mask": [1, 1], …}

``prompt``, ``chosen`` and ``rejected`` are what TRL's DPO trainer reads; ``prompt_ids``, ``chosen_ids`` and
``rejected_ids`` what its collator takes, and the truth: texts need not come back as the same tokens. A mask says which
tokens of its side the policy sampled. There is no header line, so that every line is a row for other readers.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from apportion.data.atomic import atomic_write
from apportion.errors import DataError, FormatError, other_version

SCHEMA = "apportion.pairs/1"
SIDES = ("chosen", "rejected")
Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TurnPair:
    """Two turns behind one history.

    Attributes:
        prompt_ids: the whole context of the turn. chosen_ids, rejected_ids: the two turns.
        chosen_mask, rejected_mask: whether the policy sampled each token; by default it sampled all of them.
        prompt, chosen, rejected: the same as text, without the token that ends a turn.
        chosen_score, rejected_score: of whoever ranked them; None = nobody's.
        actions: admissible actions, where the policy chose among them.
        chosen_rewards, rejected_rewards: a reward of each token (T-REG), where there are any.
        group: identity of the task. place: which turn of which rollout.

    Raises:
        DataError: no token on a side, equal sides, or a mask or rewards of another length.
    """

    prompt_ids: Ids
    chosen_ids: Ids
    rejected_ids: Ids
    chosen_mask: tuple[bool, ...] = ()
    rejected_mask: tuple[bool, ...] = ()
    prompt: str = ""
    chosen: str = ""
    rejected: str = ""
    chosen_score: float | None = None
    rejected_score: float | None = None
    actions: tuple[str, ...] | None = None
    chosen_rewards: tuple[float, ...] | None = None
    rejected_rewards: tuple[float, ...] | None = None
    group: str | None = None
    place: str | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("prompt_ids", *(f"{side}_ids" for side in SIDES)):
            put(self, name, _ids(name, getattr(self, name)))
        for name in ("prompt", *SIDES):
            _text(name, getattr(self, name))
        for name in ("group", "place"):
            _text(name, getattr(self, name), optional=True)
        if self.actions is not None:
            put(self, "actions", tuple(_text("actions", action) for action in _list("actions", self.actions)))
        for side in SIDES:
            self._settle(side)
        if self.chosen_ids == self.rejected_ids:
            raise DataError("a pair: both turns have the same tokens, so there is nothing to prefer; leave it out")
        if (self.chosen_rewards is None) != (self.rejected_rewards is None):
            raise DataError("a pair: one turn has token rewards and the other has none; give both or neither")

    def _settle(self, side: str) -> None:
        put, size = object.__setattr__, len(getattr(self, f"{side}_ids"))
        mask = tuple(bool(x) for x in _list(f"{side}_mask", getattr(self, f"{side}_mask"))) or (True,) * size
        if not any(mask):
            raise DataError(f"a pair: the {side} turn has no sampled token, so nothing of it can be learned")
        put(self, f"{side}_mask", mask)
        score, rewards = getattr(self, f"{side}_score"), getattr(self, f"{side}_rewards")
        if score is not None:
            put(self, f"{side}_score", _number(f"{side}_score", score))
        if rewards is not None:
            rewards = tuple(_number(f"{side}_rewards", x) for x in _list(f"{side}_rewards", rewards))
            put(self, f"{side}_rewards", rewards)
        for name, values in (("mask", mask), ("rewards", rewards)):
            if values is not None and len(values) != size:
                raise DataError(f"a pair: {len(values)} values of {side}_{name} for {size} tokens; give one for each")

    def to_row(self) -> dict[str, Any]:
        """The line of a file: the same columns in every line, masks as 0 and 1."""
        row: dict[str, Any] = {"schema": SCHEMA}
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            row[name] = [int(x) for x in value] if name.endswith("_mask") else value
        return row

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> TurnPair:
        """The pair of a line.

        Raises:
            DataError: it is none, or one that breaks a precondition.
        """
        known = {f.name for f in fields(cls)}
        if row.get("schema", SCHEMA) != SCHEMA:
            raise DataError(other_version(row["schema"], SCHEMA, "make the pairs again"))
        lacking = [name for name in ("prompt_ids", "chosen_ids", "rejected_ids") if name not in row]
        if lacking:
            raise DataError(
                f"no {lacking[0]!r}, so this is no pair of token ids; make pairs with `apportion pairs rank`"
            )
        unknown = [name for name in row if name not in known and name != "schema"]
        if unknown:
            raise DataError(f"a pair has no field {unknown[0]!r}; there are {', '.join(sorted(known))}")
        return cls(**{name: value for name, value in row.items() if name != "schema"})


def write_pairs(path: str | os.PathLike[str], pairs: Iterable[TurnPair]) -> int:
    """Write pairs, one a line; the file is whole or absent. Returns how many."""
    count = 0
    with atomic_write(path) as file:
        for pair in pairs:
            file.write(json.dumps(pair.to_row(), allow_nan=False).encode() + b"\n")
            count += 1
    return count


def read_pairs(path: str | os.PathLike[str]) -> list[TurnPair]:
    """Read what `write_pairs` wrote, exactly.

    Raises:
        FormatError: file, line and reason.
    """
    if not Path(path).is_file():
        raise FormatError(f"{path}: no such file; make one with `apportion pairs rank`")
    out = []
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise DataError(f"a {type(row).__name__} where a pair was expected")
                out.append(TurnPair.from_row(row))
            except (ValueError, RecursionError) as problem:  # our DataError is one too
                raise FormatError(f"{path}, line {number}: {problem}") from None
    if not out:
        raise FormatError(f"{path}: no pair in it; rank more turns, or with a critic that tells them apart")
    return out


def _list(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise DataError(f"a pair: {name} is {value!r:.40}; give a list")
    return tuple(value)


def _ids(name: str, value: Any) -> Ids:
    ids = _list(name, value)
    odd = [x for x in ids if isinstance(x, bool) or not hasattr(x, "__index__") or not 0 <= int(x) < 2**63]
    if odd or not ids:
        raise DataError(
            f"a pair: {name} holds {repr(odd[0]) if odd else 'nothing'}; give token ids, integers from 0 up"
        )
    return tuple(int(x) for x in ids)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"a pair: {name} holds {value!r}; give finite numbers")
    return float(value)


def _text(name: str, value: Any, *, optional: bool = False) -> Any:
    if not (isinstance(value, str) or (optional and value is None)):
        raise DataError(f"a pair: {name} is {value!r:.40}; give text")
    return value
