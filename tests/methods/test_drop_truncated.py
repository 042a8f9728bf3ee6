"""No enumerable truth exists for rollouts that nobody finished; the slow reference is the definition."""

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory, on_truncated
from apportion.errors import ConfigError, DataError
from apportion.losses import aggregate
from apportion.units import by_step, by_token
from tests.make import random_units


def rollouts(*told):
    """One step of two tokens each: (outcome, truncated)."""
    return Batch.from_trajectories(
        Trajectory([Step(prompt_ids=[0], ids=[1, 2], truncated=cut)], outcome=outcome, group="g", final_value=0.7)
        if cut
        else Trajectory([Step(prompt_ids=[0], ids=[1, 2])], outcome=outcome, group="g")
        for outcome, cut in told
    )


BATCH = rollouts((1.0, False), (0.0, False), (0.5, True))


def results(batch, method):
    credit = assign(method, by_step(batch))
    return credit.advantage_S.tolist(), credit.weight_S.tolist()


def test_worked_example_of_every_policy():
    # mean .5, with a score of -1 instead of .5 it is 0, without the third rollout .5
    plain = "grpo(scale='none')"
    assert results(on_truncated(BATCH, "keep"), plain) == ([0.5, -0.5, 0.0], [True] * 3)
    assert results(on_truncated(BATCH, "penalty", penalty=-1), plain) == ([1.0, 0.0, -1.0], [True] * 3)
    assert results(on_truncated(BATCH, "exclude"), plain) == ([0.5, -0.5, 0.0], [True, True, False])
    assert results(BATCH, f"{plain} | drop_truncated") == ([0.5, -0.5, 0.0], [True, True, False])
    # excluded and dropped differ in the others' baseline
    worse = rollouts((1.0, False), (0.0, False), (-1.0, True))
    assert results(on_truncated(worse, "exclude"), plain)[0] == [0.5, -0.5, 0.0]
    assert results(worse, f"{plain} | drop_truncated")[0] == [1.0, 0.0, -1.0]


def test_a_dropped_row_leaves_the_denominator():
    credit = assign("grpo(scale='none') | drop_truncated", by_token(BATCH))
    assert credit.notes["truncated_dropped"] == 1
    tokens = credit.to_tokens()
    row = BATCH.traj_of_T
    for mode, want in (("token-mean", 1.0), ("seq-mean-token-mean", 1.0), ("seq-mean-token-sum", 2.0)):
        assert aggregate(np.ones(len(row)), tokens.weight_T, row, mode) == pytest.approx(want)


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed)
    before, after = assign("grpo", units), assign("grpo | drop_truncated", units)
    ends = [t.steps[-1].truncated and not t.steps[-1].terminated for t in units.batch.trajectories]
    assert after.train_S.tolist() == [not ends[n] for n in units.traj_of_S]
    assert after.advantage_S.tolist() == before.advantage_S.tolist()
    assert after.known_S.tolist() == before.known_S.tolist()
    dropped = {int(n) for s, n in enumerate(units.traj_of_S) if ends[n] and before.weight_S[s]}
    assert after.notes.get("truncated_dropped", 0) == len(dropped)


def test_it_keeps_what_another_transform_dropped_and_changes_nothing_twice():
    units = random_units(2)
    once = assign("grpo | critical_only | drop_truncated", units)
    assert not (once.train_S & ~assign("grpo | critical_only", units).train_S).any()
    twice = assign("grpo | drop_truncated | drop_truncated", units)
    assert twice.train_S.tolist() == assign("grpo | drop_truncated", units).train_S.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_other_scores_by_a_slow_reference(seed):
    batch = random_units(seed, forks=False).batch
    for policy in ("keep", "penalty", "exclude"):
        got = on_truncated(batch, policy, penalty=-2.0)
        for n, (old, new) in enumerate(zip(batch.trajectories, got.trajectories, strict=True)):
            cut = old.steps[-1].truncated and not old.steps[-1].terminated
            if not cut or policy == "keep":
                assert new.total == old.total
                assert [step.reward for step in new.steps] == [step.reward for step in old.steps]
                continue
            assert new.total == (-2.0 if policy == "penalty" else None)
            assert {step.reward for step in new.steps} == {None}
            assert new.final_value is None  # nothing bootstraps
            assert got.truncated_N[n]
        assert got.ids_T.tolist() == batch.ids_T.tolist()
        assert got.group_of_N.tolist() == batch.group_of_N.tolist()


def test_a_penalty_scores_what_nobody_scored():
    batch = rollouts((1.0, False), (None, True))
    assert by_step(batch).valid_N.tolist() == [True, False]
    assert results(on_truncated(batch, "penalty"), "grpo(scale='none')") == ([0.5, -0.5], [True, True])


def test_a_penalised_rollout_does_not_bootstrap():
    steps = [Step(prompt_ids=[0], ids=[1], value=0.25, truncated=True)]
    batch = Batch.from_trajectories([Trajectory(steps, outcome=1.0, final_value=0.5)])
    assert assign("gae(gamma=1.0)", by_step(batch)).advantage_S.tolist() == [1.25]  # 1 + .5 - .25
    got = assign("gae(gamma=1.0)", by_step(on_truncated(batch, "penalty")))
    assert got.advantage_S.tolist() == [-0.25]
    assert got.notes["truncated_without_value"] == 1


def test_what_it_refuses():
    with pytest.raises(ConfigError, match="on_truncated: policy is 'zero'; give one of 'keep', 'penalty', 'exclude'"):
        on_truncated(BATCH, "zero")
    with pytest.raises(ConfigError, match=r"masking is done behind the method; write e\.g\. 'grpo \| drop_truncated'"):
        on_truncated(BATCH, "mask")
    with pytest.raises(ConfigError, match="on_truncated: penalty is nan; give a finite number"):
        on_truncated(BATCH, "penalty", penalty=float("nan"))
    chain = [Step(ids=[1], parent=-1), Step(ids=[2], parent=0, truncated=True)]  # told, and no fork
    assert on_truncated(Batch.from_trajectories([Trajectory(chain, outcome=1.0)]), "penalty").outcome_N.tolist() == [0]
    forked = [Step(ids=[1]), Step(ids=[2], reward=1.0), Step(ids=[3], parent=0, truncated=True)]
    with pytest.raises(
        DataError, match="trajectory 0 forks, so one penalty says nothing of its branches; give the cut"
    ):
        on_truncated(Batch.from_trajectories([Trajectory(forked, outcome=0.0)]), "penalty")
