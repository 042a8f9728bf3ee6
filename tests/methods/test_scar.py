import itertools
import math

import numpy as np
import pytest

from apportion.asks import Answer, Score, Span
from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.methods import get
from apportion.resources import Refusal
from apportion.units import by_agent, by_segment, by_step, by_token
from tests.asking import asker
from tests.make import random_batch
from tests.plain import plain
from tests.pricing import assert_the_price_is_counted, number_of

GAME = {"": 0.1, "1": 0.5, "2": 0.2, "3": -0.3, "12": 0.9, "13": 0.1, "23": 0.0, "123": 0.6}


def rollout(*sizes, **fields):
    steps = [Step(prompt_ids=[100 + s], ids=list(range(10 * s, 10 * s + n))) for s, n in enumerate(sizes)]
    return Trajectory(steps, **fields)


def units_of(*sizes):
    return by_token(Batch.from_trajectories([rollout(*sizes)]))


def present(request):
    """Sampled tokens that the ask leaves in place, as (step, token)."""
    gone = {(span.step, t) for span in request.ask.absent for t in range(span.first, span.last)}
    steps = enumerate(request.trajectory.steps)
    return [(s, t) for s, step in steps for t in range(len(step.ids)) if (s, t) not in gone]


def plays(game, sizes=(3,)):
    """An asker whose score is the game's value, players numbered from 1 in the order of the tokens."""
    number = {place: k for k, place in enumerate(((s, t) for s, n in enumerate(sizes) for t in range(n)), 1)}
    return asker(lambda request: game["".join(str(number[place]) for place in present(request))])


def test_worked_example():
    credit = assign("scar", units_of(3), alpha=1.0, ask=plays(GAME))
    assert credit.advantage_S == pytest.approx([0.516667, 0.316667, -0.333333], abs=1e-6)
    assert credit.advantage_S.sum() == pytest.approx(0.6 - 0.1)
    assert credit.notes["score_of_nothing"] == pytest.approx(0.1)
    assert credit.notes["share_beyond_total"] == pytest.approx(1 / 3)  # .516667 > .5
    assert credit.notes["rollouts_exact"] == 1
    assert "orders_lost" not in credit.notes
    assert credit.cost.requests == 8


def test_worked_example_mixed_with_the_whole_score():
    # .8 phi, and .2 * .6 = .12 at the end
    credit = assign("scar", units_of(3), alpha=0.8, ask=plays(GAME))
    assert credit.advantage_S == pytest.approx([0.413333, 0.253333, -0.146667], abs=1e-6)
    assert credit.advantage_S.sum() == pytest.approx(0.8 * 0.5 + 0.2 * 0.6)
    last = credit.to_tokens(spread="last").advantage_T
    assert last[last != 0] == pytest.approx(credit.advantage_S)


@pytest.mark.parametrize(
    ("sizes", "tree", "want"),
    [
        ((3,), "balanced", [0.525, 0.325, -0.35]),  # {1, 2}, {3}
        ((1, 2), "blocks", [0.5, 0.325, -0.325]),  # {1}, {2, 3}
        ((1, 2), "step", [0.5, 0.325, -0.325]),
        ((2, 1), "step", [0.525, 0.325, -0.35]),
        ((3,), "blocks", [0.516667, 0.316667, -0.333333]),  # one block: Shapley's own
    ],
)
def test_worked_example_along_trees(sizes, tree, want):
    credit = assign("scar", units_of(*sizes), alpha=1.0, estimator="owen", tree=tree, ask=plays(GAME, sizes))
    assert credit.advantage_S == pytest.approx(want, abs=1e-6)
    assert credit.notes["rollouts_owen"] == 1
    assert "orders_lost" not in credit.notes


def test_worked_example_of_single_orders():
    # what each order gives; order 1, 2, 3 gives .4, .4, -.3
    by_order = {
        order: [
            GAME["".join(sorted(order[: order.index(i) + 1]))] - GAME["".join(sorted(order[: order.index(i)]))]
            for i in "123"
        ]
        for order in map("".join, itertools.permutations("123"))
    }
    assert by_order["123"] == pytest.approx([0.4, 0.4, -0.3])
    found = set()
    for seed in range(60):
        how = {"estimator": "permutation", "orders": 1, "antithetic": False, "seed": seed}
        got = assign("scar", units_of(3), alpha=1.0, ask=plays(GAME), **how).advantage_S
        found |= {order for order, want in by_order.items() if np.allclose(got, want)}
        assert got.sum() == pytest.approx(0.5)
    assert found == set(by_order)
    # the spread of one order, of two, and of an order with its reverse, over all six
    table = np.array([by_order[o] for o in by_order])
    assert table.std(axis=0) == pytest.approx([0.121335, 0.167498, 0.074536], abs=1e-6)
    both = np.array([(np.array(by_order[o]) + by_order[o[::-1]]) / 2 for o in by_order])
    assert both.std(axis=0) == pytest.approx([0.02357] * 3, abs=1e-5)
    two = np.array([(np.array(a) + b) / 2 for a, b in itertools.product(by_order.values(), repeat=2)])
    assert two.std(axis=0) == pytest.approx([0.085797, 0.118439, 0.052705], abs=1e-6)
    pair = assign("scar", units_of(3), alpha=1.0, estimator="permutation", orders=1, ask=plays(GAME)).advantage_S
    assert any(np.allclose(pair, row) for row in both)


def test_who_gets_the_score_of_nothing():
    phi = np.array([0.516667, 0.316667, -0.333333])
    uniform = assign("scar", units_of(3), alpha=1.0, null="uniform", ask=plays(GAME)).advantage_S
    assert uniform == pytest.approx(phi + 0.1 / 3, abs=1e-6)
    terminal = assign("scar", units_of(3), alpha=1.0, null="terminal", ask=plays(GAME)).advantage_S
    assert terminal == pytest.approx(phi + np.array([0, 0, 0.1]), abs=1e-6)


def test_one_player_gets_the_whole_less_nothing():
    game = {"": 0.25, "1": 2.0}
    for estimator in ("auto", "exact", "permutation", "owen"):
        credit = assign("scar", units_of(1), alpha=1.0, estimator=estimator, ask=plays(game, (1,)))
        assert credit.advantage_S.tolist() == [1.75]
        assert credit.cost.requests == 2


def slow_shapley(players, value):
    """Mean of what each adds over all orders."""
    out = dict.fromkeys(players, 0.0)
    orders = list(itertools.permutations(players))
    for order in orders:
        for k, i in enumerate(order):
            out[i] += (value(frozenset(order[: k + 1])) - value(frozenset(order[:k]))) / len(orders)
    return out


def slow_owen(tree, value):
    """The recursion over a binary tree: each child with its sibling there and not there."""
    out = {}

    def leaves(node):
        return frozenset([node]) if isinstance(node, int) else leaves(node[0]) | leaves(node[1])

    def go(node, there, weight):
        if isinstance(node, int):
            out[node] = out.get(node, 0.0) + weight * (value(there | {node}) - value(there))
            return
        for child, sibling in (node, node[::-1]):
            go(child, there, weight / 2)
            go(child, there | leaves(sibling), weight / 2)

    go(tree, frozenset(), 1.0)
    return out


def halves(players):
    if len(players) == 1:
        return players[0]
    middle = (len(players) + 1) // 2
    return (halves(players[:middle]), halves(players[middle:]))


LEVELS = {"token": by_token, "segment": lambda batch: by_segment(batch, by="fixed", size=2), "step": by_step}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(8))
def test_equals_the_slow_reference(seed, level):
    batch = random_batch(seed, forks=False, steps=2, groups=3)
    units = LEVELS[level](batch)
    ask = asker(lambda r: tokens_score(r.trajectory.id, present(r)))
    mixtures = ((0.0, "keep"), (0.3, "uniform"), (1.0, "terminal"), (1.0, "keep"))
    for (alpha, null), estimator in itertools.product(mixtures, ("exact", "owen")):
        params = {"alpha": alpha, "null": null, "estimator": estimator, "max_evals": 1 << 16}
        got = assign("scar", units, ask=ask, **params)
        want = slow_scar(batch, units, alpha, null, estimator)
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)
        heard = [sum(r.tokens) > 0 for r in plain(batch)]
        assert got.known_S.tolist() == [heard[n] and not batch.failed_N[n] for n in units.traj_of_S.tolist()]


def tokens_score(name, places):
    return number_of(name, sorted(places))


def slow_scar(batch, units, alpha, null, estimator):
    out = [0.0] * len(units)
    owners = iter([u for u in units.unit_of_T.tolist() if u >= 0])
    for n, (r, trajectory) in enumerate(zip(plain(batch), batch.trajectories, strict=True)):
        own = {}
        for s, size in enumerate(r.tokens):
            for t in range(size):
                own.setdefault(next(owners), []).append((s, t))
        if not own or batch.failed_N[n]:
            continue
        cache = {}

        def value(there, own=own, name=trajectory.id, cache=cache):
            if there not in cache:
                cache[there] = tokens_score(name, [place for i in there for place in own[i]])
            return cache[there]

        players = sorted(own)
        if estimator == "owen":
            phi = slow_owen(
                halves(list(range(len(players)))),
                lambda x, v=value, p=players: v(frozenset(p[i] for i in x)),
            )
            phi = {players[i]: x for i, x in phi.items()}
        elif len(players) <= 6:
            phi = slow_shapley(players, value)
        else:  # the same by sizes of coalitions, where orders are too many
            phi = dict.fromkeys(players, 0.0)
            for i in players:
                others = [j for j in players if j != i]
                for k in range(len(others) + 1):
                    weight = math.factorial(k) * math.factorial(len(others) - k) / math.factorial(len(players))
                    for chosen in itertools.combinations(others, k):
                        phi[i] += weight * (value(frozenset([*chosen, i])) - value(frozenset(chosen)))
        none, whole = value(frozenset()), value(frozenset(players))
        for i in players:
            extra = none / len(players) if null == "uniform" else none if null == "terminal" and i == players[-1] else 0
            out[i] += alpha * (phi[i] + extra)
        out[[u for u in range(len(units)) if units.traj_of_S[u] == n][-1]] += (1 - alpha) * whole
    return out


def unanimity(rng, n, terms=6):
    """A game whose Shapley values are known: a sum of 'all of these are there', each shared equally."""
    sets = [frozenset(rng.choice(n, size=int(rng.integers(1, n + 1)), replace=False).tolist()) for _ in range(terms)]
    weights = rng.normal(size=terms)
    phi = np.zeros(n)
    for members, weight in zip(sets, weights, strict=True):
        phi[list(members)] += weight / len(members)
    return phi, lambda there: float(sum(w for m, w in zip(sets, weights, strict=True) if m <= there))


def there(request):
    return {t for _, t in present(request)}


@pytest.mark.parametrize("seed", range(5))
def test_exact_on_games_whose_value_is_known(seed):
    phi, game = unanimity(np.random.default_rng(seed), n := 3 + seed)
    credit = assign("scar", units_of(n), alpha=1.0, ask=asker(lambda r: game(there(r))))
    assert credit.notes["rollouts_exact"] == 1
    assert credit.advantage_S == pytest.approx(phi, abs=1e-12)


def test_sampled_orders_have_the_true_mean_and_their_variance_falls_as_one_by_k():
    phi, game = unanimity(np.random.default_rng(3), 7, terms=10)
    units, spec = units_of(7), get("scar")

    def drawn(orders, antithetic, seeds):
        how = {"alpha": 1.0, "estimator": "permutation", "orders": orders, "antithetic": antithetic}
        got = []
        for seed in seeds:
            asks = spec.plan(units, **spec.bind({**how, "seed": seed}))
            gone = [{t for span in ask.absent for t in range(span.first, span.last)} for ask in asks]
            answers = [Answer(ask, (game(set(range(7)) - out),)) for ask, out in zip(asks, gone, strict=True)]
            got.append(spec.call(units, answers, **how, seed=seed).advantage_S)
        return np.array(got)

    for antithetic in (False, True):
        one, four = drawn(1, antithetic, range(300)), drawn(4, antithetic, range(300, 600))
        for sample in (one, four):
            assert sample.sum(axis=1) == pytest.approx(game(set(range(7))))  # every draw adds up
            error = sample.std(axis=0, ddof=1) / 300**0.5
            assert (np.abs(sample.mean(axis=0) - phi) < 4 * error + 1e-12).all()
        ratio = one.var(axis=0).sum() / four.var(axis=0).sum()
        assert 3.0 < ratio < 5.3  # 4


def test_equal_units_get_equal_credit_and_idle_ones_none():
    # tokens 0 and 1 do the same, 3 does nothing
    def game(x):
        return 2.0 * (0 in x or 1 in x) + 1.5 * (2 in x) + (0 in x and 1 in x and 2 in x)

    for estimator in ("exact", "owen"):
        credit = assign("scar", units_of(4), alpha=1.0, estimator=estimator, ask=asker(lambda r: game(there(r))))
        a, b, _, idle = credit.advantage_S
        assert a == pytest.approx(b, abs=1e-12)
        assert idle == pytest.approx(0, abs=1e-12)


def test_agents_with_a_step_each_get_what_their_steps_get():
    # `shapley` on agents plays the same game when each agent has one step
    names = ("ann", "bob", "cyd", "dee")
    steps = [Step(prompt_ids=[1], ids=[s, 9], agent=name) for s, name in enumerate(names)]
    batch = Batch.from_trajectories([Trajectory(steps)])
    phi, game = unanimity(np.random.default_rng(1), 4)

    def by_steps(request):
        return game({s for s, _ in present(request)})

    def by_agents(request):
        return game({s for s, name in enumerate(names) if name not in request.ask.agents})

    one = assign("scar", by_step(batch), alpha=1.0, ask=asker(by_steps)).advantage_S
    other = assign("shapley", by_agent(batch), ask=asker(by_agents)).advantage_S
    assert one == pytest.approx(phi)
    assert other == pytest.approx(phi)


def test_the_estimator_is_chosen_by_what_the_evaluations_allow():
    def kind(n, **params):
        notes = assign("scar", units_of(n), ask=asker(lambda r: 0.0), **params).notes
        return next(k.removeprefix("rollouts_") for k in notes if k.startswith("rollouts_")), notes["asks"]

    assert kind(9) == ("exact", 512)
    assert kind(10)[0] == "permutation"
    assert kind(10, max_evals=1024) == ("exact", 1024)
    assert kind(13, max_evals=8192, orders=1)[0] == "permutation"  # exact for up to 12
    name, asks = kind(256)  # one order and its reverse need 2 + 2 * 255 = 512
    assert name == "permutation"
    assert asks == 512
    assert kind(257)[0] == "owen"
    assert kind(257, antithetic=False)[0] == "permutation"
    assert kind(20, orders=3)[0] == "permutation"
    assert 2 + 2 * 2 * 19 < kind(20, orders=3)[1] <= 2 + 3 * 2 * 19  # some coalitions are met twice
    assert kind(300, max_evals=100)[0] == "owen"


def test_in_a_tree_groups_that_are_not_reached_share_equally():
    phi = np.arange(64.0)
    credit = assign(
        "scar", units_of(64), alpha=1.0, estimator="owen", max_evals=40, ask=asker(lambda r: float(sum(there(r))))
    )
    assert credit.notes["asks"] <= 40
    assert credit.notes["groups_shared_equally"] > 0
    assert credit.advantage_S.sum() == pytest.approx(phi.sum())
    assert len(set(credit.advantage_S.round(9).tolist())) > 4  # some were taken apart
    whole = assign(
        "scar", units_of(64), alpha=1.0, estimator="owen", max_evals=4096, ask=asker(lambda r: float(sum(there(r))))
    )
    assert whole.advantage_S == pytest.approx(phi)
    assert whole.notes["asks"] == 2 * (64**2 - 1) // 3 + 2
    assert "groups_shared_equally" not in whole.notes


def lossy(lose, game=GAME):
    table = plays(game)
    answer = table.resources[0].function

    def ask(request):
        if lose(request):
            raise Refusal("no")
        return answer(request)

    return asker(ask)


def test_what_hangs_on_a_missing_score_is_unknown():
    units = units_of(3)
    gone = (Span(0, 2, 3),)  # {1, 2}
    exact = assign("scar", units, alpha=1.0, ask=lossy(lambda r: r.ask.absent == gone))
    assert not exact.known_S.any()
    assert exact.notes["units_without_score"] == 3
    assert exact.notes["failed_asks"] == 1
    # along ((1, 2), 3) both 1 and 2 need {1, 2}, and so does 3; {1} concerns 1 and 2 alone
    alone = (Span(0, 1, 3),)
    tree = assign("scar", units, alpha=1.0, estimator="owen", ask=lossy(lambda r: r.ask.absent == alone))
    assert tree.known_S.tolist() == [False, False, True]
    assert tree.advantage_S == pytest.approx([0, 0, -0.35])
    # the whole score alone is missing: the last unit of a mixture is unknown, without Shapley part no other
    sparse = assign("scar", units, alpha=0.0, ask=lossy(lambda r: r.ask.absent == ()))
    assert sparse.known_S.tolist() == [True, True, False]


def test_incomplete_orders_are_left_out_and_the_rest_adds_up():
    game = {k: GAME[k] for k in GAME}
    units, alone = units_of(3), (Span(0, 1, 3),)
    how = {"alpha": 1.0, "estimator": "permutation", "orders": 12, "antithetic": False, "seed": 2}
    credit = assign("scar", units, ask=lossy(lambda r: r.ask.absent == alone, game), **how)
    assert 0 < credit.notes["orders_lost"] < 12
    assert credit.known_S.all()
    assert credit.advantage_S.sum() == pytest.approx(0.5)
    paired = assign("scar", units, ask=lossy(lambda r: r.ask.absent == alone, game), **{**how, "antithetic": True})
    assert 0 < paired.notes["orders_lost"] < 12
    assert paired.advantage_S.sum() == pytest.approx(0.5)
    none = assign("scar", units, ask=lossy(lambda r: r.ask.absent == (Span(0, 0, 3),), game), **how)
    assert not none.known_S.any()


def test_what_is_asked():
    # equal texts are equal asks: neighbours are one run, runs stay inside their step, the filler goes along
    batch = Batch.from_trajectories([rollout(3, 0, 2)])
    spec = get("scar")
    asks = spec.plan(by_token(batch), **spec.bind({"filler": "delete"}))
    assert len(asks) == len(set(asks)) == 32
    assert Score(0, absent=(Span(0, 0, 3), Span(2, 0, 2)), filler="delete") in asks
    assert Score(0, absent=(Span(0, 0, 1), Span(0, 2, 3), Span(2, 1, 2)), filler="delete") in asks
    coarse = spec.plan(by_step(batch), **spec.bind({"filler": "delete"}))
    assert set(coarse) < set(asks)
    units = by_step(batch)
    credit = assign("scar", units, alpha=1.0, ask=asker(lambda r: float(len(present(r)))))
    assert credit.advantage_S.tolist() == [3, 0, 2]  # a step without tokens is no player
    assert credit.known_S.all()


def test_sampled_orders_differ_between_rollouts_but_not_with_their_place():
    a, b = rollout(12, id="a"), Trajectory([Step(prompt_ids=[100], ids=list(range(20, 32)))], id="b")
    spec = get("scar")
    how = spec.bind({"estimator": "permutation", "orders": 2})

    def absent(trajectories, n):
        units = by_token(Batch.from_trajectories(trajectories))
        return [ask.absent for ask in spec.plan(units, **how) if ask.traj == n]

    assert absent([a, b], 0) == absent([b, a], 1) == absent([a], 0)
    assert absent([a, b], 0) != absent([a, b], 1)
    text = Trajectory([Step(observation="q", action="one two three four five six seven eight nine ten eleven")])
    other = Trajectory([Step(observation="q", action="ten two three four five six seven eight nine one eleven")])
    assert absent([text], 0) == absent([other, text], 1) != absent([other], 0)


def test_the_price_is_what_is_counted():
    batch = random_batch(5, forks=False)
    assert_the_price_is_counted("scar", by_token(batch))
    assert_the_price_is_counted("scar", by_step(batch), estimator="owen", tree="step", max_evals=30, null="uniform")
    assert_the_price_is_counted("scar", by_token(batch), estimator="permutation", orders=2, filler="mask_token", seed=3)


def test_what_it_refuses():
    def refused(match, n=3, **params):
        with pytest.raises(ConfigError, match=match):
            assign("scar", units_of(n), ask=asker(lambda r: 0.0), **params)

    refused(r"scar: alpha is 2; give a number from 0 to 1", alpha=2)
    refused(r"scar: null is 'me'; give one of 'keep', 'uniform', 'terminal'", null="me")
    refused(r"scar: tree is 'oak'; give one of 'balanced', 'step', 'blocks'", tree="oak")
    refused(r"scar: estimator is 'best'; give one of 'auto', 'exact', 'permutation', 'owen'", estimator="best")
    refused(r"filler is 'x'; it takes blank, delete, mask_token", filler="x")
    refused(r"scar: max_evals=1, orders=None; give at least 2 evaluations and 1 order", max_evals=1)
    refused(r"scar: max_evals=512, orders=0; give at least", orders=0)
    refused(r"scar: 10 players have 2\*\*10 coalitions, and max_evals is 512; raise it", n=10, estimator="exact")
    refused(
        r"scar: 4 orders of 100 players need up to 794 evaluations, and max_evals is 512; raise it, or lower orders",
        n=100,
        estimator="permutation",
        orders=4,
    )
    refused(r"max_evals is 512; raise it, or cut into fewer units", n=600, estimator="permutation")
