"""`Asker`: who is asked, what it may cost, where answers are kept. One object for `assign`, trainers and commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from apportion.asks import Answer, Ask
from apportion.data import Trajectory
from apportion.errors import ConfigError
from apportion.resources.budget import Budget
from apportion.resources.cache import Cache
from apportion.resources.protocol import Resource
from apportion.resources.runner import Retry, plan_jobs, run
from apportion.resources.summary import Progress, Summary


class Asker:
    """Asks resources on behalf of credit methods.

        with Asker(policy, budget=Budget(tokens=2_000_000), cache="runs.cache") as ask:
            credit = assign("vineppo", units, k=9, ask=ask)

    Args:
        resources: one or several; each kind of ask goes to the first that takes it.
        budget: limits over everything asked through this object; None = none.
        cache: a file, a `Cache`, or None to keep answers in memory.
        seed: of all that is random in the answers; another seed, other samples.
        retry: when to ask again.
        progress: called with a `Progress` as answers arrive.

    Attributes:
        summary: counts over everything asked so far.
    """

    def __init__(
        self,
        *resources: Resource,
        budget: Budget | None = None,
        cache: Cache | str | os.PathLike[str] | None = None,
        seed: int = 0,
        retry: Retry | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        if not resources:
            raise ConfigError("an Asker needs somebody to ask; give it a resource, e.g. an OpenAI-compatible server")
        for resource in resources:
            if not isinstance(resource, Resource):
                raise ConfigError(
                    f"{type(resource).__name__} is no resource; give one of apportion.resources or a BaseResource"
                )
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise ConfigError(f"seed is {seed!r}; give a whole number from 0 on")
        self.resources = resources
        self.budget = budget if budget is not None else Budget()
        self.cache = cache if isinstance(cache, Cache) else Cache(cache)
        self.seed, self.retry, self.progress = seed, retry if retry is not None else Retry(), progress
        self.summary = Summary()

    def __call__(
        self, asks: Sequence[Ask], trajectories: Sequence[Trajectory], *, who: str = "this run"
    ) -> list[Answer]:
        """One `Answer` for each ask, in order; see `apportion.resources.run`."""
        return run(
            asks,
            trajectories,
            self.resources,
            budget=self.budget,
            cache=self.cache,
            seed=self.seed,
            retry=self.retry,
            who=who,
            progress=self.progress,
            summary=self.summary,
        )

    def admit(self, asks: Sequence[Ask], trajectories: Sequence[Trajectory], *, who: str = "this run") -> None:
        """Refuse here what could cost more than the budget allows; reserves nothing.

        Raises:
            BudgetError: it could, and the budget is not a partial one.
        """
        jobs = plan_jobs(asks, trajectories, self.resources, self.seed).values()
        self.budget.admit([job.load for job in jobs if self.cache.get(job.kind, job.key) is None], who)

    def close(self) -> None:
        """Let go of connections, models and the cache file."""
        for resource in self.resources:
            resource.close()
        self.cache.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
