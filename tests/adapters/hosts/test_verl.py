"""verl's advantage stage with our credit: what every row gets is what `assign` says of the same rollouts.

Each test runs on a stand-in for verl, and on verl's own trainer class with TransferQueue in a local Ray where it is
installed (`make test-verl`).
"""

import types
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apportion as ap
from apportion.adapters.untrained import Untrained
from apportion.adapters.verl import stage
from apportion.adapters.verl.contract import FIELDS
from apportion.adapters.verl.crediting import credit_rows
from apportion.errors import ConfigError, DataError
from tests.adapters.hosts.verl_hosts import (
    Config,
    Verl,
    batch_of_rows,
    config,
    padding_rows,
    run_stage,
    stand_in,
    wanted,
)

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'apportion[train]')")


def check(got, want, *, name="advantages"):
    for key, (advantage, weight) in want.items():
        np.testing.assert_allclose(got[key][name], advantage, atol=2e-6, err_msg=key)
        assert got[key]["loss_mask"].tolist() == weight.astype(int).tolist()
        assert got[key]["response_mask"].tolist() == weight.astype(int).tolist()


METHODS = {
    "gigpo": ("gigpo", {"gamma": 0.9}),
    "turns": ("mt_grpo", {"unit": "turn", "gamma": 0.9}),
    "grpo": ("grpo", {}),
    "sum": ("grpo + 0.5*anchor | whiten", {"unit": "step"}),
    "dropped": ("grpo | probability_mask", {"unit": "step"}),
}


@pytest.mark.parametrize("name", METHODS)
def test_rows_get_what_assign_says_reordered_padded_and_split(host, name):
    method, section = METHODS[name]
    rows = batch_of_rows(1)
    assert len(rows) > 12, "some rollouts have several rows"
    want = wanted(rows, method, **section)
    got, metrics = run_stage(host, rows, config(f"apportion/{method}", section))
    check(got, want)
    # as for two data-parallel ranks: padded to an even number, dealt out in another order
    rng = np.random.default_rng(0)
    more = [*rows, *padding_rows(rows, 4)]
    dealt = [more[i] for i in rng.permutation(len(more))]
    again, same = run_stage(host, dealt, config(f"apportion/{method}", section))
    for row in rows:
        assert again[row["key"]]["advantages"].tolist() == got[row["key"]]["advantages"].tolist()  # to the bit
    for row in more[len(rows) :]:
        assert again[row["key"]]["advantages"].tolist() == [0.0]
    assert same == metrics
    assert 0 < metrics["credit/share_of_tokens_trained"] <= 1
    assert metrics["credit/mean_abs"] > 0


def test_in_parity_mode_it_is_the_published_formula(host):
    rows = batch_of_rows(2, sessions=3)
    lone = batch_of_rows(3, groups=1, sessions=1)
    for row in lone:
        row["key"], row["uid"] = "lone" + row["key"], "lone" + row["uid"]
    got, _ = run_stage(host, rows + lone, config("apportion/grpo", {"epsilon": 1e-6, "group_of_one": "raw"}))
    scores = {row["key"].rsplit("_", 1)[0]: (row["uid"], np.float32(row["score"])) for row in rows + lone}
    for row in rows + lone:
        own = scores[row["key"].rsplit("_", 1)[0]][1]
        group = np.array([score for uid, score in scores.values() if uid == row["uid"]])
        mean, std = (group.mean(), group.std(ddof=1)) if len(group) > 1 else (0.0, 1.0)
        sampled = np.array(row["response_mask"])
        np.testing.assert_allclose(got[row["key"]]["advantages"], sampled * (own - mean) / (std + 1e-6), atol=1e-6)


def test_in_parity_mode_it_is_verls_own_number(verl):
    from verl.trainer.ppo.core_algos import AdvantageEstimator

    for seed in range(4):
        rows = batch_of_rows(seed)
        theirs, _ = run_stage(verl, rows, config(AdvantageEstimator.GRPO))
        ours, _ = run_stage(verl, rows, config("apportion/grpo", {"epsilon": 1e-6, "group_of_one": "raw"}))
        for key in theirs:
            np.testing.assert_allclose(ours[key]["advantages"], theirs[key]["advantages"], atol=1e-6)
            np.testing.assert_allclose(ours[key]["returns"], theirs[key]["returns"], atol=1e-6)


def worked():
    """Session 0 rewrote its context and has two rows of three steps; session 1 has one row of two steps."""

    def row(key, mask, score, steps, rewards, states):
        return {
            "key": key,
            "uid": "p0",
            "prompts": [1, 2],
            "responses": list(range(len(mask))),
            "response_mask": mask,
            "score": score,
            "rollout_log_probs": [-1.0] * len(mask),
            "old_log_probs": [-1.0] * len(mask),
            "ref_log_prob": [-1.0] * len(mask),
            "extra_fields": {"steps": steps, "step_rewards": rewards, "states": states},
        }

    return [
        row("p0_0_0", [1, 1, 1], 1.0, [[0, 3]], [0.0], ["s0"]),
        row("p0_0_1", [1, 1, 0, 1], 1.0, [[0, 2], [3, 4]], [0.2, 0.8], ["s1", "s2"]),
        row("p0_1_0", [1, 1, 0, 0, 1, 1], 0.0, [[0, 2], [4, 6]], [0.0, 0.0], ["s0", "s1"]),
    ]


def test_a_rollout_of_several_rows_has_one_vote(host):
    got, metrics = run_stage(host, worked(), config("apportion/gigpo", {"gamma": 1.0}))
    # episodes: 1 and 0, mean 0.5, not 2/3.  s0: returns to go 1, 0.  s1: 1, 0.  s2: nobody else.
    assert got["p0_0_0"]["advantages"] == pytest.approx([1, 1, 1])
    assert got["p0_0_1"]["advantages"] == pytest.approx([1, 1, 0, 0.5])
    assert got["p0_1_0"]["advantages"] == pytest.approx([-1, -1, 0, 0, -1, -1])
    assert metrics["credit/groups"] == 1


def test_the_outcome_has_the_last_word(host):
    rows = worked()
    for row in rows[:2]:
        row["score"] = 3.0  # the steps told of 1.0
    got, _ = run_stage(host, rows, config("apportion/reinforce", {"gamma": 1.0}))
    assert got["p0_0_0"]["advantages"] == pytest.approx([3, 3, 3])
    assert got["p0_0_1"]["advantages"] == pytest.approx([3, 3, 0, 2.8])


def test_a_reward_model_that_scores_inside_the_response_rewards_the_step_before(host):
    rows = worked()[2:]
    rows[0] |= {"response_mask": [0, 1, 1, 0, 1, 0], "scores": [0.5, 0.0, 1.0, 0.25, 0.0, 2.0], "extra_fields": {}}
    got, _ = run_stage(host, rows, config("apportion/reinforce", {"gamma": 1.0, "unit": "turn"}))
    # the first step begins at token 1 and has what stands before the next: 0.5 + 1 + 0.25; the last has the rest
    assert got["p0_1_0"]["advantages"] == pytest.approx([0, 3.75, 3.75, 0, 2, 0])


def test_a_broken_column_counts_as_not_told(host):
    rows = worked()
    for row in rows:  # at an observation a number may be anything
        row["rollout_log_probs"] = [-1.0 if m else float("nan") for m in row["response_mask"]]
    run_stage(host, rows, config("apportion/grpo | probability_mask", {"unit": "step"}))
    rows[0]["rollout_log_probs"] = [-1.0, float("nan"), -1.0]
    run_stage(host, rows, config("apportion/grpo", {}))
    with pytest.raises(DataError, match="logp"):
        run_stage(host, rows, config("apportion/grpo | probability_mask", {"unit": "step"}))


def test_other_estimators_go_through(host):
    rows = worked()
    settings = config("apportion/gigpo", {"gamma": 1.0})
    run_stage(host, rows, settings)
    if isinstance(host, Verl):
        from verl.trainer.ppo.core_algos import AdvantageEstimator

        got, metrics = run_stage(host, rows, config(AdvantageEstimator.GRPO))
        assert got["p0_0_0"]["advantages"] == pytest.approx([0.7071] * 3, abs=1e-4)
    else:
        got, metrics = run_stage(host, rows, config("grpo"))
        assert got["p0_0_0"]["advantages"].tolist() == [7.0] * 3
    assert metrics == {}


def test_unscored_rollouts_leave_the_statistics_and_the_loss(host):
    rows = batch_of_rows(4)
    name = rows[0]["key"].rsplit("_", 1)[0]
    for row in rows:
        if row["key"].startswith(name + "_"):
            row["score"] = float("nan")
    got, metrics = run_stage(host, rows, config("apportion/gigpo", {"gamma": 0.9}))
    check(got, wanted(rows, "gigpo", gamma=0.9))
    assert not got[rows[0]["key"]]["loss_mask"].any()
    assert metrics["credit/unknown_trajectories"] == 1
    # one whose sandbox broke says so itself
    rows = worked()
    rows[1]["extra_fields"]["failed"] = True
    got, _ = run_stage(host, rows, config("apportion/grpo", {"group_of_one": "raw"}))
    assert not got["p0_0_0"]["loss_mask"].any()
    assert got["p0_1_0"]["loss_mask"].any()


def test_a_batch_of_which_nothing_is_trained_is_said_once(host):
    rows, key = batch_of_rows(4), "credit/share_of_tokens_trained"
    settings = config("apportion/grpo", {"epsilon": 3e-6})
    for row in rows:
        row["score"] = float("nan")
    with pytest.warns(UserWarning, match="no token of a batch is trained .*none of its rollouts was scored"):
        assert run_stage(host, rows, settings)[1][key] == 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_stage(host, rows, settings)[1][key] == 0.0


def test_a_critic_gets_advantage_plus_value_and_advantages_may_be_whitened(host):
    rows = batch_of_rows(5, groups=2)
    rng = np.random.default_rng(5)
    for row in rows:
        row["values"] = np.float32(rng.normal(size=len(row["responses"]))).tolist()
    plain, _ = run_stage(host, rows, config("apportion/gae", {"gamma": 0.9, "lam": 0.8}))
    white, _ = run_stage(host, rows, config("apportion/gae | whiten", {"gamma": 0.9, "lam": 0.8}))
    sessions = {}
    for row in rows:
        sessions.setdefault(row["key"].rsplit("_", 1)[0], []).append(row)
    for parts in sessions.values():
        tokens = []  # (row, place, value, reward), sampled ones of all rows end to end
        for row in parts:
            for (_, last), reward in zip(
                row["extra_fields"]["steps"], row["extra_fields"]["step_rewards"], strict=True
            ):
                row.setdefault("reward", {})[last - 1] = reward
            tokens += [
                (row, t, row["values"][t], row["reward"].get(t, 0.0)) for t, m in enumerate(row["response_mask"]) if m
            ]
        running = 0.0
        for k in reversed(range(len(tokens))):
            row, t, value, reward = tokens[k]
            after = tokens[k + 1][2] if k + 1 < len(tokens) else 0.0
            running = reward + 0.9 * after - value + 0.9 * 0.8 * running
            assert plain[row["key"]]["advantages"][t] == pytest.approx(running, abs=1e-5)
            assert plain[row["key"]]["returns"][t] == pytest.approx(running + value, abs=1e-5)
            assert white[row["key"]]["returns"][t] == pytest.approx(running + value, abs=1e-5)
    flat = np.concatenate([white[row["key"]]["advantages"][np.array(row["response_mask"]) == 1] for row in rows])
    assert flat.mean() == pytest.approx(0, abs=1e-6)
    with pytest.raises(ConfigError, match="a critic is trained, and 0 methods of 'grpo' read its values"):
        run_stage(host, rows, config("apportion/grpo", {}))


def test_kl_in_the_reward_arrives_with_the_step_that_it_is_of(host):
    rows = worked()
    # KL 0.5 on the first token; what stands at an observation is none
    rows[1]["old_log_probs"] = [-0.5, -1.0, -3.0, -1.0]
    rows[2]["ref_log_prob"][2] = float("nan")  # NaN times a mask is NaN
    settings = config("apportion/reinforce", {"gamma": 1.0}, use_kl_in_reward=True)
    if isinstance(host, Verl):
        settings.algorithm["kl_ctrl"] = {}
    got, _ = run_stage(host, rows, settings, kl=0.2)
    assert got["p0_0_0"]["advantages"] == pytest.approx([0.9, 0.9, 0.9])  # 0 + 0.2 - 0.1 + 0.8
    assert got["p0_0_1"]["advantages"] == pytest.approx([0.9, 0.9, 0, 0.8])
    assert got["p0_1_0"]["advantages"] == pytest.approx([0] * 6)


def test_a_rollout_that_verl_rejected_sets_no_baseline(monkeypatch):
    host = stand_in(monkeypatch)
    rows = [dict(worked()[0], key=f"p0_{i}_0", score=score) for i, score in enumerate((40.0, 1.0, 0.0))]
    got, _ = run_stage(host, rows, config("apportion/dr_grpo", {}, rejected=[0]))
    assert [got[row["key"]]["advantages"][0] for row in rows] == pytest.approx([0, 0.5, -0.5])
    assert not got["p0_0_0"]["loss_mask"].any()


def test_without_a_word_about_steps_runs_of_the_mask_are_steps(host):
    rows = worked()
    told, _ = run_stage(host, rows, config("apportion/mt_grpo", {"unit": "turn"}))
    for row in rows:
        row["extra_fields"] = {}
    got, _ = run_stage(host, rows, config("apportion/mt_grpo", {"unit": "turn"}))
    # outcome 1 at the end of session 0, so every return to go is 1 there, and 0 in session 1
    assert got["p0_0_0"]["advantages"] == pytest.approx([1, 1, 1])
    assert got["p0_1_0"]["advantages"] == pytest.approx([-1, -1, 0, 0, -1, -1])
    assert told["p0_0_0"]["advantages"] == pytest.approx([1, 1, 1])


def test_what_does_not_fit_its_row_is_a_sentence(host):
    rows = worked()
    rows[1]["extra_fields"] = {"steps": [[0, 3]]}
    with pytest.raises(DataError, match=r"row 'p0/0': step 0 holds token 2, which the policy did not sample"):
        run_stage(host, rows, config("apportion/gigpo", {}))
    rows = worked()
    rows[1]["extra_fields"]["step_rewards"] = [0.0, 0.0, 0.0]
    with pytest.raises(DataError, match=r"row 'p0/0': 3 step_rewards for 2 steps; give one per step"):
        run_stage(host, rows, config("apportion/gigpo", {}))
    rows = [row for row in worked() if row["key"] != "p0_0_0"]
    with pytest.raises(DataError, match=r"rollout 'p0/0': row 0 is missing"):
        run_stage(host, rows, config("apportion/gigpo", {}))
    with pytest.raises(DataError, match="the batch has padding rows only"):
        run_stage(host, padding_rows(worked(), 2), config("apportion/gigpo", {}))


@pytest.mark.parametrize(
    ("method", "how"),
    [
        ("gae", "critic.enable=true brings values of tokens, the list 'values' of the agent loop those of steps"),
        ("dr_mas", "the agent loop tells 'agents', one name for each step"),
        ("prime", "the agent loop tells 'columns', by name one number for each response token"),
        ("gdpo", "what the reward function returns beside the score, or 'outcomes' of the agent loop"),
    ],
)
def test_what_a_method_lacks_is_said_with_the_setting_that_brings_it(host, method, how):
    with pytest.raises(DataError, match=rf"^{method} reads .*, which the units .*\. In verl: {how}$"):
        run_stage(host, worked(), config(f"apportion/{method}", {}))


def test_states_that_nobody_told_are_said_and_counted(host):
    rows, key = worked(), "credit/share_of_states_told"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_stage(host, rows, config("apportion/gigpo", {}))[1][key] == 1.0
        assert key not in run_stage(host, rows, config("apportion/grpo", {}))[1]
    acted = sum(len(row["extra_fields"]["steps"]) for row in rows)
    some = len(rows[0]["extra_fields"].pop("states"))
    with pytest.warns(UserWarning, match="'gigpo' compares states, and the agent loop tells 'states' for some steps"):
        assert run_stage(host, rows, config("apportion/gigpo", {}))[1][key] == pytest.approx(1 - some / acted)
    for row in rows:
        row["extra_fields"].pop("states", None)
    with pytest.warns(UserWarning, match="tells 'states' for no steps"):
        assert run_stage(host, rows, config("apportion/gigpo", {}))[1][key] == 0.0


def test_step_rewards_that_are_nan_are_said_and_counted(host):
    rows, key = worked(), "credit/nan_step_rewards"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert key not in run_stage(host, rows, config("apportion/gigpo", {}))[1]
    rewards = rows[1]["extra_fields"]["step_rewards"]
    rows[1]["extra_fields"]["step_rewards"] = [float("nan"), *rewards[1:]]
    with pytest.warns(UserWarning, match="tells step rewards that are NaN .* count as not told; give None"):
        got, metrics = run_stage(host, rows, config("apportion/gigpo", {}))
    assert metrics[key] == 1.0
    rows[1]["extra_fields"]["step_rewards"] = [None, *rewards[1:]]
    plainly, _ = run_stage(host, rows, config("apportion/gigpo", {}))
    for name in got:
        np.testing.assert_array_equal(got[name]["advantages"], plainly[name]["advantages"])


def test_a_wrong_configuration_is_a_sentence(host):
    rows = worked()
    with pytest.raises(ap.UnknownName, match="did you mean 'gigpo'"):
        run_stage(host, rows, config("apportion/gigpoo", {}))
    with pytest.raises(ConfigError, match="unknown parameter 'gama'"):
        run_stage(host, rows, config("apportion/gigpo", {"gama": 0.9}))
    with pytest.raises(ConfigError, match="no unit named 'stpe'"):
        run_stage(host, rows, config("apportion/gigpo", {"unit": "stpe"}))
    settings = config("apportion/gigpo", {})
    settings.actor_rollout_ref.actor.policy_loss["loss_mode"] = "geo_mean"
    with pytest.raises(ConfigError, match=r"loss_mode=geo_mean gives every token of a row the row's mean advantage"):
        run_stage(host, rows, settings)
    with pytest.raises(ConfigError, match="loss_mode=geo_mean"):
        host.module.PPOTrainer.__init__(types.SimpleNamespace(), settings)  # before any model is loaded
    settings.algorithm["adv_estimator"] = "apportion/grpo"
    run_stage(host, rows, settings)
    settings["critic"] = Config(enable=True)
    with pytest.raises(ConfigError, match="a critic is trained, and 0 methods of 'grpo' read its values"):
        host.module.PPOTrainer.__init__(types.SimpleNamespace(), settings)


def test_all_that_hosts_may_be_told_is_read(host):
    rows = worked()
    rows[1]["extra_fields"] |= {
        "agents": ["a", "b"],
        "turns": [1, 2],
        "values": [0.5, 0.25],
        "step_parts": [{"format": 1.0}],
        "reward_extra_info": {"acc": 1.0, "note": "fine"},
        "reference": "42",
        "truncated": True,
        "final_value": 0.75,
        "columns": {"prm_logp": [-0.5, -0.5, 0.0, -0.5]},
    }
    heard = []

    class Heard:
        crediting = types.SimpleNamespace(method="grpo", varies_inside=True, params={}, reads=lambda column: False)
        log, penalty_apart, on_credit, untrained = None, False, None, Untrained()

    def credit(batch):
        heard.append(batch)
        return ap.assign("grpo", ap.by_step(batch))

    Heard.crediting.credit = credit
    parts = stage_parts(host, rows)
    credit_rows(Heard, parts)
    told = heard[0].trajectories[0]
    assert told.id == "p0/0"
    assert [step.agent for step in told.steps] == [None, "a", "b"]
    assert [step.turn for step in told.steps] == [None, 1, 2]
    assert [step.value for step in told.steps] == [None, 0.5, 0.25]
    assert [dict(step.rewards) for step in told.steps] == [{}, {"format": 1.0}, {}]
    assert told.outcomes == {"acc": 1.0}
    assert (told.reference, told.final_value, told.steps[-1].truncated) == ("42", 0.75, True)
    assert told.steps[2].columns["prm_logp"].tolist() == [-0.5]
    assert told.steps[1].fresh
    assert [step.state for step in told.steps] == ["s0", "s1", "s2"]
    assert told.steps[1].logp.tolist() == [-1.0, -1.0]


def stage_parts(host, rows):
    """The rows as the adapter reads them out of the queue."""
    host.put(rows, "told")
    keys = [row["key"] for row in rows]
    names = [*FIELDS, "rollout_log_probs", "rm_scores"]
    fetched = host.module.tq.kv_batch_get(keys=keys, partition_id="told", select_fields=names)
    whole = {name: torch.nested.to_padded_tensor(fetched[name], 0) for name in ("rm_scores", "response_mask")}
    data = types.SimpleNamespace(
        batch={
            "response_mask": whole["response_mask"],
            "token_level_scores": whole["rm_scores"],
            "token_level_rewards": whole["rm_scores"],
        }
    )
    return stage.parts_of(stage.Stage(None, keys, [], fetched, 0), data)


def test_rollouts_are_written_where_a_log_is_asked_for(host, tmp_path):
    folder = tmp_path / "log"
    section = {"gamma": 1.0, "log": str(folder)}
    got, _ = run_stage(host, worked(), config("apportion/gigpo", section))
    (path,) = folder.iterdir()
    assert path.name == "step-000003.parquet"
    credit = ap.read_credit(path)
    assert credit.method == "gigpo"
    tokens = [part.advantage[part.sampled].tolist() for part in credit.to_tokens().split()]
    assert tokens[0] == pytest.approx([*got["p0_0_0"]["advantages"], 1, 1, 0.5])


def split_rows(rng, row):
    """One row cut between its steps into several, each with everything before it as its prompt."""
    spans, states, rewards = (row["extra_fields"][name] for name in ("steps", "states", "step_rewards"))
    cuts = [s for s in range(1, len(spans)) if rng.random() < 0.5]
    bounds = list(zip([0, *cuts], [*cuts, len(spans)], strict=True))
    name, out = row["key"].rsplit("_", 1)[0], []
    for order, (a, b) in enumerate(bounds):
        first = 0 if a == 0 else spans[a][0]  # observations before a step are its prompt
        last = spans[b - 1][1] if b < len(spans) else len(row["responses"])
        out.append(
            {
                "key": f"{name}_{order}",
                "uid": row["uid"],
                "score": row["score"],
                "prompts": row["prompts"] + row["responses"][:first],
                **{
                    column: row[column][first:last]
                    for column in ("responses", "response_mask", "rollout_log_probs", "old_log_probs", "ref_log_prob")
                },
                "extra_fields": {
                    "steps": [[x - first, y - first] for x, y in spans[a:b]],
                    "states": states[a:b],
                    "step_rewards": rewards[a:b],
                },
            }
        )
    return out


@given(seed=st.integers(0, 100), shuffle=st.integers(0, 100), pads=st.integers(0, 5), copies=st.integers(0, 5))
def test_how_rollouts_are_laid_out_changes_no_number(seed, shuffle, pads, copies):
    rng = np.random.default_rng(shuffle)
    rows = batch_of_rows(seed, groups=2, sessions=3, outputs=1)
    name = list(METHODS)[seed % len(METHODS)]
    method, section = METHODS[name]
    with pytest.MonkeyPatch.context() as patch:
        host = stand_in(patch)
        whole, metrics = run_stage(host, rows, config(f"apportion/{method}", section))
        cut = {row["key"]: split_rows(rng, row) for row in rows}
        pieces = [piece for parts in cut.values() for piece in parts]
        laid = [*pieces, *padding_rows(pieces, pads), *(pieces[i] for i in rng.integers(len(pieces), size=copies))]
        got, same = run_stage(
            host, [laid[i] for i in rng.permutation(len(laid))], config(f"apportion/{method}", section)
        )
    for key, parts in cut.items():
        for column in ("advantages", "loss_mask"):
            own = [
                x
                for piece in parts
                for x, m in zip(got[piece["key"]][column], piece["response_mask"], strict=True)
                if m
            ]
            want = [x for x, m in zip(whole[key][column], rows_by_key(rows)[key]["response_mask"], strict=True) if m]
            assert own == want  # to the bit
    assert same == metrics


def rows_by_key(rows):
    return {row["key"]: row for row in rows}
