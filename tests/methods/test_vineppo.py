import math

import numpy as np
import pytest

from apportion.asks import Continue, Place
from apportion.assign import assign, cost
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.methods import get
from apportion.units import by_segment, by_step, by_token, by_turn
from tests.asking import answered, asker, ends_with
from tests.make import random_units
from tests.plain import plain


def chain(*rewards, sizes=None, **fields):
    """A rollout whose context grows; step i writes sizes[i] tokens."""
    sizes = sizes or [1] * len(rewards)
    steps = [
        Step(prompt_ids=[100 + s], ids=list(range(10 * s, 10 * s + n)), reward=r)
        for s, (r, n) in enumerate(zip(rewards, sizes, strict=True))
    ]
    return Trajectory(steps, **fields)


def wins(n, of=9):
    return [ends_with(1.0)] * n + [ends_with(0.0)] * (of - n)


def credit_of(units, values, **params):
    return get("vineppo").call(units, answered("vineppo", units, values, **params), **params)


@pytest.mark.parametrize(
    ("hits", "score", "want"),
    [((4, 5, 8), 1, (0.1111, 0.3333, 0.1111)), ((4, 5, 1), 0, (0.1111, -0.4444, -0.1111))],
)
def test_worked_examples(hits, score, want):
    # V = hits / 9; A = V1 - V0, V2 - V1, score - V2; the sum is score - V0
    units = by_step(Batch.from_trajectories([chain(0, 0, score)]))
    credit = credit_of(units, [wins(h) for h in hits])
    np.testing.assert_allclose(credit.advantage_S, want, atol=5e-5)
    assert credit.advantage_S.sum() == pytest.approx(score - hits[0] / 9)


def test_worked_example_per_token():
    # V = .5 .5 .25 1.0, score 1: A = 0, -.25, .75, 0
    units = by_token(Batch.from_trajectories([chain(1.0, sizes=[4])]))
    credit = credit_of(units, [wins(n, 4) for n in (2, 2, 1, 4)], k=4)
    np.testing.assert_allclose(credit.advantage_S, [0, -0.25, 0.75, 0])


def test_worked_example_whitened():
    # tokens 4, 6, 5 a step: mean .0074, sd .2673 over both rollouts
    rollouts = [chain(0, 0, r, sizes=[4, 6, 5], group="g") for r in (1, 0)]
    units = by_step(Batch.from_trajectories(rollouts))
    hits = {(0, 0): 4, (0, 1): 5, (0, 2): 8, (1, 1): 5, (1, 2): 1}

    def answer(request):
        at = request.ask.at
        return ends_with(float(request.number < hits[at.traj if at.step else 0, at.step]))

    # the last steps share their past, so that only a resource which looks at the rollout tells them apart
    ask = asker(answer)
    ask.resources[0].content = lambda request: f"{request.ask.at}".encode()
    credit = assign("vineppo | whiten", units, ask=ask)
    want = [0.3879, 1.2192, 0.3879, 0.3879, -1.6903, -0.4433]
    np.testing.assert_allclose(credit.advantage_S, want, atol=6e-5)


def test_worked_example_with_a_cap():
    # C = 2, V0..2 = 4/9, 5/9, 6/9: the last valued state takes all of the rest, later steps exactly 0
    units = by_step(Batch.from_trajectories([chain(0, 0, 0, 0, 1)]))
    credit = credit_of(units, [wins(4), wins(5), wins(6)], max_states=3)
    np.testing.assert_allclose(credit.advantage_S, [1 / 9, 1 / 9, 1 / 3, 0, 0], atol=1e-12)
    assert credit.advantage_S[3:].tolist() == [0, 0]
    assert credit.notes["units_beyond_cap"] == 2


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False)
    rng = np.random.default_rng(seed)
    for gamma, cap, unfinished in ((1.0, None, None), (0.9, 2, None), (0.8, 1, -1.0)):
        params = {"k": 3, "gamma": gamma, "max_states": cap, "unfinished": unfinished}
        spec = get("vineppo")
        asks = spec.plan(units, **spec.bind(params))
        values = [
            [ends_with(*rng.normal(size=rng.integers(1, 4)), finished=bool(rng.random() < 0.7)) for _ in range(3)]
            for _ in asks
        ]
        got = spec.call(units, answered("vineppo", units, values, **params), **params)
        want, known = slow_vineppo(units.batch, iter(values), gamma, cap, unfinished)
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)
        assert got.known_S.tolist() == known


def slow_vineppo(batch, values, gamma, cap, unfinished):
    out, known = [], []
    for r in plain(batch):
        v = []
        for i in range(len(r.rewards)):
            if r.valid and (cap is None or i < cap):
                totals = []
                for sample in next(values):
                    total = sum(move.reward * gamma**j for j, move in enumerate(sample.moves))
                    totals.append(unfinished if unfinished is not None and not sample.finished else total)
                v.append(sum(totals) / len(totals))
            else:
                v.append(None)
        end = r.final if r.truncated and r.final is not None else 0.0
        v.append(end)
        for i in reversed(range(len(r.rewards))):
            if v[i] is None:
                v[i] = r.rewards[i] + gamma * v[i + 1]
        out += [r.rewards[i] + gamma * v[i + 1] - v[i] if r.valid else 0.0 for i in range(len(r.rewards))]
        known += [r.valid] * len(r.rewards)
    return out, known


def test_equal_states_are_asked_once_and_others_are_not():
    a, b = chain(0, 1, group="g"), chain(0, 0, group="g")
    c = Trajectory([Step(prompt_ids=[100], ids=[7], reward=0), Step(prompt_ids=[101], ids=[3], reward=1)], group="g")
    seen = []
    ask = asker(lambda request: (seen.append(request), ends_with(0.5))[1])
    assign("vineppo", by_step(Batch.from_trajectories([a, b, c])), k=2, ask=ask)
    # the first states are one, the second of a and b too; c acted otherwise
    assert len(seen) == 2 * 3
    assert len({(r.seed, r.number) for r in seen}) == 6


def test_other_rollouts_serve_as_samples():
    rollouts = [chain(0, 1, group="g"), chain(0, 0, group="g"), chain(0, 0.5, group="h")]
    units = by_step(Batch.from_trajectories(rollouts))
    spec = get("vineppo")
    asks = spec.plan(units, **spec.bind({"k": 2, "reuse": "others"}))
    # the rollouts of g share both states, so each supplies the other with one sample; h has nobody
    assert [(ask.at.traj, ask.k) for ask in asks] == [(0, 1), (0, 1), (1, 1), (1, 1), (2, 2), (2, 2)]
    credit = credit_of(units, [ends_with(0.6)] * 4 + [[ends_with(0.1)] * 2] * 2, k=2, reuse="others")
    # a: V = (0 + .6) / 2 both times; A = 0, 1 - .3. b: V = (1 + .6) / 2; A = 0, 0 - .8
    np.testing.assert_allclose(credit.advantage_S, [0, 0.7, 0, -0.8, 0, 0.4], atol=1e-12)
    assert credit.notes["samples_reused"] == 4
    assert spec.plan(units, **spec.bind({"k": 1, "reuse": "others"}))[0].at == Place(2, 0, 0)  # g needs nobody


def test_units_without_a_value_are_unknown_and_the_one_before_too():
    units = by_step(Batch.from_trajectories([chain(0, 0, 1)]))
    credit = credit_of(units, [wins(3), [], wins(6)])
    assert credit.known_S.tolist() == [False, False, True]
    assert credit.advantage_S.tolist() == pytest.approx([0, 0, 1 / 3])
    assert credit.notes["units_without_value"] == 2
    unscored = credit_of(units, [wins(3), [ends_with(1.0, scored=False)], wins(6)])
    assert unscored.known_S.tolist() == [False, False, True]


def test_a_cut_continuation_counts_as_told():
    units = by_step(Batch.from_trajectories([chain(1.0)]))
    cut = [[ends_with(0.5, finished=False), ends_with(1.0)]]
    assert credit_of(units, cut, k=2).advantage_S.tolist() == [0.25]
    assert credit_of(units, cut, k=2, unfinished=0.0).advantage_S.tolist() == [0.5]


def test_the_places_of_units_of_every_size():
    batch = Batch.from_trajectories([chain(0, 1, sizes=[3, 2])])
    spec = get("vineppo")

    def places(units):
        return [ask.at for ask in spec.plan(units, **spec.bind({}))]

    assert places(by_step(batch)) == [Place(0, 0, 0), Place(0, 1, 0)]
    assert places(by_turn(batch)) == [Place(0, 0, 0), Place(0, 1, 0)]
    assert places(by_token(batch)) == [Place(0, 0, 0), Place(0, 0, 1), Place(0, 0, 2), Place(0, 1, 0), Place(0, 1, 1)]
    assert places(by_segment(batch, by="fixed", count=2)) == [
        Place(0, 0, 0),
        Place(0, 0, 2),
        Place(0, 1, 0),
        Place(0, 1, 1),
    ]


def test_the_price_is_what_the_runner_counts():
    units = by_token(Batch.from_trajectories([chain(1.0, sizes=[4])]))
    ask = asker(lambda request: ends_with(1.0))
    quoted = cost("vineppo", units, k=3, ask=ask)
    credit = assign("vineppo", units, k=3, ask=ask)
    assert quoted.requests == credit.cost.requests == ask.resources[0].calls == 12
    assert cost("vineppo", units, k=3, ask=ask).requests == 0  # all of it is in the cache now
    # without a resource tokens are those of the rollout: contexts of 1 to 4 tokens, rests of 4 to 1
    blind = cost("vineppo", units, k=3)
    assert (blind.prompt_tokens, blind.generated_tokens, blind.exact) == (3 * 10, 3 * 10, True)


def test_what_it_refuses():
    units = by_step(Batch.from_trajectories([chain(0, 1)]))
    with pytest.raises(ConfigError, match=r"vineppo asks a policy, and nobody was given to ask; pass ask=Asker"):
        assign("vineppo", units)
    with pytest.raises(ConfigError, match=r"vineppo: k=0, max_states=None; give whole numbers from 1 on"):
        assign("vineppo", units, k=0, ask=asker(lambda r: ends_with(0)))
    with pytest.raises(ConfigError, match="vineppo: reuse is 'all'"):
        assign("vineppo", units, reuse="all", ask=asker(lambda r: ends_with(0)))
    with pytest.raises(ConfigError, match=r"vineppo asks a policy; call it as assign\('vineppo', units, ask=Asker"):
        get("vineppo").call(units)
    assert isinstance(get("vineppo").plan(units, **get("vineppo").bind({}))[0], Continue)


def test_the_error_of_nine_samples_is_what_is_told():
    # outcomes of 0 and 1 with probability 1/2: SE(V) = 1 / (2 * 3) = .166667, of a difference of two .235702
    share = np.array([math.comb(9, h) for h in range(10)]) / 512
    one = by_step(Batch.from_trajectories([chain(1.0)]))
    value = np.array([1.0 - credit_of(one, [wins(h)]).advantage_S[0] for h in range(10)])
    two = by_step(Batch.from_trajectories([chain(0, 1.0)]))
    change = np.array([[credit_of(two, [wins(a), wins(b)]).advantage_S[0] for b in range(10)] for a in range(10)])
    weight = np.outer(share, share)
    assert share @ value == pytest.approx(0.5)
    assert np.sqrt(share @ (value - 0.5) ** 2) == pytest.approx(0.166667, abs=1e-6)
    assert np.sqrt((weight * change**2).sum()) == pytest.approx(0.235702, abs=1e-6)
