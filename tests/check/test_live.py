"""The live check: it counts on every batch, and ends a run only where something stays bad, saying why."""

import numpy as np
import pytest

import apportion as ap
from apportion.bench.check.texts import repetition as loops
from apportion.bench.check.world import rollouts
from apportion.check import LiveCheck
from apportion.data import Batch
from apportion.errors import ConfigError, StopRun


def credit(seed=0, spoil=lambda rng, world: world):
    rng = np.random.default_rng(seed)
    return ap.assign("grpo", ap.by_step(Batch.from_trajectories(spoil(rng, rollouts(rng)))))


def test_good_batches_are_counted_and_go_on():
    live = LiveCheck(patience=1)
    for step in range(3):
        numbers = live(credit(step), step)
        assert numbers["check/errors"] == 0
        assert numbers["check/repetition"] == 0.0
    assert live.findings.subject["trajectories"] == 60


def test_a_collapse_ends_the_run_after_as_many_batches_and_says_why():
    live = LiveCheck(stop={"repetition": 0.05}, patience=3)
    bad = credit(1, loops)
    live(credit(0), 0)
    for step in range(1, 3):
        assert live(bad, step)["check/repetition"] >= 0.05
    with pytest.raises(
        StopRun, match=r"stopped at step 3 by 'repetition', 3 batches in a row: \d+ of 60 rollouts"
    ) as stop:
        live(bad, 3)
    assert stop.value.numbers["check/repetition"] >= 0.05
    assert live.findings.of("repetition")


def test_a_good_batch_between_begins_the_count_anew():
    live = LiveCheck(stop={"repetition": 0.05}, patience=2)
    good, bad = credit(0), credit(1, loops)
    for step, batch in enumerate((bad, good, bad, good, bad)):
        live(batch, step)
    with pytest.raises(StopRun):
        live(bad, 5)


def test_a_run_that_begins_badly_may_get_better():
    live, bad = LiveCheck(stop={"repetition": 0.05}, patience=1), credit(1, loops)
    for step in range(4):
        live(bad, step)
    live(credit(0), 4)  # from here on it would be a collapse
    with pytest.raises(StopRun):
        live(bad, 5)
    with pytest.raises(StopRun, match="at step 0"):
        LiveCheck(stop={"repetition": 0.05}, patience=1, from_start=True)(bad, 0)


def test_it_goes_back_to_what_it_knew():
    live = LiveCheck(patience=2)
    before = live.state()
    live(credit(), 0)
    live(credit(1, loops), 1)
    assert live.state() != before
    live.restore(before)
    assert live.state() == before
    sure = LiveCheck(stop={"repetition": 0.05}, patience=1, from_start=True)
    sure.restore(before)
    with pytest.raises(StopRun):
        sure(credit(1, loops), 1)


def test_constant_groups_and_zero_credit_end_a_run():
    def same(rng, world):
        return [ap.Trajectory(t.steps, group=t.group, id=t.id, outcome=1.0) for t in world]

    with pytest.raises(StopRun, match="'constant-group', 1 batch: 10 of 10 groups"):
        LiveCheck(patience=1, from_start=True)(credit(0, same), 0)
    live = LiveCheck(stop=None)  # only counts
    numbers = live(credit(0, same), 0)
    assert numbers["check/constant-group"] == numbers["check/credit-zero"] == 1.0
    with pytest.raises(StopRun, match="'credit-zero'"):
        LiveCheck(stop={"constant-group": 2.0}, patience=1, from_start=True)(
            credit(0, same), 0
        )  # a share above 1 takes the rule off


def test_only_some_steps():
    live = LiveCheck(every=2)
    assert live(credit(), 1) == {}
    assert live(credit(), 2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"stop": {"gram-filler": 0.5}}, "no check named 'gram-filler' is cheap enough for a live run"),
        ({"stop": {"repetition": -1}}, "shares in stop lie between 0 and 1"),
        ({"stop": {"repetition": float("nan")}}, "shares in stop"),
        ({"patience": 0}, "patience is 0; give a whole number from 1 on"),
        ({"every": True}, "every is True"),
    ],
)
def test_wrong_settings(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        LiveCheck(**options)
