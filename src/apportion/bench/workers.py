"""Processes that work for one run and end with it."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait


def workers(jobs: int) -> ProcessPoolExecutor:
    """A pool of fresh processes, none of which outlives this one.

    A killed process cannot stop its pool. Workers that went on without it would write into the folders that the next
    run of the same command goes on with.

    Args:
        jobs: processes at a time.
    """
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max_workers=jobs, mp_context=spawn, initializer=_end_with_parent)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None  # this runs in a worker

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="end with parent", daemon=True).start()
