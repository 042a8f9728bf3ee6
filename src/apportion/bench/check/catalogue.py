"""The catalogue of findings in ``docs/checks.md``, written from the registry and from what planted faults bring out."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType

from apportion.bench.check.faults import Fault, faults
from apportion.bench.check.score import CALIBRATION, looked
from apportion.check import Check, registered

BEGIN, END = (
    "<!-- catalogue: written by `python -m apportion.bench.check --catalogue`, checked by a test -->",
    "<!-- /catalogue -->",
)
CHAPTERS = {
    "Groups": "group-of-one constant-group first-observation group-mixing duplicate-id",
    "States": "under-grouped over-grouped partial-observability own-repeats state-alone",
    "Rewards, masks and tokens": "unscored not-finite broken-records unreadable-rest failed empty-response outcome-sum "
    "reward-unsampled truncation prefix-drift text-only claimed-success",
    "Hacking and collapse": "repetition clip-rate pseudo-positive thinking-unsolved one-step zero-step gram-filler",
    "Credit": "credit-zero credit-unknown credit-concentrated normalised-twice credit-confounded credit-starved "
    "method-disagreement",
}
READING = {
    "not-finite": "Records that hold a NaN or an infinity; they are left out of everything else.",
    "broken-records": "Records that cannot be read, or that no batch accepts, each with its sentence.",
    "unreadable-rest": "A file that breaks off: what is before it is checked. Evidence: `rollouts_before`. Remedy: "
    "copy or write the file again.",
}
"""Findings of the reading itself, which no check of the registry makes."""


def catalogue() -> str:
    """The text between the two marks."""
    checks = {entry.name: entry for entry in registered()}
    planted: dict[str, list[Fault]] = {}
    for code, fault in faults().items():
        planted.setdefault(code.partition("/")[0], []).append(fault)
    named = [name for names in CHAPTERS.values() for name in names.split()]
    missing = (set(checks) | set(planted)) - set(named)
    assert not missing, f"give {sorted(missing)} a chapter of the catalogue"
    lines: list[str] = [BEGIN, ""]
    for title, names in CHAPTERS.items():
        lines += [f"## {title}", ""]
        for name in names.split():
            lines += [f"### {name}", "", *_entry(checks.get(name), name, planted.get(name, ())), ""]
    return "\n".join([*lines[:-1], "", END])


def _entry(check: Check | None, name: str, planted: Iterator[Fault] | list[Fault] | tuple[Fault, ...]) -> Iterator[str]:
    if check is None:
        yield READING[name]
    else:
        about = _flat((inspect.getdoc(check.call) or "").partition("\n\n")[0])
        yield about + (" *Looked at in every batch of a live run.*" if check.cheap else "")
    yield ""
    for fault in planted:
        finding = looked(fault, CALIBRATION, "plant").of(fault.code)[0]
        example = _flat(inspect.getdoc(fault.plant) or "")
        evidence = ", ".join(f"`{key}`" for key in finding.evidence)
        yield (
            f"* `{fault.code}` ({finding.severity}), for instance: {example[0].lower()}{example[1:]} "
            f"Evidence: {evidence}. Remedy: {finding.remedy}."
        )
    if check is not None:
        for values, meaning in _thresholds(importlib.import_module(check.call.__module__)):
            named = ", ".join(f"`{key} = {value:g}`" for key, value in values)
            yield f"* {named}" + (f": {meaning[0].lower()}{meaning[1:]}" if meaning else "")


def _thresholds(module: ModuleType) -> Iterator[tuple[list[tuple[str, float]], str]]:
    """Numbers in capitals at the top of a check's file, with the text that stands under them."""
    body = ast.parse(inspect.getsource(module)).body
    for at, node in enumerate(body):
        if not isinstance(node, ast.Assign):
            continue
        target = node.targets[0]
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        names = [part.id for part in parts if isinstance(part, ast.Name) and part.id.isupper() and part.id[0] != "_"]
        values = [(name, getattr(module, name)) for name in names if isinstance(getattr(module, name), int | float)]
        if not values:
            continue
        below = body[at + 1] if at + 1 < len(body) else None
        meaning = ""
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            meaning = _flat(below.value.value)
        yield values, meaning


def _flat(text: str) -> str:
    return " ".join(text.split())
