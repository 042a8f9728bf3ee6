"""The report as one versioned dict of plain JSON values; every viewer reads this and nothing else.

    texts         every distinct text once; the rest refers to it by position
    credits       one entry per credit: method, level, scale, parts, notes, cost, histogram, record
    groups        name, members (positions in trajectories), outcome statistics
    trajectories  steps with context and action; per credit the units, and the runs of each step: [unit, length of its
                  text in UTF-16 units (null: unknown, or the whole action), tokens], with a 0 where not trained on
    states        states that were seen more than once inside a group, with their visits (trajectory, step)

Numbers are kept to six significant digits, which is more than a page shows; the exact ones are in the credit file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from apportion.credit import Credit
from apportion.data import Batch, Step, words
from apportion.errors import DataError

SCHEMA = "apportion.report/1"
Decode = Callable[[Sequence[int]], Sequence[str]]
"""Text of each token id, e.g. ``lambda ids: [tokenizer.decode([i]) for i in ids]``."""

FULL_COLOUR = 0.98
"""Share of units whose credit lies inside the colour scale; the few beyond it get the full colour too."""
BINS = 31


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
    from apportion import __version__

    many = [credits] if isinstance(credits, Credit) else list(credits)
    for credit in many:
        if not isinstance(credit, Credit):
            raise DataError(f"a report is made of Credit, got {type(credit).__name__}; call apportion.assign first")
    if not many:
        raise DataError("a report needs at least one Credit; call apportion.assign first")
    texts = _Texts()
    sources: dict[str, Batch] = {}
    source_of = []
    records = [credit.record() for credit in many]
    for credit, record in zip(many, records, strict=True):
        sources.setdefault(record["rollouts"], credit.units.batch)
        source_of.append(list(sources).index(record["rollouts"]))
    labels = _labels(many)
    model: dict[str, Any] = {
        "schema": SCHEMA,
        "title": title if title is not None else " · ".join(labels),
        "version": __version__,
        "credits": [
            _credit_entry(credit, record, label, k)
            for credit, record, label, k in zip(many, records, labels, source_of, strict=True)
        ],
        "groups": [],
        "trajectories": [],
        "states": [],
    }
    for k, batch in enumerate(sources.values()):
        own = [c for c, source in enumerate(source_of) if source == k]
        _add_source(model, texts, k, batch, [(c, many[c]) for c in own], decode)
    model["texts"] = texts.all
    return model


class _Texts:
    """Each distinct text once."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._at: dict[str, int] = {}

    def __call__(self, text: str | None) -> int | None:
        if text is None:
            return None
        at = self._at.setdefault(text, len(self.all))
        if at == len(self.all):
            self.all.append(text)
        return at


def _labels(credits: Sequence[Credit]) -> list[str]:
    """Names that tell the credits apart: the method, with its parameters where the name alone would not do."""
    names = [credit.method or "unnamed" for credit in credits]
    for i, name in enumerate(list(names)):
        if names.count(name) > 1 and credits[i].params:
            names[i] = f"{name}({', '.join(f'{k}={v!r}' for k, v in credits[i].params.items())})"
    return [name if names.count(name) == 1 else f"{name} #{names[:i].count(name) + 1}" for i, name in enumerate(names)]


def _credit_entry(credit: Credit, record: Mapping[str, Any], label: str, source: int) -> dict[str, Any]:
    known, weight = np.asarray(credit.known_S), credit.weight_S
    size = np.abs(credit.advantage_S[known])
    scale = float(np.quantile(size[size > 0], FULL_COLOUR)) if (size > 0).any() else 1.0
    return {
        "label": label,
        "method": credit.method,
        "source": source,
        "level": credit.units.level,
        "scale": _short(scale),
        "parts": list(credit.parts),
        "units": len(credit.units),
        "known": int(known.sum()),
        "trained": int(weight.sum()),
        "histogram": _histogram(credit.advantage_S[known]),
        "notes": {name: _short(note) if isinstance(note, float) else note for name, note in credit.notes.items()},
        "cost": {
            "requests": credit.cost.requests,
            "prompt_tokens": credit.cost.prompt_tokens,
            "generated_tokens": credit.cost.generated_tokens,
        },
        "record": _plain(record),
    }


def _histogram(values: np.ndarray) -> dict[str, Any]:
    """Counts in bins around zero; zero itself is counted apart, because most methods give it a meaning."""
    limit = float(np.abs(values).max()) if len(values) else 0.0
    counts, edges = np.histogram(values[values != 0], bins=BINS, range=(-limit, limit) if limit else (-1.0, 1.0))
    return {
        "edges": [_short(edge) for edge in edges.tolist()],
        "counts": counts.tolist(),
        "zeros": int((values == 0).sum()),
    }


def _add_source(
    model: dict[str, Any],
    texts: _Texts,
    source: int,
    batch: Batch,
    credits: Sequence[tuple[int, Credit]],
    decode: Decode | None,
) -> None:
    first_t, first_g = len(model["trajectories"]), len(model["groups"])
    names = batch.names()
    step_end = np.cumsum(np.bincount(batch.traj_of_S, minlength=len(batch))).tolist()
    state_at = _add_states(model, texts, batch, credits, first_t, first_g)
    views = [(c, _UnitView(credit, decode)) for c, credit in credits]
    for n, trajectory in enumerate(batch.trajectories):
        s0 = step_end[n - 1] if n else 0
        valid = bool(credits[0][1].units.valid_N[n])
        entry: dict[str, Any] = {
            "id": names[n],
            "group": first_g + int(batch.group_of_N[n]),
            "outcome": _short(float(batch.outcome_N[n])) if batch.scored_N[n] else None,
            "valid": valid,
            "steps": [],
            "credit": {},
        }
        for flag, column in (("truncated", batch.truncated_N), ("failed", batch.failed_N)):
            if column[n]:
                entry[flag] = True
        if trajectory.final_observation is not None:
            entry["end"] = texts(trajectory.final_observation)
        for k, step in enumerate(trajectory.steps):
            entry["steps"].append(_step_entry(batch, texts, step, s0 + k, state_at[s0 + k], decode))
        for c, view in views:
            entry["credit"][str(c)] = view.of(n, s0, trajectory.steps)
        model["trajectories"].append(entry)
    for g, name in enumerate(batch.group_names):
        members = np.flatnonzero(batch.group_of_N == g)
        outcomes = batch.outcome_N[members][batch.valid_N[members]]
        model["groups"].append(
            {
                "name": name,
                "source": source,
                "members": (members + first_t).tolist(),
                "valid": len(outcomes),
                "mean": _short(float(outcomes.mean())) if len(outcomes) else None,
                "low": _short(float(outcomes.min())) if len(outcomes) else None,
                "high": _short(float(outcomes.max())) if len(outcomes) else None,
            }
        )


def _step_entry(batch: Batch, texts: _Texts, step: Step, s: int, state: int, decode: Decode | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"action": texts(_action(step, decode)), "turn": int(batch.turn_S[s])}
    context = step.observation if step.observation is not None else _of_ids(step.prompt_ids, decode)
    if context:
        entry["context"] = texts(context)
    if step.agent:
        entry["agent"] = step.agent
    if step.reward is not None:
        entry["reward"] = _short(step.reward)
    if state >= 0:
        entry["state"] = state
    for flag in ("terminated", "truncated", "failed", "fresh"):
        if getattr(step, flag):
            entry.setdefault("flags", []).append(flag)
    return entry


def _action(step: Step, decode: Decode | None) -> str:
    if step.ids is not None and decode is not None:
        return _of_ids(step.ids, decode) or ""
    if step.action is not None:
        return step.action
    return _of_ids(step.ids, decode) or ""


def _of_ids(ids: Any, decode: Decode | None) -> str | None:
    return None if ids is None else "".join(_pieces_of_ids(ids, decode))


def _pieces_of_ids(ids: Any, decode: Decode | None) -> list[str]:
    if decode is None:
        return [f"⟨{i}⟩" for i in ids]
    pieces = [str(piece) for piece in decode([int(i) for i in ids])]
    if len(pieces) != len(ids):
        raise DataError(f"report: decode gave {len(pieces)} texts for {len(ids)} ids; give one per id")
    return pieces


def _add_states(
    model: dict[str, Any],
    texts: _Texts,
    batch: Batch,
    credits: Sequence[tuple[int, Credit]],
    first_t: int,
    first_g: int,
) -> list[int]:
    """State of each step as a position in ``states``; -1 where it was seen only once in its group."""
    keys = list(batch.state_S)
    for _, credit in credits:  # a state key of the user's own is what the method compared
        units = credit.units
        if units.state_S is not None and units.level == "step":
            for s, key in zip(units.step_of_S.tolist(), units.state_S, strict=True):
                keys[s] = key
            break
    visits: dict[tuple[int, Any], list[int]] = {}
    for s, key in enumerate(keys):
        visits.setdefault((int(batch.group_of_N[batch.traj_of_S[s]]), key), []).append(s)
    first_step = np.cumsum(np.bincount(batch.traj_of_S, minlength=len(batch))).tolist()
    out = [-1] * len(keys)
    for (group, key), steps in visits.items():
        if len(steps) < 2:
            continue
        at = len(model["states"])
        pairs = []
        for s in steps:
            out[s] = at
            n = int(batch.traj_of_S[s])
            pairs.append([first_t + n, s - (first_step[n - 1] if n else 0)])
        model["states"].append({"group": first_g + group, "text": texts(str(key)), "visits": pairs})
    return out


class _Run(NamedTuple):
    """Tokens of one step, one after the other, that one unit wrote and that are all trained on or all not."""

    unit: int
    tokens: int
    trained: bool


class _UnitView:
    """The units of one credit, trajectory by trajectory, with the piece of text that each wrote."""

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
        self.runs: dict[int, list[_Run]] = {}
        columns = (step[first].tolist(), unit[first].tolist(), length.tolist(), trained[first].tolist())
        for s, *run in zip(*columns, strict=True):
            self.runs.setdefault(s, []).append(_Run(*run))
        for u in np.flatnonzero(units.tokens_S == 0).tolist():  # an empty action is a unit as well
            self.runs.setdefault(int(units.step_of_S[u]), []).append(_Run(u, 0, True))

    def of(self, n: int, s0: int, steps: Sequence[Step]) -> dict[str, Any]:
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

    def _chars(self, runs: list[_Run], step: Step) -> list[tuple[_Run, int | None]]:
        """Length of each run in UTF-16 units, as a browser counts; None where the text of a token is not known."""
        if len(runs) < 2:
            return [(run, None) for run in runs]
        if step.ids is None:
            pieces = words(step.action or "")
        elif self.decode is not None or step.action is None:
            pieces = _pieces_of_ids(step.ids, self.decode)
        else:
            return [(run, None) for run in runs]
        out: list[tuple[_Run, int | None]] = []
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
    out: list[float | None] = []
    for runs in entry["runs"]:
        known = [(entry["units"][u], max(size, 1)) for u, _, size, *_ in runs if u not in unknown]
        total = sum(size for _, size in known)
        out.append(sum(value * size for value, size in known) / total if known else None)
    return out


def _shorts(values: np.ndarray) -> list[float]:
    return [_short(value) for value in values.tolist()]


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _plain(value: Any) -> Any:
    """JSON values for showing: what JSON has no sign for becomes its text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else repr(value)
