"""What people labelled: preferences, marked mistakes, decisive steps; and several answers to one question."""

import pytest

import apportion as ap
from apportion.errors import FormatError
from tests.adapters.foreign import lines, said, user
from tests.adapters.test_every_reader import read
from tests.adapters.written import (
    failure_record,
    hh_records,
    mistake_records,
    sharegpt_records,
    solution_records,
    tot_records,
)


def one(tmp_path, record, form=None, **options):
    (trajectory,), report = read(lines(tmp_path / "one.jsonl", [record]), form, **options)
    return trajectory, report.notes


def pair(tmp_path, record):
    (chosen, rejected), report = read(lines(tmp_path / "one.jsonl", [record]))
    return chosen, rejected, report.notes


# --- preferences ----------------------------------------------------------------------------------------------------


def test_a_pair_of_dialogues(tmp_path):
    chosen, rejected, notes = pair(tmp_path, hh_records()[0])
    seen = "[user] Hi\n[assistant] Hello.\n[user] Name a colour."
    assert [(s.observation, s.action) for s in chosen.steps] == [(seen, "Red 0.")]
    assert [(s.observation, s.action) for s in rejected.steps] == [(seen, "No 0.")]
    assert chosen.group == rejected.group == "pair 0"
    assert (chosen.id, rejected.id) == ("pair 0/chosen", "pair 0/rejected")
    assert (chosen.outcome, rejected.outcome) == (1.0, 0.0)
    assert (chosen.meta["preferred"], rejected.meta["preferred"]) == (True, False)
    assert notes["outcomes are preferences: 1 for the chosen answer, 0 for the rejected one, no reward"] == 1


FORMS = {
    "texts": {"prompt": "q", "chosen": "a", "rejected": "b"},
    "messages": {"prompt": [user("q")], "chosen": [said("a")], "rejected": [said("b")]},
    "whole chats": {"chosen": [user("q"), said("a")], "rejected": [user("q"), said("b")]},
    "prompt told twice": {"prompt": [user("q")], "chosen": [user("q"), said("a")], "rejected": [user("q"), said("b")]},
    "prompt as text, whole chats": {
        "prompt": "q",
        "chosen": [user("q"), said("a")],
        "rejected": [user("q"), said("b")],
    },
    "turns": {
        "conversations": [{"from": "human", "value": "q"}],
        "chosen": {"from": "gpt", "value": "a"},
        "rejected": {"from": "gpt", "value": "b"},
    },
    "Alpaca": {"instruction": "q", "input": "", "chosen": "a", "rejected": "b"},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_pair_in_every_form(tmp_path, form):
    chosen, rejected, _ = pair(tmp_path, FORMS[form])
    assert [(s.observation, s.action) for s in chosen.steps] == [("[user] q", "a")]
    assert [(s.observation, s.action) for s in rejected.steps] == [("[user] q", "b")]


def test_a_pair_of_equal_answers_keeps_both(tmp_path):
    chosen, rejected, _ = pair(tmp_path, {"chosen": [user("q"), said("a")], "rejected": [user("q"), said("a")]})
    assert [step.action for t in (chosen, rejected) for step in t.steps] == ["a", "a"]


def test_scores_of_a_pair_are_its_outcomes(tmp_path):
    chosen, rejected, notes = pair(tmp_path, {**FORMS["texts"], "score_chosen": 8.5, "score_rejected": 7.0, "id": "u1"})
    assert (chosen.outcome, rejected.outcome, chosen.group) == (8.5, 7.0, "u1")
    assert not any("preferences" in note for note in notes)


def test_half_a_pair_is_left_out_whole(tmp_path):
    with pytest.raises(FormatError, match="no 'chosen' and 'rejected', so this is no preference pair"):
        read(lines(tmp_path / "a.jsonl", [{"prompt": "q", "chosen": "a", "rejected": None}]), "preferences")
    records = [FORMS["texts"], {"prompt": "q", "chosen": "a", "rejected": 5}]
    found, report = read(lines(tmp_path / "a.jsonl", records), skip_bad=True)
    assert (len(found), report.skipped.count) == (2, 1)


# --- mistakes -------------------------------------------------------------------------------------------------------


def test_a_marked_chain(tmp_path):
    (wrong, right), report = read(lines(tmp_path / "m.jsonl", mistake_records()))
    assert [step.action for step in wrong.steps] == ["2 * 3 = 6", "1 + 6 = 8", "So 8"]
    assert [step.observation for step in wrong.steps] == ["1 + 2 * 3 =", None, None]
    assert wrong.steps[2].state == "1 + 2 * 3 =\n2 * 3 = 6\n1 + 6 = 8"
    assert (wrong.meta["mistake_step"], wrong.outcome, wrong.reference) == (1, 0.0, "7")
    assert (right.meta["mistake_step"], right.outcome) == (None, 1.0)  # looked at, and none found
    assert wrong.group is None
    assert report.notes["outcome: whether answer equals target, up to case and white space"] == 2


def test_a_chain_that_nobody_looked_at_has_no_mark(tmp_path):
    record = {"problem": "p", "steps": ["a"], "final_answer_correct": True}
    trajectory, notes = one(tmp_path, record, "mistakes")
    assert "mistake_step" not in trajectory.meta
    assert notes["chains that nobody labelled"] == 1


@pytest.mark.parametrize(("label", "mark"), [(-1, None), (0, 0), (1, 1)])
def test_processbench(tmp_path, label, mark):
    record = {"id": "gsm-0", "problem": "p", "steps": ["a", "b"], "final_answer_correct": False, "label": label}
    trajectory, _ = one(tmp_path, record)
    assert (trajectory.meta["mistake_step"], trajectory.outcome, trajectory.id) == (mark, 0.0, "gsm-0")


@pytest.mark.parametrize("mark", [2, -2, "1", 1.0, True])
def test_a_mark_outside_the_chain_is_refused(tmp_path, mark):
    record = {"input": "p", "steps": ["a", "b"], "mistake_index": mark}
    with pytest.raises(
        FormatError, match=r"line 1: mistake_index is .*; give a step from 0 to 1, or null for no mistake"
    ):
        one(tmp_path, record)


def test_prm800k(tmp_path):
    levels = [
        {"completions": [{"text": "x", "rating": -1}, {"text": "a", "rating": 1}], "chosen_completion": 1},
        {"completions": [{"text": "b", "rating": -1}], "chosen_completion": 0, "human_completion": None},
        {"completions": [{"text": "y", "rating": 0}], "human_completion": {"text": "c", "rating": None}},
    ]
    asked = {"problem": "p", "ground_truth_answer": "4"}
    record = {"question": asked, "label": {"steps": levels, "finish_reason": "found_error"}}
    trajectory, notes = one(tmp_path, record)
    assert [step.action for step in trajectory.steps] == ["a", "b", "c"]
    assert [step.rewards for step in trajectory.steps] == [{"rating": 1.0}, {"rating": -1.0}, {}]
    assert (trajectory.meta["mistake_step"], trajectory.outcome, trajectory.reference) == (1, 0.0, "4")
    assert notes["continuations that were not chosen: left out"] == 2


# --- failures -------------------------------------------------------------------------------------------------------


def test_a_failure_with_its_decisive_step(tmp_path):
    trajectory, _ = one(tmp_path, failure_record())
    assert [(s.observation, s.action, s.agent) for s in trajectory.steps] == [
        ("[user] How many clients?", "I read the file.", "Excel_Expert"),
        ("[tool Computer_terminal] exitcode: 0", "It is 4.", "Checker"),
    ]
    meta = trajectory.meta
    assert (meta["mistake_step"], meta["mistake_message"], meta["mistake_agent"]) == (1, 2, "Checker")
    assert trajectory.steps[meta["mistake_step"]].agent == meta["mistake_agent"]
    assert (trajectory.outcome, trajectory.group, trajectory.reference) == (0.0, "q1", "8")


def test_roles_that_name_an_agent(tmp_path):
    history = [
        {"role": "human", "content": "How many?"},
        {"role": "Orchestrator (thought)", "content": "plan"},
        {"role": "Orchestrator (-> WebSurfer)", "content": "search"},
        {"role": "WebSurfer", "content": "found"},
    ]
    record = {**failure_record(), "history": history, "mistake_step": "3", "mistake_agent": "WebSurfer"}
    trajectory, _ = one(tmp_path, record)
    assert [step.agent for step in trajectory.steps] == ["Orchestrator", "Orchestrator", "WebSurfer"]
    assert trajectory.steps[0].observation == "[user] How many?"  # the question is told once
    assert trajectory.meta["mistake_step"] == 2


def test_a_mark_on_a_terminal_is_told_and_is_no_step(tmp_path):
    trajectory, notes = one(tmp_path, {**failure_record(), "mistake_step": "1"})
    assert "mistake_step" not in trajectory.meta
    assert trajectory.meta["mistake_message"] == 1
    assert notes["marked messages that no agent wrote: mistake_step left out, see mistake_message"] == 1
    with pytest.raises(FormatError, match="mistake_step is 3; give the number of a message, 0 to 2"):
        one(tmp_path, {**failure_record(), "mistake_step": "3"})


def test_mast(tmp_path):
    record = {
        "mas_name": "AG2",
        "benchmark_name": "GSM",
        "trace_id": 3,
        "trace": {"trajectory": [{"name": "Solver", "role": "assistant", "content": "4"}]},
        "mast_annotation": {"1.1": 0, "3.3": 1},
    }
    trajectory, _ = one(tmp_path, record)
    assert (trajectory.id, trajectory.outcome) == ("AG2/GSM/3", None)
    assert trajectory.meta["failure_modes"] == {"1.1": 0, "3.3": 1}
    with pytest.raises(FormatError, match="the raw log of AG2 is one text, whose agents no rule tells apart"):
        one(tmp_path, {**record, "trace": {"trajectory": "[2025-03-31] **Programmer**: …"}})


# --- several answers to one question --------------------------------------------------------------------------------


def test_a_search_tree_is_answers_that_share_their_beginning(tmp_path):
    found, report = read(lines(tmp_path / "tot.jsonl", tot_records()[:1]))
    first, second = found
    assert [step.action for step in first.steps] == ["4 + 5 = 9\n", "9 + 6 = 15\n"]
    assert [step.action for step in second.steps] == ["4 + 5 = 9\n", "9 - 6 = 3\n"]
    assert (
        [step.state for step in first.steps] == [step.state for step in second.steps] == ["4 5 6", "4 5 6\n4 + 5 = 9\n"]
    )
    assert [step.extra["evaluation"] for step in second.steps] == [3.0, 2.0]
    assert [(t.group, t.id, t.outcome, t.outcomes) for t in found] == [
        ("900", "900/0", 1.0, {"r_word": 0.5}),
        ("900", "900/1", 0.0, {"r_word": 0.0}),
    ]
    assert report.notes["thoughts that were not selected: left out"] == 1
    credit = ap.assign("anchor", ap.by_step(ap.Batch.from_trajectories(found)), gamma=1.0)
    assert credit.advantage_S.tolist() == [0.5, 0.5, -0.5, -0.5]


def test_sampled_answers_are_one_step_each(tmp_path):
    record = {"idx": 3, "ys": ["a", "b"], "infos": [{"r": 1}, {"r": None}]}
    found, report = read(lines(tmp_path / "tot.jsonl", [record]))
    assert [len(t.steps) for t in found] == [1, 1]
    assert [t.outcome for t in found] == [1.0, None]
    assert report.notes["the puzzle's text is not in the file"] == 2
    with pytest.raises(FormatError, match="infos does not have one entry for each of 2 answers"):
        read(lines(tmp_path / "tot.jsonl", [{**record, "infos": []}]))


def test_named_solutions(tmp_path):
    found, _ = read(lines(tmp_path / "s.jsonl", solution_records()))
    assert [(t.group, t.outcome, t.steps[0].agent) for t in found] == [
        ("question 0", 0.0, "small"),
        ("question 0", 1.0, "large"),
        ("question 1", 0.0, "small"),
        ("question 1", 1.0, "large"),
    ]


def test_sharegpt(tmp_path):
    trajectory, notes = one(tmp_path, sharegpt_records()[0])
    assert [(s.observation, s.action) for s in trajectory.steps] == [
        ("[system] Be kind.\n[user] find 0", 'find({"n": 0})'),
        ("[tool] found 0", "Here it is."),
    ]
    assert trajectory.meta["tools"] == [{"name": "find", "parameters": {}}]
    assert (trajectory.id, trajectory.outcome) == ("s0", None)
    assert notes["reward missing: not scored, which is not 0"] == 1


def test_sharegpts_verdicts_losses_and_broken_calls(tmp_path):
    turns = [
        {"from": "human", "value": "q", "loss": None},
        {"from": "gpt", "value": "first", "loss": False},
        {"from": "function_call", "value": "find(", "loss": True},
    ]
    trajectory, notes = one(tmp_path, {"conversations": turns, "label": True})
    assert [(s.observation, s.action) for s in trajectory.steps] == [("[user] q\n[assistant] first", "find(")]
    assert trajectory.outcome == 1.0
    assert "parse_error" in trajectory.steps[0].extra
    assert notes["assistant messages of weight 0: context, not sampled"] == 1
