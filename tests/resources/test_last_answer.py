"""What a policy has written since the environment last spoke, on chains and on branches, in text and in ids."""

import pytest

from apportion.asks import Continue, Place
from apportion.data import Step, Trajectory
from apportion.errors import ConfigError
from apportion.resources.last_answer import (
    answer_begins,
    answer_ids,
    answer_steps,
    answer_text,
    branch_of,
    needs_spelling,
    recorded_answer,
    spoken_to_after,
)


def text(*steps):
    """Steps as (observation, action) or (observation, action, parent)."""
    made = [Step(observation=o, action=a, parent=p[0] if p else None) for o, a, *p in steps]
    return Trajectory(made, group="g")


def ids(*steps, **more):
    """Steps as (prompt, ids), (prompt, ids, parent) or (prompt, ids, parent, fresh)."""
    made = []
    for prompt, own, *rest in steps:
        parent, fresh = (*rest, None, False)[:2] if len(rest) < 2 else rest
        made.append(Step(prompt_ids=prompt, ids=own, parent=parent, fresh=bool(fresh), **more))
    return Trajectory(made, group="g")


CHAIN = text(("q", "a b "), ("", "c "), ("tool", "d "), ("", "e f"))
IDS = ids(([1, 2], [10, 11]), ([], [12]), ([3], [13]), ([], [14, 15]))


@pytest.mark.parametrize("rollout", [CHAIN, IDS], ids=["text", "ids"])
def test_on_a_chain_an_answer_begins_where_something_was_said(rollout):
    assert [answer_steps(rollout, s) for s in range(4)] == [[0], [0, 1], [2], [2, 3]]
    assert answer_begins(rollout) == 2
    assert [spoken_to_after(rollout, s) for s in range(4)] == [True, True, False, False]
    assert branch_of(rollout, 1) is rollout  # nothing forks, so it is shown whole


def test_the_answer_up_to_a_place():
    assert answer_text(CHAIN, Place(0, 3, 1)) == "d e"
    assert answer_text(CHAIN, Place(0, 1, 1)) == "a b c"
    assert answer_ids(IDS, Place(0, 3, 1)) == [13, 14]
    assert answer_ids(IDS, Place(0, 1, 0)) == [10, 11]


def test_branches_stand_for_themselves():
    forked = text(("q", "a "), ("", "b "), ("tool", "c "), ("", "x ", 0), ("", "y", 3))
    assert [answer_steps(forked, s) for s in range(5)] == [[0], [0, 1], [2], [0, 3], [0, 3, 4]]
    assert [spoken_to_after(forked, s) for s in range(5)] == [True, True, False, False, False]
    way = branch_of(forked, 4)
    assert [step.action for step in way.steps] == ["a ", "x ", "y"]
    assert all(step.parent is None for step in way.steps)
    assert recorded_answer(forked, lambda own: None) == "a x y"


def test_a_prompt_that_is_written_out_says_nothing_new_where_it_is_the_old_one():
    # a fork of the second step repeats what stood before it; a compacted context does not
    same = ids(([1, 2], [10, 11]), ([], [12]), ([1, 2, 10, 11], [13], 0, True))
    assert answer_steps(same, 2) == [0, 2]
    assert not spoken_to_after(same, 0)
    other = ids(([1, 2], [10, 11]), ([], [12]), ([1, 2, 10], [13], 0, True))
    assert answer_steps(other, 2) == [2]
    assert spoken_to_after(other, 0)
    root = ids(([1, 2], [10]), ([1, 2], [11], -1, True))
    assert answer_steps(root, 1) == [1]
    assert not spoken_to_after(root, 0)
    rewritten = Trajectory([Step(observation="q", action="a"), Step(action="b", fresh=True)], group="g")
    assert answer_steps(rewritten, 1) == [1]  # of text nobody can tell, so it counts as said
    assert spoken_to_after(rewritten, 0)


def test_what_has_to_be_spelled():
    at = [Continue(Place(0, s, t), 1) for s, t in ((2, 0), (2, 1), (3, 0))]
    assert [needs_spelling(ask, IDS) for ask in at] == [False, True, True]
    said = ids(([1, 2], [10, 11]), ([], [12]), ([3], [13]), ([], [14, 15]), action="x")
    assert [needs_spelling(ask, said) for ask in at] == [False, True, False]
    mixed = Trajectory(
        [*said.steps[:2], Step(prompt_ids=[3], ids=[13]), Step(prompt_ids=[], ids=[1], action="y"), said.steps[3]],
        group="g",
    )
    assert needs_spelling(Continue(Place(0, 4, 0), 1), mixed)  # one of two that were written is ids alone
    assert needs_spelling(Continue(Place(0, 2, 0), 1, first=(5,)), said)
    assert not needs_spelling(Continue(Place(0, 2, 0), 1, first="five"), said)
    assert not any(needs_spelling(ask, CHAIN) for ask in at)


def test_a_recorded_answer_is_text_or_is_spelled():
    assert recorded_answer(CHAIN, lambda own: None) == "d e f"
    assert recorded_answer(IDS, lambda own: " ".join(map(str, own))) == "13 14 15"
    with pytest.raises(ConfigError, match="is token ids alone; give the policy's tokenizer"):
        recorded_answer(IDS, lambda own: None)


def test_parents_that_are_written_out_are_a_chain_all_the_same():
    written = text(("q", "a ", -1), ("", "b ", 0), ("tool", "c", 1))
    assert branch_of(written, 1) is written
    assert answer_begins(written) == 2
    assert branch_of(text(("q", "a "), ("", "b", -1)), 1).steps[0].action == "b"


def test_a_whole_prompt_after_the_step_before_says_nothing_new():
    again = ids(([1, 2], [10, 11]), ([1, 2, 10, 11], [12], None, True), ([1, 2, 10, 11, 12], [13], None, True))
    assert answer_steps(again, 2) == [0, 1, 2]
    assert not spoken_to_after(again, 0)
    told = ids(([1, 2], [10, 11]), ([1, 2, 10, 11, 9], [12], None, True))
    assert answer_steps(told, 1) == [1]


def test_one_step_without_text_has_the_whole_answer_spelled():
    steps = [Step(prompt_ids=[1], ids=[10], action="said "), Step(prompt_ids=[], ids=[11])]
    assert recorded_answer(Trajectory(steps, group="g"), lambda own: " ".join(map(str, own))) == "10 11"
