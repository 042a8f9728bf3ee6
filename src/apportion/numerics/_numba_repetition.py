"""The repetition kernel compiled with numba, see `_numpy_repetition` for what it counts."""

from __future__ import annotations

import numpy as np

from apportion.numerics import _numpy_repetition
from apportion.numerics._numba import _call
from apportion.numerics.typing import IntArray

LARGEST = 2**26
"""Entries of the table of transitions above which the suffix automaton gives way to sorting."""


def repeated_substrings(code_X: IntArray) -> int:
    """See `_numpy_repetition.repeated_substrings`."""
    n, symbols = len(code_X), int(code_X.max()) + 1
    if 2 * n * symbols > LARGEST:
        return _numpy_repetition.repeated_substrings(code_X)
    states = 2 * n + 1
    step = np.full((states, symbols), -1, dtype=np.int32)
    link, length = np.empty(states, dtype=np.int32), np.empty(states, dtype=np.int32)
    distinct: int = _call(_distinct, (code_X,), (step, link, length))
    return n * (n + 1) // 2 - distinct


def _distinct(code, step, link, length):  # type: ignore[no-untyped-def]
    # Suffix automaton (Blumer et al. 1985): its states are the sets of substrings that end at the same places, and a
    # state holds the substrings that are longer than the longest one of the state it links to.
    link[0] = -1
    length[0] = 0
    states = 1
    last = 0
    distinct = 0
    for c in code:
        new = states
        states += 1
        length[new] = length[last] + 1
        at = last
        while at != -1 and step[at, c] == -1:
            step[at, c] = new
            at = link[at]
        if at == -1:
            link[new] = 0
        else:
            after = step[at, c]
            if length[after] == length[at] + 1:
                link[new] = after
            else:
                copy = states
                states += 1
                length[copy] = length[at] + 1
                step[copy] = step[after]
                link[copy] = link[after]
                while at != -1 and step[at, c] == after:
                    step[at, c] = copy
                    at = link[at]
                link[after] = copy
                link[new] = copy
        distinct += length[new] - length[link[new]]
        last = new
    return distinct
