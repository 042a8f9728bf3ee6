"""A reward arrives with its step's last token, else before it, else after; what an outcome adds, at the end."""

import pytest

from apportion.data import Batch, Step, Trajectory
from apportion.units import CUTS, by_agent, by_episode, by_segment, by_step, by_token, by_turn
from tests.make import random_batch
from tests.plain import plain


def batch_of_steps(*steps, **fields):
    """Steps from (number of sampled tokens, reward)."""
    built = [Step(prompt_ids=[1], ids=list(range(size)), reward=reward) for size, reward in steps]
    return Batch.from_trajectories([Trajectory(built, **fields)])


def test_with_the_last_token_of_the_step():
    batch = batch_of_steps((2, 1.0), (3, 2.0))
    assert by_token(batch).reward_S.tolist() == [0, 1, 0, 0, 2]
    assert by_segment(batch, "fixed", count=2).reward_S.tolist() == [0, 1, 0, 2]
    assert by_step(batch).reward_S.tolist() == [1, 2]
    assert by_episode(batch).reward_S.tolist() == [3]


def test_an_empty_step_hands_it_to_the_token_before():
    batch = batch_of_steps((2, 1.0), (0, 2.0), (0, 4.0), (1, 8.0))
    assert by_token(batch).reward_S.tolist() == [0, 7, 8]
    assert by_step(batch).reward_S.tolist() == [1, 2, 4, 8]  # a step without tokens is a step


def test_an_empty_start_hands_it_to_the_first_token_after():
    batch = batch_of_steps((0, 1.0), (0, 2.0), (3, 4.0), (1, 8.0))
    assert by_token(batch).reward_S.tolist() == [3, 0, 4, 8]
    assert by_segment(batch, "fixed", count=2).reward_S.tolist() == [3, 4, 8]


def test_not_to_another_trajectory():
    batch = Batch.from_trajectories(
        [
            Trajectory([Step(ids=[1], reward=1.0)]),
            Trajectory([Step(ids=[], reward=2.0), Step(ids=[5, 6], reward=4.0)]),
            Trajectory([Step(ids=[], reward=8.0)]),
            Trajectory([Step(ids=[7], reward=16.0)]),
        ]
    )
    assert by_token(batch).reward_S.tolist() == [1, 2, 4, 16]
    assert by_token(batch).valid_N.tolist() == [True, True, False, True]


def test_an_outcome_without_step_rewards_arrives_with_the_last_unit():
    batch = batch_of_steps((2, None), (2, None), (0, None), outcome=5.0)
    assert by_token(batch).reward_S.tolist() == [0, 0, 0, 5]
    assert by_step(batch).reward_S.tolist() == [0, 0, 5]
    assert by_turn(batch).reward_S.tolist() == [0, 0, 5]
    assert by_episode(batch).reward_S.tolist() == [5]


def test_an_outcome_beside_step_rewards_adds_what_they_leave_open():
    # the last step was not scored: the outcome says what came there
    assert by_step(batch_of_steps((1, 0.25), (1, None), (1, None), outcome=1.0)).reward_S.tolist() == [0.25, 0, 0.75]
    # it was: both stand as told
    told = by_step(batch_of_steps((1, 1.0), (1, 1.0), outcome=1.0))
    assert told.reward_S.tolist() == [1, 1]
    assert told.outcome_N.tolist() == [1]


def test_unscored_rollouts_place_what_was_scored_and_take_no_part():
    units = by_step(batch_of_steps((1, 1.0), (1, None)))
    assert units.reward_S.tolist() == [1, 0]
    assert units.outcome_N.tolist() == [0]
    assert units.valid_N.tolist() == [False]


def test_of_agents_with_the_agent_who_earned_it():
    steps = [Step(ids=[1], agent=a, reward=r) for a, r in (("p", 1.0), ("c", 2.0), ("p", 4.0), ("c", None))]
    units = by_agent(Batch.from_trajectories([Trajectory(steps, outcome=10.0)]))
    assert units.agent_S.tolist() == ["p", "c"]
    assert units.reward_S.tolist() == [5, 5]  # 1 + 4; 2 + (10 - 7), on the last unit


@pytest.mark.parametrize("level", [level for level in CUTS if level != "tree"])  # see test_trees.py
@pytest.mark.parametrize("seed", range(20))
def test_slow_reference(seed, level):
    batch = random_batch(seed)
    units = CUTS[level](batch, **({"by": "fixed", "count": 3} if level == "segment" else {}))
    want = [0.0] * len(units)
    unit_of_T, sampled = units.unit_of_T.tolist(), batch.sampled_T.tolist()
    step_of_T, first = batch.step_of_T.tolist(), 0
    for n, r in enumerate(plain(batch)):
        mine = [t for t in range(len(sampled)) if sampled[t] and batch.traj_of_S[step_of_T[t]] == n]
        own = [u for u in range(len(units)) if units.traj_of_S[u] == n]
        for s, reward in enumerate(r.rewards):
            if level in ("token", "segment", "tree"):
                until = [t for t in mine if step_of_T[t] <= first + s]
                at = until[-1:] or mine[:1]
                where = [unit_of_T[at[0]]] if at else []
            elif level == "step":
                where = [own[s]]
            elif level == "episode":
                where = own
            elif level == "agent":
                who = batch.agent_S[first + s]
                where = [u for u in own if units.agent_S[u] == who]
            else:
                where = [u for u in own if units.step_of_S[u] <= first + s][-1:]
            if level == "agent" and s == len(r.rewards) - 1 and batch.trajectories[n].steps[-1].reward is None:
                where = own[-1:]  # what an outcome adds arrives with the last unit
            for u in where:
                want[u] += reward
        first += len(r.rewards)
    assert units.reward_S.tolist() == pytest.approx(want, abs=1e-12)
