"""The doors: check rollouts, a file of rollouts, or credit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from apportion.check.findings import Finding, Findings, count
from apportion.check.registry import run, run_measures
from apportion.credit import Credit
from apportion.data import Batch, Trajectory
from apportion.data.check import check_trajectory, where
from apportion.data.read import stream
from apportion.data.skipped import Skipped
from apportion.errors import ConfigError, DataError, FormatError
from apportion.units import StateRule, by_step

Path = str | os.PathLike[str]
Read = Callable[[Path, Skipped], Iterable[Trajectory]]
"""Trajectories of a file, with broken records counted into the `Skipped`."""

HUGE = 1e100
"""Rewards from here on overflow when they are squared; what that leaves undefined is null in the findings."""
_NOT_FINITE = re.compile(r"(?<![\w/.'\"])[+-]?(nan|inf|infinity)(?![\w/'\"])", re.IGNORECASE)


def check(rollouts: Batch | Iterable[Trajectory], *, states: StateRule = None) -> Findings:
    """Say what is wrong with rollouts, worst first.

    Args:
        rollouts: a batch; or trajectories that need not make one: what no batch accepts becomes a finding.
        states: what counts as one state, as for `apportion.by_step`; the grouping of states is checked under it.
    """
    if isinstance(rollouts, Batch):
        return _of_batch([], rollouts, 0, states)
    return _check(list(rollouts), Skipped(), "", states=states)


def check_file(path: Path, *, read: Read | None = None, states: StateRule = None) -> Findings:
    """Say what is wrong with a file of rollouts; a broken record is a finding and not the end.

    Args:
        path: a file or folder.
        read: how to read it; default our own formats. Foreign files:
            ``lambda path, skipped: read_any(path, skip_bad=skipped).trajectories``.
        states: as for `check`.

    Raises:
        FormatError: nothing can be said about the file at all (absent, damaged, of no known format).
    """
    return check_rollouts(*read_rollouts(path, read=read), path=path, states=states)


@dataclass(frozen=True, slots=True)
class Cut:
    """What made a file end before its end, and after how many rollouts; None where nothing did."""

    error: FormatError | None = None


def read_rollouts(path: Path, *, read: Read | None = None) -> tuple[list[Trajectory], Skipped, Cut]:
    """The rollouts of a file, what was skipped, and where reading broke off; see `check_file`."""
    skipped = Skipped()
    rollouts: list[Trajectory] = []
    source = stream(path, skip_bad=skipped) if read is None else read(path, skipped)
    try:
        for trajectory in source:
            rollouts.append(trajectory)
    except FormatError as error:
        if not skipped.count and not rollouts:
            raise
        if rollouts or skipped.reasons[0] not in str(error):  # else it only sums up what is counted anyway
            return rollouts, skipped, Cut(error)
    return rollouts, skipped, Cut()


def check_rollouts(
    rollouts: Sequence[Trajectory], skipped: Skipped, cut: Cut, *, path: Path = "", states: StateRule = None
) -> Findings:
    """`check` of what `read_rollouts` gave."""
    found = [] if cut.error is None else [_breaks_off(cut.error, len(rollouts))]
    return _check(rollouts, skipped, os.fspath(path), found, states=states)


def check_credit(credit: Credit) -> Findings:
    """Say what is doubtful about credit, worst first. Rollouts are checked by `check`."""
    known = int(np.count_nonzero(np.asarray(credit.known_S)))
    subject = {"units": len(credit.units), "known_units": known, "trajectories": len(credit.units.batch)}
    return Findings(run("credit", credit), subject, run_measures("credit", credit))


def compare_credits(credits: Mapping[str, Credit]) -> Findings:
    """Say where several credits of the same rollouts disagree.

    Args:
        credits: two or more, by name; their units may be of different levels.

    Raises:
        ConfigError: fewer than two. DataError: they are of different rollouts.
    """
    if len(credits) < 2:
        raise ConfigError(f"compare_credits: {len(credits)} credit was given; give two or more")
    batches = [credit.units.batch for credit in credits.values()]
    if any(len(b.ids_T) != len(batches[0].ids_T) or b.names() != batches[0].names() for b in batches):
        raise DataError("compare_credits: the credits are of different rollouts; assign them on the same batch")
    return Findings(run("credits", credits), {"credits": len(credits), "trajectories": len(batches[0])})


def _check(
    rollouts: Sequence[Trajectory],
    skipped: Skipped,
    path: str,
    found: Sequence[Finding] = (),
    *,
    states: StateRule,
) -> Findings:
    found = [*found, *run("rollouts", rollouts)]
    whole: list[Trajectory] = []
    names: set[str | None] = {None}
    for n, trajectory in enumerate(rollouts):
        try:
            check_trajectory(trajectory, where(n, trajectory))
            # a second name would stop the batch; the check of the rollouts has told it
            single = trajectory if trajectory.id not in names else replace(trajectory, id=None)
            if len({step.ids is None for step in trajectory.steps}) > 1:
                Batch.from_trajectories([single])  # says what is wrong with the mixture
        except DataError as error:
            skipped.add(str(error).replace(where(0, trajectory), where(n, trajectory), 1))
            continue
        names.add(trajectory.id)
        whole.append(single)
    found += _broken(skipped, len(whole), path)
    if not whole:
        return Findings(found, {"trajectories": 0, "broken_records": skipped.count})
    return _of_batch(found, Batch.from_trajectories(whole), skipped.count, states)


def _of_batch(found: Sequence[Finding], batch: Batch, broken: int, states: StateRule) -> Findings:
    units = by_step(batch, state=states)
    huge = max(float(np.abs(batch.outcome_N).max()), float(np.abs(batch.reward_S).max())) > HUGE
    with np.errstate(over="ignore", invalid="ignore") if huge else nullcontext():
        found = [*found, *run("batch", batch), *run("units", units)]
        measures = {**run_measures("batch", batch), **run_measures("units", units)}
    return Findings(found, _subject(batch, broken), measures)


def _breaks_off(error: FormatError, good: int) -> Finding:
    return Finding(
        "unreadable-rest",
        "error",
        f"after {count(good, 'rollout')} nothing more can be read: {error}",
        "copy or write the file again",
        {"rollouts_before": good},
    )


def _broken(skipped: Skipped, good: int, path: str) -> list[Finding]:
    """Records that could not be read; those with a NaN or an infinity are named as such."""
    if not skipped.count:
        return []
    total = skipped.count + good
    plain = [reason.removeprefix(path) for reason in skipped.reasons]
    wild = [reason for reason, text in zip(skipped.reasons, plain, strict=True) if _NOT_FINITE.search(text)]
    out = []
    if wild:
        more = "at least " if skipped.count > len(skipped.reasons) else ""
        out.append(
            Finding(
                "not-finite",
                "error",
                f"{more}{count(len(wild), 'record')} of {total} hold a number that is not finite; the first: {wild[0]}",
                "give a finite number, or leave out what was not measured: unscored is not NaN",
                {"records": len(wild), "of": total, "share": len(wild) / total, "reasons": wild},
            )
        )
    rest = skipped.count - len(wild)
    if rest:
        reasons = [reason for reason in skipped.reasons if reason not in wild]
        first = f"; the first: {reasons[0]}" if reasons else ""
        out.append(
            Finding(
                "broken-records",
                "error",
                f"{count(rest, 'record')} of {total} cannot be read{first}",
                "repair or remove them; --skip-bad leaves them out and counts them",
                {"records": rest, "of": total, "share": rest / total, "reasons": reasons},
            )
        )
    return out


def _subject(batch: Batch, broken: int) -> dict[str, int]:
    return {
        "trajectories": len(batch),
        "groups": len(batch.group_names),
        "steps": len(batch.traj_of_S),
        "sampled_tokens": int(np.count_nonzero(batch.sampled_T)),
        "broken_records": broken,
    }
