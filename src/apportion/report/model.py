"""The report as one versioned dict of plain JSON values; every viewer reads this and nothing else.

    texts         every distinct text once; the rest refers to it by position
    credits       one entry per credit: method, level, scale, parts, notes, cost, histograms, record
    findings      what `apportion.check` says of the rollouts and the credits, worst first
    groups        name, members (positions in trajectories), outcome statistics
    trajectories  steps with context and action; per credit the units, and the runs of each step: [unit, length of its
                  text in UTF-16 units (null: unknown, or the whole action), tokens], with a 0 where not trained on,
                  and a verdict: which step was decisive, and whether that can be trusted
    states        states that were seen more than once inside a group: visits (trajectory, step), and for each action
                  its visits and the outcomes of those who did it against the others

Numbers are kept to six significant digits, which is more than a page shows; the exact ones are in the credit file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from apportion.check import check, check_credit
from apportion.credit import Credit
from apportion.data import Batch, Step
from apportion.errors import DataError
from apportion.report.credit_entry import credit_entry, labels
from apportion.report.states import SharedStates
from apportion.report.texts import Decode, Texts, action_of, context_of, short
from apportion.report.unit_runs import UnitRuns, step_values
from apportion.report.verdict import verdict

__all__ = ["SCHEMA", "Decode", "Report", "report_model", "step_values"]

SCHEMA = "apportion.report/2"


def report_model(
    credits: Credit | Sequence[Credit], *, title: str | None = None, decode: Decode | None = None
) -> dict[str, Any]:
    """Everything that a report shows.

    Args:
        credits: one credit, or several to put side by side. Credits of equal rollouts share their trajectories.
        title: heading; default the methods.
        decode: text of each token id, for rollouts without text and for cuts inside a step.

    Raises:
        DataError: no credit, or something that is not one.
    """
    report = Report(credits, title=title, decode=decode)
    texts = Texts()
    model = report.header()
    states: list[dict[str, Any]] = []
    trajectories: dict[int, dict[str, Any]] = {}
    for g in range(len(model["groups"])):
        trajectories.update(report.group(g, texts, states))
    model["trajectories"] = [trajectories[t] for t in range(len(trajectories))]
    model["states"] = states
    model["texts"] = texts.all
    return model


class Report:
    """The parts of a report model, group by group, so that a large one need not be in memory at once."""

    def __init__(
        self, credits: Credit | Sequence[Credit], *, title: str | None = None, decode: Decode | None = None
    ) -> None:
        many = [credits] if isinstance(credits, Credit) else list(credits)
        for credit in many:
            if not isinstance(credit, Credit):
                raise DataError(f"a report is made of Credit, got {type(credit).__name__}; call apportion.assign first")
        if not many:
            raise DataError("a report needs at least one Credit; call apportion.assign first")
        self.credits = many
        self.labels = labels(many)
        self.title = title if title is not None else " · ".join(self.labels)
        self.records = [credit.record() for credit in many]
        sources: dict[str, Batch] = {}
        self.source_of: list[int] = []
        for credit, record in zip(many, self.records, strict=True):
            sources.setdefault(record["rollouts"], credit.units.batch)
            self.source_of.append(list(sources).index(record["rollouts"]))
        self.entries = [
            credit_entry(credit, record, label, k)
            for credit, record, label, k in zip(many, self.records, self.labels, self.source_of, strict=True)
        ]
        self.groups: list[dict[str, Any]] = []
        self._of_group: list[tuple[_Source, int]] = []
        first_t = 0
        for k, batch in enumerate(sources.values()):
            own = [(c, many[c]) for c, source in enumerate(self.source_of) if source == k]
            source = _Source(batch, own, decode, first_t, len(self.groups))
            for g in range(len(batch.group_names)):
                self.groups.append(source.group_entry(g, k))
                self._of_group.append((source, g))
            first_t += len(batch)
        self.sources = [source for source, g in self._of_group if g == 0]

    def header(self) -> dict[str, Any]:
        """Everything but the trajectories, their texts and states."""
        from apportion import __version__

        return {
            "schema": SCHEMA,
            "title": self.title,
            "version": __version__,
            "credits": self.entries,
            "findings": self._findings(),
            "groups": self.groups,
            "trajectories": [],
            "states": [],
        }

    def group(self, g: int, texts: Texts, states: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Position and entry of each trajectory of one group; its texts and states are added to the lists given."""
        source, local = self._of_group[g]
        first = len(states)
        found, state_of = source.states.of(local, source.first_t, source.first_g, first, texts, source.decode)
        states.extend(found)
        for t in self.groups[g]["members"]:
            trajectory = source.trajectory(t - source.first_t, state_of, texts)
            near = {k: states[step["state"]] for k, step in enumerate(trajectory["steps"]) if "state" in step}
            for c, entry in trajectory["credit"].items():
                entry["verdict"] = verdict(trajectory, c, self.entries, near, self.groups[g], t)
            yield t, trajectory

    def _findings(self) -> list[dict[str, Any]]:
        """What the checks say, each with what it is about."""
        found = [({"about": "rollouts"}, finding) for source in self.sources for finding in check(source.batch)]
        for label, credit in zip(self.labels, self.credits, strict=True):
            found += [({"about": label}, finding) for finding in check_credit(credit)]
        kept = ("severity", "code", "message", "remedy", "where")
        told = [about | {key: finding.to_dict()[key] for key in kept} for about, finding in found]
        return sorted(told, key=lambda finding: ("error", "warning", "info").index(finding["severity"]))


class _Source:
    """One batch, and the credits of its rollouts."""

    def __init__(
        self,
        batch: Batch,
        credits: Sequence[tuple[int, Credit]],
        decode: Decode | None,
        first_t: int,
        first_g: int,
    ) -> None:
        self.batch, self.decode, self.first_t, self.first_g = batch, decode, first_t, first_g
        self.names = batch.names()
        self.states = SharedStates(batch, [credit for _, credit in credits])
        self.valid_N = credits[0][1].units.valid_N
        self.runs = [(c, UnitRuns(credit, decode)) for c, credit in credits]
        order = np.argsort(batch.group_of_N, kind="stable")
        sizes = np.bincount(batch.group_of_N, minlength=len(batch.group_names))
        self.members = np.split(order, np.cumsum(sizes)[:-1]) if len(sizes) else []

    def group_entry(self, g: int, source: int) -> dict[str, Any]:
        members = self.members[g]
        outcomes = self.batch.outcome_N[members][self.batch.valid_N[members]]
        told = len(outcomes) > 0
        return {
            "name": self.batch.group_names[g],
            "source": source,
            "members": (members + self.first_t).tolist(),
            "valid": len(outcomes),
            "mean": short(float(outcomes.mean())) if told else None,
            "low": short(float(outcomes.min())) if told else None,
            "high": short(float(outcomes.max())) if told else None,
        }

    def trajectory(self, n: int, state_of: dict[int, int], texts: Texts) -> dict[str, Any]:
        batch, trajectory = self.batch, self.batch.trajectories[n]
        s0 = self.states.first_step[n]
        entry: dict[str, Any] = {
            "id": self.names[n],
            "group": self.first_g + int(batch.group_of_N[n]),
            "outcome": short(float(batch.outcome_N[n])) if batch.scored_N[n] else None,
            "valid": bool(self.valid_N[n]),
            "steps": [self._step(step, s0 + k, state_of.get(s0 + k), texts) for k, step in enumerate(trajectory.steps)],
            "credit": {str(c): runs.of(n, s0, trajectory.steps) for c, runs in self.runs},
        }
        for flag, column in (("truncated", batch.truncated_N), ("failed", batch.failed_N)):
            if column[n]:
                entry[flag] = True
        if trajectory.final_observation is not None:
            entry["end"] = texts(trajectory.final_observation)
        return entry

    def _step(self, step: Step, s: int, state: int | None, texts: Texts) -> dict[str, Any]:
        entry: dict[str, Any] = {"action": texts(action_of(step, self.decode)), "turn": int(self.batch.turn_S[s])}
        context = context_of(step, self.decode)
        if context:
            entry["context"] = texts(context)
        if step.agent:
            entry["agent"] = step.agent
        if step.reward is not None:
            entry["reward"] = short(step.reward)
        if state is not None:
            entry["state"] = state
        for flag in ("terminated", "truncated", "failed", "fresh"):
            if getattr(step, flag):
                entry.setdefault("flags", []).append(flag)
        return entry
