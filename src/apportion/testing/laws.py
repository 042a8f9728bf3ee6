"""Checks of the laws that a method may declare in ``holds``; each law holds at the method's default parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from apportion.data import Trajectory
from apportion.numerics import FloatArray
from apportion.testing.compare import assert_close, assert_same, pieces_of
from apportion.testing.sample import recut
from apportion.testing.subject import Method, Subject, subject_of
from apportion.units import Units


def check_scale_equivariant(method: Method, units: Units) -> None:
    """All reward units times c give c times the credit, also for tiny and huge c.

    In reward units are rewards, outcomes, their named parts, values, and columns named …reward or …value.
    """
    subject = subject_of(method)
    want = subject(units)
    for factor in (2.5, 1e-4, 1e6):
        got = subject(recut(units, [_scaled(rollout, factor) for rollout in units.batch.trajectories]))
        assert_close(got.advantage_S / factor, want.advantage_S, f"rewards times {factor:g}: credit / {factor:g}")


def check_shift_invariant(method: Method, units: Units) -> None:
    """A constant added to all outcomes of a group, and to each of their named parts, changes nothing."""
    subject = subject_of(method)
    shifted = [
        _shifted(rollout, 1.5 - 0.75 * g)
        for rollout, g in zip(units.batch.trajectories, units.group_of_N.tolist(), strict=True)
    ]
    assert_same(pieces_of(subject(recut(units, shifted))), pieces_of(subject(units)), "with shifted outcomes")


def check_local_to_group(method: Method, units: Units) -> None:
    """A group gets the same numbers without the other groups."""
    subject = subject_of(method)
    pieces = pieces_of(subject(units))
    for g in range(len(units.batch.group_names)):
        members = np.flatnonzero(units.group_of_N == g)
        _check_subset(subject, units, pieces, members.tolist(), "without the other groups")


def check_local_to_trajectory(method: Method, units: Units) -> None:
    """A trajectory gets the same numbers without the others."""
    subject = subject_of(method)
    pieces = pieces_of(subject(units))
    for n in range(len(units.group_of_N)):
        _check_subset(subject, units, pieces, [n], "without the other trajectories")


def check_relabel_invariant(method: Method, units: Units) -> None:
    """States under other names, another renaming in each group, get the same numbers."""
    subject = subject_of(method)
    at, renamed = 0, []
    for rollout, g in zip(units.batch.trajectories, units.group_of_N.tolist(), strict=True):
        steps = []
        for step in rollout.steps:
            steps.append(dataclasses.replace(step, state=f"{g}/{units.batch.state_S[at]}"[::-1]))
            at += 1
        renamed.append(dataclasses.replace(rollout, steps=steps))
    assert_same(pieces_of(subject(recut(units, renamed))), pieces_of(subject(units)), "under other state names")


def check_zero_mean_per_group(method: Method, units: Units) -> None:
    """Each trajectory's mean credit, averaged over the known members of a group, is 0."""
    credit = subject_of(method)(units)
    largest = max(float(np.abs(credit.advantage_S).max(initial=0.0)), 1e-300)
    pieces = pieces_of(credit)
    for g, name in enumerate(units.batch.group_names):
        in_group = [pieces[n] for n in np.flatnonzero(units.group_of_N == g).tolist()]
        members = [piece[piece[:, 1] == 1, 0] for piece in in_group]
        means = [float(piece.mean()) for piece in members if len(piece)]
        if means:
            off = abs(float(np.mean(means)))
            assert off <= 1e-9 * largest, f"the credit of group {name!r} has mean {off:.6g}, not 0"


def check_sums_to_outcome(method: Method, units: Units) -> None:
    """The credit of a known trajectory's units sums to its outcome."""
    credit = subject_of(method)(units)
    for n, piece in enumerate(pieces_of(credit)):
        if len(piece) and piece[:, 1].all():
            total, outcome = float(piece[:, 0].sum()), float(units.outcome_N[n])
            scale = max(1.0, float(np.abs(piece[:, 0]).sum()))
            assert abs(total - outcome) <= 1e-9 * scale, (
                f"trajectory {n}: credit sums to {total:.6g}, not {outcome:.6g}"
            )


def _check_subset(subject: Subject, units: Units, pieces: list[FloatArray], members: list[int], when: str) -> None:
    few = recut(units, [units.batch.trajectories[n] for n in members])
    if few.batch.scored_N.any() or not subject.needs_score:  # without a score there is nothing to read
        assert_same(pieces_of(subject(few)), [pieces[n] for n in members], when)


def _scaled(rollout: Trajectory, factor: float) -> Trajectory:
    steps = []
    for step in rollout.steps:
        values = None if step.token_values is None else np.asarray(step.token_values) * factor
        columns = {
            name: np.asarray(column) * (factor if name.endswith(("reward", "value")) else 1.0)
            for name, column in step.columns.items()
        }
        steps.append(
            dataclasses.replace(
                step,
                reward=_times(step.reward, factor),
                rewards={name: part * factor for name, part in step.rewards.items()},
                value=_times(step.value, factor),
                token_values=values,
                columns=columns,
            )
        )
    outcome, final = _times(rollout.outcome, factor), _times(rollout.final_value, factor)
    outcomes = {name: part * factor for name, part in rollout.outcomes.items()}
    return dataclasses.replace(rollout, steps=steps, outcome=outcome, outcomes=outcomes, final_value=final)


def _times(x: float | None, factor: float) -> float | None:
    return None if x is None else x * factor


def _shifted(rollout: Trajectory, by: float) -> Trajectory:
    """The outcome moved; where the last step has a reward, it carries the difference."""
    if rollout.total is None:
        return rollout
    last = rollout.steps[-1]
    moved = last if last.reward is None else dataclasses.replace(last, reward=last.reward + by)
    outcomes = {name: part + by for name, part in rollout.outcomes.items()}
    return dataclasses.replace(
        rollout, steps=[*rollout.steps[:-1], moved], outcome=rollout.total + by, outcomes=outcomes
    )


LAW_CHECKS: dict[str, Callable[[Method, Units], None]] = {
    "scale_equivariant": check_scale_equivariant,
    "shift_invariant": check_shift_invariant,
    "local_to_group": check_local_to_group,
    "local_to_trajectory": check_local_to_trajectory,
    "relabel_invariant": check_relabel_invariant,
    "zero_mean_per_group": check_zero_mean_per_group,
    "sums_to_outcome": check_sums_to_outcome,
}
"""The check behind each law of `apportion.methods.LAWS`."""
