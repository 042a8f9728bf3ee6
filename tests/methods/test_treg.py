"""No enumerable truth: how a model's probabilities move with its instructions says what the model believes, and no
environment decides whether it is right."""

import itertools
import math

import numpy as np
import pytest

from apportion.asks import Logprob, Place
from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.methods import get
from apportion.methods.frames import OURS, frame_of
from apportion.units import by_episode, by_segment, by_step, by_token, by_turn
from tests.asking import answered, asker
from tests.make import random_batch
from tests.plain import plain
from tests.pricing import assert_the_price_is_counted


def rollout(*sizes, **fields):
    steps = [Step(prompt_ids=[100 + s], ids=list(range(10 * s, 10 * s + n))) for s, n in enumerate(sizes)]
    return Trajectory(steps, **fields)


def credit_of(units, values, **params):
    return get("treg").call(units, answered("treg", units, values, **params), **params)


def logs(*p):
    return tuple(math.log(x) for x in p)


def test_worked_example():
    # p_b / (p_b + p_w) - 1/2: .6/.9, .2/.6, .5/1; and for the loser .1/.5, .5/1
    units = by_token(Batch.from_trajectories([rollout(3), rollout(2)]))
    values = [logs(0.6, 0.2, 0.5), logs(0.3, 0.4, 0.5), logs(0.1, 0.5), logs(0.4, 0.5)]
    assert credit_of(units, values).advantage_S == pytest.approx([1 / 6, -1 / 6, 0, -0.3, 0])


def test_worked_example_of_coarser_units():
    units = by_step(Batch.from_trajectories([rollout(3)]))
    values = [logs(0.6, 0.2, 0.5), logs(0.3, 0.2, 0.5)]
    assert credit_of(units, values).advantage_S == pytest.approx([1 / 18])
    assert credit_of(units, values, pool="sum").advantage_S == pytest.approx([1 / 6])
    # joint: .06 / (.06 + .03) - 1/2
    assert credit_of(units, values, pool="joint").advantage_S == pytest.approx([1 / 6])
    values[1] = logs(0.3, 0.4, 0.25)
    assert credit_of(units, values, pool="joint").advantage_S == pytest.approx([0.06 / 0.09 - 0.5])


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
    batch = random_batch(seed)
    units = LEVELS[level](batch)
    rng = np.random.default_rng(seed)
    for pool in ("mean", "sum", "joint"):
        spec = get("treg")
        asks = spec.plan(units, **spec.bind({"pool": pool}))
        values = []
        for ask in asks:
            size = len(batch.trajectories[ask.at.traj].steps[ask.at.step].ids)
            lost = rng.random() < 0.1
            values.append([] if lost else tuple((-rng.exponential(size=size)).tolist()))
        got = credit_of(units, values, pool=pool)
        want, known = slow_treg(batch, units, asks, values, pool)
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-12)
        assert got.known_S.tolist() == known


def slow_treg(batch, units, asks, values, pool):
    told = {(a.at.traj, a.at.step, "better" in a.frame): v for a, v in zip(asks, values, strict=True)}
    owners = iter([u for u in units.unit_of_T.tolist() if u >= 0])
    pairs = [[] for _ in range(len(units))]
    known = []
    for n, r in enumerate(plain(batch)):
        broken = any(step.failed for step in batch.trajectories[n].steps)
        known += [sum(r.tokens) > 0 and not broken] * int((units.traj_of_S == n).sum())
        for s, size in enumerate(r.tokens):
            for t in range(size):
                unit = next(owners)
                good, bad = told.get((n, s, True)), told.get((n, s, False))
                pairs[unit].append((good[t], bad[t]) if good and bad else None)
    out = []
    for u, own in enumerate(pairs):
        known[u] = known[u] and None not in own
        if not known[u] or not own:
            out.append(0.0)
        elif pool == "joint":
            good, bad = math.exp(sum(p[0] for p in own)), math.exp(sum(p[1] for p in own))
            out.append(good / (good + bad) - 0.5)
        else:
            each = [math.exp(a) / (math.exp(a) + math.exp(b)) - 0.5 for a, b in own]
            out.append(sum(each) / (len(each) if pool == "mean" else 1))
    return out, known


def test_the_contexts_swapped_turn_every_sign():
    units = by_token(random_batch(3))
    ask = asker(lambda r: tuple(-(1.0 + t) * (2 if "worse" in r.ask.frame else 1) for t in range(size_of(r))))
    one = assign("treg", units, ask=ask)
    other = assign("treg", units, better="worse", worse="better", ask=ask)
    assert np.abs(one.advantage_S).max() > 0.1
    assert other.advantage_S == pytest.approx(-one.advantage_S)


def size_of(request):
    return len(request.trajectory.steps[request.ask.at.step].ids)


def test_far_contexts_stay_inside_one_half():
    units = by_token(Batch.from_trajectories([rollout(3)]))
    credit = credit_of(units, [(0.0, -1e6, -5.0), (-1e6, 0.0, -5.0)])
    assert credit.advantage_S.tolist() == [0.5, -0.5, 0.0]


def test_answers_that_are_missing_or_of_another_length_leave_units_unknown():
    units = by_token(Batch.from_trajectories([rollout(2, 1)]))
    credit = credit_of(units, [logs(0.6, 0.2), logs(0.3, 0.4), logs(0.5, 0.5), logs(0.5)])
    assert credit.known_S.tolist() == [True, True, False]
    assert credit.notes["units_without_answer"] == 1
    assert credit_of(units, [logs(0.6, 0.2), [], logs(0.5), logs(0.5)]).known_S.tolist() == [False, False, True]


def test_what_is_asked():
    units = by_segment(Batch.from_trajectories([rollout(3, 0, 2)]), by="fixed", size=2)
    spec = get("treg")
    mine = "{prompt} Be brief. {context}"
    asks = spec.plan(units, **spec.bind({"better": mine}))
    worse = frame_of("treg", "worse", "worse")
    assert asks == [Logprob(Place(0, s), frame=frame, model="reference") for s in (0, 2) for frame in (mine, worse)]
    # the two of ours say the same but for the quality
    ours = [frame_of("treg", "x", name) for name in OURS[:2]]
    assert all(text.count("{context}") == 1 for text in ours)
    assert all(a != b for a, b in itertools.combinations([frame_of("t", "x", n) for n in ("better", "worse")], 2))


def test_the_price_is_what_is_counted():
    batch = random_batch(5)
    steps = sum(
        1 for n, t in enumerate(batch.trajectories) for step in t.steps if len(step.ids) and not batch.failed_N[n]
    )
    assert assert_the_price_is_counted("treg", by_token(batch)) == 2 * steps
    assert assert_the_price_is_counted("treg", by_turn(batch), pool="sum") == 2 * steps


def test_what_it_refuses():
    units = by_token(Batch.from_trajectories([rollout(2)]))
    ask = asker(lambda request: (0.0, 0.0))
    with pytest.raises(ConfigError, match=r"treg: pool is 'max'; give one of 'mean', 'sum', 'joint'"):
        assign("treg", units, pool="max", ask=ask)
    with pytest.raises(
        ConfigError,
        match=r"treg: better is 'best'; give 'better' or 'worse' or 'hindsight' or 'answer', or a text with the slot "
        r"\{context\} in it",
    ):
        assign("treg", units, better="best", ask=ask)
    with pytest.raises(
        ConfigError, match=r"treg: worse has the slot \{gold\}, which nobody fills; it takes \{prompt\}"
    ):
        assign("treg", units, worse="{context} {gold}", ask=ask)
    with pytest.raises(ConfigError, match=r"treg: worse has the slot \{score\}"):
        assign("treg", units, worse="hindsight", ask=ask)
