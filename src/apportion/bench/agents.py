"""What each agent of a game contributes, exactly: the expected return of every coalition, and Shapley values.

    v(C)    expected return when the agents of C play the policy and the others do what the rules call absent
    phi[m]  v's Shapley value: what m adds to v, averaged over all orders in which the agents could have joined

Source    Shapley 1953; v by backward induction (`apportion.bench.exact`).
"""

from __future__ import annotations

import numpy as np

from apportion.bench.exact import Policy, exact, probabilities
from apportion.envs.table import Floats, Ints, Table
from apportion.errors import ConfigError
from apportion.numerics.shapley import exact as shapley_of


def agents_of(table: Table) -> tuple[tuple[str, ...], Ints]:
    """Names of the agents, sorted, and whose turn it is in each state [X]; no names where the game has no agents."""
    if not hasattr(table.rules, "agent"):
        return (), np.zeros(len(table.states), dtype=np.int64)
    who = [table.rules.agent(x) for x in table.states]
    names = tuple(sorted({name for name in who if name}))
    return names, np.array([names.index(name) if name else -1 for name in who], dtype=np.int64)


def without(table: Table, policy: Policy, missing: tuple[str, ...]) -> Floats:
    """The policy, where the missing agents do what the rules call absent."""
    names, turn_X = agents_of(table)
    pi = probabilities(table, policy).copy()
    for x, state in enumerate(table.states):
        if turn_X[x] >= 0 and names[turn_X[x]] in missing:
            first, last = table.first_slot_X[x], table.first_slot_X[x + 1]
            pi[..., first:last] = 0.0
            pi[..., table.slot(x, table.rules.absent(state))] = 1.0  # type: ignore[attr-defined]
    return pi


def coalition_values(table: Table, policy: Policy) -> tuple[tuple[str, ...], Floats]:
    """Names of the M agents and v of each coalition [2^M]; bit m of the position says that agent m plays.

    Raises:
        ConfigError: the game has no agents.
    """
    names, _ = agents_of(table)
    if not names:
        raise ConfigError(f"{table.rules}: the game has no agents; give its rules agent(state) and absent(state)")
    absent = [tuple(n for m, n in enumerate(names) if not c >> m & 1) for c in range(1 << len(names))]
    return names, np.array([exact(table, without(table, policy, missing)).J for missing in absent])


def shapley_values(table: Table, policy: Policy) -> dict[str, float]:
    """The exact Shapley value of each agent, reward units; they add up to v(all) - v(none)."""
    names, value_C = coalition_values(table, policy)
    return dict(zip(names, shapley_of(value_C).tolist(), strict=True))
