"""The verdict: which step, by how much, and on what it rests; and where it must not speak of a decisive step."""

import dataclasses

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.report import report_model
from apportion.report.comparison import chance
from apportion.report.unit_runs import step_values
from apportion.report.verdict import least_chance
from apportion.units import by_step
from tests.make import random_units, traj
from tests.report.examples import crossroads


def verdict_of(credits, t=0, c=0):
    return report_model(credits)["trajectories"][t]["credit"][str(c)]["verdict"]


def one_group(*outcomes, actions="abcdefgh"):
    """Rollouts of two steps in one group: the first in a shared state, the second in a state of its own."""
    return by_step(
        Batch.from_trajectories(
            [
                Trajectory(
                    [
                        Step(observation="fork", action=action, reward=0.0),
                        Step(observation=f"end {n}", action="stop", reward=x),
                    ],
                    group="g",
                )
                for n, (x, action) in enumerate(zip(outcomes, actions, strict=False))
            ]
        )
    )


def credit_of(units, *values, **fields):
    return Credit(np.resize(np.array(values, dtype=float), len(units)), units, method="m", **fields)


def test_a_supported_choice():
    said = verdict_of(crossroads(), t=1)
    assert said == {
        "step": 0,
        "trust": "good",
        "head": "step 0 was decisive: +0.8, 8 times the next",
        "why": [
            "in this state, 6 rollouts that did the same reached 1 on average, 6 rollouts that did otherwise 0; "
            "chance alone would differ as much in under 1% of cases"
        ],
    }


def test_the_same_numbers_with_few_rollouts_are_weak():
    said = verdict_of(crossroads(members=4), t=1)
    assert said["trust"] == "weak"
    assert said["why"][0].endswith(
        "chance alone would differ as much in 33% of cases, which with so few rollouts is never under 25%"
    )


@pytest.mark.parametrize("rollouts", range(2, 9))
def test_the_least_chance_is_that_of_the_best_outcomes_and_the_best_split(rollouts):
    found = []
    for wins in range(1, rollouts):
        outcomes = tuple(float(k < wins) for k in range(rollouts))
        for chosen in range(1, rollouts):
            won = min(wins, chosen)
            found.append(chance(outcomes, chosen, won / chosen - (wins - won) / (rollouts - chosen)))
    assert least_chance(rollouts) == pytest.approx(min(found))


def test_outcomes_that_point_the_other_way_are_named():
    credit = crossroads()
    said = verdict_of(credit.scaled(-1.0), t=1)
    assert said["trust"] == "weak"
    assert said["why"][0].endswith("outcomes point the other way")


def test_a_state_of_its_own_compares_nothing():
    said = verdict_of(credit_of(one_group(1.0, 0.0), 0.1, 0.9))
    assert (said["step"], said["trust"]) == (1, "weak")
    assert said["why"] == [
        "no other step of the group was taken in this state, so no choice was compared with another here"
    ]


def test_the_same_choice_by_all_compares_nothing():
    said = verdict_of(credit_of(one_group(1.0, 0.0, actions="aa"), 0.9, 0.1))
    assert said["why"] == ["this state was visited by 2 rollouts, and the same was done each time: nothing to compare"]


def test_unscored_others_have_no_say():
    said = verdict_of(credit_of(one_group(1.0, None), 0.9, 0.1))
    assert said["trust"] == "weak"
    assert said["why"][0].startswith("nobody scored who did otherwise")


def test_a_method_that_gives_one_number_names_no_step():
    units = one_group(1.0, 0.0)
    said = verdict_of(assign("grpo", units))
    assert (said["step"], said["trust"]) == (None, "none")
    assert said["head"].startswith("no step stands out: grpo gives every step +0.7")
    assert said["why"] == [
        "grpo does not tell its 2 steps apart: the outcome 1 is compared with a group mean of 0.5 over 2 rollouts"
    ]


def test_zeros_say_why():
    said = verdict_of(assign("grpo", one_group(1.0, 1.0)))
    assert (said["step"], said["trust"]) == (None, "none")
    assert said["why"] == ["all 2 scored rollouts of its group ended with 1: nothing to compare"]
    alone = verdict_of(assign("grpo", by_step(Batch.from_trajectories([traj(("a", 1.0))]))))
    assert alone["why"] == ["it is alone in its group, so there is nobody to compare it with"]


def test_unknown_is_said_to_be_unknown():
    said = verdict_of(assign("grpo", one_group(1.0, None)), t=1)
    assert said == {
        "step": None,
        "trust": "none",
        "head": "grpo knows nothing about this rollout",
        "why": ["nobody scored it"],
    }


def test_a_close_second_is_not_called_decisive():
    units = one_group(1.0, 0.0)
    assert verdict_of(credit_of(units, 0.9, 0.8))["head"] == "step 0 has the largest credit, +0.9, but others are close"
    assert verdict_of(credit_of(units, -0.9, 0.8))["head"] == "step 0 has the largest blame, −0.9, but others are close"
    assert verdict_of(credit_of(units, 0.9, 0.5))["head"] == "step 0 was decisive: +0.9, 1.8 times the next"
    assert verdict_of(credit_of(units, 0.9, -0.9))["head"] == "steps 0 and 1 share the largest credit, +0.9 each"


def test_what_weakens_a_number_is_told():
    units = one_group(1.0, 0.0)
    dropped = credit_of(units, 0.9, 0.1, train_S=np.array([False, True, True, True]))
    assert "the method does not train on this step" in verdict_of(dropped)["why"]
    cut = [
        dataclasses.replace(t, steps=[t.steps[0], dataclasses.replace(t.steps[1], truncated=True)]) for t in units.batch
    ]
    limited = credit_of(by_step(Batch.from_trajectories(cut)), 0.9, 0.1)
    assert "a limit cut the rollout off, so its outcome may be incomplete" in verdict_of(limited)["why"]


def test_other_methods_are_heard():
    units = one_group(1.0, 0.0)
    credits = [
        credit_of(units, 0.9, 0.1),
        credit_of(units, 2.0, 1.0),
        credit_of(units, 0.0, 1.0),
        assign("grpo", units),
    ]
    credits = [dataclasses.replace(c, method=name) for c, name in zip(credits, "abcd", strict=True)]
    assert (
        verdict_of(credits)["why"][1]
        == "other methods: also first by b; not first by c (step 1); d tells no steps apart"
    )


@pytest.mark.parametrize("seed", range(8))
def test_the_step_is_the_first_of_the_largest(seed):
    units = random_units(seed)
    credit = Credit(np.random.default_rng(seed).normal(size=len(units)).round(1), units)
    for trajectory in report_model(credit)["trajectories"]:
        entry = trajectory["credit"]["0"]
        values = step_values(entry)
        known = [value for value in values if value is not None]
        flat = not known or max(map(abs, known)) == 0 or (len(known) > 1 and max(known) == min(known))
        largest = max((abs(value) for value in known), default=None)
        want = (
            None
            if flat
            else next(s for s, value in enumerate(values) if value is not None and abs(value) >= largest * (1 - 1e-9))
        )
        assert entry["verdict"]["step"] == want
        assert (entry["verdict"]["trust"] == "none") == (want is None)
        assert entry["verdict"]["why"]
