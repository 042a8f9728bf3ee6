"""Every cut against loops over the rollouts as given, and as a partition of the sampled tokens."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.data import Batch, Step, Trajectory
from apportion.units import CUTS, by_agent, by_episode, by_segment, by_step, by_token, by_turn
from tests.make import random_batch, traj

OPTIONS = {"segment": {"by": "fixed", "count": 2}}
OF_A_TOKEN = [level for level in CUTS if level != "tree"]  # whose key a token has by itself; see test_trees.py


def cut(level, batch):
    return CUTS[level](batch, **OPTIONS.get(level, {}))


def key_of(level, n, s, turn, step, position, size):
    """What a sampled token is grouped by. ``position`` of ``size`` inside its step."""
    if level == "segment":  # two parts, the longer one first
        return (n, s, int(position >= math.ceil(size / 2)))
    keys = {
        "episode": (n,),
        "turn": (n, turn),
        "step": (n, s),
        "token": (n, s, position),
        "agent": (n, step.agent or ""),
    }
    return keys[level]


def sizes_of(step):
    if step.ids is None:
        return len((step.observation or "").split()), len((step.action or "").split())
    return 0 if step.prompt_ids is None else len(step.prompt_ids), len(step.ids)


def slow_cut(level, batch):
    """Units in order of first appearance, as dicts of lists; and the unit of every token."""
    units, unit_of_T, at = {}, [], 0
    for n, trajectory in enumerate(batch.trajectories):
        run = -1  # turns are runs of equal indices
        for s, step in enumerate(trajectory.steps):
            first = s == 0 or batch.turn_S[at] != batch.turn_S[at - 1]
            run += first
            context, size = sizes_of(step)
            unit_of_T += [-1] * context
            keys = [key_of(level, n, s, run, step, position, size) for position in range(size)]
            if level not in ("token", "segment"):  # a step without tokens belongs to a unit too
                keys = keys or [key_of(level, n, s, run, step, 0, 0)]
            for position, key in enumerate(keys):
                fresh = {"traj": n, "step": at, "tokens": 0, "logp": [], "entropy": [], "value": step.value}
                fresh |= {"turn": int(batch.turn_S[at]), "agent": step.agent or "", "state": batch.state_S[at]}
                if level in ("token", "segment") and step.token_values is not None:
                    fresh["value"] = float(step.token_values[position])
                unit = units.setdefault(key, fresh)
                if size:
                    unit["tokens"] += 1
                    unit_of_T.append(list(units).index(key))
                    if step.logp is not None:
                        unit["logp"].append(float(step.logp[position]))
                        unit["entropy"].append(float(step.entropy[position]))
            at += 1
    return list(units.values()), unit_of_T


@pytest.mark.parametrize("level", OF_A_TOKEN)
@pytest.mark.parametrize("seed", range(25))
def test_equals_the_slow_reference(seed, level):
    batch = random_batch(seed, groups=3)
    units = cut(level, batch)
    want, unit_of_T = slow_cut(level, batch)
    assert units.level == level
    assert units.unit_of_T.tolist() == unit_of_T
    assert units.traj_of_S.tolist() == [u["traj"] for u in want]
    assert units.step_of_S.tolist() == [u["step"] for u in want]
    assert units.tokens_S.tolist() == [u["tokens"] for u in want]
    assert units.turn_S.tolist() == [u["turn"] for u in want]
    assert units.agent_S.tolist() == [u["agent"] for u in want]
    np.testing.assert_allclose(units.value_S, [u["value"] for u in want])
    np.testing.assert_allclose(units.logp_S, [sum(u["logp"]) for u in want], atol=1e-12)
    means = [sum(u["entropy"]) / len(u["entropy"]) if u["entropy"] else 0.0 for u in want]
    np.testing.assert_allclose(units.entropy_S, means, atol=1e-12)
    if level in ("segment", "token"):
        assert units.state_S is None
    else:
        assert units.state_S.tolist() == [u["state"] for u in want]
    assert units.group_of_S.tolist() == [int(batch.group_of_N[u["traj"]]) for u in want]


@pytest.mark.parametrize("level", OF_A_TOKEN)
@pytest.mark.parametrize("seed", range(10))
def test_text_only_logs_are_cut_by_words(seed, level):
    batch = random_batch(seed, groups=3, ids=False)
    units = cut(level, batch)
    want, unit_of_T = slow_cut(level, batch)
    assert units.unit_of_T.tolist() == unit_of_T
    assert units.tokens_S.tolist() == [u["tokens"] for u in want]
    assert units.logp_S is None


steps = st.builds(
    Step,
    prompt_ids=st.lists(st.integers(0, 9), max_size=3),
    ids=st.lists(st.integers(0, 9), max_size=4),
    agent=st.sampled_from([None, "a", "b"]),
    turn=st.sampled_from([None, None, 0, 1]),
    fresh=st.booleans(),
    reward=st.sampled_from([None, 0.0, 1.0]),
)
rollouts = st.lists(st.lists(steps, min_size=1, max_size=5).map(Trajectory), min_size=1, max_size=4)


@given(rollouts, st.sampled_from(list(CUTS)))
def test_every_cut_is_a_partition_of_the_sampled_tokens(trajectories, level):
    batch = Batch.from_trajectories(trajectories)
    units = cut(level, batch)
    # each sampled token in exactly one unit, nothing else in any
    assert ((units.unit_of_T >= 0) == batch.sampled_T).all()
    assert np.bincount(units.unit_of_T[batch.sampled_T], minlength=len(units)).tolist() == units.tokens_S.tolist()
    # no unit reaches over two trajectories, none is out of order, none is missing
    assert (units.traj_of_S[units.unit_of_T[batch.sampled_T]] == batch.traj_of_T[batch.sampled_T]).all()
    assert (np.diff(units.traj_of_S) >= 0).all()
    if level in ("token", "segment", "tree"):
        assert (units.tokens_S > 0).all()
    else:
        assert set(units.traj_of_S.tolist()) == set(range(len(batch)))


@given(rollouts, st.sampled_from(list(CUTS)))
def test_no_reward_is_lost_or_invented(trajectories, level):
    batch = Batch.from_trajectories(trajectories)
    units = cut(level, batch)
    total = np.bincount(units.traj_of_S, weights=units.reward_S, minlength=len(batch))
    for n, trajectory in enumerate(trajectories):
        told = sum(step.reward for step in trajectory.steps if step.reward is not None)
        if (units.traj_of_S == n).any():
            assert total[n] == pytest.approx(told)


def test_steps_turns_and_agents_of_one_rollout():
    # two calls in one turn (no new context between them), then another agent, then the first again
    calls = [
        Step(prompt_ids=[1], ids=[2], agent="p"),
        Step(prompt_ids=[], ids=[3, 4], agent="p"),
        Step(prompt_ids=[5], ids=[6], agent="c"),
        Step(prompt_ids=[7], ids=[8], agent="p", reward=1.0),
    ]
    batch = Batch.from_trajectories([Trajectory(calls)])
    assert by_episode(batch).unit_of_T.tolist() == [-1, 0, 0, 0, -1, 0, -1, 0]
    assert by_step(batch).unit_of_T.tolist() == [-1, 0, 1, 1, -1, 2, -1, 3]
    assert by_turn(batch).unit_of_T.tolist() == [-1, 0, 0, 0, -1, 1, -1, 2]
    assert by_agent(batch).unit_of_T.tolist() == [-1, 0, 0, 0, -1, 1, -1, 0]
    assert by_token(batch).unit_of_T.tolist() == [-1, 0, 1, 2, -1, 3, -1, 4]
    assert by_agent(batch).agent_S.tolist() == ["p", "c"]
    assert by_agent(batch).reward_S.tolist() == [1.0, 0.0]
    assert by_turn(batch).turn_S.tolist() == [0, 1, 2]


def test_a_state_key_changes_what_is_compared_and_is_recorded():
    batch = Batch.from_trajectories([traj(("Room 1", 0), ("ROOM 1", 1)), traj(("room 2", 1))])
    assert by_step(batch).state_S.tolist() == ["Room 1", "ROOM 1", "room 2"]
    units = by_step(batch, state=str.lower)
    assert units.state_S.tolist() == ["room 1", "room 1", "room 2"]
    assert units.options == {"state": "lower"}
    assert by_turn(batch, state=lambda text: text[-1]).state_S.tolist() == ["1", "1", "2"]


def test_what_was_not_logged_is_no_state_to_meet_again_in():
    from apportion.assign import assign

    blind = [Step(ids=[1], reward=0.0), Step(ids=[2], prompt_ids=[], reward=1.0)]
    batch = Batch.from_trajectories([Trajectory(blind, group="g"), Trajectory(blind[:1], group="g")])
    units = by_step(batch)
    assert len(set(units.state_S.tolist())) == 3
    assert assign("anchor", units).notes["units_without_company"] == 3
    # an empty text that was logged is a state like any other; so are equal context ids
    said = Batch.from_trajectories([traj(("", 0), ("", 1))])
    assert len(set(by_step(said).state_S.tolist())) == 1
    ids = Batch.from_trajectories([Trajectory([Step(prompt_ids=[7], ids=[1], reward=1.0)])] * 2)
    assert len(set(by_step(ids).state_S.tolist())) == 1


def test_values_come_from_steps_or_from_first_tokens():
    def batch(**fields):
        return Batch.from_trajectories([Trajectory([Step(ids=[1, 2], reward=1.0, **fields)])])

    assert by_step(batch(value=0.5)).value_S.tolist() == [0.5]
    assert by_step(batch(token_values=[0.1, 0.2])).value_S.tolist() == [0.1]
    assert by_step(batch(value=0.5, token_values=[0.1, 0.2])).value_S.tolist() == [0.5]
    assert by_token(batch(value=0.5, token_values=[0.1, 0.2])).value_S.tolist() == [0.1, 0.2]
    assert by_token(batch(value=0.5)).value_S is None
    assert by_segment(batch(token_values=[0.1, 0.2]), "fixed", count=2).value_S.tolist() == [0.1, 0.2]
    mute = Batch.from_trajectories([Trajectory([Step(ids=[1], token_values=[0.3]), Step(ids=[], token_values=[])])])
    assert by_step(mute).value_S is None  # the empty step has no first token


def test_a_rollout_in_which_nobody_spoke_has_columns_and_no_units():
    silent = Step(prompt_ids=[1], ids=[], logp=[], ref_logp=[], entropy=[], token_values=[], reward=1.0)
    units = by_token(Batch.from_trajectories([Trajectory([silent])]))
    assert len(units) == 0
    assert units.value_S.tolist() == units.logp_S.tolist() == units.entropy_S.tolist() == []
    assert units.valid_N.tolist() == [False]
