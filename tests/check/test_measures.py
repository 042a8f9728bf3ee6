"""Measures and the planning curve: worked numbers."""

import json

import numpy as np
import pytest

import apportion as ap
from apportion.check import (
    Measure,
    check,
    check_credit,
    compare_credits,
    measure,
    optimal_window,
    registered_measures,
    resolution_risk,
)
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from tests.make import random_batch, traj

TABLE = {100_000: 1e10, 2000: 2e8, 500: 50_010_000, 100: 10_050_000, 20: 2_250_000, 7: 1_414_285.714285, 1: 5_100_000}
"""The planning curve at T = 1e5, w_env = 2000, beta0 = 50, worked by hand: T·w, and 2500·2000/w below w_env."""


@pytest.mark.parametrize("window", TABLE)
def test_the_planning_curve(window):
    assert resolution_risk(1e5, window, 2000, 50) == pytest.approx(TABLE[window], rel=1e-9)


def test_the_best_window():
    assert optimal_window(1e5, 2000, 50) == pytest.approx(7.0710678, rel=1e-7)
    assert resolution_risk(1e5, optimal_window(1e5, 2000, 50), 2000, 50) == pytest.approx(1_414_213.56, rel=1e-8)
    assert optimal_window(1e5, 2000, 1.0) == 1.0  # w* below a token
    assert optimal_window(1e5, 2000, 1e9) == 2000  # so biased that only whole answers of the environment are right
    assert optimal_window(1e5, 2000, 50, var_r=0.0) == 2000  # no variance: no bias is best


@pytest.mark.parametrize("seed", range(20))
def test_no_window_is_better_than_the_best(seed):
    rng = np.random.default_rng(seed)
    tokens, env = float(rng.integers(50, 10_000)), float(rng.integers(1, 50))
    beta0, var = float(rng.uniform(0, 500)), float(rng.uniform(0.01, 4))
    best = resolution_risk(tokens, optimal_window(tokens, env, beta0, var_r=var), env, beta0, var_r=var)
    others = [resolution_risk(tokens, w, env, beta0, var_r=var) for w in np.linspace(1, tokens, 300)]
    assert best <= min(others) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((0, 1, 1, 1), "tokens is 0"),
        ((10, 20, 1, 1), "the window is 20"),
        ((10, 1, float("nan"), 1), "env_window is nan"),
        ((10, 1, 1, -1), "beta0 is -1"),
    ],
)
def test_the_curve_refuses(arguments, sentence):
    with pytest.raises(ConfigError, match=sentence):
        resolution_risk(*arguments)


def visits(*paths, group="g"):
    return [
        Trajectory(
            tuple(Step(observation=state, action="x", prompt_ids=[1], ids=[n, s]) for s, state in enumerate(path)),
            group=group,
            id=f"{group}{n}",
            outcome=float(n % 2),
        )
        for n, path in enumerate(paths)
    ]


def test_state_groups_are_counted_early_and_late():
    # group g: A B B / A C D        group h: A A A / E F
    rollouts = [*visits("ABB", "ACD"), *visits("AAA", "EF", group="h")]
    told = check(rollouts).measures["state-groups"]
    assert (told["steps"], told["states"]) == (11, 7)  # states are scoped by group
    assert told["with_company"] == pytest.approx(2 / 11)  # both A of g; the three A of h are one rollout's own
    assert told["bins"][:3] == ["1", "2", "3-5"]
    assert told["groups_by_size"][:3] == pytest.approx([4 / 7, 2 / 7, 1 / 7])  # C D E F | A B of g | A of h
    assert told["by_file_early"]["steps"] == 6  # g
    assert told["by_file_late"]["with_company"] == 0.0
    assert told["by_place_early"]["steps"] == 7  # A B | A C | A A | E: the first half, the middle one with it
    assert check([traj(("A", 1.0), group="alone")]).measures.get("state-groups") is None


def test_credit_mass_by_unit_agent_and_phrase():
    steps = [
        Step(observation="o", action="plan it", prompt_ids=[1], ids=[1, 2], agent="planner"),
        Step(observation="p", action="do that thing", prompt_ids=[1], ids=[1, 2, 3], agent="doer"),
    ]
    units = ap.by_step(Batch.from_trajectories([Trajectory(steps, group="g", id="a", outcome=1.0)]))
    told = check_credit(ap.Credit(np.array([3.0, -1.0]), units)).measures["credit-mass"]
    assert told["units_with_half"] == 1
    assert told["positive"] == pytest.approx(6 / 9)
    assert told["agents"]["planner"] == {"mass": pytest.approx(6 / 9), "tokens": pytest.approx(2 / 5)}
    assert told["top"][0]["unit"] == "rollout 'a', step 0"
    by_token = check_credit(ap.Credit(np.arange(5.0), ap.by_token(units.batch))).measures["credit-mass"]
    assert by_token["top"][0]["unit"] == "rollout 'a', step 1 (token 4 of all)"
    assert not check_credit(ap.Credit(np.zeros(2), units)).measures


def test_disagreement_names_the_steps():
    units = ap.by_step(Batch.from_trajectories(visits("ABC", "ABD", "AEF", "AEG")))
    one = ap.assign("grpo", units)
    turned = one.advantage_S.copy()
    turned[4] *= -1
    (finding,) = compare_credits({"a": one, "b": ap.Credit(turned, units)})
    assert finding.where == ("rollout 'g1', step 1",)
    assert (finding.severity, finding.evidence["steps"]) == ("info", 1)
    assert finding.evidence["share"] == pytest.approx(1 / 12)
    (same,) = compare_credits({"a": one, "b": ap.assign("grpo", ap.by_episode(units.batch))})
    assert same.evidence["share"] == 0.0
    assert same.evidence["rank_correlation"] == pytest.approx(1.0)


def test_compare_credits_refuses():
    units = ap.by_step(random_batch(0))
    with pytest.raises(ConfigError, match="1 credit was given"):
        compare_credits({"a": ap.assign("grpo", units)})
    other = ap.by_step(random_batch(1))
    with pytest.raises(DataError, match="different rollouts"):
        compare_credits({"a": ap.assign("grpo", units), "b": ap.assign("grpo", other)})


def test_measures_are_in_the_document_and_the_registry_refuses():
    document = check(visits("AB", "AC")).to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert {"state-groups", "resolution"} <= set(document["measures"])
    assert document["measures"]["resolution"]["assumptions"]
    assert all(isinstance(entry, Measure) and entry.about for entry in registered_measures())

    def nothing(batch):
        return {}

    with pytest.raises(ConfigError, match="measure 'new' has no docstring"):
        measure("new", on="batch")(nothing)
    nothing.__doc__ = "x"
    with pytest.raises(ConfigError, match="the measure 'resolution' is already there"):
        measure("resolution", on="batch")(nothing)
