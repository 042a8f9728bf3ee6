"""All cells of a comparison, one JSON file each: a run that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from apportion.assign import check_expression
from apportion.bench.compare.cells import CONTROLS, Plan, measure_cell
from apportion.bench.tasks import task, task_names
from apportion.bench.workers import workers
from apportion.data.atomic import atomic_write
from apportion.errors import ConfigError
from apportion.methods import names

MOST_JOBS = 2
SCHEMA = 1


def every_method() -> list[str]:
    """The controls and every registered method, in the order of the registry."""
    return [*CONTROLS, *names("method")]


def every_task() -> list[str]:
    """Every task and its noisy variant."""
    return list(task_names(noisy=True))


def compare(
    methods: Sequence[str],
    tasks: Sequence[str],
    plan: Plan,
    *,
    out: Path,
    jobs: int = 1,
    told: Callable[[int, int, str], object] = lambda done, total, what: None,
) -> dict[str, Any]:
    """Measure every method on every task, and write ``out/bench.json``.

    Args:
        methods: names, expressions, or controls ("exact advantage", "immediate reward", "random").
        tasks: names of enumerable tasks.
        out: folder; cells that are there already, of the same plan and version, are not measured again.
        jobs: processes, 1 or 2.
        told: called with cells done, of how many, and what is going on.

    Returns:
        The document of ``bench.json``: "plan", "version", "cells" (with metrics and costs as [value, low, high], null
        where a number does not exist, or with the reason why the method cannot run) in the order asked for.

    Raises:
        ConfigError: an unknown task, method or parameter; before anything is measured.
    """
    if not 1 <= jobs <= MOST_JOBS:
        raise ConfigError(f"bench: jobs is {jobs}; give 1 or {MOST_JOBS}")
    for name in tasks:
        task(name)
    for method in methods:
        if method not in CONTROLS:
            check_expression(method) if method not in names("method") else None
    total, done = len(methods) * len(tasks), 0
    if jobs == 1:
        for name in tasks:
            for _ in _task_cells(name, methods, plan, out):
                done += 1
                told(done, total, f"{name}: {methods[(done - 1) % len(methods)]}")
    else:
        with workers(jobs) as pool:
            for future in as_completed([pool.submit(_measure_task, name, methods, plan, out) for name in tasks]):
                done += len(methods)
                told(done, total, future.result())
    cells = [_read(_file(out, name, method, plan)) for name in tasks for method in methods]
    document = {"schema": SCHEMA, "version": _version(), "plan": asdict(plan), "cells": cells}
    _write(out / "bench.json", document)
    return document


def _measure_task(name: str, methods: Sequence[str], plan: Plan, out: Path) -> str:
    for _ in _task_cells(name, methods, plan, out):
        pass
    return name


def _task_cells(name: str, methods: Sequence[str], plan: Plan, out: Path) -> Any:
    world = plan.world(name)
    for method in methods:
        path = _file(out, name, method, plan)
        if _read(path) is None:
            _write(path, {"version": _version(), **measure_cell(world, method, plan)})
        yield path


def _file(out: Path, name: str, method: str, plan: Plan) -> Path:
    """Where a cell lies: a name for people, and a digest of everything that it depends on."""
    key = json.dumps([SCHEMA, _version(), name, method, asdict(plan)])
    digest = hashlib.blake2b(key.encode(), digest_size=6).hexdigest()
    return out / "cells" / name / f"{re.sub(r'[^a-z0-9_]+', '-', method.lower())[:40]}.{digest}.json"


def _read(path: Path) -> Any:
    """The cell; None where there is none, or only the half of one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def _write(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(json.dumps(_plain(document), allow_nan=False, indent=1).encode() + b"\n")


def _plain(value: Any) -> Any:
    """JSON's own types; what is no number becomes null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def _version() -> str:
    from apportion import __version__

    return __version__
