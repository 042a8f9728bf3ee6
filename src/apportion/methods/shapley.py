"""Shapley values of agents: what each adds to the score, averaged over the orders in which all could have joined.

    phi[m] = sum_{S without m} |S|! (n - |S| - 1)! / n! * (v(S + m) - v(S))
    v(S) = score of the rollout with the actions of the agents outside S replaced by a placeholder

Use       for a few agents whose rollout can be scored with some of them missing. Sums to v(all) - v(none), gives equal
          agents equal credit, and sees through redundancy, all of which leave-one-out (`sharp`) does not.
Source    Shapley 1953; sampled orders: Castro, Gómez and Tejada 2009.
Compared  with the exact values of small games, three of them by hand.
Deviates  nothing; that a rollout without an agent is scored as it stands, not played again, is up to who scores.
"""

import numpy as np

from apportion.asks import Answer, Ask, Score
from apportion.credit import Credit
from apportion.methods.coalitions import Game, ask_all, game_of, seeds_of, values_of
from apportion.methods.registry import register
from apportion.methods.told import askable_N, count, numbers
from apportion.numerics import BoolArray
from apportion.units import Units

EXACT_UP_TO = 8


def plan(units: Units, *, estimator: str, orders: int | None, antithetic: bool, max_evals: int, seed: int) -> list[Ask]:
    """Every coalition of agents of every rollout, as a `Score` without the absent ones."""
    agents = agents_of(units)

    def ask(traj: int, there: BoolArray) -> Score:
        return Score(traj, agents=tuple(name for name, here in zip(agents[traj], there, strict=True) if not here))

    return ask_all(_games(units, estimator, orders, antithetic, max_evals, seed), ask)


@register(
    "shapley",
    unit="agent",
    units=("agent", "turn", "step"),
    family="multi-agent",
    reads=("agent_S",),
    needs=("reward_model",),
    source="Shapley 1953",
    holds=("shift_invariant", "local_to_group", "local_to_trajectory"),
    plan=plan,
)
def shapley(
    units: Units,
    answers: list[Answer],
    *,
    estimator: str = "auto",
    orders: int | None = None,
    antithetic: bool = True,
    max_evals: int = 256,
    seed: int = 0,
) -> Credit:
    """Credit each agent's units with its Shapley value in the score of the rollout.

    Args:
        units: S units that have one agent each. Reads agent_S. Rewards are not read: unscored rollouts get credit too.
        answers: one for each `Score` of the plan.
        estimator: "exact" (all coalitions), "permutation" (sampled orders), or "auto": exact for up to 8 agents where
            ``max_evals`` allows, else sampled orders.
        orders: sampled orders of each rollout; None = as many as ``max_evals`` allows.
        antithetic: walk each sampled order backwards too.
        max_evals: scores of one rollout at most.
        seed: of the sampled orders.

    Returns:
        Credit in the unit of the score. Every unit of an agent carries the agent's whole value, so it is the agents,
        not the units, that sum to v(all) - v(none). Units without an agent's name are unknown.
    """
    games, agents = _games(units, estimator, orders, antithetic, max_evals, seed), agents_of(units)
    lost, value = 0, dict[tuple[int, str], float]()
    for traj, value_C in values_of(games, numbers(answers)).items():
        lost += games[traj].walks_lost(value_C)
        value |= {(traj, name): phi for name, phi in zip(agents[traj], games[traj].fold(value_C).tolist(), strict=True)}
    credit_S = np.array([value.get(key, np.nan) for key in _keys(units)], dtype=np.float64)
    named_S = askable_N(units)[units.traj_of_S] & (units.agent_S != "")
    known_S = named_S & np.isfinite(credit_S)
    notes = count(
        rollouts_exact=sum(game.kind == "exact" for game in games.values()),
        rollouts_permutation=sum(game.kind == "permutation" for game in games.values()),
        orders_lost=lost,
        units_without_agent=int(np.count_nonzero(units.agent_S == "")),
        units_without_score=int(np.count_nonzero(named_S & ~known_S)),
    )
    return Credit(np.where(known_S, credit_S, 0.0), units, known_S=known_S, notes=notes)


def agents_of(units: Units) -> dict[int, list[str]]:
    """The named agents of each rollout that can be asked about, sorted."""
    asked_N = askable_N(units)
    out: dict[int, set[str]] = {}
    for traj, name in _keys(units):
        if asked_N[traj] and name:
            out.setdefault(traj, set()).add(name)
    return {traj: sorted(names) for traj, names in out.items()}


def _keys(units: Units) -> list[tuple[int, str]]:
    return list(zip(units.traj_of_S.tolist(), units.agent_S.tolist(), strict=True))


def _games(
    units: Units, estimator: str, orders: int | None, antithetic: bool, max_evals: int, seed: int
) -> dict[int, Game]:
    seeds = seeds_of(units, seed)
    return {
        traj: game_of(
            "shapley",
            len(names),
            estimator=estimator,
            orders=orders,
            antithetic=antithetic,
            max_evals=max_evals,
            seed=seeds[traj],
            exact_up_to=EXACT_UP_TO,
        )
        for traj, names in agents_of(units).items()
    }
