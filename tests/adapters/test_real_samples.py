"""The real files, read in place where they lie: what SOURCES.md counted in them is what comes out.

Each has a twin on generated data in the tests of its format.
"""

from collections import Counter

import pytest

from tests.adapters.test_every_reader import read
from tests.adapters.test_readers import assert_credit_is_sound

ALL = (
    "adapt_alfworld",
    "big_bench_mistake",
    "gsm8k_model_solutions",
    "nemo_gym_games",
    "rllm_frozenlake",
    "sharegpt_preference",
    "sharegpt_toolcall",
    "swe_agent",
    "tau_bench",
    "tot_game24_cot",
    "verifiers_wordle",
)


@pytest.fixture
def samples(data_root):
    return data_root / "trajectories"


def test_every_sample_is_read_whole_in_one_go(samples):
    found, report = read(samples)
    passed = sorted(path.rpartition("/")[2] for path, _ in report.passed_over)
    assert passed == ["SOURCES.md", "metadata.json"]
    assert {file.removeprefix(f"{samples}/").partition("/")[0] for file, _, _ in report.files} == set(ALL)
    assert (len(found), report.skipped.count) == (1215, 0)
    assert len({t.id for t in found if t.id is not None}) == sum(t.id is not None for t in found)


def test_the_tau_bench_sample(data_root):
    path = data_root / "trajectories" / "tau_bench" / "gpt-4o-airline.sample.json"
    trajectories, report = read(path)
    assert (report.formats, len(trajectories), report.steps) == (("tau-bench",), 20, 137)
    rewards = {}
    for t in sorted(trajectories, key=lambda t: t.meta["trial"]):
        rewards.setdefault(t.group, []).append(t.outcome)
    assert rewards == {
        "21": [0, 1, 1, 1],
        "37": [0, 1, 1, 1],
        "39": [1, 0, 0, 0],
        "43": [1, 0, 0, 0],
        "49": [1, 1, 1, 1],
    }
    sizes = [len(t.steps) for t in trajectories]
    assert (min(sizes), max(sizes)) == (3, 14)
    # tool answers per task: how many of the distinct ones come up in several trials
    shared = {}
    for task in rewards:
        trials = {}
        for t in trajectories:
            if t.group == task:
                seen = [step.state for step in t.steps[1:]] + [t.final_observation]
                for state in seen:
                    if state is not None and state.startswith("[tool "):
                        trials.setdefault(state, set()).add(t.id)
        shared[task] = (sum(len(of) > 1 for of in trials.values()), len(trials))
    assert shared == {"21": (3, 5), "37": (5, 7), "39": (2, 3), "43": (2, 3), "49": (2, 4)}
    assert_credit_is_sound(trajectories)


def test_the_wordle_sample(data_root):
    folder = data_root / "trajectories" / "verifiers_wordle"
    trajectories, report = read(folder)
    assert (report.formats, len(trajectories), report.steps) == (("verifiers",), 15, 85)
    assert [path.rpartition("/")[2] for path, _ in report.passed_over] == ["metadata.json"]
    assert Counter(t.group for t in trajectories) == {str(k): 3 for k in range(5)}
    solved = Counter()
    for t in trajectories:
        solved[t.group] += t.meta["reward_parts"]["check_answer_reward_func"]
    assert solved == {"0": 3, "1": 3, "2": 1, "3": 2, "4": 2}
    guesses = [len(t.steps) for t in trajectories]
    assert (min(guesses), max(guesses)) == (3, 8)
    assert_credit_is_sound(trajectories)


def test_the_frozen_lake_sample(data_root):
    folder = data_root / "trajectories" / "rllm_frozenlake"
    trajectories, report = read(folder, group_by="first_user_message")
    assert (len(trajectories), max(len(t.steps) for t in trajectories)) == (16, 20)
    assert sorted(Counter(t.group for t in trajectories).values()) == [1, 1, 2, 2, 2, 3, 5]
    assert report.notes["reward missing: not scored, which is not 0"] == 16
    assert all(t.outcome is None and t.id is None for t in trajectories)


def test_the_swe_agent_samples(samples):
    found, report = read(samples / "swe_agent")
    assert (report.formats, len(found), report.steps) == (("swe-agent",), 3, 33)
    assert {t.group for t in found} == {"marshmallow-code__marshmallow-1867"}
    assert all(t.outcome is None and t.steps[-1].terminated for t in found)
    assert all("TimeDelta serialization precision" in t.steps[0].observation for t in found)
    assert all(t.steps[0].observation.startswith("[system] SETTING: You are an autonomous programmer") for t in found)
    assert all("diff --git" in t.final_observation for t in found)
    ran = [[step.extra["action"].strip().splitlines()[0] for step in t.steps] for t in found]
    assert all(commands[0] == "create reproduce.py" and commands[-1] == "submit" for commands in ran)


def test_the_tree_of_thought_sample(samples):
    found, report = read(samples / "tot_game24_cot")
    assert (report.formats, len(found), report.steps) == (("tree-of-thought",), 800, 800)
    right = Counter()
    for t in found:
        right[t.group] += int(t.outcome)
    assert right == {"900": 21, "903": 7, "904": 5, "906": 0, "909": 8, "917": 25, "921": 13, "924": 24}
    distinct = {group: len({t.steps[0].action for t in found if t.group == group}) for group in right}
    assert list(distinct.values()) == [65, 71, 63, 73, 76, 39, 59, 35]
    assert_credit_is_sound(found)


def test_the_solutions_sample(samples):
    found, report = read(samples / "gsm8k_model_solutions")
    assert (report.formats, len(found)) == (("solutions",), 160)
    right = Counter()
    for t in found:
        right[t.group] += int(t.outcome)
    assert Counter(right.values()) == {1: 15, 2: 15, 3: 10}
    agents = {"6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"}
    assert {t.steps[0].agent for t in found} == agents


@pytest.mark.parametrize(
    ("name", "chains", "sound"), [("multistep_arithmetic", 60, 10), ("tracking_shuffled_objects", 30, 7)]
)
def test_the_samples_of_marked_mistakes(samples, name, chains, sound):
    found, report = read(samples / "big_bench_mistake" / f"{name}.sample.jsonl")
    assert (report.formats, len(found)) == (("mistakes",), chains)
    marks = [t.meta["mistake_step"] for t in found]
    assert marks.count(None) == sound
    assert all(mark is None or 0 <= mark < len(t.steps) for t, mark in zip(found, marks, strict=True))
    assert {t.outcome for t in found} == {0.0, 1.0}
    assert any(t.outcome == 1 and mark is not None for t, mark in zip(found, marks, strict=True))
    if name == "tracking_shuffled_objects":
        assert any(t.outcome == 0 and mark is None for t, mark in zip(found, marks, strict=True))


def test_the_nemo_gym_samples(samples):
    found, report = read(samples / "nemo_gym_games" / "blackjack.example_rollouts.jsonl")
    assert (report.formats, [t.outcome for t in found]) == (("nemo-gym",), [-1, 1, -1, 1, 1])
    assert len({t.group for t in found}) == 1
    hands = {t.steps[0].observation.rpartition("Your hand")[2] for t in found}
    assert len(hands) == 5  # one task, five deals: its group does not begin alike
    found, _ = read(samples / "nemo_gym_games" / "grl_sokoban.example_rollouts.jsonl")
    assert [round(t.outcome) for t in found] == [10, -2, -2, -2, -2]
    assert [t.steps[-1].truncated for t in found] == [False, True, True, True, True]
    assert len({t.group for t in found}) == 5


def test_the_alfworld_and_textcraft_samples(samples):
    found, report = read(samples / "adapt_alfworld" / "ADaPT_alfworld.sample.json")
    assert (report.formats, len(found), sum(t.outcome for t in found)) == (("text-trace",), 16, 6)
    assert sum(t.steps[0].action == "" for t in found) == 3
    assert report.notes["objects without a trace (a summary): left out"] == 1
    assert all("Your task is to:" in t.steps[0].observation for t in found)
    assert not any(">" in step.action for t in found for step in t.steps)
    found, _ = read(samples / "adapt_alfworld" / "ADaPT_textcraft.sample.json")
    assert (len(found), sum(t.outcome for t in found)) == (20, 2)
    assert sum(t.steps[0].action == "" for t in found) == 7


def test_the_sharegpt_samples(samples):
    found, report = read(samples / "sharegpt_preference")
    assert (report.formats, len(found)) == (("preferences",), 50)
    assert Counter(t.outcome for t in found) == {1.0: 25, 0.0: 25}
    assert all(len({t.steps[0].observation for t in found if t.group == g}) == 1 for g in {t.group for t in found})
    found, report = read(samples / "sharegpt_toolcall")
    assert (report.formats, len(found)) == (("sharegpt",), 15)
    assert all(isinstance(t.meta["tools"], list) for t in found)
    assert all(t.outcome is None for t in found)
    calls = [step for t in found for step in t.steps if "tool_call" in step.extra]
    assert len(calls) == 10
    assert not any("parse_error" in step.extra for step in calls)
