"""No enumerable truth: attention is what it is, and nothing says that it points at causes. Its one law is that the
shares sum to the score."""

import numpy as np
import pytest

from apportion.asks import Attended
from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.methods import get
from apportion.units import by_episode, by_segment, by_step, by_token, by_turn
from tests.asking import answered, asker
from tests.make import random_batch
from tests.plain import plain
from tests.pricing import assert_the_price_is_counted


def rollout(*sizes, **fields):
    steps = [Step(prompt_ids=[100 + s], ids=list(range(10 * s, 10 * s + n))) for s, n in enumerate(sizes)]
    return Trajectory(steps, **fields)


def credit_of(units, values, **params):
    return get("abc").call(units, answered("abc", units, values, **params), **params)


def test_worked_example():
    units = by_token(Batch.from_trajectories([rollout(3)]))
    seen = Attended(0.6, (0.5, 0.3, 0.2))
    assert credit_of(units, [seen], mix=1.0).advantage_S == pytest.approx([0.3, 0.18, 0.12])
    assert credit_of(units, [seen], mix=0.5).advantage_S == pytest.approx([0.15, 0.09, 0.36])
    # weights are normalised: what went to the prompt does not count
    assert credit_of(units, [Attended(0.6, (0.05, 0.03, 0.02))], mix=1.0).advantage_S == pytest.approx(
        [0.3, 0.18, 0.12]
    )


def test_no_attention_on_the_response_is_shared_by_token():
    units = by_step(Batch.from_trajectories([rollout(3, 1)]))
    credit = credit_of(units, [Attended(0.8, (0.0, 0.0))], mix=1.0)
    assert credit.advantage_S == pytest.approx([0.6, 0.2])
    assert credit.notes["rollouts_without_attention"] == 1


LEVELS = {
    "token": by_token,
    "segment": lambda batch: by_segment(batch, by="fixed", size=2),
    "step": by_step,
    "turn": by_turn,
    "episode": by_episode,
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(10))
def test_equals_the_slow_reference(seed, level):
    batch = random_batch(seed, forks=False)
    units = LEVELS[level](batch)
    rng = np.random.default_rng(seed)
    for mix in (0.0, 0.4, 1.0):
        spec = get("abc")
        asks = spec.plan(units, **spec.bind({"mix": mix}))
        values = [
            Attended(float(rng.normal()), tuple((rng.exponential(size=len(a.spans)) * (rng.random() < 0.8)).tolist()))
            for a in asks
        ]
        got = credit_of(units, values, mix=mix)
        want, known = slow_abc(batch, units, asks, values, mix)
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-12)
        assert got.known_S.tolist() == known


def slow_abc(batch, units, asks, values, mix):
    out, known = [0.0] * len(units), [False] * len(units)
    answer_of = {ask.traj: (ask, value) for ask, value in zip(asks, values, strict=True)}
    owners = iter([u for u in units.unit_of_T.tolist() if u >= 0])
    for n, (rollout_, trajectory) in enumerate(zip(plain(batch), batch.trajectories, strict=True)):
        owner = {(s, t): next(owners) for s, size in enumerate(rollout_.tokens) for t in range(size)}
        broken = any(step.failed for step in trajectory.steps)
        assert (n in answer_of) == (bool(owner) and not broken)
        if n not in answer_of:
            continue
        ask, value = answer_of[n]
        total = sum(value.weights)
        for span, weight in zip(ask.spans, value.weights, strict=True):
            (unit,) = {owner[span.step, t] for t in range(span.first, span.last)}
            share = weight / total if total else (span.last - span.first) / len(owner)
            out[unit] += mix * share * value.score
        mine = [u for u in range(len(units)) if units.traj_of_S[u] == n]
        out[mine[-1]] += (1 - mix) * value.score
        for u in mine:
            known[u] = True
    return out, known


def test_with_nothing_divided_it_is_red_with_nothing_divided():
    units = by_step(random_batch(4, forks=False))
    spec = get("red")
    asks = spec.plan(units, **spec.bind({"mix": 0.0}))
    end = {ask.traj: 0.25 * ask.traj + 1 for ask in asks}
    sparse = spec.call(units, answered("red", units, [end[ask.traj] for ask in asks], mix=0.0), mix=0.0)
    own = get("abc").plan(units, **get("abc").bind({}))
    divided = credit_of(units, [Attended(end[ask.traj], (1.0,) * len(ask.spans)) for ask in own], mix=0.0)
    assert divided.advantage_S == pytest.approx(sparse.advantage_S)


def test_credit_sums_to_the_score_and_has_its_sign():
    units = by_token(random_batch(6, forks=False))
    asks = get("abc").plan(units, **get("abc").bind({}))
    rng = np.random.default_rng(1)
    values = [Attended(float(rng.normal()), tuple(rng.exponential(size=len(ask.spans)))) for ask in asks]
    credit = credit_of(units, values, mix=0.7)
    for ask, value in zip(asks, values, strict=True):
        own = credit.advantage_S[units.traj_of_S == ask.traj]
        assert own.sum() == pytest.approx(value.score)
        assert (own * value.score >= 0).all()


def test_without_an_answer_or_with_one_of_another_length_a_rollout_is_unknown():
    units = by_token(Batch.from_trajectories([rollout(2), rollout(2), rollout(2)]))
    credit = credit_of(units, [Attended(1.0, (1.0, 1.0)), [], Attended(1.0, (1.0, 1.0, 1.0))], mix=1.0)
    assert credit.advantage_S.tolist() == [0.5, 0.5, 0, 0, 0, 0]
    assert credit.known_S.tolist() == [True, True, False, False, False, False]
    assert credit.notes["rollouts_without_answer"] == 2


def test_the_price_is_what_is_counted():
    batch = random_batch(5, forks=False)
    assert assert_the_price_is_counted("abc", by_token(batch)) <= len(batch)


def test_what_it_refuses():
    units = by_token(Batch.from_trajectories([rollout(2)]))
    with pytest.raises(ConfigError, match=r"abc: mix is -0.1; give a number from 0 to 1"):
        assign("abc", units, mix=-0.1, ask=asker(lambda request: None))
