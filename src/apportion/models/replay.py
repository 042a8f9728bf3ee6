"""A bounded buffer of transitions on disk, read through memory maps, that a killed run finds again as it was.

    buffer/000003.ids.npy       token ids of the batch that was added fourth
    buffer/000003.records.npy   its transitions, see `transitions.RECORD`

A file is written once and never changed. What fell out of the buffer is removed when the next state has been saved, so
the files that a saved state names are there whenever the run is killed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from apportion.data.atomic import atomic_write
from apportion.errors import CheckpointError, ConfigError
from apportion.models.transitions import RECORD, Transitions
from apportion.numerics import Array, IntArray

PARTS = ("ids", "records")
_FILE = re.compile(r"\d{6}\.(ids|records)\.npy\Z")


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """K transitions as rows to read and places in them.

    Attributes:
        rows: token ids. state, pair, next: row and place of each, (2, K); the place is 0 where nothing follows.
        reward: (K,), reward units.
    """

    rows: list[IntArray]
    state: IntArray
    pair: IntArray
    next: IntArray
    reward: Array

    @property
    def live(self) -> Array:
        """Whether something follows, (K,)."""
        return np.asarray(self.next[1] > 0)

    def contexts(self) -> list[IntArray]:
        """Token ids before each action."""
        return [self.rows[row][:at] for row, at in self.state.T.tolist()]


class Replay:
    """The newest transitions, each as likely to be drawn as any other.

    Args:
        capacity: transitions that are kept. folder: where they lie; None = in memory.
    """

    def __init__(self, capacity: int, folder: Path | None = None) -> None:
        if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1:
            raise ConfigError(f"replay buffer: capacity is {capacity!r}; give a whole number of transitions from 1 up")
        self.capacity, self.folder = capacity, folder
        self.added = 0  # batches so far
        self.skipped = 0  # of the oldest segment, whose begin fell out
        self.segments: dict[int, Transitions] = {}

    def __len__(self) -> int:
        return sum(map(len, self.segments.values())) - self.skipped

    def add(self, more: Transitions) -> None:
        """Put transitions behind those that are there; the oldest beyond the capacity fall out."""
        if not len(more):
            return
        self.segments[self.added] = more if self.folder is None else _stored(self.folder, self.added, more)
        self.added += 1
        self.skipped += max(len(self) - self.capacity, 0)
        while self.skipped >= len(oldest := self.segments[min(self.segments)]):
            del self.segments[min(self.segments)]
            self.skipped -= len(oldest)

    def draw(self, count: int, random: np.random.Generator) -> IntArray:
        """Positions of so many transitions, drawn with replacement; 0 is the oldest."""
        return random.integers(len(self), size=count, dtype=np.int64)

    def read(self, at_K: IntArray) -> Drawn:
        """Transitions at some positions; those that share a row read it once."""
        names = sorted(self.segments)
        begins = np.cumsum([0, *(len(self.segments[name]) for name in names)])
        place = np.asarray(at_K) + self.skipped
        part = np.searchsorted(begins, place, side="right") - 1
        records = np.zeros(len(place), dtype=RECORD)
        for p in np.unique(part).tolist():
            here = part == p
            records[here] = self.segments[names[p]].records[place[here] - begins[p]]
        rows: dict[tuple[int, int], tuple[int, int]] = {}  # begin of a row: its number, and how far it is read
        spots = {what: np.zeros((2, len(place)), dtype=np.int64) for what in ("state", "pair", "next")}
        for what, spot in spots.items():
            spans = zip(part.tolist(), records[f"{what}_from"].tolist(), records[f"{what}_to"].tolist(), strict=True)
            for k, (p, a, b) in enumerate(spans):
                if b > 0:
                    number, end = rows.get((p, a), (len(rows), 0))
                    rows[p, a] = number, max(end, b)
                    spot[:, k] = number, b - a
        ids = [self.segments[names[p]].ids[a:end].astype(np.int64) for (p, a), (_, end) in rows.items()]
        return Drawn(ids, spots["state"], spots["pair"], spots["next"], np.array(records["reward"]))

    def sizes(self, at_K: IntArray) -> IntArray:
        """Tokens that each of some transitions reads by itself, about."""
        lengths = [s.records["pair_to"] - s.records["pair_from"] for _, s in sorted(self.segments.items())]
        out: IntArray = np.concatenate(lengths)[np.asarray(at_K) + self.skipped]
        return out

    def state(self, folder: Path) -> dict[str, Any]:
        """What `opened` needs, as JSON values; what is not in the folder yet is written there."""
        digests = {}
        for number, segment in self.segments.items():
            if folder != self.folder:
                _stored(folder, number, segment)
            digests[f"{number:06d}"] = _digest(folder, number)
        return {"capacity": self.capacity, "added": self.added, "skipped": self.skipped, "segments": digests}

    def tidy(self, folder: Path, named: Collection[str]) -> None:
        """Remove files that neither the buffer nor a saved state needs.

        Args:
            folder: where they lie. named: segments of the saved states.
        """
        kept = {path.name for name in (*self.segments, *map(int, named)) for path in _files(folder, name)}
        for path in folder.iterdir() if folder.is_dir() else ():
            if _FILE.fullmatch(path.name) and path.name not in kept:
                path.unlink()

    @classmethod
    def opened(cls, folder: Path, state: Mapping[str, Any]) -> Replay:
        """The buffer of a saved state.

        Raises:
            CheckpointError: a file is missing or damaged.
        """
        out = cls(state["capacity"], folder)
        out.added, out.skipped = state["added"], state["skipped"]
        for name, digest in sorted(state["segments"].items()):
            number = int(name)
            if not all(path.is_file() for path in _files(folder, number)) or _digest(folder, number) != digest:
                raise CheckpointError(
                    f"{folder}: transitions {name} are missing or damaged, so the run cannot go on to the same "
                    "numbers; start it again in another folder"
                )
            out.segments[number] = _mapped(folder, number)
        return out


def _files(folder: Path, number: int) -> list[Path]:
    return [folder / f"{number:06d}.{part}.npy" for part in PARTS]


def _stored(folder: Path, number: int, segment: Transitions) -> Transitions:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path, part in zip(_files(folder, number), PARTS, strict=True):
        with atomic_write(path) as file:
            np.save(file, getattr(segment, part), allow_pickle=False)
    return _mapped(folder, number)


def _mapped(folder: Path, number: int) -> Transitions:
    return Transitions(*(np.load(path, mmap_mode="r", allow_pickle=False) for path in _files(folder, number)))


def _digest(folder: Path, number: int) -> str:
    total = hashlib.sha256()
    for path in _files(folder, number):
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()
