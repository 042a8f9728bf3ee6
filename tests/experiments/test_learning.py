"""The comparison of learning: statistics against slow references, the ceiling against the table, runs that go on."""

import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

pytest.importorskip("scipy")
pytest.importorskip("torch")

from apportion.data import Batch
from apportion.envs import make
from apportion.train import train
from apportion.train.policy import Policy
from apportion.train.rollout import Collector
from apportion.units import by_step
from experiments.learning import run as runs
from experiments.learning import tune as tuning
from experiments.learning.ceiling import Ceiling
from experiments.learning.plan import ARMS, EXACT, SEEDS, World, digest
from experiments.learning.run import file_of, recurrence, run
from experiments.learning.stats import improvement, iqm
from experiments.learning.summary import area, balanced, complete, curve, over_worlds, per_world, read_store, score
from experiments.learning.worlds import WORLDS

TINY = World(
    about="small",
    settings={"env": "crafttree", "hidden": 16, "layers": 1, "heads": 2, "tasks": 2, "rollouts": 3},
    clone={"clone_episodes": 4, "clone_epochs": 1},
    tokens=150,
    held_out=4,
)


def record(arm, seed, values, tokens=None):
    tokens = tokens or [10 * (k + 1) for k in range(len(values))]
    ones = [1.0] * len(values)
    return {
        "env": "e", "arm": arm, "seed": seed, "commit": "c", "generated_tokens": tokens[-1],
        "curve": {"tokens": tokens, "success": values, "return": values, "recurring": ones, "trained": ones},
        "before": {"success_sampled": 0.1}, "after": {"success_sampled": values[-1], "success_greedy": values[-1]},
        "seconds": {"iteration": 2.0, "credit": 0.1},
    }  # fmt: skip


def test_iqm_is_the_mean_of_the_middle_half():
    rows = [[0.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 100.0]]
    value, low, high = iqm(rows)
    assert value == np.mean([6.0, 7.0, 8.0, 9.0])
    assert low <= value <= high


def test_the_bootstrap_redraws_inside_each_environment():
    # inside an environment nothing varies, so a stratified bootstrap has no width; one over all runs would have
    value, low, high = iqm([[0.2] * 5, [0.9] * 5])
    assert (low, high) == (value, value)


def test_the_interval_covers_about_as_often_as_it_says():
    random = np.random.default_rng(3)
    hits = 0
    for _ in range(40):
        _, low, high = iqm([random.normal(size=12), random.normal(size=12)])
        hits += low <= 0 <= high
    assert 30 <= hits <= 40


def test_improvement_counts_pairs_and_half_of_the_ties():
    x, y = {"a": [1.0, 2.0], "b": [0.0, 3.0]}, {"a": [1.0, 0.0], "b": [5.0, 1.0]}
    slow = np.mean([
        np.mean([1.0 if p > q else 0.5 if p == q else 0.0 for p, q in product(x[name], y[name])]) for name in x
    ])  # fmt: skip
    value, low, high = improvement(x, y)
    assert value == pytest.approx(slow)
    assert 0 <= low <= value <= high <= 1
    assert improvement(y, x)[0] == pytest.approx(1 - slow)


def test_area_weighs_by_tokens_and_a_curve_keeps_the_budget():
    one = record("grpo", 0, [0.0, 1.0], tokens=[30, 40])
    assert area(TINY, one) == pytest.approx(0.25)
    assert curve(one, "success", points=2) == [0.0, 1.0][:2]
    steady = record("grpo", 0, [0.5] * 50)
    assert curve(steady, "success") == pytest.approx([0.5] * 12)
    assert score(TINY, one) == 1.0
    assert score(replace(TINY, best=4.0), one) == 0.25


def test_differences_are_paired_and_seeds_incomplete_for_an_arm_are_left_out():
    records = {}
    for seed, base in enumerate((0.1, 0.5, 0.9)):
        records["grpo", seed] = record("grpo", seed, [base, base])
        records["gigpo", seed] = record("gigpo", seed, [base + 0.05, base + 0.05])
    del records["gigpo", 2]
    assert complete(records, ["grpo", "gigpo"]) == [0, 1]
    found = per_world(TINY, records)
    assert found["seeds"] == [0, 1]
    mean, low, high = found["arms"]["gigpo"]["area_over_grpo"]
    assert (mean, low, high) == pytest.approx((0.05, 0.05, 0.05))
    assert found["arms"]["gigpo"]["credit_share"] == pytest.approx(0.05)
    both = over_worlds({"e": TINY}, {"e": records}, ["grpo", "gigpo"])
    assert both["area"]["better"]["gigpo"]["grpo"][0] == pytest.approx(3 / 4)


def test_the_ceiling_is_the_exact_advantage(tmp_path):
    config = replace(
        WORLDS["crafttree"].warm_start(), clone_episodes=0, out=str(tmp_path), hidden=16, layers=1, heads=2
    )
    policy = Policy.from_config(config, make("crafttree"))
    ceiling = Ceiling("crafttree")
    rollouts = Collector("crafttree", {}).collect(policy, range(3), rollouts=40)
    credit = ceiling(by_step(Batch.from_trajectories(rollouts.trajectories)), policy)
    truth = ceiling.truth(policy)
    table = truth.table
    # the advantage has mean 0 under the policy, at every time and state; and J is what sampling says
    pi_a = table.sum_by_state(np.nan_to_num(truth.policy * truth.advantage_HK))
    assert np.abs(pi_a).max() < 1e-9
    assert np.mean(rollouts.return_N) == pytest.approx(truth.J, abs=0.15)
    # R = V(start) + sum of A + luck of the game; crafttree has none
    per_rollout = np.bincount(credit.units.traj_of_S, weights=credit.advantage_S)
    values = {table.text(x, 0): truth.value_HX[0, x] for x in range(len(table.states)) if table.start_X[x] > 0}
    starts = [values[t.steps[0].observation] for t in credit.units.batch.trajectories]
    np.testing.assert_allclose(starts + per_rollout, rollouts.return_N, atol=1e-9)


def test_the_ceiling_reads_states_that_look_alike_and_have_one_future(tmp_path):
    config = replace(WORLDS["keydoor"].warm_start(), clone_episodes=0, out=str(tmp_path), hidden=16, layers=1, heads=2)
    policy = Policy.from_config(config, make("keydoor"))
    rollouts = Collector("keydoor", {}).collect(policy, range(2), rollouts=20)
    credit = Ceiling("keydoor")(by_step(Batch.from_trajectories(rollouts.trajectories)), policy)
    assert np.isfinite(credit.advantage_S).all()
    with pytest.raises(ValueError, match="different futures"):
        Ceiling("twins")._of(np.arange(1000.0), *next(k for k, s in Ceiling("twins")._slots.items() if len(s) > 1))


def test_recurrence_counts_states_that_another_rollout_saw():
    from apportion.credit import Credit
    from tests.make import units_of

    units = units_of(group=[0, 0, 1], lengths=[3, 1, 1], steps=[("A", 0), ("B", 0), ("B", 0), ("A", 1), ("A", 1)])
    found = recurrence(Credit(np.zeros(5), units), 0)
    assert found["recurring"] == pytest.approx(
        2 / 5
    )  # A of both rollouts of group 0; B twice by one, A alone in group 1
    assert found["trained"] == 1.0


@pytest.mark.slow
def test_a_run_is_kept_goes_on_and_is_not_repeated(tmp_path, monkeypatch):
    work, store = tmp_path / "work", tmp_path / "store"
    monkeypatch.setattr(runs, "commit", lambda: "abc")
    whole = run("tiny", TINY, "grpo", 0, work=work, store=store)
    assert json.loads(file_of(store, "tiny", "grpo", 0).read_text()) == whole
    assert whole["generated_tokens"] >= 150
    assert read_store(store) == {"tiny": {("grpo", 0): whole}}

    # a run that was stopped after its first checkpoint gives the same numbers
    config = replace(TINY.config("gigpo", 0), checkpoint_every=1)
    monkeypatch.setattr(World, "config", lambda self, arm, seed, lr=None: replace(config, seed=seed))
    once = run("tiny", TINY, "gigpo", 0, work=tmp_path / "other", store=tmp_path / "once")
    start = runs.warm_start("tiny", TINY, work)
    folder = work / "tiny" / digest(TINY, config)
    train(replace(config, start=str(start), out=str(folder), iterations=1), on_credit=recurrence)
    (folder / "result.json").unlink()
    again = run("tiny", TINY, "gigpo", 0, work=work, store=store)
    assert {k: v for k, v in again.items() if k != "seconds"} == {k: v for k, v in once.items() if k != "seconds"}

    monkeypatch.setattr(runs, "train", lambda *args, **more: pytest.fail("trained again"))
    assert run("tiny", TINY, "gigpo", 0, work=work, store=store) == again


def test_another_setting_is_another_run():
    config = TINY.config("grpo", 0)
    assert digest(TINY, config) == digest(TINY, replace(config, out="elsewhere", start="somewhere"))
    assert digest(TINY, config) != digest(TINY, replace(config, lr=1.0))
    assert digest(TINY, config) != digest(replace(TINY, clone={"clone_episodes": 5}), config)


@pytest.mark.parametrize(("name", "arm"), [(n, a) for n, w in WORLDS.items() for a in w.arms()])
def test_every_arm_of_every_environment_can_be_configured(name, arm):
    config = WORLDS[name].config(arm, 3)
    assert config.seed == 3
    assert config.token_budget == WORLDS[name].tokens
    assert config.lr == WORLDS[name].lr
    assert (arm == EXACT) <= (WORLDS[name].table is not None)
    assert config.method == ARMS[arm].method
    assert math.isfinite(config.lr)


def test_an_arm_that_ran_on_few_seeds_does_not_cost_the_others_theirs():
    full = {(arm, seed): record(arm, seed, [0.5, 0.5]) for arm in ("grpo", "gigpo", "pooled") for seed in range(5)}
    assert balanced({**full, ("rloo", 0): record("rloo", 0, [1.0, 1.0])}) == (
        ["grpo", "gigpo", "pooled"],
        list(range(5)),
    )
    under_way = {key: full[key] for key in full if key != ("pooled", 4)}
    assert balanced(under_way) == (["grpo", "gigpo", "pooled"], [0, 1, 2, 3])


@pytest.mark.slow
def test_rates_are_tried_once_on_a_seed_that_is_not_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "RATES", (1e-3,))
    monkeypatch.setattr(tuning, "commit", lambda: "abc")
    found = tuning.tune("tiny", TINY, work=tmp_path, store=tmp_path / "rates.json")["tiny"]
    assert found["seed"] not in SEEDS
    assert set(found["area"]) == set(tuning.TUNED_WITH)
    assert all(0 <= row["0.001"] <= 1 for row in found["area"].values())
    monkeypatch.setattr(tuning, "train", lambda *args, **more: pytest.fail("trained again"))
    assert tuning.tune("tiny", TINY, work=tmp_path, store=tmp_path / "rates.json")["tiny"] == found
