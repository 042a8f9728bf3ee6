"""What trainers and environments log: NeMo Gym, verifiers v1, rLLM, TRL, verl; and token ids beside text."""

import copy

import numpy as np
import pytest

import apportion as ap
from apportion.adapters.readers import Context, ReadReport
from apportion.adapters.readers.tokens import sampled, with_ids
from apportion.data import Step
from apportion.errors import FormatError
from tests.adapters.foreign import lines, said, user
from tests.adapters.test_every_reader import read
from tests.adapters.written import nemo_records, node, output_text, rllm_record, trace_record, trl_rows, verl_rows


def one(tmp_path, record, form=None, **options):
    (trajectory,), report = read(lines(tmp_path / "one.jsonl", [record]), form, **options)
    return trajectory, report.notes


# --- token ids beside text ------------------------------------------------------------------------------------------


def told(*calls):
    context = Context(ReadReport("f"))
    steps = [Step(observation=f"o{k}", action=f"a{k}", turn=k) for k in range(len(calls))]
    made = [None if call is None else sampled(*call, context) for call in calls]
    return with_ids(steps, made, context), context.report.notes


def test_the_part_of_a_prompt_that_is_new_is_the_context_of_its_step():
    steps, notes = told(([1, 2], [3, 4], [-0.1, -0.2]), ([1, 2, 3, 4, 5], [6], [-0.3]))
    assert [step.prompt_ids.tolist() for step in steps] == [[1, 2], [5]]
    assert [step.ids.tolist() for step in steps] == [[3, 4], [6]]
    assert [step.fresh for step in steps] == [False, False]
    assert [step.action for step in steps] == ["a0", "a1"]
    assert not notes


def test_a_prompt_that_was_tokenised_again_is_fresh():
    steps, notes = told(([1, 2], [3, 4], None), ([1, 2, 34, 5], [6], None))
    assert [step.prompt_ids.tolist() for step in steps] == [[1, 2], [1, 2, 34, 5]]
    assert [step.fresh for step in steps] == [False, True]
    assert notes["prompts that do not extend the tokens before them: rewritten or re-tokenised, fresh"] == 1


@pytest.mark.parametrize(
    ("call", "note"),
    [
        (None, "token ids of some turns only: left out, the text is kept"),
        (([1], [2.5], None), "token ids that are none: left out, the text is kept"),
        (([1], [True], None), "token ids that are none: left out, the text is kept"),
        (([1], [-3], None), "token ids that are none: left out, the text is kept"),
    ],
)
def test_ids_that_are_not_all_there_are_none(call, note):
    steps, notes = told(([1, 2], [3], None), call)
    assert all(step.ids is None for step in steps)
    assert notes[note] == 1


def test_log_probabilities_that_do_not_fit_are_left_out():
    steps, notes = told(([1], [2, 3], [-0.1]))
    assert steps[0].logp is None
    assert steps[0].ids.tolist() == [2, 3]
    assert notes["log-probabilities that are none, or not one per token: left out"] == 1


# --- NeMo Gym -------------------------------------------------------------------------------------------------------


def test_nemo_gym(tmp_path):
    found, report = read(lines(tmp_path / "rollouts.jsonl", nemo_records()))
    assert [(t.group, t.id, t.outcome) for t in found] == [
        ("simple/0", "0/0", 0.0),
        ("simple/0", "0/1", 1.0),
        ("simple/1", "1/0", 0.0),
        ("simple/1", "1/1", 1.0),
    ]
    assert [len(t.steps) for t in found] == [2] * 4
    assert found[0].steps[-1].terminated
    assert (found[2].reference, found[2].meta["model"]) == ("1", "m")
    assert report.notes["group from _ng_task_index; whether its rollouts began alike, the file does not say"] == 4


def test_nemo_gyms_token_ids(tmp_path):
    record = nemo_records()[0]
    ids = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.5]}
    record["response"]["output"] = [output_text("a", **ids)]
    trajectory, notes = one(tmp_path, record)
    assert trajectory.steps[0].ids.tolist() == [3]
    assert notes["ids unknown: text only, words stand in for tokens"] == 0


def test_a_limit_that_cut_a_response_off(tmp_path):
    record = nemo_records()[0] | {"terminated": False}
    record["response"]["incomplete_details"] = {"reason": "max_output_tokens"}
    assert one(tmp_path, record)[0].steps[-1].truncated


def test_histories_logged_once_per_step(tmp_path):
    record = nemo_records()[0]
    items = record["response"]["output"]
    record["response"]["output"] = [items[:3], items]
    assert len(one(tmp_path, record)[0].steps) == 2
    record["response"]["output"] = [items, items[:3]]
    with pytest.raises(FormatError, match="output holds histories that do not extend each other"):
        one(tmp_path, record)


# --- verifiers, version 1 -------------------------------------------------------------------------------------------


def test_a_trace_that_forks_is_a_tree(tmp_path):
    trajectory, notes = one(tmp_path, trace_record(1))
    left, right, up = trajectory.steps
    assert [step.action for step in trajectory.steps] == ["left", "right", "up"]
    assert [step.parent for step in trajectory.steps] == [None, None, 0]
    assert left.observation == "[system] Play.\n[user] Go."
    assert (right.observation, up.observation) == ("[user] a wall", "[user] a hole")
    # the template's tokens in front of what was sampled are context
    assert (left.prompt_ids.tolist(), left.ids.tolist()) == ([1, 2, 3, 4], [5, 6])
    assert (right.prompt_ids.tolist(), right.ids.tolist()) == ([7, 8], [9])
    assert (up.prompt_ids.tolist(), up.ids.tolist()) == ([10, 11], [12, 13])
    assert up.logp.tolist() == [-0.5, -0.5]
    assert {step.agent for step in trajectory.steps} == {"solver"}
    assert trajectory.outcome == pytest.approx(1.0 + 0.2 * 0.5)
    assert trajectory.outcomes == {"correct": 1.0, "short": 0.5}
    assert (trajectory.group, trajectory.id, trajectory.reference) == ("t1", "trace1", "42")
    assert notes["group from task.key"] == 1
    batch = ap.Batch.from_trajectories([trajectory])
    assert batch.has_ids


def test_tokens_behind_the_sampled_ones_belong_to_what_follows(tmp_path):
    record = trace_record()
    record["nodes"] = record["nodes"][:5]
    record["nodes"][2] |= {"token_ids": [4, 5, 6, 60], "mask": [False, True, True, False], "logprobs": [-0.5, -0.5]}
    left, right = one(tmp_path, record)[0].steps
    assert left.ids.tolist() == [5, 6]
    assert right.prompt_ids.tolist() == [60, 7, 8]


def test_a_trace_without_ids_is_text_and_one_that_broke_is_failed(tmp_path):
    record = trace_record()
    for one_node in record["nodes"]:
        one_node |= {"token_ids": [], "mask": [], "logprobs": []}
    trajectory, _ = one(tmp_path, record)
    assert [step.ids for step in trajectory.steps] == [None] * 3
    broken, notes = one(tmp_path, {**trace_record(), "ok": False, "errors": [{"type": "E", "message": "m"}]})
    assert (broken.outcome, broken.steps[-1].failed, broken.steps[-1].terminated) == (None, True, False)
    assert notes["traces that are not ok: failed and unscored"] == 1


def test_a_reward_that_was_not_given_is_none(tmp_path):
    trajectory, notes = one(tmp_path, {**trace_record(), "rewards": {"correct": None}})
    assert trajectory.outcome is None
    assert notes["rewards that were not scored: the outcome is unknown"] == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"parent": 6}, "node 4: parent is 6; give the index of an earlier node, or null for a root"),
        ({"mask": [True]}, "node 4: mask does not have one true or false for each of 2 tokens"),
        ({"mask": [False, False]}, "node 4: a sampled node none of whose tokens was sampled"),
        ({"token_ids": [1, 2, 3], "mask": [True, False, True]}, "node 4: the mask has holes"),
        ({"message": {"content": "a"}}, "node 4: no message with a role"),
    ],
)
def test_a_graph_that_cannot_be(tmp_path, change, sentence):
    record = trace_record()
    record["nodes"][4] |= change
    with pytest.raises(FormatError, match=sentence):
        one(tmp_path, record)


def test_credit_on_a_forked_trace_reaches_each_branch(tmp_path):
    found, _ = read(lines(tmp_path / "t.jsonl", [trace_record(0), trace_record(1)]))
    batch = ap.Batch.from_trajectories(found)
    tokens = ap.assign("grpo", ap.by_step(batch)).to_tokens()
    assert np.isfinite(tokens.advantage_T).all()
    assert tokens.advantage_T[batch.sampled_T].any()


# --- rLLM -----------------------------------------------------------------------------------------------------------


def test_rllm(tmp_path):
    found, _ = read(lines(tmp_path / "episodes.jsonl", [rllm_record(n) for n in range(4)]))
    assert [(t.group, t.id, t.outcome) for t in found] == [
        ("task0:solver", "task0:0:solver", 0.0),
        ("task0:solver", "task0:1:solver", 1.0),
        ("task1:solver", "task1:0:solver", 0.0),
        ("task1:solver", "task1:1:solver", 1.0),
    ]
    second = found[1].steps
    assert [step.observation for step in second] == ["[user] task 1", "[user] a wall"]
    assert [step.action for step in second] == ["left", "right"]
    assert [step.prompt_ids.tolist() for step in second] == [[1, 2], [4]]
    assert [step.reward for step in second] == [0.0, 1.0]
    assert [step.reward for step in found[0].steps] == [None, None]  # nothing but zeros: none was given
    assert second[-1].terminated


def test_episodes_of_rllm_that_broke_were_cut_off_or_have_no_reward(tmp_path):
    broken = one(tmp_path, {**rllm_record(1), "termination_reason": "error"})[0]
    assert (broken.outcome, broken.steps[-1].failed) == (None, True)
    cut = one(tmp_path, {**rllm_record(1), "termination_reason": "max_turns_exceeded"})[0]
    assert (cut.steps[-1].truncated, cut.steps[-1].terminated) == (True, False)
    record = rllm_record(1)
    record["trajectories"][0]["reward"] = None
    trajectory, notes = one(tmp_path, record)
    assert trajectory.outcome == 1.0
    assert notes["reward of the trajectory missing: is_correct of the episode"] == 1
    del record["is_correct"]
    assert one(tmp_path, record)[0].outcome is None


def test_step_rewards_of_rllm_that_do_not_add_up_leave_the_rest_to_the_last(tmp_path):
    record = rllm_record(1)
    record["trajectories"][0]["reward"] = 3.0
    trajectory, notes = one(tmp_path, record)
    assert [step.reward for step in trajectory.steps] == [0.0, None]
    assert notes["step rewards that do not add up to the reward: the last step gets the rest"] == 1


def test_a_rewritten_chat_of_rllm_is_fresh_and_agents_are_apart(tmp_path):
    record = rllm_record()
    steps = record["trajectories"][0]["steps"]
    steps[1]["chat_completions"] = [user("Summary."), said("right")]
    for step in steps:
        step |= {"prompt_ids": [], "response_ids": [], "logprobs": []}
    other = copy.deepcopy(record["trajectories"][0]) | {"name": "judge"}
    record["trajectories"].append(other)
    found, _ = read(lines(tmp_path / "e.jsonl", [record]))
    assert [t.group for t in found] == ["task0:solver", "task0:judge"]
    assert [step.agent for step in found[1].steps] == ["judge", "judge"]
    assert found[0].steps[1].fresh
    assert found[0].steps[1].observation == "[user] Summary."


def test_trajectories_of_rllm_by_name_and_its_rows_of_chats(tmp_path):
    record = rllm_record(1)
    (inner,) = record["trajectories"]
    del inner["name"]
    trajectory, _ = one(tmp_path, {**record, "trajectories": {"solver": inner}})
    assert (trajectory.group, trajectory.steps[0].agent) == ("task0:solver", "solver")
    row = {
        "idx": 0,
        "chat_completions": [user("q"), said("a")],
        "trajectory_reward": 0.5,
        "termination_reason": "ENV_DONE",
    }
    trajectory, _ = one(tmp_path, row, None)
    assert (trajectory.outcome, [step.action for step in trajectory.steps]) == (0.5, ["a"])


def test_steps_of_rllm_without_chats(tmp_path):
    steps = [
        {"observation": "board", "model_response": "up", "thought": "hm", "chat_completions": [], "reward": 0.0},
        {"observation": {"x": 1}, "action": ["down"], "model_response": "", "response_ids": [], "reward": 0.0},
    ]
    trajectory, _ = one(tmp_path, {"name": "default_traj_name", "task": "t", "steps": steps, "reward": 0.5})
    assert [step.observation for step in trajectory.steps] == ["[user] board", '[user] {"x": 1}']
    assert [step.action for step in trajectory.steps] == ["<think>hm</think>\nup", '["down"]']
    assert (trajectory.outcome, trajectory.group) == (0.5, None)


# --- TRL and verl ---------------------------------------------------------------------------------------------------


def test_trl(tmp_path):
    found, report = read(lines(tmp_path / "rows.jsonl", trl_rows()))
    groups = [t.group for t in found]
    assert groups[0] == groups[1] != groups[2] == groups[3]
    assert groups[0].startswith("3/")
    assert [t.outcome for t in found] == [1.0, 2.0, 1.0, 2.0]
    assert found[1].outcomes == {"accuracy_reward": 1.0, "format_reward": 1.0}
    assert found[0].meta == {"step": 3, "advantage": 0.5}
    assert [(s.observation, s.action) for s in found[0].steps] == [("[user] prompt 0", "answer 0")]
    assert report.notes["outcome is the sum of the reward parts with weight 1: weights are not in the file"] == 4


def test_trls_parts_that_did_not_apply(tmp_path):
    row = trl_rows()[0]
    trajectory, _ = one(tmp_path, {**row, "accuracy_reward": None})
    assert (trajectory.outcome, trajectory.outcomes) == (1.0, {})
    trajectory, _ = one(tmp_path, {**row, "accuracy_reward": float("nan"), "format_reward": None})
    assert trajectory.outcome is None


def test_trls_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.Table.from_pylist(trl_rows()), tmp_path / "completions_00003.parquet")
    found, report = read(tmp_path)
    assert (report.formats, len(found)) == (("trl",), 4)
    assert ap.Batch.from_trajectories(found).group_of_N.tolist() == [0, 0, 1, 1]


def test_verl(tmp_path):
    found, report = read(lines(tmp_path / "7.jsonl", verl_rows()))
    groups = [t.group for t in found]
    assert groups[0] == groups[1] != groups[2] == groups[3]
    assert [t.outcome for t in found] == [0.0, 1.0, 0.0, 1.0]
    assert found[1].outcomes == {"acc": 1.0}
    assert found[0].reference == "42"
    assert [(s.observation, s.action) for s in found[0].steps] == [("user\nq0\n", "a0")]
    assert report.notes["turns and tools inside the output: not told apart in the file, one step"] == 4
    uid = {**verl_rows()[0], "uid": "8f3a_2_0"}
    trajectory, _ = one(tmp_path, uid)
    assert (trajectory.group, trajectory.id) == ("8f3a", "8f3a_2_0")


def test_the_node_builder_builds_what_it_says():
    assert node("assistant", "x", 1, [7, 8, 9], own=True)["mask"] == [False, True, True]
