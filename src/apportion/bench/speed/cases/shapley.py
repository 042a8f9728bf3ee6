"""Shapley values, against shapiq: all coalitions, and sampled orders. The value of a coalition is a table look-up."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from apportion.bench.speed.compare import Comparison, Contender, Peer
from apportion.bench.speed.registry import Setting, case
from apportion.numerics import Array, FloatArray
from apportion.numerics.shapley import exact, fold_permutations, plan_permutations

PEER, SAMPLED = "shapiq exact", "shapiq permutations"
GAMES = 128
FEWEST = 200
"""Value calls from which their overhead has a goal; below, it is the price of a call of ours."""


@case("shapley")
def shapley_cases(setting: Setting) -> Iterator[Comparison]:
    """Exact values of one game and of many at once, then the arithmetic around sampled orders."""
    yield _exact(8, 25.0)
    yield _many(8, 300.0, GAMES // 8 if setting.quick else GAMES)
    yield _exact(12, 300.0)
    for n, orders in ((8, 25), (12, 40), (16, 125)):
        yield _sampled(n, orders)


def table(n: int) -> FloatArray:
    """A random value for each coalition; nobody is worth nothing."""
    values: FloatArray = np.random.default_rng(n).standard_normal(2**n)
    values[0] = 0.0
    return values


def _game(values: FloatArray, n: int) -> Any:
    place = 1 << np.arange(n)
    return lambda there: values[np.atleast_2d(there).astype(np.int64) @ place]


def _shapiq(module: str, name: str) -> Any:
    """A class, or the reason why there is none. The package is no dependency: it brings pandas and more."""
    try:
        return getattr(importlib.import_module(f"shapiq.{module}"), name)
    except ImportError:
        return "shapiq is not installed"


def _exact_peer(n: int) -> Peer | str:
    computer = _shapiq("game_theory.exact", "ExactComputer")
    if isinstance(computer, str):
        return computer
    game = _game(table(n), n)
    return Peer(
        lambda: computer(game, n_players=n)("SV", 1),
        lambda result: np.array([result[(i,)] for i in range(n)]),
    )


def _exact(n: int, floor: float) -> Comparison:
    values = table(n)
    return Comparison(
        kernel="Shapley, exact",
        batch=f"{n} players",
        items=1,
        item="game",
        peers={PEER: _exact_peer(n)},
        contenders={
            "halves": Contender(
                run=lambda: exact(values), value=lambda result: result, floor={PEER: floor}, compiled=False
            )
        },
        tolerance=1e-9,
    )


def _many(n: int, floor: float, games: int) -> Comparison:
    """The peer computes one game after another."""
    values = np.random.default_rng(0).standard_normal((games, 2**n))
    values[0] = table(n)
    one = _exact_peer(n)
    peer: Peer | str = one
    if not isinstance(one, str):
        run, value = one.run, one.value
        peer = Peer(lambda: [run() for _ in range(games)], lambda result: value(result[0]))
    return Comparison(
        kernel="Shapley, exact",
        batch=f"{n} players, {games} games at once",
        items=games,
        item="game",
        peers={PEER: peer},
        contenders={
            "halves": Contender(
                run=lambda: exact(values), value=lambda result: result[0], floor={PEER: floor}, compiled=False
            )
        },
        tolerance=1e-9,
    )


def _sampled(n: int, orders: int) -> Comparison:
    """The same number of value calls. Other orders are drawn, so it is the sum of the values that must be equal."""
    values = table(n)
    game = _game(values, n)
    plan = plan_permutations(n, orders, 1, antithetic=False)
    calls = orders * (n - 1) + 2
    sampler = _shapiq("approximator", "PermutationSamplingSV")
    peer: Peer | str = sampler
    if not isinstance(sampler, str):
        peer = Peer(lambda: sampler(n=n, random_state=1).approximate(calls, game), lambda result: _sum(result, n))

    def ours() -> FloatArray:
        plan = plan_permutations(n, orders, 1, antithetic=False)
        return fold_permutations(plan, values[plan.coalition_C]).value

    return Comparison(
        kernel="Shapley, sampled",
        batch=f"{n} players, {calls} value calls ({len(plan.coalition_C)} different)",
        items=calls,
        item="value call",
        peers={SAMPLED: peer},
        contenders={
            "plan and fold": Contender(
                run=ours,
                value=lambda result: result.sum(keepdims=True),
                floor={SAMPLED: 6.0},
                slowest=1e-6 if calls >= FEWEST else None,
                compiled=False,
            )
        },
        tolerance=1e-9,
    )


def _sum(result: Any, n: int) -> Array:
    return np.array([sum(float(result[(i,)]) for i in range(n))])
