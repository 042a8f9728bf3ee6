import numpy as np
import pytest

from apportion.asks import Place
from apportion.assign import assign, cost
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.methods import get
from apportion.numerics import below_probability
from apportion.units import by_segment, by_token
from tests.asking import answered, asker, ends_with
from tests.make import random_batch
from tests.plain import plain

P = [0.99, 0.95, 0.6, 0.97, 0.85, 0.99, 0.3, 0.92, 0.7, 0.99, 0.5, 0.98]


def rollout(p, outcome=1.0, **fields):
    return Trajectory([Step(prompt_ids=[0], ids=range(1, len(p) + 1), logp=np.log(p))], outcome=outcome, **fields)


def segments(*rollouts, interval=2):
    return by_segment(Batch.from_trajectories(rollouts), by="cutpoint", interval=interval)


def credit_of(units, values, **params):
    return get("spo_chain").call(units, answered("spo_chain", units, values, **params), **params)


def tenths(n):
    return [ends_with(1.0)] * n + [ends_with(0.0)] * (10 - n)


def token_values(credit):
    return credit.to_tokens().advantage_T[1:]


def test_worked_example_as_in_the_code():
    # U = 2 4 6 8 10, interval 2: segments [0,2) [2,6) [6,10) [10,12); V(2) .4, V(6) .6, V(10) .2, score 1
    units = segments(rollout(P))
    credit = credit_of(units, [tenths(4), tenths(6), tenths(2)], n=10)
    np.testing.assert_allclose(token_values(credit), [0, 0, 0.2, 0.2, 0.2, 0.2, -0.4, -0.4, -0.4, -0.4, 0.8, 0.8])
    assert credit.notes["segments_before_cutpoints"] == 1
    assert credit.known_S.all()
    # the whole method: masked, five tokens are left
    ask = asker(lambda r: ends_with(float(r.number < {2: 4, 6: 6, 10: 2}[r.ask.at.token])))
    masked = assign("spo_chain(n=10) | probability_mask", units, ask=ask).to_tokens()
    np.testing.assert_allclose(
        masked.advantage_T[1:] * masked.weight_T[1:], [0, 0, 0.2, 0, 0.2, 0, -0.4, 0, -0.4, 0, 0.8, 0]
    )
    assert masked.weight_T.sum() == 5
    # whitened over the masked tokens
    white = assign("spo_chain(n=10) | probability_mask | whiten", units, ask=ask).to_tokens()
    kept = white.advantage_T[white.weight_T > 0]
    np.testing.assert_allclose(kept, [0.239046, 0.239046, -0.956183, -0.956183, 1.434274], atol=1e-6)


def test_worked_example_as_in_the_paper():
    units = segments(rollout(P))
    credit = credit_of(units, [tenths(3), tenths(4), tenths(6), tenths(2)], n=10, first_segment="value")
    np.testing.assert_allclose(credit.advantage_S, [0.1, 0.2, -0.4, 0.8])
    assert credit.advantage_S.sum() == pytest.approx(1 - 0.3)  # score - V(prompt)


def test_a_first_token_below_the_threshold_is_a_cutpoint():
    units = segments(rollout([0.5, 0.99, 0.5, 0.4, 0.95]))
    credit = credit_of(units, [tenths(3), tenths(5)], n=10)
    np.testing.assert_allclose(credit.advantage_S, [0.2, 0.5])
    exactly = segments(rollout([0.9, 0.5]))  # at the threshold: none
    assert [a.at for a in get("spo_chain").plan(exactly, **get("spo_chain").bind({}))] == [Place(0, 0, 1)]


def test_rollouts_without_cutpoints():
    sure = rollout([0.99, 0.95], 1.0)
    units = segments(sure, rollout(P, 0.0))
    asks = get("spo_chain").plan(units, **get("spo_chain").bind({}))
    assert {ask.at.traj for ask in asks} == {1}  # nothing is asked for the sure one
    credit = credit_of(units, [tenths(5)] * 3, n=10)
    assert (credit.advantage_S[0], credit.known_S[0]) == (0.0, True)
    single = credit_of(units, [tenths(4)] + [tenths(5)] * 3, n=10, on_no_cutpoint="single")
    assert single.advantage_S[0] == pytest.approx(1 - 0.4)  # one segment, score - V(prompt)


def test_what_could_not_be_valued_is_unknown_and_the_zeros_stay():
    units = segments(rollout(P))
    credit = credit_of(units, [[], tenths(6), tenths(2)], n=10)
    assert credit.known_S.tolist() == [True, False, True, True]
    assert credit.advantage_S.tolist() == pytest.approx([0, 0, -0.4, 0.8])


def test_cut_continuations_count_nothing_unless_told():
    units = segments(rollout([0.5, 0.5]), interval=5)
    cut = [[ends_with(0.6, finished=False), ends_with(1.0)]]
    assert credit_of(units, cut, n=2).advantage_S.tolist() == [0.5]
    assert credit_of(units, cut, n=2, unfinished=None).advantage_S.tolist() == pytest.approx([0.2])


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    batch = random_batch(seed, forks=False)
    rng = np.random.default_rng(seed)
    spec = get("spo_chain")
    for rho, first, none, unfinished in (
        (0.9, "zero", "zero", 0.0),
        (0.4, "value", "zero", None),
        (0.4, "zero", "single", None),
    ):
        units = by_segment(batch, by="cutpoint", interval=1, rho=rho)
        params = {"n": 2, "rho": rho, "first_segment": first, "on_no_cutpoint": none, "unfinished": unfinished}
        asks = spec.plan(units, **spec.bind(params))
        values = [[ends_with(*rng.normal(size=2), finished=bool(rng.random() < 0.7)) for _ in range(2)] for _ in asks]
        got = spec.call(units, answered("spo_chain", units, values, **params), **params)
        want = slow(units, iter(values), rho, first, none, unfinished)
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)
        assert got.known_S.tolist() == units.valid_S.tolist()


def slow(units, values, rho, first, none, unfinished):
    out = []
    rollouts = plain(units.batch)
    for n, trajectory in enumerate(units.batch.trajectories):
        own = [s for s in range(len(units)) if units.traj_of_S[s] == n]
        if not own:
            continue
        logp = [x for step in trajectory.steps for x in step.logp]
        starts, at = [], 0
        for s in own:
            starts.append(bool(np.exp(logp[at]) < rho))
            at += int(units.tokens_S[s])
        v = []
        for i in range(len(own)):
            skip = (none == "zero" and not any(starts)) or (
                first == "zero" and i == 0 and not starts[0] and any(starts)
            )
            if not rollouts[n].valid or skip:
                v.append(None)
                continue
            totals = [
                unfinished if unfinished is not None and not c.finished else sum(m.reward for m in c.moves)
                for c in next(values)
            ]
            v.append(sum(totals) / len(totals))
        r = rollouts[n]
        v.append(r.final if r.truncated and r.final is not None else 0.0)
        for i, s in enumerate(own):
            out.append(0.0 if v[i] is None else units.reward_S[s] + v[i + 1] - v[i])
    return out


@pytest.mark.parametrize("seed", range(10))
def test_with_every_segment_valued_it_is_vineppo(seed):
    batch = random_batch(seed, forks=False)
    ask = asker(lambda r: ends_with(float(np.random.default_rng(r.seed).normal())))
    for units in (by_segment(batch, by="cutpoint", interval=2), by_token(batch)):
        params = {"first_segment": "value", "on_no_cutpoint": "single", "unfinished": None}
        mine = assign("spo_chain", units, n=3, ask=ask, **params)
        other = assign("vineppo", units, k=3, ask=ask)
        np.testing.assert_allclose(mine.advantage_S, other.advantage_S, atol=1e-12)
        assert mine.known_S.tolist() == other.known_S.tolist()


def test_unbiased_with_variance_one_over_n():
    # tokens a and b with probability 1/2 each, reward 1 for two equal ones: V() = V(a) = 1/2, so A = 0, 1/2
    units = segments(Trajectory([Step(prompt_ids=[0], ids=[1, 1], logp=np.log([0.5, 0.5]))], outcome=1.0), interval=1)

    def play(request):
        rng = np.random.default_rng(request.seed)
        first = 1 if request.ask.at.token else int(rng.integers(1, 3))
        return ends_with(float(first == int(rng.integers(1, 3))))

    spread = {}
    for n in (1, 8):
        got = np.array([assign("spo_chain", units, n=n, ask=asker(play, seed=s)).advantage_S for s in range(150)])
        error = got.std(axis=0, ddof=1) / np.sqrt(len(got))
        assert (np.abs(got.mean(axis=0) - [0, 0.5]) < 4 * error).all()
        spread[n] = got.var(axis=0, ddof=1).sum()
    assert spread[1] / spread[8] == pytest.approx(8, rel=0.3)


def test_the_price_is_what_the_runner_counts():
    units = segments(rollout(P), rollout([0.99, 0.99]))
    ask = asker(lambda r: ends_with(1.0))
    assert cost("spo_chain", units, n=4, ask=ask).requests == 12
    assert assign("spo_chain", units, n=4, ask=ask).cost.requests == ask.resources[0].calls == 12


def test_what_it_refuses():
    units = segments(rollout(P))
    for params, sentence in (
        ({"n": 0}, "spo_chain: n=0, rho=0.9; give"),
        ({"rho": 1.5}, "rho=1.5; give"),
        ({"first_segment": "ask"}, "first_segment is 'ask'; give one of 'zero', 'value'"),
        ({"on_no_cutpoint": "ask"}, "on_no_cutpoint is 'ask'; give one of 'zero', 'single'"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            assign("spo_chain", units, ask=asker(lambda r: ends_with(1.0)), **params)
    assert below_probability(np.log([0.9]), 0.9).tolist() == [False]
