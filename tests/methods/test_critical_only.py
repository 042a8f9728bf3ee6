import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.methods import get
from apportion.units import by_step
from tests.make import random_units

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


@pytest.mark.parametrize("forks", [True, False])
@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed, forks):
    credit = assign("dr_grpo", random_units(seed, forks=forks))
    units = credit.units
    want = []
    for s in range(len(units)):
        siblings = 0
        for k in range(len(units)):
            same_parent = units.parent_S[k] == units.parent_S[s]
            roots = units.parent_S[s] == -1
            together = same_parent and (not roots or units.group_of_S[k] == units.group_of_S[s])
            siblings += bool(together and credit.known_S[k])
        want.append(siblings > 1)
    assert critical_only(credit).train_S.tolist() == want


def test_rollouts_without_forks_compare_their_first_units_only():
    units = random_units(3, forks=False)
    gated = assign("dr_grpo | critical_only", units)
    counted = gated.weight_S
    assert (units.parent_S[counted] == -1).all()
    first = np.flatnonzero(np.append(True, np.diff(units.traj_of_S) > 0))
    peers = np.bincount(units.group_of_N[units.valid_N], minlength=99)
    want = [s for s in first if units.valid_S[s] and peers[units.group_of_S[s]] > 1]
    assert np.flatnonzero(counted).tolist() == want


def test_it_drops_on_top_of_what_is_dropped():
    credit = Credit(np.ones(5), carl_tree(), train_S=np.array([False, True, True, True, True]))
    assert critical_only(credit).train_S.tolist() == [False, True, True, True, False]
    assert critical_only(critical_only(credit)).train_S.tolist() == [False, True, True, True, False]
