"""Actions word by word: what a policy over actions says of each next word, and what each beginning is worth.

With M(j) the probability of all actions that begin with the first j words of action a, M(0) = 1:

    p(word j | words before)  =  M(j+1) / M(j)        the last word also ends the action: pi(a) / M(j)
    value before word j       =  E[Q | words before]  =  sum over those actions of pi Q / M(j)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apportion.envs.table import Floats, Ints, Table


@dataclass(frozen=True)
class Words:
    """One action, a number per word: log-probability, entropy of the next word (nats), sum of squares, value before."""

    logp: tuple[float, ...]
    entropy: tuple[float, ...]
    square: tuple[float, ...]
    value: tuple[float, ...]


def beginning(table: Table, state: int, words: Sequence[str]) -> Ints:
    """Slots of the actions of a state that begin with these words."""
    size = len(words)
    found = [a for a, action in enumerate(table.actions[state]) if action.split()[:size] == list(words)]
    return np.asarray(table.first_slot_X[state] + np.array(found, dtype=np.int64), dtype=np.int64)


def spelled(table: Table, slot: int, pi_K: Floats, q_K: Floats) -> Words:
    """The numbers of each word of the action of a slot, under these probabilities and action values."""
    x = int(table.state_of_K[slot])
    words = table.actions[x][slot - int(table.first_slot_X[x])].split()
    rows = []
    for j in range(len(words)):
        here = beginning(table, x, words[:j])
        p = pi_K[here] / pi_K[here].sum()
        mass: dict[str, float] = {}
        for k, q in zip(here.tolist(), p.tolist(), strict=True):
            action = table.actions[x][k - int(table.first_slot_X[x])].split()
            branch = action[j] if len(action) > j + 1 else f"{action[j]}." if len(action) > j else "."
            mass[branch] = mass.get(branch, 0.0) + q
        each = np.array([m for m in mass.values() if m > 0])
        own = words[j] if j + 1 < len(words) else f"{words[j]}."
        rows.append((np.log(mass[own]), -(each * np.log(each)).sum(), (each**2).sum(), (p * q_K[here]).sum()))
    return Words(*(tuple(float(v) for v in column) for column in zip(*rows, strict=True)))
