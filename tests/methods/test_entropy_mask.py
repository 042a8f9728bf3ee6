"""No enumerable truth exists for a mask; which tokens it keeps, written out below, *is* its definition."""

import dataclasses

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.methods import get
from apportion.numerics import seg_quantile
from apportion.units import by_step, by_token
from tests.make import random_units, units_of

entropy_mask = get("entropy_mask").call
H = [0.1, 0.2, 2.0, 0.05, 1.2, 0.3, 0.15, 0.9, 0.02, 0.4]


def test_worked_example():
    # ten tokens, share .2: the .8-quantile lies at place 7.2 of 0..9, .9 + .2 (1.2 - .9) = .96
    steps = [Step(prompt_ids=[0], ids=range(5), entropy=H[:5]), Step(prompt_ids=[0], ids=range(5), entropy=H[5:])]
    batch = Batch.from_trajectories([Trajectory(steps, outcome=1.0)])
    for units in (by_token(batch), by_step(batch)):
        credit = entropy_mask(assign("reinforce", units))
        kept = credit.to_tokens().weight_T[units.unit_of_T >= 0]
        assert np.flatnonzero(kept).tolist() == [2, 4]
        assert credit.notes["entropy_floor"] == pytest.approx(0.96)
        assert credit.notes["tokens_too_certain"] == 8
    by_unit = entropy_mask(assign("reinforce", by_step(batch)), share=0.5, over="unit")
    assert by_unit.train_S.tolist() == [True, False]  # means .71 and .354


def slow_floor(values, share):
    values = sorted(values)
    place = (1 - share) * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed, share):
    base = assign("grpo", random_units(seed, forks=False))
    drawn = np.random.default_rng(seed).random(len(base.units)) < 0.7
    for credit in (base, dataclasses.replace(base, train_S=drawn)):
        weight, entropy = credit.to_tokens().weight_T.tolist(), []
        means = []
        for trajectory in credit.units.batch:
            for step in trajectory.steps:
                entropy += [0.0] * len(step.prompt_ids) + step.entropy.tolist()
                means.append(sum(step.entropy.tolist()) / max(len(step.entropy), 1))
        floor = slow_floor([h for h, w in zip(entropy, weight, strict=True) if w], share)
        want = [w if h >= floor - 1e-12 else 0.0 for h, w in zip(entropy, weight, strict=True)]
        assert entropy_mask(credit, share=share).to_tokens().weight_T.tolist() == want
        counted = [bool(c) for c in credit.counted_S]
        floor = slow_floor([h for h, c in zip(means, counted, strict=True) if c], share)
        want = [c and h >= floor - 1e-12 for h, c in zip(means, counted, strict=True)]
        assert entropy_mask(credit, share=share, over="unit").train_S.tolist() == want


@pytest.mark.parametrize("over", ["token", "unit"])
def test_all_of_them_is_no_mask(over):
    credit = assign("grpo", random_units(3, forks=False))
    same = entropy_mask(credit, share=1.0, over=over).to_tokens()
    assert same.weight_T.tolist() == credit.to_tokens().weight_T.tolist()
    assert same.advantage_T.tolist() == credit.to_tokens().advantage_T.tolist()


def test_over_tokens_of_one_unit_each_both_modes_are_one():
    credit = assign("gae", by_token(random_units(3, forks=False).batch))
    a, b = entropy_mask(credit).to_tokens(), entropy_mask(credit, over="unit").to_tokens()
    assert a.weight_T.tolist() == b.weight_T.tolist()


def test_unknown_rollouts_do_not_move_the_threshold():
    units = random_units(6, forks=False)
    known = [t for t, valid in zip(units.batch, units.valid_N, strict=True) if valid]
    assert len(known) < len(units.batch)
    alone = assign("dr_grpo | entropy_mask", by_step(Batch.from_trajectories(known)))
    assert alone.notes["entropy_floor"] == assign("dr_grpo | entropy_mask", units).notes["entropy_floor"]


def test_nothing_counted_is_left_alone():
    units = units_of([0], [1], [("A", 1)])
    entropy = dataclasses.replace(units.batch.trajectories[0].steps[0], entropy=[0.5])
    units = by_step(Batch.from_trajectories([Trajectory([entropy])]))
    credit = entropy_mask(Credit(np.ones(1), units, train_S=np.zeros(1, dtype=bool)))
    assert credit.to_tokens().weight_T.tolist() == [0, 0, 0]
    assert credit.notes["entropy_floor"] == 0.0


def test_quantiles_by_segment():
    rng = np.random.default_rng(0)
    x, seg = rng.normal(size=60), rng.integers(0, 5, size=60)
    x[:20] = np.round(x[:20])
    for q in (0.0, 0.3, 0.8, 1.0):
        want = [np.quantile(x[seg == s], q) for s in range(5)] + [0.0]
        np.testing.assert_allclose(seg_quantile(x, seg, q, n=6), want)
    assert seg_quantile(np.zeros(0), np.zeros(0, int), 0.5, n=2).tolist() == [0.0, 0.0]


def test_what_it_refuses():
    units = random_units(1, forks=False)
    with pytest.raises(DataError, match="entropy_mask reads entropy_S"):
        assign("grpo | entropy_mask", units_of([0], [1], [("A", 1)]))
    with pytest.raises(ConfigError, match="entropy_mask: over is 'step'; give 'token' or 'unit'"):
        assign("grpo | entropy_mask(over='step')", units)
    for share in (0.0, 1.5):
        with pytest.raises(ConfigError, match=r"entropy_mask: share is .*; give a share in \(0, 1\]"):
            assign(f"grpo | entropy_mask(share={share})", units)
