"""Every sentence of the preconditions, and that nothing else is refused."""

import inspect
import re
from dataclasses import replace

import numpy as np
import pytest

from apportion.data import Batch, Step, Trajectory, check
from apportion.errors import DataError
from tests.make import random_trajectories, traj

TEXT = Step(action="go")
IDS = Step(ids=[5, 6], prompt_ids=[1])


def one(**fields):
    return Trajectory([TEXT], **fields)


def step(**fields):
    return Trajectory([TEXT, replace(TEXT, **fields)], id="a/b")


def ids(**fields):
    return Trajectory([IDS, replace(IDS, **fields)], id="a/b")


AT = r"^trajectory 1 \('a/b'\), step 1"
TABLE = [
    (Trajectory([]), r"^trajectory 1: no steps; a rollout that did nothing is one step with an empty action$"),
    (TEXT, r"^item 1 is a Step; give apportion\.Trajectory objects$"),
    ({"steps": []}, r"^item 1 is a dict; give apportion\.Trajectory objects$"),
    (Trajectory([{"action": "go"}]), r"^trajectory 1, step 0 is a dict; give apportion\.Step objects$"),
    (
        one(id="first"),
        r"^trajectory 1: id 'first' is taken by trajectory 0; ids are unique in a batch \(drop the id to",
    ),
    (one(group=3), r"^trajectory 1: group is a int; give a string$"),
    (one(id=7), r"^trajectory 1 \(7\): id is a int; give a string$"),
    (one(reference=["x"]), r"^trajectory 1: reference is a list; give a string$"),
    (one(final_observation=b""), r"^trajectory 1: final_observation is a bytes; give a string$"),
    (one(meta=["x"]), r"^trajectory 1: meta is a list; give a dict$"),
    (
        one(outcome=float("nan")),
        r"^trajectory 1: outcome is nan; give a finite number, or None when it was not scored$",
    ),
    (one(outcome="1"), r"^trajectory 1: outcome is '1'; give a number, or None when it was not scored$"),
    (one(outcome=True), r"^trajectory 1: outcome is True; give a number, or None"),
    (one(final_value=-np.inf), r"^trajectory 1: final_value is -inf; give a finite number"),
    (
        one(outcome=10**400),
        r"^trajectory 1: outcome is an integer beyond 2\*\*63; give a number that a float can hold$",
    ),
    (step(observation=1), AT + r": observation is a int; give a string$"),
    (step(action=["a"]), AT + r": action is a list; give a string$"),
    (step(state=(1, 2)), AT + r": state is a tuple; give a string$"),
    (step(agent=0), AT + r": agent is a int; give a string$"),
    (step(action=None), AT + r": neither ids nor action; give what the policy sampled, as token ids or as text$"),
    (step(terminated=1), AT + r": terminated is 1; give True or False$"),
    (step(truncated="no"), AT + r": truncated is 'no'; give True or False$"),
    (step(failed=None), AT + r": failed is None; give True or False$"),
    (step(fresh=0), AT + r": fresh is 0; give True or False$"),
    (step(extra=[1]), AT + r": extra is a list; give a dict$"),
    (step(actions="left"), AT + r": actions is 'left'; give a list of strings$"),
    (step(actions=["left", 3]), AT + r": actions is \('left', 3\); give a list of strings$"),
    (step(reward=float("inf")), AT + r": reward is inf; give a finite number, or None when it was not scored$"),
    (step(reward=False), AT + r": reward is False; give a number, or None when it was not scored$"),
    (step(value=float("nan")), AT + r": value is nan; give a finite number"),
    (step(value=[0.5]), AT + r": value is \[0\.5\]; give a number"),
    (step(turn=-1), AT + r": turn is -1; give an integer from 0 on$"),
    (step(turn=True), AT + r": turn is True; give an integer from 0 on$"),
    (step(turn=1.0), AT + r": turn is 1\.0; give an integer from 0 on$"),
    (step(parent=1), AT + r": parent is 1; give the index of an earlier step, or -1 for a root$"),
    (step(parent=-2), AT + r": parent is -2; give the index of an earlier step"),
    (step(parent="0"), AT + r": parent is '0'; give the index of an earlier step"),
    (step(parent=False), AT + r": parent is False; give the index of an earlier step"),
    (step(prompt_ids=[1]), AT + r": prompt_ids without ids; give the ids that were sampled, or only text$"),
    (step(logp=[0.5]), AT + r": logp needs token ids; a text-only step has no tokens to hold it$"),
    (step(token_values=[0.5]), AT + r": token_values needs token ids; a text-only step has no tokens to hold it$"),
    (
        ids(prompt_ids=None, observation="seen"),
        AT + r": the action has ids but the observation has only text; give prompt_ids too \(token ids are never mixed",
    ),
    (ids(logp=[0.0]), AT + r": 1 log-probabilities for 2 sampled tokens; give one per sampled token$"),
    (
        ids(ref_logp=[0.0] * 3),
        AT + r": 3 reference log-probabilities for 2 sampled tokens; give one per sampled token$",
    ),
    (ids(entropy=[]), AT + r": 0 entropy for 2 sampled tokens; give one per sampled token$"),
    (ids(token_values=[1.0]), AT + r": 1 token_values for 2 sampled tokens; give one per sampled token$"),
    (ids(logp=[0.0, np.nan]), AT + r": logp is nan at sampled token 1; give a finite number, or leave logp out$"),
    (
        ids(entropy=[-np.inf, 0]),
        AT + r": entropy is -inf at sampled token 0; give a finite number, or leave entropy out$",
    ),
    (one(outcomes=[1]), r"^trajectory 1: outcomes is a list; give a dict of numbers$"),
    (
        one(outcomes={"a-b": 1}),
        r"^trajectory 1: outcomes has the name 'a-b'; names are identifiers \(letters, digits, _",
    ),
    (one(outcomes={"a": None}), r"^trajectory 1: outcomes\['a'\] is None; leave the name out where it was not scored$"),
    (one(outcomes={"a": np.nan}), r"^trajectory 1: outcomes\['a'\] is nan; give a finite number"),
    (step(rewards=3), AT + r": rewards is a int; give a dict of numbers$"),
    (step(rewards={1: 2.0}), AT + r": rewards has the name 1; names are identifiers"),
    (step(rewards={"a": "x"}), AT + r": rewards\['a'\] is 'x'; give a number"),
    (ids(columns=[[1.0, 2.0]]), AT + r": columns is a list; give a dict of lists$"),
    (ids(columns={"": [1.0, 2.0]}), AT + r": columns has the name ''; names are identifiers"),
    (ids(columns={"a": None}), AT + r": columns\['a'\] is None; leave the name out where there are no numbers$"),
    (ids(columns={"logp": [0, 0]}), AT + r": columns holds 'logp', which is a field of its own; give it there$"),
    (ids(columns={"a": [1.0]}), AT + r": 1 columns\['a'\] for 2 sampled tokens; give one per sampled token$"),
    (ids(columns={"a": [1.0, np.inf]}), AT + r": columns\['a'\] is inf at sampled token 1; give a finite number"),
    (step(columns={"a": [1.0]}), AT + r": columns\['a'\] needs token ids; a text-only step has no tokens to hold"),
    (
        Trajectory([replace(TEXT, terminated=True), TEXT], id="a/b"),
        r"^trajectory 1 \('a/b'\), step 0 is terminated but step 1 follows; move the flag to the last step or",
    ),
    (
        Trajectory([replace(TEXT, truncated=True), TEXT]),
        r"^trajectory 1, step 0 is truncated but step 1 follows; move the flag to the last step or split the",
    ),
    (
        Trajectory([IDS, TEXT]),
        r"^trajectory 1: some steps have ids and some only text; give ids for every step, or none$",
    ),
]


@pytest.mark.parametrize(("bad", "sentence"), TABLE, ids=[str(n) for n in range(len(TABLE))])
def test_the_sentence(bad, sentence):
    with pytest.raises(DataError, match=sentence):
        Batch.from_trajectories([Trajectory([TEXT], id="first"), bad])


def test_no_trajectories():
    with pytest.raises(DataError, match=r"^the batch has no trajectories; give at least one$"):
        Batch.from_trajectories([])


def test_every_sentence_of_the_file_is_in_the_table():
    # the words between the holes of each message, found in one of the patterns above
    source = inspect.getsource(check)
    raised = re.findall(r"raise DataError\(\s*((?:f?\"[^\"]*\"\s*)+)", source)
    assert len(raised) > 15
    patterns = [pattern.replace("\\", "") for _, pattern in TABLE] + [
        "the batch has no trajectories; give at least one"
    ]
    for message in raised:
        words = re.split(r"\{[^}]*\}", "".join(re.findall(r'"([^"]*)"', message)))
        longest = max(words, key=len).strip()[:30]
        assert any(longest in pattern for pattern in patterns), f"no test for the sentence with {longest!r}"


@pytest.mark.parametrize("seed", range(50))
def test_good_data_pass(seed):
    Batch.from_trajectories(random_trajectories(seed, ids=bool(seed % 3)))


def test_ends_in_the_middle_are_fine_where_the_next_step_branches():
    end, branch = replace(TEXT, terminated=True), replace(TEXT, parent=0)
    assert len(Batch.from_trajectories([Trajectory([TEXT, end, branch])])) == 1


def test_a_rollout_that_did_nothing():
    batch = Batch.from_trajectories([Trajectory([Step(action="")], outcome=1.0)])
    assert batch.has_tokens_N.tolist() == [False]
    assert batch.valid_N.tolist() == [False]


def test_an_iterator_is_enough():
    assert len(Batch.from_trajectories(traj(("A", 1), id=str(n)) for n in range(3))) == 3
