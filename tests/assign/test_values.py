"""The quality of values, on a task where they are known."""

import dataclasses
import json

import numpy as np
import pytest

from apportion.asks import Place, Verdict
from apportion.assign.values import value_quality
from apportion.bench.continuations import ExactPolicy, askable
from apportion.bench.exact import exact, improve, sample, uniform
from apportion.bench.tasks import task
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.resources import Asker, Table, branch
from apportion.units import by_step
from tests.asking import asker, ends_with

TABLE = task("crafttree", horizon=5, budget=2).table
TRUTH = exact(TABLE, improve(TABLE, uniform(TABLE), 2.0))


def value_of(rollout, s):
    depth, at = 0, s
    while (parent := at - 1 if rollout.steps[at].parent is None else rollout.steps[at].parent) >= 0:
        depth, at = depth + 1, parent
    return float(TRUTH.value_HX[depth, int(rollout.steps[s].state)])


@pytest.fixture(scope="module")
def grown():
    drawn = sample(TABLE, TRUTH.policy, groups=6, n=1, rng=np.random.default_rng(2))
    batch = askable(TRUTH, drawn)
    places = [Place(n, s) for n, t in enumerate(batch.trajectories) for s in range(0, len(t.steps), 2)]
    units = by_step(branch(Asker(ExactPolicy(TRUTH), seed=9), batch, places, k=4))
    true_S = np.array([value_of(t, s) for t in units.batch.trajectories for s in range(len(t.steps))])
    return units, true_S


def test_the_truth_is_perfect_and_its_negative_is_not(grown):
    units, true_S = grown
    rng = np.random.default_rng(0)
    sources = {"truth": true_S, "opposite": -true_S, "noise": rng.random(len(units))}
    got = value_quality(units, sources, truth=true_S)
    best = got["truth"]
    assert (best.errors.absolute, best.errors.within, best.explained) == (0, 1, 1)
    assert (best.ranking.pairwise, best.ranking.top1) == (1, 1)
    assert best.ranking.pairs > 10
    assert got["opposite"].ranking.pairwise <= 0.3
    assert got["opposite"].explained < 0
    assert got["noise"].ranking.pairwise == pytest.approx(0.5, abs=0.2)
    assert sum(part.states for part in best.strata) == best.errors.states
    json.dumps(best.to_dict(), allow_nan=False)


def test_samples_make_the_error_that_sampling_makes(grown):
    units, true_S = grown
    runs = [
        value_quality(units, ["samples:4"], truth=true_S, ask=Asker(ExactPolicy(TRUTH), seed=s))["samples:4"]
        for s in range(4)
    ]
    expected = runs[0].sampling
    assert np.mean([r.errors.squared for r in runs]) == pytest.approx(expected, rel=0.35)
    assert np.mean([r.errors.within for r in runs]) == pytest.approx(runs[0].expected_within, abs=0.12)
    assert np.isnan(value_quality(units, {"x": true_S}, truth=true_S)["x"].sampling)


def test_the_samples_are_others_than_those_of_the_truth(grown):
    units, _ = grown
    seeds = []

    def answer(request):
        seeds.append(request.seed)
        return ends_with(float(np.random.default_rng(request.seed).integers(2)))

    got = value_quality(units, ["samples:3"], truth=5, ask=asker(answer), states=7)["samples:3"]
    assert len(set(seeds)) == len(seeds)
    assert 7 <= got.errors.states < len(units) / 2  # those drawn, and where their actions lead
    assert got.errors.squared > 0
    assert got.floor == pytest.approx(got.sampling * 3 / 5)


def chain(*values):
    steps = [Step(observation=f"s{i}", action="a", reward=0.0, value=v) for i, v in enumerate(values)]
    return Trajectory([*steps[:-1], dataclasses.replace(steps[-1], reward=1.0)])


def test_values_in_the_data_a_model_and_a_judge():
    units = by_step(Batch.from_trajectories([chain(0.5, 0.9), chain(0.2, 0.4)]))

    def answer(request):
        if hasattr(request.ask, "units"):
            return Verdict((1.0, None), scale=(0.0, 1.0))
        return 0.25

    ask = Asker(Table(answer, kinds=["value", "judge"], identity="test"))
    true_S = np.array([1.0, 1.0, 0.0, 1.0])
    got = value_quality(units, ["data", "model", "judge:steps"], truth=true_S, ask=ask)
    assert got["data"].errors.absolute == pytest.approx((0.5 + 0.1 + 0.2 + 0.6) / 4)
    np.testing.assert_allclose(got["data"].positions, [0.35, 0.35])
    assert got["model"].errors.absolute == pytest.approx((0.75 * 3 + 0.25) / 4)
    assert (got["judge:steps"].errors.states, got["judge:steps"].errors.absolute) == (2, 0.5)
    assert got["data"].explained_returns != got["data"].explained


def test_a_state_that_rollouts_share_counts_once():
    units = by_step(Batch.from_trajectories([dataclasses.replace(chain(0.5, 0.9), group="g") for _ in range(3)]))
    assert value_quality(units, ["data"], truth=np.ones(6))["data"].errors.states == 2


def test_what_it_refuses():
    units = by_step(Batch.from_trajectories([chain(0.5, 0.9)]))
    truth = np.ones(2)
    bare = by_step(Batch.from_trajectories([Trajectory([Step(observation="a", action="b", reward=1.0)])]))
    for call, error, sentence in (
        (
            lambda: value_quality(units, ["critic"], truth=truth),
            ConfigError,
            "no source of values is named 'critic'; there",
        ),
        (
            lambda: value_quality(units, ["samples:0"], truth=truth),
            ConfigError,
            "no source of values is named 'samples:0'",
        ),
        (lambda: value_quality(units, ["data"]), ConfigError, "and nobody was given to ask; pass ask=Asker"),
        (lambda: value_quality(units, ["data"], truth=0), ConfigError, "truth is 0; give a number of continuations"),
        (
            lambda: value_quality(units, {"x": np.ones(3)}, truth=truth),
            DataError,
            r"x has shape \(3,\) for 2 units; give",
        ),
        (lambda: value_quality(bare, ["data"], truth=np.ones(1)), DataError, "value_quality reads value_S"),
    ):
        with pytest.raises(error, match=sentence):
            call()
