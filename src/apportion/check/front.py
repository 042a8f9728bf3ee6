"""The doors: check rollouts, a file of rollouts, or credit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from apportion.check.findings import Finding, Findings, count
from apportion.check.registry import run
from apportion.credit import Credit
from apportion.data import Batch, Trajectory
from apportion.data.check import check_trajectory, where
from apportion.data.read import stream
from apportion.data.skipped import Skipped
from apportion.errors import DataError, FormatError

Path = str | os.PathLike[str]
Read = Callable[[Path, Skipped], Iterable[Trajectory]]
"""Trajectories of a file, with broken records counted into the `Skipped`."""

_NOT_FINITE = re.compile(r"(?<![\w/.'\"])[+-]?(nan|inf|infinity)(?![\w/'\"])", re.IGNORECASE)


def check(rollouts: Batch | Iterable[Trajectory]) -> Findings:
    """Say what is wrong with rollouts, worst first.

    Args:
        rollouts: a batch; or trajectories that need not make one: what no batch accepts becomes a finding.
    """
    if isinstance(rollouts, Batch):
        return Findings(run("batch", rollouts), _subject(rollouts, 0))
    return _check(list(rollouts), Skipped(), "")


def check_file(path: Path, *, read: Read | None = None) -> Findings:
    """Say what is wrong with a file of rollouts; a broken record is a finding and not the end.

    Args:
        path: a file or folder.
        read: how to read it; default our own formats. Foreign files:
            ``lambda path, skipped: read_any(path, skip_bad=skipped).trajectories``.

    Raises:
        FormatError: nothing can be said about the file at all (absent, damaged, of no known format).
    """
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
            return _check(rollouts, skipped, os.fspath(path), [_breaks_off(error, len(rollouts))])
    return _check(rollouts, skipped, os.fspath(path))


def check_credit(credit: Credit) -> Findings:
    """Say what is doubtful about credit, worst first. Rollouts are checked by `check`."""
    known = int(np.count_nonzero(np.asarray(credit.known_S)))
    subject = {"units": len(credit.units), "known_units": known, "trajectories": len(credit.units.batch)}
    return Findings(run("credit", credit), subject)


def _check(rollouts: Sequence[Trajectory], skipped: Skipped, path: str, found: Sequence[Finding] = ()) -> Findings:
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
    batch = Batch.from_trajectories(whole)
    found += run("batch", batch)
    return Findings(found, _subject(batch, skipped.count))


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
