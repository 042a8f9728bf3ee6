import dataclasses

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.methods import get
from apportion.units import by_episode, by_step, by_token, by_tree
from tests.make import random_units
from tests.methods.test_tempo import whole_tree
from tests.tree import advantages

critical_only = get("critical_only").call


def step(parent, reward=None):
    return Step(prompt_ids=[7], ids=[1, 2], parent=parent, fresh=parent != -1, reward=reward)


def carl_tree():
    """root -a1-> s1, root -a2-> s2; s1 -b1-> leaf 1, s1 -b2-> leaf 0; s2 -c1-> leaf 0."""
    steps = [step(-1), step(0, 1.0), step(0, 0.0), step(-1), step(3, 0.0)]
    return by_step(Batch.from_trajectories([Trajectory(steps, outcome=1.0)]))


def test_worked_example():
    # V(s1) = .5, V(s2) = 0, V(root) = .25; a1 +.25, b1 +.5, b2 -.5, a2 -.25; c1 had no alternative
    credit = Credit(np.array([0.25, 0.5, -0.5, -0.25, 0.0]), carl_tree())
    gated = critical_only(credit)
    assert gated.train_S.tolist() == [True, True, True, True, False]
    assert gated.advantage_S.tolist() == credit.advantage_S.tolist()
    assert gated.notes["units_without_alternative"] == 1
    tokens = gated.to_tokens()
    assert tokens.weight_T.sum() == 8  # the denominator of the loss shrinks too
    # policy gradient of the whole tree, every path as likely: a dropped unit has the true advantage 0, so the sum stays
    assert (tokens.advantage_T * tokens.weight_T).sum() == pytest.approx(credit.to_tokens().advantage_T.sum())


def test_a_fork_that_made_no_difference_stays_in_numerator_and_denominator():
    gated = critical_only(Credit(np.zeros(5), carl_tree()))
    assert gated.train_S.tolist() == [True, True, True, True, False]


def small_world(seed):
    """Rollouts over two ids, so that many begin alike; observations of one token, now and then none."""
    rng = np.random.default_rng(seed)
    out = []
    for g in range(3):
        for _ in range(int(rng.integers(1, 6))):
            steps = []
            for s in range(int(rng.integers(1, 4))):
                seen = rng.integers(0, 2, size=int(rng.integers(0, 2))) if s else rng.integers(0, 9, size=2)
                steps.append(Step(prompt_ids=seen, ids=rng.integers(0, 2, size=int(rng.integers(0, 3)))))
            outcome = None if rng.random() < 0.15 else float(rng.integers(0, 2))
            out.append(Trajectory(steps, group=f"g{g}", outcome=outcome))
    return Batch.from_trajectories(out)


def slow_critical(units):
    batch = units.batch
    rows = []  # the tokens of each rollout from the first sampled one on
    for n in range(len(batch)):
        tokens = np.flatnonzero(batch.traj_of_T == n)
        spoken = tokens[batch.sampled_T[tokens]]
        rows.append([(int(t), int(batch.ids_T[t])) for t in tokens if len(spoken) and spoken[0] <= t <= spoken[-1]])
    for s in range(len(units)):
        own = np.flatnonzero(units.unit_of_T == s)
        if not len(own):
            yield False
            continue
        n = units.traj_of_S[s]
        before = [i for t, i in rows[n] if t < own[0]]
        through = [i for t, i in rows[n] if t <= own[-1]]
        others = [
            [i for _, i in rows[m]]
            for m in range(len(batch))
            if units.valid_N[m] and units.group_of_N[m] == units.group_of_N[n]
        ]
        together = [row for row in others if row[: len(before)] == before]
        yield any(row[: len(through)] != through for row in together)


@pytest.mark.parametrize("cut", [by_step, by_token, by_tree, by_episode])
@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed, cut):
    units = cut(small_world(seed))
    credit = assign("dr_grpo", units)
    want = [bool(w) for w in slow_critical(units)]
    got = critical_only(credit).train_S
    assert got[units.valid_S].tolist() == np.array(want, dtype=bool)[units.valid_S].tolist()


@pytest.mark.parametrize("seed", range(50))
def test_branches_inside_a_rollout(seed):
    alone = [dataclasses.replace(t, group=str(n)) for n, t in enumerate(random_units(seed).batch)]
    credit = assign("dr_grpo", by_step(Batch.from_trajectories(alone)))
    units = credit.units
    want = []
    for s in range(len(units)):
        siblings = [k for k in range(len(units)) if units.traj_of_S[k] == units.traj_of_S[s]]
        siblings = [k for k in siblings if units.parent_S[k] == units.parent_S[s] and credit.known_S[k]]
        want.append(len(siblings) > 1)
    assert critical_only(credit).train_S.tolist() == want


def test_a_shared_beginning_is_no_choice_and_the_parting_is():
    # three rollouts: 1 2 | 3 4, 1 2 | 5 6, 1 2 | 5 7: all begin with 1 2, then two go on with 5
    rows = [[1, 2, 3, 4], [1, 2, 5, 6], [1, 2, 5, 7]]
    batch = Batch.from_trajectories(
        [Trajectory([Step(prompt_ids=[0], ids=r)], outcome=float(k), group="g") for k, r in enumerate(rows)]
    )
    gated = assign("dr_grpo | critical_only", by_token(batch))
    assert gated.train_S.reshape(3, 4).tolist() == [
        [False, False, True, False],
        [False, False, True, True],
        [False, False, True, True],
    ]
    assert gated.notes["units_without_alternative"] == 7
    assert assign("dr_grpo | critical_only", by_tree(batch)).to_tokens().weight_T.sum() == 2 + 1 + 1 + 1 + 1


def test_on_the_whole_tree_it_drops_what_has_the_true_advantage_zero():
    # the batch is the distribution; a state with one way on has nothing to decide, and its advantage is 0
    units, moves = whole_tree()
    truth = np.array([advantages(1.0)[move] for move in moves])
    gated = critical_only(Credit(truth, units))
    assert not truth[~gated.train_S].any()
    assert {move[0] for move, kept in zip(moves, gated.train_S, strict=True) if kept} == {"root", "left", "right"}
    assert {move[0] for move, kept in zip(moves, gated.train_S, strict=True) if not kept} == {"deep"}


def test_it_drops_on_top_of_what_is_dropped():
    credit = Credit(np.ones(5), carl_tree(), train_S=np.array([False, True, True, True, True]))
    assert critical_only(credit).train_S.tolist() == [False, True, True, True, False]
    assert critical_only(critical_only(credit)).train_S.tolist() == [False, True, True, True, False]
