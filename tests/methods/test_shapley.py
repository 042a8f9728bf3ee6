import itertools

import numpy as np
import pytest

from apportion.asks import Score
from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.methods import get
from apportion.resources import Refusal
from apportion.units import by_agent, by_step
from tests.asking import asker
from tests.make import random_batch
from tests.plain import plain
from tests.pricing import assert_the_price_is_counted, number_of

THREE = ("1", "2", "3")
GAMES = {
    "needs 1 and 2": (lambda s: float({"1", "2"} <= s), [0.5, 0.5, 0]),
    "1 or 2 suffices": (lambda s: float(bool({"1", "2"} & s)), [0.5, 0.5, 0]),
    "1 works; 3 breaks it unless 2 is there": (
        lambda s: float("1" in s and not ("3" in s and "2" not in s)),
        [5 / 6, 1 / 3, -1 / 6],
    ),
}


def rollout(*names, **fields):
    steps = [Step(prompt_ids=[100 + s], ids=[s, 7], agent=name) for s, name in enumerate(names)]
    return Trajectory(steps, **fields)


def units_of(*names):
    return by_agent(Batch.from_trajectories([rollout(*names)]))


def plays(game):
    return asker(lambda r: game({step.agent for step in r.trajectory.steps} - set(r.ask.agents)))


@pytest.mark.parametrize("name", GAMES)
def test_worked_games(name):
    game, want = GAMES[name]
    credit = assign("shapley", units_of(*THREE), ask=plays(game))
    assert credit.advantage_S == pytest.approx(want)
    assert credit.cost.requests == 8
    assert credit.notes["rollouts_exact"] == 1


@pytest.mark.parametrize("orders", [1, 10, 100])
def test_worked_game_by_sampled_orders(orders):
    game, want = GAMES["1 works; 3 breaks it unless 2 is there"]
    how = {"estimator": "permutation", "orders": orders, "antithetic": False, "max_evals": 1000}
    got = assign("shapley", units_of(*THREE), ask=plays(game), **how).advantage_S
    assert got.sum() == pytest.approx(1.0, abs=1e-12)
    if orders == 100:
        assert got == pytest.approx(want, abs=0.12)


def test_the_true_values_are_the_mean_of_sampled_orders():
    weight = {frozenset(x): number_of(x) for k in range(6) for x in itertools.combinations("abcde", k)}

    def game(s):
        return sum(w for members, w in weight.items() if members <= s)

    phi = [sum(w / len(m) for m, w in weight.items() if name in m) for name in "abcde"]
    assert assign("shapley", units_of(*"abcde"), ask=plays(game)).advantage_S == pytest.approx(phi)
    got = {}
    for orders in (1, 4):
        how = {"estimator": "permutation", "orders": orders, "antithetic": False}
        ask = plays(game)
        got[orders] = np.array(
            [assign("shapley", units_of(*"abcde"), ask=ask, seed=s, **how).advantage_S for s in range(120)]
        )
        error = got[orders].std(axis=0, ddof=1) / 120**0.5
        assert (np.abs(got[orders].mean(axis=0) - phi) < 4 * error).all()
        assert got[orders].sum(axis=1) == pytest.approx(sum(phi))
    assert 2.5 < got[1].var(axis=0).sum() / got[4].var(axis=0).sum() < 6.4


@pytest.mark.parametrize("cut", [by_agent, by_step])
@pytest.mark.parametrize("seed", range(15))
def test_equals_the_slow_reference(seed, cut):
    batch = random_batch(seed)
    if not any(step.agent for t in batch.trajectories for step in t.steps):
        pytest.skip("nobody has a name")
    units = cut(batch)
    for estimator in ("exact", "auto"):
        got = assign(
            "shapley", units, estimator=estimator, ask=asker(lambda r: number_of(r.trajectory.id, sorted(r.ask.agents)))
        )
        want, known = slow_agents(batch, units)
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)
        assert got.known_S.tolist() == known


def slow_agents(batch, units):
    phi = {}
    for n, (r, trajectory) in enumerate(zip(plain(batch), batch.trajectories, strict=True)):
        spoke = {u for u in range(len(units)) if units.traj_of_S[u] == n}
        names = sorted({units.agent_S[u] for u in spoke} - {""})
        if batch.failed_N[n] or not sum(r.tokens):
            continue
        orders = list(itertools.permutations(names))
        for order in orders:
            for k, name in enumerate(order):
                with_, without = set(names) - set(order[: k + 1]), set(names) - set(order[:k])
                gain = number_of(trajectory.id, sorted(with_)) - number_of(trajectory.id, sorted(without))
                phi[n, name] = phi.get((n, name), 0.0) + gain / len(orders)
    keys = list(zip(units.traj_of_S.tolist(), units.agent_S.tolist(), strict=True))
    return [phi.get(key, 0.0) for key in keys], [key in phi for key in keys]


def test_games_add_and_players_who_do_nothing_get_nothing():
    one, other = GAMES["needs 1 and 2"][0], GAMES["1 works; 3 breaks it unless 2 is there"][0]
    units = units_of(*THREE)
    sum_ = assign("shapley", units, ask=plays(lambda s: 2 * one(s) + other(s))).advantage_S
    apart = [assign("shapley", units, ask=plays(g)).advantage_S for g in (one, other)]
    assert sum_ == pytest.approx(2 * apart[0] + apart[1])
    for how in ({"estimator": "exact"}, {"estimator": "permutation", "orders": 2}):
        assert assign("shapley", units, ask=plays(one), **how).advantage_S[2] == 0.0


def test_every_unit_of_an_agent_carries_its_value():
    units = by_step(Batch.from_trajectories([rollout("a", "b", "a", None, "b")]))
    credit = assign("shapley", units, ask=plays(lambda s: 2.0 * ("a" in s) + ("b" in s)))
    assert credit.advantage_S.tolist() == [2, 1, 2, 0, 1]
    assert credit.known_S.tolist() == [True, True, True, False, True]
    assert credit.notes["units_without_agent"] == 1


def test_eight_agents_are_exact_and_nine_are_sampled():
    for n, kind, asks in ((8, "exact", 256), (9, "permutation", None)):
        credit = assign("shapley", units_of(*"abcdefghi"[:n]), ask=plays(lambda s: float(len(s))))
        assert credit.notes[f"rollouts_{kind}"] == 1
        assert credit.advantage_S == pytest.approx(np.ones(n))
        assert credit.notes["asks"] == asks if asks else credit.notes["asks"] <= 256


def test_what_is_asked():
    spec = get("shapley")
    asks = spec.plan(units_of("b", "a", "b"), **spec.bind({}))
    assert asks == [Score(0, agents=x) for x in (("a", "b"), ("b",), ("a",), ())]


def test_missing_scores():
    def ask(request):
        if request.ask.agents == ("2",):
            raise Refusal("no")
        return float("1" not in request.ask.agents)

    exact = assign("shapley", units_of(*THREE), ask=asker(ask))
    assert not exact.known_S.any()
    assert exact.notes["units_without_score"] == 3
    how = {"estimator": "permutation", "orders": 6, "antithetic": False, "seed": 1}
    some = assign("shapley", units_of(*THREE), ask=asker(ask), **how)
    assert 0 < some.notes["orders_lost"] < 6
    assert some.advantage_S.tolist() == [1, 0, 0]


def test_the_price_is_what_is_counted():
    units = by_agent(random_batch(5))
    assert_the_price_is_counted("shapley", units)
    assert_the_price_is_counted("shapley", units, estimator="permutation", orders=1, max_evals=20, seed=1)


def test_what_it_refuses():
    with pytest.raises(ConfigError, match=r"shapley: estimator is 'owen'; give one of 'auto', 'exact', 'permutation'"):
        assign("shapley", units_of("a"), estimator="owen", ask=plays(len))
    with pytest.raises(DataError, match=r"shapley reads agent_S"):
        assign("shapley", by_step(Batch.from_trajectories([rollout(None)])), ask=plays(len))
