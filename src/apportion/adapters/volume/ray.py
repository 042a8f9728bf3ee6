"""The engine on a Ray cluster: every file is one task, and a task whose worker dies is done again by another.

The folders must be seen by every worker under the same path, as on one machine or on a shared disk. Nothing but names,
sizes and counts goes through Ray: each worker reads its file, and writes beside its name and renames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apportion.adapters.volume.engines import Job
from apportion.errors import ApportionError, ResourceError, missing_extra

AGAIN = 5
"""How often a task is done again when its worker dies."""
WAITING = 4
"""Tasks handed to Ray for each of its CPUs."""


class RayEngine:
    """Uses the cluster that this process is connected to, or connects (``RAY_ADDRESS``), or starts one here."""

    def __init__(self) -> None:
        try:
            import ray
        except ImportError:
            raise missing_extra("--engine ray", "ray", "ray") from None
        self._ray: Any = ray

    def run(self, jobs: Mapping[str, Job]) -> Iterator[tuple[str, Any]]:
        """Results by name, as they are finished.

        Raises:
            ApportionError: what a task said. ResourceError: workers died again and again, or Ray is gone.
        """
        ray, started = self._ray, False
        if not ray.is_initialized():
            ray.init(log_to_driver=False, include_dashboard=False, logging_level="ERROR")
            started = True
        try:
            yield from self._results(jobs)
        finally:
            if started:
                ray.shutdown()

    def _results(self, jobs: Mapping[str, Job]) -> Iterator[tuple[str, Any]]:
        ray = self._ray
        task = ray.remote(_done).options(num_cpus=1, max_retries=AGAIN)
        waiting: dict[Any, str] = {}
        rest = iter(jobs.items())
        room = WAITING * max(int(ray.cluster_resources().get("CPU", 1)), 1)
        while True:
            while len(waiting) < room and (job := next(rest, None)) is not None:
                waiting[task.remote(*job[1])] = job[0]
            if not waiting:
                return
            ready, _ = ray.wait(list(waiting), num_returns=1)
            name = waiting.pop(ready[0])
            try:
                result, problem = ray.get(ready[0])
            except ray.exceptions.RayError as error:
                raise ResourceError(
                    f"{name}: Ray could not finish it, also after {AGAIN} more tries ({_first_line(error)}); "
                    "what is done is kept, run the same command again"
                ) from None
            if problem is not None:
                raise problem
            yield name, result


def _done(function: Any, arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    """What a worker does; what is wrong travels as a value, so that Ray adds nothing to it and tries no more."""
    try:
        return function(*arguments), None
    except (ApportionError, OSError) as error:
        return None, error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")
