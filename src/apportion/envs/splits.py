"""Splits of a finite list of tasks into training, validation and test, the same in every process and for good.

A task belongs to a split by a digest of its name, so tasks that are added later move nobody else. Within a split the
order is by digest too, and seeds walk through it: n consecutive seeds play n different tasks, which is what an
evaluation wants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TypeVar

from apportion.errors import ConfigError

SPLITS = ("train", "valid", "test")
SHARES = (0.8, 0.1, 0.1)

T = TypeVar("T")


def digest(text: str) -> int:
    """A number from 0 to 2**64 - 1 that only the text decides."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def split_of(task: str) -> str:
    """The split of a task: 80% train, 10% valid, 10% test."""
    share = digest(f"split/{task}") / 2**64
    return SPLITS[0] if share < SHARES[0] else SPLITS[1] if share < SHARES[0] + SHARES[1] else SPLITS[2]


def choose_split(env: str, tasks: Iterable[str], split: str) -> tuple[str, ...]:
    """The tasks of a split ("all": every task), mixed.

    Raises:
        ConfigError: no such split, or nothing in it.
    """
    if split not in (*SPLITS, "all"):
        raise ConfigError(f"{env}: split is {split!r}; it takes {', '.join(SPLITS)} or all")
    chosen = [task for task in tasks if split in ("all", split_of(task))]
    if not chosen:
        raise ConfigError(f"{env}: no task is left in split {split!r}; widen the options or take split='all'")
    return tuple(sorted(chosen, key=lambda task: (digest(task), task)))


def at_seed(tasks: Sequence[T], seed: int) -> T:
    """The task of a seed: seeds count through the tasks, round and round."""
    return tasks[seed % len(tasks)]
