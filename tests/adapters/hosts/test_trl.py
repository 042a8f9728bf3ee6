"""TRL's own trainer with our credit: what reached the loss is what `assign` says of the same rollouts."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import apportion as ap
from apportion.data import Batch, Step, Trajectory

pytest.importorskip("trl", reason="TRL is not installed (pip install 'apportion[trl]')")
pytestmark = pytest.mark.xdist_group("trl")  # one worker imports TRL and makes the runs, once
SCRIPT = Path(__file__).with_name("trl_run.py")
GENERATIONS, ROWS = 4, 12
GRAMS = [[3, 4], [5], [7, 8]]
RUNS = {
    "grpo": {"method": "grpo"},
    "gigpo": {"method": "gigpo", "unit": "step", "gamma": 0.9},
    "tempo": {"method": "tempo"},
    "hicra": {"method": "grpo | hicra", "grams": GRAMS},
    "dropped": {"method": "grpo | probability_mask"},
    "parity": {"method": "grpo", "epsilon": 1e-4, "config": {"loss_type": "dr_grpo", "beta": 0.1}},
    "asked": {"method": "vineppo", "k": 2, "asks": True},
}
IN_TWO = ("grpo", "gigpo", "tempo", "hicra", "asked")


def results(folder, processes, runs):
    return {
        name: [json.loads((folder / name / f"rank-{rank}.json").read_text()) for rank in range(processes)]
        for name in runs
    }


def in_processes(folder, processes, runs):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    done = subprocess.run(
        [*command, str(SCRIPT), str(folder), json.dumps(runs)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return results(folder, processes, runs)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    from tests.adapters.hosts import trl_run

    folder = tmp_path_factory.mktemp("one")
    saved = trl_run.saved_model(folder)
    for name, options in RUNS.items():
        (folder / name).mkdir()
        trl_run.main(folder / name, saved, **options)
    return results(folder, 1, RUNS)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return in_processes(tmp_path_factory.mktemp("two"), 2, {name: RUNS[name] for name in IN_TWO})


def rollouts(ranks, step):
    """The rollouts of one step as trajectories, made here from what `rollout_func` returned."""
    rows = sorted((row for rank in ranks for row in rank["made"] if row["step"] == step), key=lambda row: row["row"])
    out = []
    for row in rows:
        steps, done = [], 0
        for s, (first, last) in enumerate(row["steps"]):
            context = row["completion_ids"][done:first]
            reward = row["step_rewards"][s] if row["scored"] else None
            steps.append(
                Step(
                    prompt_ids=context if s else row["prompt_ids"] + context,
                    ids=row["completion_ids"][first:last],
                    logp=row["logprobs"][first:last],
                    state=row["states"][s],
                    reward=reward,
                )
            )
            done = last
        out.append(Trajectory(steps, group=f"step-{step}/prompt-{row['row'] // GENERATIONS}"))
    return rows, out


def want(ranks, step, method, unit=None, **params):
    """Advantage and weight of each completion token, by (prompt, completion)."""
    params.pop("config", None)
    if params.pop("asks", False):
        from tests.adapters.hosts.trl_run import asker

        params["ask"] = asker()[0]
    rows, made = rollouts(ranks, step)
    credit = ap.assign(
        method,
        getattr(ap, f"by_{unit or ap.describe(method.split(' ')[0]).unit}")(Batch.from_trajectories(made)),
        **params,
    )
    out = {}
    for row, tokens in zip(rows, credit.to_tokens().split(), strict=True):
        advantage, weight = np.zeros(len(row["completion_ids"])), np.zeros(len(row["completion_ids"]))
        own = [t for first, last in row["steps"] for t in range(first, last)]
        advantage[own], weight[own] = tokens.advantage[tokens.sampled], tokens.weight[tokens.sampled]
        out[tuple(row["prompt_ids"]), tuple(row["completion_ids"])] = advantage, weight
    return out


def check(ranks, **params):
    steps = sorted({row["step"] for row in ranks[0]["made"]})
    for step in steps:
        expected = want(ranks, step, **params)
        seen = [row for rank in ranks for row in rank["seen"] if row["step"] == step]
        assert len(seen) == ROWS
        # what the loss divides by is what is left in it, of all processes
        assert {row["counted"] for row in seen} == {sum(sum(row["trained"]) for row in seen)}
        for row in seen:
            advantage, weight = expected[tuple(row["prompt"]), tuple(row["completion"])]
            size = len(advantage)
            np.testing.assert_allclose(row["advantage"][:size], advantage, atol=1e-5)
            assert not any(row["advantage"][size:]), "credit on padding"
            assert row["trained"][:size] == weight.astype(int).tolist()
    return steps


@pytest.mark.parametrize("name", list(RUNS))
def test_what_reaches_the_loss_is_what_assign_says(one, name):
    assert check(one[name], **RUNS[name]) == [0, 1, 2]
    assert one[name][0]["moved"] > 1e-5
    assert len(one[name][0]["credits"]) == 3


@pytest.mark.parametrize("name", IN_TWO)
def test_a_group_may_span_processes(one, two, name):
    ranks = two[name]
    assert [len(rank["made"]) for rank in ranks] == [18, 18]
    assert check(ranks, **RUNS[name]) == [0, 1, 2]
    # the same rollouts as in one process, so the same numbers: only one process heard of the credit
    assert sorted(map(str, (row for rank in ranks for row in rank["made"]))) == sorted(map(str, one[name][0]["made"]))
    assert ranks[0]["credits"] == one[name][0]["credits"]
    assert ranks[1]["credits"] == []


def test_only_one_process_asks(one, two):
    assert two["asked"][0]["calls"] == one["asked"][0]["calls"] > 10
    assert two["asked"][1]["calls"] == 0


def test_a_group_really_spans_them(two):
    groups = [{row["row"] // GENERATIONS for row in rank["made"]} for rank in two["grpo"]]
    assert groups == [{0, 1}, {1, 2}]


def test_rollouts_that_nobody_scored_leave_the_loss(one):
    unscored = {tuple(row["completion_ids"]) for row in one["grpo"][0]["made"] if not row["scored"]}
    assert unscored
    for row in one["grpo"][0]["seen"]:
        assert any(row["trained"]) is (tuple(row["completion"]) not in unscored)


def test_tokens_that_a_method_drops_leave_the_loss(one):
    # that the mask is right, token by token, is checked above; here, that there is something to drop
    shares = [entry["credit/share_of_tokens_trained"] for entry in one["dropped"][0]["history"]]
    assert all(0.4 < share < 0.95 for share in shares)


def test_in_parity_mode_it_is_trls_own_number(one):
    made = one["parity"][0]["made"]
    for step in (0, 1, 2):
        rows = sorted((row for row in made if row["step"] == step), key=lambda row: row["row"])
        for g in range(3):
            members = rows[g * GENERATIONS : (g + 1) * GENERATIONS]
            rewards = np.array([sum(m["step_rewards"]) for m in members if m["scored"]])
            for m in members:
                if m["scored"]:
                    own = (sum(m["step_rewards"]) - rewards.mean()) / (rewards.std(ddof=1) + 1e-4)
                    seen = next(row for row in one["parity"][0]["seen"] if row["completion"] == m["completion_ids"])
                    assert max(seen["advantage"], key=abs) == pytest.approx(own, rel=1e-4)


def test_the_trainers_metrics_tell_about_the_credit(one):
    entry = one["gigpo"][0]["history"][0]
    assert entry["credit/mean_abs"] > 0
    assert 0 < entry["credit/share_of_tokens_trained"] <= 1
    assert entry["credit/groups"] == 3
