"""The units of one credit, trajectory by trajectory: their numbers, and the piece of text that each wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from apportion.credit import Credit
from apportion.data import Step, words
from apportion.report.texts import Decode, pieces_of_ids, short


class Run(NamedTuple):
    """Tokens of one step, one after the other, that one unit wrote and that are all trained on or all not."""

    unit: int
    tokens: int
    trained: bool


class UnitRuns:
    """What a report says about one credit of one trajectory."""

    def __init__(self, credit: Credit, decode: Decode | None) -> None:
        units = credit.units
        batch = units.batch
        self.credit, self.decode = credit, decode
        self.unit_end = np.cumsum(np.bincount(units.traj_of_S, minlength=len(batch))).tolist()
        own = np.flatnonzero(units.unit_of_T >= 0)
        step, unit = batch.step_of_T[own], units.unit_of_T[own]
        trained = np.ones(len(own), dtype=bool) if credit.train_T is None else credit.train_T[own]
        change = (np.diff(step) != 0) | (np.diff(unit) != 0) | (np.diff(trained) != 0)
        first = np.flatnonzero(np.append(True, change)[: len(own)])
        length = np.diff(np.append(first, len(own)))
        self.runs: dict[int, list[Run]] = {}
        columns = (step[first].tolist(), unit[first].tolist(), length.tolist(), trained[first].tolist())
        for s, *run in zip(*columns, strict=True):
            self.runs.setdefault(s, []).append(Run(*run))
        for u in np.flatnonzero(units.tokens_S == 0).tolist():  # an empty action is a unit as well
            self.runs.setdefault(int(units.step_of_S[u]), []).append(Run(u, 0, True))

    def of(self, n: int, s0: int, steps: Sequence[Step]) -> dict[str, Any]:
        """The credit of trajectory n, whose first step is s0 of the batch."""
        credit = self.credit
        u0, u1 = (self.unit_end[n - 1] if n else 0), self.unit_end[n]
        known, train = np.asarray(credit.known_S)[u0:u1], np.asarray(credit.train_S)[u0:u1]
        entry: dict[str, Any] = {"units": _shorts(credit.advantage_S[u0:u1])}
        if not known.all():
            entry["unknown"] = np.flatnonzero(~known).tolist()
        if not train.all():
            entry["dropped"] = np.flatnonzero(~train).tolist()
        if credit.parts:
            entry["parts"] = [_shorts(part[u0:u1]) for part in credit.parts.values()]
        entry["runs"] = [
            [
                [run.unit - u0, chars, run.tokens] + ([] if run.trained else [0])
                for run, chars in self._chars(self.runs.get(s0 + k, []), step)
            ]
            for k, step in enumerate(steps)
        ]
        return entry

    def _chars(self, runs: list[Run], step: Step) -> list[tuple[Run, int | None]]:
        """Length of each run in UTF-16 units, as a browser counts; None where the text of a token is not known."""
        if len(runs) < 2:
            return [(run, None) for run in runs]
        if step.ids is None:
            pieces = words(step.action or "")
        elif self.decode is not None or step.action is None:
            pieces = pieces_of_ids(step.ids, self.decode)
        else:
            return [(run, None) for run in runs]
        out: list[tuple[Run, int | None]] = []
        at = 0
        for run in runs:
            text = "".join(pieces[at : at + run.tokens])
            out.append((run, len(text.encode("utf-16-le", "surrogatepass")) // 2))
            at += run.tokens
        return out


def step_values(entry: Mapping[str, Any]) -> list[float | None]:
    """Credit of each step of one trajectory under one credit: the mean over its tokens, None where unknown.

    Args:
        entry: ``trajectory["credit"]["0"]`` of a report model.
    """
    unknown = set(entry.get("unknown", ()))
    units = entry["units"]
    out: list[float | None] = []
    for runs in entry["runs"]:
        if len(runs) == 1 and not unknown:
            out.append(units[runs[0][0]])
            continue
        known = [(units[u], max(size, 1)) for u, _, size, *_ in runs if u not in unknown]
        total = sum(size for _, size in known)
        out.append(sum(value * size for value, size in known) / total if known else None)
    return out


def idle_steps(entry: Mapping[str, Any]) -> list[bool]:
    """True for each step of which no token is trained on."""
    dropped = set(entry.get("dropped", ()))
    return [bool(runs) and all(run[0] in dropped or len(run) > 3 for run in runs) for runs in entry["runs"]]


def _shorts(values: np.ndarray) -> list[float]:
    return [short(value) for value in values.tolist()]
