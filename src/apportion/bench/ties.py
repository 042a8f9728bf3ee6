"""Policies that go by the text: equal texts with equal actions are one place, whatever the hidden state.

A table has a slot for each action of each true state. A player who sees only texts has one distribution per text, so
its gradient is the sum over the states that share the text; stamps (see `Stamped`) are noise and are left out.
"""

from __future__ import annotations

import numpy as np

from apportion.bench.exact import Policy, exact, probabilities
from apportion.bench.stamped import Stamped, plain
from apportion.envs.table import Floats, Ints, Table
from apportion.errors import ConfigError


def ties(table: Table) -> Ints:
    """The place of each slot [K], from 0 on: slots of equal text (clock and stamp left out), actions and action."""
    seen: dict[tuple[str, tuple[str, ...], str], int] = {}
    rules = table.rules
    out = np.zeros(table.slots, dtype=np.int64)
    for x, state in enumerate(table.states):
        shown = rules.gist(state, table.horizon) if isinstance(rules, Stamped) else rules.text(state, table.horizon)
        for a, action in enumerate(table.actions[x]):
            out[table.slot(x, a)] = seen.setdefault((shown, table.actions[x], action), len(seen))
    return out


def cores(table: Table) -> Ints:
    """The true (state, action) below the stamps, for each slot [K]: places at which the advantage is one number."""
    _, states = plain(table.rules, table.states)
    seen: dict[tuple[object, int], int] = {}
    pairs = ((states[x], a) for x in range(len(table.states)) for a in range(len(table.actions[x])))
    return np.array([seen.setdefault(pair, len(seen)) for pair in pairs], dtype=np.int64)


def tied(table: Table, policy: Policy) -> Floats:
    """The policy [K] as somebody would play it who goes by texts: its mean over the states that look alike.

    States count by how often they are visited under the policy; where none is, evenly.

    Raises:
        ConfigError: a policy that changes with the time.
    """
    pi = probabilities(table, policy)
    if pi.ndim != 1:
        raise ConfigError("tied: the policy changes with the time; give one probability per slot")
    place_K = ties(table)
    visit_K = exact(table, pi).visit_HX.sum(axis=0)[table.state_of_K]
    seen = np.bincount(place_K, weights=visit_K)[place_K] > 0
    weight_K = np.where(seen, visit_K, 1.0)
    mean = np.bincount(place_K, weights=weight_K * pi) / np.bincount(place_K, weights=weight_K)
    out = mean[place_K]
    return np.asarray(out / table.sum_by_state(out)[table.state_of_K], dtype=np.float64)


def tied_gradient(gradient_K: Floats, place_K: Ints) -> Floats:
    """The gradient in the logits of a policy that goes by texts, one number per place."""
    return np.bincount(place_K, weights=gradient_K).astype(np.float64)
