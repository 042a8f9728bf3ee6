"""Rows of verl's older trainer and of verl-agent: one row for each step, repeated and reordered before advantages."""

import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apportion as ap
from apportion.adapters.verl import dataproto, dataproto_rows
from apportion.errors import DataError
from tests.adapters.hosts.verl_hosts import PRESENT, WHY, Config, batch_of_rows, wanted

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'apportion[train]')")


class Data:
    """A DataProto: tensors, arrays, and what else is known."""

    def __init__(self, batch, non_tensor_batch, meta_info=None):
        self.batch, self.non_tensor_batch, self.meta_info = batch, non_tensor_batch, dict(meta_info or {})

    def __len__(self):
        return len(self.non_tensor_batch["uid"])

    def rows(self, index):
        index = list(index)
        return Data(
            {name: column[index] for name, column in self.batch.items()},
            {name: column[index] for name, column in self.non_tensor_batch.items()},
            self.meta_info,
        )


def agent_rows(seed, groups=2, rollouts=3, invalid=0.0):
    """Rows as verl-agent has them, in time order: each carries the outcome, an invalid action costs its own row."""
    rng = np.random.default_rng(seed)
    rows = []
    for g in range(groups):
        for n in range(rollouts):
            rewards = [0.0] * int(rng.integers(1, 5))
            rewards[-1] = float(rng.integers(0, 2)) * 10
            for reward in rewards:
                valid = bool(rng.random() >= invalid)
                size = int(rng.integers(1, 4))
                rows.append(
                    {
                        "uid": f"g{g}",
                        "traj_uid": f"g{g}-{n}",
                        "anchor_obs": str(rng.integers(3)),
                        "rewards": reward,
                        "is_action_valid": valid,
                        "active_masks": True,
                        "episode_rewards": sum(rewards),
                        "size": size,
                        "score": sum(rewards) - (0.0 if valid else 0.1),
                    }
                )
    return rows


def data_of(rows, width=5, prompt=2):
    count = len(rows)
    responses = torch.zeros(count, width, dtype=torch.long)
    real, score = torch.zeros(count, width, dtype=torch.long), torch.zeros(count, width)
    for i, row in enumerate(rows):
        responses[i, : row["size"]] = torch.arange(1, row["size"] + 1)
        real[i, : row["size"]] = 1
        score[i, row["size"] - 1] = row["score"]
    whole = torch.cat([torch.ones(count, prompt, dtype=torch.long), real], dim=1)
    columns = {}
    for name in ("uid", "traj_uid", "anchor_obs", "rewards", "is_action_valid", "active_masks", "episode_rewards"):
        columns[name] = np.array([row[name] for row in rows], dtype=object)
    return Data(
        {
            "prompts": torch.ones(count, prompt, dtype=torch.long),
            "responses": responses,
            "attention_mask": whole,
            "response_mask": real.clone(),
            "token_level_scores": score,
            "token_level_rewards": score.clone(),
        },
        columns,
    )


def reference(rows, method, **params):
    """Advantage of each row, from rollouts made here."""
    names = list(dict.fromkeys(row["traj_uid"] for row in rows))
    made = [
        ap.Trajectory(
            [
                ap.Step(
                    prompt_ids=[1, 1],
                    ids=list(range(row["size"])),
                    fresh=k > 0,
                    state=row["anchor_obs"],
                    reward=row["rewards"] + (0.0 if row["is_action_valid"] else -0.1),
                )
                for k, row in enumerate(row for row in rows if row["traj_uid"] == name)
            ],
            group=name.split("-")[0],
            id=name,
        )
        for name in names
    ]
    unit = ap.describe(method).unit
    credit = ap.assign(method, getattr(ap, f"by_{unit}")(ap.Batch.from_trajectories(made)), **params)
    per_unit = iter(credit.advantage_S)
    if unit == "episode":
        of = {name: next(per_unit) for name in names}
        return [of[row["traj_uid"]] for row in rows]
    return [next(per_unit) for name in names for row in rows if row["traj_uid"] == name]


def fork(method="gigpo", trainer=None, own=(), **section):
    """The trainer's module of verl-agent: it numbers its estimators and hands `compute_advantage` no configuration."""
    module = types.ModuleType("verl.trainer.ppo.ray_trainer")
    module.seen = []

    def compute_advantage(data, adv_estimator, gamma=1.0, **_):
        module.seen.append(adv_estimator)
        return data

    def adjust_batch(config, data, index):
        return data.rows(index)

    module.compute_advantage, module.adjust_batch = compute_advantage, adjust_batch
    if trainer is not None:
        module.RayPPOTrainer = trainer
    for name, function in dict(own).items():
        setattr(module, name, function)
    dataproto.wrap(module)
    config = Config(algorithm=Config(adv_estimator="gigpo", apportion=Config(method=method, **section)))
    return module, config


def test_rows_are_numbered_before_they_are_repeated_and_reordered():
    rows = agent_rows(0)
    module, config = fork("gigpo", gamma=0.9)
    rng = np.random.default_rng(1)
    index = [*rng.permutation(len(rows)), 0, 3, 3]  # the fork repeats rows to fill the last batch
    data = module.adjust_batch(config, data_of(rows), index)
    out = module.compute_advantage(data, "gigpo", gamma=0.95)
    want = reference(rows, "gigpo", gamma=0.9)
    assert module.seen == []
    for place, i in enumerate(index):
        size = rows[i]["size"]
        assert out.batch["advantages"][place, :size].tolist() == pytest.approx([want[i]] * size, abs=1e-5)
        assert not out.batch["advantages"][place, size:].any()
    assert out.batch["returns"].equal(out.batch["advantages"])
    assert out.batch["response_mask"].sum() == sum(rows[i]["size"] for i in index)


@pytest.mark.parametrize("method", ["grpo", "gigpo", "reinforce", "hgpo"])
def test_an_invalid_action_costs_its_step(method):
    rows = agent_rows(2, invalid=0.3)
    assert any(not row["is_action_valid"] for row in rows)
    module, config = fork(method)
    out = module.compute_advantage(module.adjust_batch(config, data_of(rows), range(len(rows))), "gigpo")
    want = reference(rows, method)
    got = [float(out.batch["advantages"][i, 0]) for i in range(len(rows))]
    assert got == pytest.approx(want, abs=1e-4)


def test_the_authors_numbers_by_their_options():
    # three rollouts of 2, 1 and 1 steps. Authors: votes per row, raw lone scores, std + 1e-6, the penalty after
    # discounting. Scores of rows: 10, 9.9 | 0 | 10, mean 7.475, std 4.98355; returns 9.5, 9.9 | 0 | 10
    # states: x: 9.5, 0, mean 4.75, std 6.71751;  y: 9.9, 10, mean 9.95, std 0.0707107
    def row(traj, state, reward, valid, total):
        return {
            "uid": "g",
            "traj_uid": traj,
            "anchor_obs": state,
            "rewards": reward,
            "is_action_valid": valid,
            "active_masks": True,
            "episode_rewards": total,
            "size": 1,
            "score": total - (0 if valid else 0.1),
        }

    rows = [
        row("a", "x", 0.0, True, 10),
        row("a", "y", 10.0, False, 10),
        row("b", "x", 0.0, True, 0),
        row("c", "y", 10.0, True, 10),
    ]
    options = {
        "gamma": 0.95,
        "scale": "std",
        "votes": "row",
        "epsilon": 1e-6,
        "group_of_one": "raw",
        "undiscounted": "penalty",
    }
    module, config = fork("gigpo", **options)
    out = module.compute_advantage(module.adjust_batch(config, data_of(rows), range(4)), "gigpo")
    episode = [(s - 7.475) / 4.983556 for s in (10, 9.9, 0, 10)]
    step = [4.75 / 6.717514, -0.05 / 0.0707107, -4.75 / 6.717514, 0.05 / 0.0707107]
    got = out.batch["advantages"][:, 0].tolist()
    assert got == pytest.approx([e + s for e, s in zip(episode, step, strict=True)], abs=1e-4)


def test_steps_that_the_fork_left_out_still_earned_what_they_earned():
    rows = agent_rows(3)
    module, config = fork("reinforce", gamma=0.9)
    names = [row["traj_uid"] for row in rows]
    index = [i for i, name in enumerate(names) if names.count(name) == 1 or names[i + 1 : i + 2] == [name]]
    assert len(index) < len(rows), "last steps are left out"
    out = module.compute_advantage(module.adjust_batch(config, data_of(rows), index), "gigpo")
    want = reference(rows, "reinforce", gamma=0.9)
    assert out.batch["advantages"][:, 0].tolist() == pytest.approx([want[i] for i in index], abs=1e-5)


def test_the_score_of_valid_rows_is_the_outcome_and_prompts_have_no_padding():
    rows = agent_rows(2, invalid=0.3)
    for row in rows:
        row["score"] = row["score"] / 2  # a fork that divides scores by lengths
    data = data_of(rows)
    dataproto_rows.number_rows(data)
    data.batch["attention_mask"][:, 0] = 0
    parts = dataproto_rows.parts_of(data)
    mixed = 0
    for row, part in zip(rows, parts, strict=True):
        valid = [r for r in rows if r["traj_uid"] == row["traj_uid"] and r["is_action_valid"]]
        outcome = valid[0]["score"] if valid else row["episode_rewards"]
        assert part.outcome == pytest.approx(outcome)
        assert part.penalty == pytest.approx(0.0 if row["is_action_valid"] else row["score"] - outcome)
        assert part.prompt_ids.tolist() == [1]
        mixed += bool(valid) and not row["is_action_valid"]
    assert mixed


def test_rows_in_no_order_are_refused_where_the_order_matters():
    rows = agent_rows(0)
    module, _ = fork()
    config = Config(apportion=Config(gamma=0.9))
    with pytest.raises(DataError, match=r"rows share a traj_uid, and nothing says in which order"):
        module.compute_advantage(data_of(rows), "apportion/gigpo", config=config)
    data = data_of(rows)
    names = [row["traj_uid"] for row in rows]
    data.non_tensor_batch["step_index"] = np.array([names[:i].count(name) for i, name in enumerate(names)])
    back = list(reversed(range(len(rows))))
    data.meta_info["apportion"] = {"method": "gigpo", "gamma": 0.9}
    out = module.compute_advantage(data.rows(back), "gigpo")
    want = reference(rows, "gigpo", gamma=0.9)
    assert out.batch["advantages"][:, 0].tolist() == pytest.approx([want[i] for i in back], abs=1e-5)
    del data.non_tensor_batch["uid"]
    with pytest.raises(DataError, match="the batch has no 'uid'"):
        module.compute_advantage(data, "gigpo")


def test_other_estimators_and_other_batches_go_through():
    rows = agent_rows(0)
    module, _ = fork()
    plain = Config(algorithm=Config(adv_estimator="gigpo"))
    data = module.adjust_batch(plain, data_of(rows), range(len(rows)))
    assert "apportion" not in data.meta_info
    assert dataproto_rows.ORDER not in data.non_tensor_batch
    module.compute_advantage(data, "gigpo")
    assert module.seen == ["gigpo"]
    assert "advantages" not in data.batch


def test_inactive_rows_are_not_there():
    rows = agent_rows(4)
    module, config = fork("gigpo", gamma=0.9)
    ghost = dict(rows[0], active_masks=False, score=99.0)
    data = module.adjust_batch(config, data_of([*rows, ghost]), range(len(rows) + 1))
    data.non_tensor_batch[dataproto_rows.REWARDS][:] = [
        r[: len(r)] for r in data.non_tensor_batch[dataproto_rows.REWARDS]
    ]
    out = module.compute_advantage(data, "gigpo")
    assert not out.batch["advantages"][-1].any()


def test_unscored_and_dropped_tokens_leave_both_masks():
    rows = agent_rows(5)
    rows[0]["score"] = float("nan")
    for row in rows:
        if row["traj_uid"] == rows[0]["traj_uid"]:
            row["score"] = row["episode_rewards"] = float("nan")
    module, config = fork("gigpo")
    data = module.adjust_batch(config, data_of(rows), range(len(rows)))
    data.batch["loss_mask"] = data.batch["attention_mask"].clone()
    out = module.compute_advantage(data, "gigpo")
    for i, row in enumerate(rows):
        alive = 0 if row["traj_uid"] == rows[0]["traj_uid"] else row["size"]
        assert int(out.batch["response_mask"][i].sum()) == alive
        assert int(out.batch["loss_mask"][i, 2:].sum()) == alive
        assert int(out.batch["loss_mask"][i, :2].sum()) == 2


def one_row_each(rows, width):
    """Rollouts of one row, as the older trainer of verl has them: lists of an agent loop are columns."""
    count = len(rows)
    batch = {name: torch.zeros(count, width, dtype=torch.long) for name in ("responses", "response_mask", "real")}
    batch["prompts"] = torch.zeros(count, 4, dtype=torch.long)
    left = torch.zeros(count, 4, dtype=torch.long)
    score, logp = torch.zeros(count, width), torch.full((count, width), float("nan"))
    columns = {name: np.empty(count, dtype=object) for name in ("uid", "steps", "step_rewards", "states")}
    for i, row in enumerate(rows):
        n, p = len(row["responses"]), len(row["prompts"])
        batch["responses"][i, :n] = torch.tensor(row["responses"])
        batch["response_mask"][i, :n] = torch.tensor(row["response_mask"])
        batch["real"][i, :n] = 1
        batch["prompts"][i, 4 - p :] = torch.tensor(row["prompts"])
        left[i, 4 - p :] = 1
        score[i, n - 1] = row["score"]
        logp[i, :n] = torch.tensor(row["rollout_log_probs"])
        columns["uid"][i] = row["uid"]
        for name in ("steps", "step_rewards", "states"):
            columns[name][i] = row["extra_fields"][name]
    batch["attention_mask"] = torch.cat([left, batch.pop("real")], dim=1)
    return Data(batch | {"token_level_scores": score, "token_level_rewards": score, "rollout_log_probs": logp}, columns)


@given(seed=st.integers(0, 50), shuffle=st.integers(0, 50), more=st.integers(0, 7), parts=st.integers(1, 3))
def test_padding_order_and_data_parallel_dealing_change_no_number(seed, shuffle, more, parts):
    rows = batch_of_rows(seed, groups=2, sessions=3, outputs=1)
    longest = max(len(row["responses"]) for row in rows)
    module, _ = fork()
    method, section = [("gigpo", {"gamma": 0.9}), ("mt_grpo", {}), ("grpo | probability_mask", {"unit": "step"})][
        seed % 3
    ]
    want = wanted(rows, method, **section)
    order = np.random.default_rng(shuffle).permutation(len(rows))
    order = [i for k in range(parts) for i in order[k::parts]]  # dealt to ranks, one after the other
    data = one_row_each([rows[i] for i in order], longest + more)
    data.meta_info["apportion"] = {"method": method, **section}
    out = module.compute_advantage(data, "gigpo")
    for place, i in enumerate(order):
        advantage, weight = want[rows[i]["key"]]
        np.testing.assert_allclose(out.batch["advantages"][place, : len(advantage)], advantage, atol=2e-6)
        assert not out.batch["advantages"][place, len(advantage) :].any()
        assert out.batch["response_mask"][place, : len(weight)].tolist() == weight.astype(int).tolist()


@pytest.mark.skipif(not PRESENT, reason=WHY)
def test_verls_own_function_on_a_dataproto():
    from verl import DataProto
    from verl.trainer.ppo import core_algos, ray_trainer

    import apportion.adapters.verl.plugin  # noqa: F401

    rows = batch_of_rows(7, groups=3, sessions=4, outputs=1)
    made = one_row_each(rows, 20)
    data = DataProto.from_dict(tensors=made.batch, non_tensors=made.non_tensor_batch)
    config = Config(gamma=1.0, apportion=Config(gamma=0.9))
    out = ray_trainer.compute_advantage(data, adv_estimator="apportion/gigpo", config=config)
    for i, row in enumerate(rows):
        advantage, _ = wanted(rows, "gigpo", gamma=0.9)[row["key"]]
        np.testing.assert_allclose(out.batch["advantages"][i, : len(advantage)], advantage, atol=2e-6)
    parity = Config(gamma=1.0, apportion=Config(epsilon=1e-6, group_of_one="raw"))
    ours = (
        ray_trainer.compute_advantage(data, adv_estimator="apportion/grpo", config=parity).batch["advantages"].clone()
    )
    estimator = core_algos.AdvantageEstimator.GRPO
    theirs = ray_trainer.compute_advantage(data, adv_estimator=estimator, config=Config(gamma=1.0))
    torch.testing.assert_close(ours, theirs.batch["advantages"], atol=1e-6, rtol=0)
    # the registered name, as a trainer calls it that knows neither stage nor wrapper
    registered = ray_trainer.compute_advantage.__wrapped__(data, adv_estimator="apportion/grpo", config=parity)
    torch.testing.assert_close(ours, registered.batch["advantages"], atol=1e-6, rtol=0)
