"""Medians of CPU time over interleaved rounds."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

try:
    import resource
except ImportError:  # not on Windows, where no case starts processes that are timed this way
    resource = None  # type: ignore[assignment]

Key = TypeVar("Key", bound=Hashable)

LONG_ENOUGH = 0.02
"""Seconds that one timing should take; quicker calls are repeated inside it."""
SLOW = 3.0
"""Seconds from which a call is timed only twice."""


def medians(runs: Mapping[Key, Callable[[], Any]], rounds: int) -> dict[Key, float]:
    """CPU seconds of each call. Every round times all of them, so that a busy machine disturbs all alike."""
    times: dict[Key, list[float]] = {key: [] for key in runs}
    repeats: dict[Key, int] = {}
    for key, run in runs.items():
        seconds = _once(run, 1)  # warm: the caller has compared values with it, or it is as cheap as can be
        repeats[key] = max(1, int(LONG_ENOUGH / max(seconds, 1e-7)))
        if seconds > SLOW:
            times[key].append(seconds)
    for _ in range(rounds):
        gc.collect()
        for key, run in runs.items():
            if repeats[key] == 1 and len(times[key]) >= 2 and times[key][0] > SLOW:
                continue
            times[key].append(_once(run, repeats[key]))
    return {key: statistics.median(t) for key, t in times.items()}


def _once(run: Callable[[], Any], repeats: int) -> float:
    was_on = gc.isenabled()
    gc.disable()  # a collection would be charged to whoever happens to trigger it
    try:
        start = _cpu()
        for _ in range(repeats):
            run()
        return (_cpu() - start) / repeats
    finally:
        if was_on:
            gc.enable()


def _cpu() -> float:
    """CPU seconds of this process and of those that it started and that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN) if resource is not None else None
    return time.process_time() + (children.ru_utime + children.ru_stime if children is not None else 0.0)
