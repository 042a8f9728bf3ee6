"""What rollouts show to be noise in their texts: words with a digit that differ at the start, numbers that count steps.

A place is named by the word before it, and is open: what stands there is left out of the comparison.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from apportion.data import Batch

_WORD = re.compile(r"\S+")
_EDGE = "\"'`([{<>}]).,;:!?"


def pattern_after(word: str) -> str:
    """The word with a digit that follows this word, without the marks around it."""
    before = rf"(?<!\S){re.escape(word)}" if word else r"\A"
    edge = re.escape(_EDGE)
    return rf"(?P<keep>{before}\s*[{edge}]*)(?<![^\s{edge}])(?=\S*\d)\S+?(?=[{edge}]*(?:\s|\Z))"


def open_places(text: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The text with its words that hold a digit left open, and these words by the word before them.

    A word that opens two places opens none: which of them is meant could not be said later.
    """
    template: list[str] = []
    found: dict[str, str] = {}
    twice: set[str] = set()
    before: str | None = ""
    for word in _WORD.findall(text):
        core = word.strip(_EDGE)
        if any(sign.isdecimal() for sign in core):
            template.append(word.replace(core, "\x00"))
            if before is not None:
                twice |= {before} & set(found)
                found[before] = core
            before = None  # a word behind an open place has no fixed word before it
        else:
            template.append(word)
            before = word
    for word in twice:
        del found[word]
    return tuple(template), found


def first_texts(batch: Batch) -> list[list[str]]:
    """The texts that the trajectories of each group start with."""
    first = np.flatnonzero(np.append(True, np.diff(batch.traj_of_S) > 0))
    out: dict[int, list[str]] = defaultdict(list)
    for s, g in zip(first.tolist(), batch.group_of_N.tolist(), strict=True):
        out[g].append(batch.state_S[s])
    return list(out.values())


def differing(texts: Sequence[str]) -> dict[str, bool]:
    """Which open places differ between texts that are equal otherwise; nothing from texts that are not."""
    pairs = [open_places(text) for text in texts]
    if len(pairs) < 2 or len({template for template, _ in pairs}) > 1:
        return {}
    values = [found for _, found in pairs]
    shared = set.intersection(*(set(found) for found in values))
    return {word: len({found[word] for found in values}) > 1 for word in shared}


def counters(batch: Batch) -> set[str]:
    """Words that stand before the number of the step, in every text that has a number there."""
    time_S = np.arange(len(batch.traj_of_S)) - np.searchsorted(batch.traj_of_S, batch.traj_of_S)
    offsets: dict[str, set[int | None]] = defaultdict(set)
    times: dict[str, set[int]] = defaultdict(set)
    trajectories: dict[str, set[int]] = defaultdict(set)
    for text, t, n in zip(batch.state_S, time_S.tolist(), batch.traj_of_S.tolist(), strict=True):
        for word, value in open_places(text)[1].items():
            count = re.match(r"\d+", value)
            offsets[word].add(int(count[0]) - t if count and len(count[0]) < 10 else None)
            times[word].add(t)
            trajectories[word].add(n)
    return {
        word
        for word, found in offsets.items()
        if word and len(found) == 1 and None not in found and len(times[word]) >= 3 and len(trajectories[word]) >= 2
    }
