import numpy as np
import pytest

from apportion.asks import Answer, Continue, Place, Value
from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.methods import get
from apportion.units import by_step, by_token
from tests.asking import answered, asker, ends_with
from tests.branches import batch, edges, random_root, value
from tests.make import random_units
from tests.methods.test_vineppo import chain
from tests.plain import plain

FOUR = [(1, 1.0), (2, 1.0), (3, 0.0), (4, 0.0)]
Q = [0.8, 0.6, 0.5, 0.1]
THIRD = 2 / 3


def in_data(root, q=None, **params):
    units = by_step(batch(root))
    spec = get("c3")
    params = {"siblings": "data", **params}
    asks = spec.plan(units, **spec.bind(params))
    answers = [Answer(a, (q[k],) if q[k] is not None else ()) for k, a in enumerate(asks)]
    return spec.call(units, answers, **params)


@pytest.mark.parametrize(
    ("params", "want"),
    [
        ({"mode": "reward_only"}, [THIRD, THIRD, -THIRD, -THIRD]),
        ({"mode": "reward_only", "baseline": "full"}, [0.5, 0.5, -0.5, -0.5]),
        ({"mode": "value_only"}, [0.4, 0.1333, 0, -0.5333]),
        ({"mode": "value_assisted"}, [0.6, 0.5333, -0.5, -0.6333]),
        ({"mode": "value_assisted", "alpha": 0.5}, [0.6333, 0.6, -0.5833, -0.65]),
        ({"mode": "value_assisted", "alpha": 0.0}, [THIRD, THIRD, -THIRD, -THIRD]),
    ],
)
def test_worked_example(params, want):
    np.testing.assert_allclose(in_data(FOUR, Q, **params).advantage_S, want, atol=5e-5)


def test_alternatives_that_are_asked_for():
    # own return 1; alternatives 1, 0, 0: loo 1 - 1/3, full 1 - 2/4
    units = by_step(Batch.from_trajectories([chain(1.0)]))
    alternatives = [[ends_with(1.0), ends_with(0.0), ends_with(0.0)]]
    spec = get("c3")
    assert spec.plan(units, **spec.bind({})) == [Continue(Place(0), 3)]
    for baseline, want in (("loo", 2 / 3), ("full", 0.5)):
        answers = answered("c3", units, alternatives, baseline=baseline)
        assert spec.call(units, answers, baseline=baseline).advantage_S.tolist() == pytest.approx([want])


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference_in_the_data(seed):
    roots = [random_root(seed), random_root(seed + 300, depth=2)]
    units, spec = by_step(batch(*roots)), get("c3")
    rng = np.random.default_rng(seed)
    for mode, baseline, alpha, equal in (
        ("reward_only", "loo", 1.0, "merged"), ("reward_only", "full", 1.0, "apart"),
        ("value_only", "loo", 1.0, "apart"), ("value_assisted", "full", 0.3, "merged"),
    ):  # fmt: skip
        params = {"siblings": "data", "mode": mode, "baseline": baseline, "alpha": alpha, "equal": equal}
        asks = spec.plan(units, **spec.bind(params))
        q = iter(drawn := rng.normal(size=len(asks)).tolist())
        got = spec.call(units, [Answer(a, (x,)) for a, x in zip(asks, drawn, strict=True)], **params)
        want, known, s, critic = [], [], 0, {}
        for root in roots:
            rows = edges(root)
            for siblings, after in rows:
                told = [x for _, x in siblings if value(x, leaves=True) is not None]
                if len(told) > 1 and value(after, leaves=True) is not None and mode != "reward_only":
                    critic[id(siblings), id(after), s] = next(q)
                s += 1
            s -= len(rows)
            for siblings, after in rows:
                mine = value(after, leaves=True)
                known.append(mine is not None)
                told = [(k, v) for k, (_, x) in enumerate(siblings) if (v := value(x, leaves=True)) is not None]
                if mine is None or len(told) < 2:
                    want.append(0.0)
                else:
                    r = [v for _, v in told]
                    qs = [x for key, x in critic.items() if key[0] == id(siblings)]
                    want.append(slow(mine, r, critic.get((id(siblings), id(after), s)), qs, mode, baseline, alpha))
                s += 1
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)
        assert got.known_S.tolist() == known


def slow(mine, r, own_q, q, mode, baseline, alpha):
    def base(x, all_of_them):
        return (sum(all_of_them) - x) / (len(all_of_them) - 1) if baseline == "loo" else np.mean(all_of_them)

    if mode == "reward_only":
        return mine - base(mine, r)
    if mode == "value_only":
        return own_q - base(own_q, q)
    return mine - ((1 - alpha) * base(mine, r) + alpha * base(own_q, q))


@pytest.mark.parametrize("seed", range(30))
def test_equals_the_slow_reference_when_asking(seed):
    units = random_units(seed, forks=False)
    rng = np.random.default_rng(seed)
    spec = get("c3")
    for baseline, gamma in (("loo", 1.0), ("full", 0.8)):
        params = {"k": 2, "baseline": baseline, "gamma": gamma}
        values = [
            [ends_with(*rng.normal(size=2)) for _ in range(int(rng.integers(0, 3)))]
            for _ in spec.plan(units, **spec.bind(params))
        ]
        got = spec.call(units, answered("c3", units, values, **params), **params)
        feed, want, known = iter(values), [], []
        for r in plain(units.batch):
            for i in range(len(r.rewards)):
                others = (
                    [sum(m.reward * gamma**j for j, m in enumerate(c.moves)) for c in next(feed)] if r.valid else []
                )
                own = sum(x * gamma**j for j, x in enumerate(r.rewards[i:]))
                known.append(bool(others))
                pool = others + ([own] if baseline == "full" else [])
                want.append(own - sum(pool) / len(pool) if others else 0.0)
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)
        assert got.known_S.tolist() == known


@pytest.mark.parametrize("seed", range(10))
def test_at_the_first_decision_it_is_rloo(seed):
    rng = np.random.default_rng(seed)
    root = [(c, float(rng.integers(0, 3))) for c in range(1, 6)]
    units = by_step(batch(root, flat=True))
    np.testing.assert_allclose(
        assign("c3(siblings='data')", units, ask=asker(lambda r: 0.0)).advantage_S, assign("rloo", units).advantage_S
    )


def test_nested_rollouts_count_each_node_once():
    # reasoner 1 has three actors, reasoner 2 one: their rewards are means of subtrees, each reasoner has one vote
    root = [(1, [(1, 1.0), (2, 0.0), (3, 0.5)]), (2, [(1, 1.0)])]
    credit = assign("c3(siblings='data')", by_step(batch(root, flat=True)), ask=asker(lambda r: 0.0))
    np.testing.assert_allclose(credit.advantage_S, [-0.5, 0.75, -0.5, -0.75, -0.5, 0, 0.5, 0], atol=1e-12)


def test_siblings_in_the_data_need_nobody_to_ask():
    credit = assign("c3(siblings='data')", by_step(batch(FOUR)))
    np.testing.assert_allclose(credit.advantage_S, [THIRD, THIRD, -THIRD, -THIRD])
    with pytest.raises(ConfigError, match="c3 asks a policy, and nobody was given to ask"):
        assign("c3", by_step(batch(FOUR)))
    with pytest.raises(ConfigError, match="c3 asks a value model, and nobody was given to ask"):
        assign("c3(siblings='data', mode='value_only')", by_step(batch(FOUR)))


def test_the_critic_is_asked_behind_each_decision_that_has_siblings():
    units, spec = by_step(batch([(1, [(1, 0.0), (2, 1.0)])])), get("c3")
    asks = spec.plan(units, **spec.bind({"siblings": "data", "mode": "value_only"}))
    assert asks == [Value(Place(0, 1, 1)), Value(Place(0, 2, 1))]


def test_gaps_are_unknown_and_counted_or_an_error():
    credit = in_data(FOUR, [0.8, None, 0.5, 0.1], mode="value_only")
    assert credit.known_S.tolist() == [True, False, True, True]
    assert credit.advantage_S.tolist() == pytest.approx([0.5, 0, 0.05, -0.55])
    assert credit.notes["units_without_value"] == 1
    with pytest.raises(
        DataError, match="c3: 1 decisions, the first of them unit 1 of trajectory 0, have nothing to be"
    ):
        in_data(FOUR, [0.8, None, 0.5, 0.1], mode="value_only", on_gap="raise")
    units = by_step(Batch.from_trajectories([chain(0, 1.0)]))
    half = get("c3").call(units, answered("c3", units, [[], [ends_with(0.0)]]))
    assert half.known_S.tolist() == [False, True]


def test_exact_on_an_enumerated_decision():
    # two choices of probability 1/2, rewards 1 and 0: the expected credit of the first is 1 - V = 1/2
    units = by_token(Batch.from_trajectories([Trajectory([Step(prompt_ids=[0], ids=[1])], outcome=1.0)]))

    def play(request):
        return ends_with(float(np.random.default_rng(request.seed).integers(2)))

    got = {
        k: np.array([assign("c3", units, k=k, ask=asker(play, seed=s)).advantage_S[0] for s in range(200)])
        for k in (1, 6)
    }
    for x in got.values():
        assert abs(x.mean() - 0.5) < 4 * x.std() / np.sqrt(len(x))
    assert got[1].var() / got[6].var() == pytest.approx(6, rel=0.3)


def test_what_it_refuses():
    units = by_step(batch(FOUR))
    for params, sentence in (
        ({"siblings": "all"}, "c3: siblings is 'all'; give one of 'ask', 'data'"),
        ({"mode": "value"}, "c3: mode is 'value'"),
        (
            {"mode": "value_only"},
            "c3: mode 'value_only' asks a critic about each sibling, and one that is asked for stands",
        ),
        ({"k": 0}, "c3: k is 0; ask for at least one alternative"),
        ({"alpha": 2.0}, "c3: alpha is 2.0; give a share from 0 to 1"),
        ({"baseline": "none"}, "c3: baseline is 'none'"),
        ({"equal": "no"}, "c3: equal is 'no'"),
        ({"on_gap": "zero"}, "c3: on_gap is 'zero'"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            assign("c3", units, ask=asker(lambda r: ends_with(1.0)), **params)
