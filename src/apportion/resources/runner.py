"""The runner: the only place where asks turn into spending.

cached answers → what is missing fits the budget → ask, several at a time → retry what may pass → store each answer
as it arrives. Answers depend on content and seed, never on order, concurrency or on how often the run was stopped.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence

from apportion.asks import KINDS, Answer, Ask, samples_of, traj_of
from apportion.data import Trajectory
from apportion.errors import ConfigError, ResourceError
from apportion.resources.budget import Budget
from apportion.resources.cache import Cache, Speed
from apportion.resources.drain import OVER_BUDGET, Drain, Job, Results, Retry
from apportion.resources.keys import Names
from apportion.resources.protocol import Load, Request, Resource
from apportion.resources.summary import Progress, Summary

__all__ = ["OVER_BUDGET", "Retry", "plan_jobs", "resource_for", "run"]


def run(
    asks: Sequence[Ask],
    trajectories: Sequence[Trajectory],
    resources: Sequence[Resource],
    *,
    budget: Budget,
    cache: Cache,
    seed: int = 0,
    retry: Retry | None = None,
    who: str = "this run",
    progress: Callable[[Progress], None] | None = None,
    summary: Summary | None = None,
) -> list[Answer]:
    """Ask everything once and return one `Answer` for each ask, in order.

    Equal requests (same content, same resource, same number) are asked once. A request that fails for good leaves its
    sample out; an ask without samples is unknown.

    Args:
        asks: questions about the trajectories.
        trajectories: the rollouts that the asks count by position.
        resources: who answers; each kind of ask goes to the first that takes it.
        budget, cache: shared by all runs of one crediting.
        seed: of all that is random in the answers.
        retry: when to ask again. who: for messages.
        progress: called with counts as answers arrive. summary: counts are added to it.

    Raises:
        ConfigError: no resource takes a kind of ask.
        ResourceError: a resource is not there, or cannot answer what is asked of it.
        BudgetError: it would cost more than allowed.
    """
    retry, summary = retry or Retry(), summary if summary is not None else Summary()
    keys_of_ask: list[list[str]] = []
    jobs = plan_jobs(asks, trajectories, resources, seed, keys_of_ask)
    state = Results()
    missing: list[Job] = []
    for job in jobs.values():
        found = cache.get(job.kind, job.key)
        if found is None:
            missing.append(job)
        else:
            state.replies[job.key] = found
    summary.add_found(state.replies.values(), cache.damaged)
    refuse(missing, who)
    budget.admit([job.load for job in missing], who)
    _ask_missing(missing, state, budget, cache, retry, seed, summary, progress)
    summary.add_failed(state.failures.values())
    return [_answer(ask, keys, state) for ask, keys in zip(asks, keys_of_ask, strict=True)]


def resource_for(kind: str, resources: Sequence[Resource]) -> Resource:
    """The first resource that takes a kind of ask.

    Raises:
        ConfigError: none does.
    """
    for resource in resources:
        if kind in resource.kinds:
            return resource
    have = "; ".join(f"{r.name} answers {', '.join(sorted(r.kinds))}" for r in resources) or "none was given"
    raise ConfigError(f"nobody answers {kind!r} ({have}); give a resource that does")


def refuse(jobs: Iterable[Job], who: str) -> None:
    """Stop where a resource cannot be asked what is wanted of it, before anything is spent.

    Raises:
        ResourceError: the first sentence.
    """
    for job in {id(job.request.ask): job for job in jobs}.values():
        if sentence := job.resource.check(job.request):
            raise ResourceError(f"{who}: {sentence}")


def plan_jobs(
    asks: Sequence[Ask],
    trajectories: Sequence[Trajectory],
    resources: Sequence[Resource],
    seed: int,
    keys_of_ask: list[list[str]] | None = None,
) -> dict[str, Job]:
    """Every request once, by key in the order of the plan; ``keys_of_ask`` is filled with the keys of each ask."""
    jobs: dict[str, Job] = {}
    identities: dict[int, str] = {}  # a model's may be a digest of its weights
    for ask in asks:
        kind = KINDS[type(ask)]
        resource = resource_for(kind, resources)
        if id(resource) not in identities:
            identities[id(resource)] = resource.identity
        rollout = trajectories[traj_of(ask)]
        content = resource.content(Request(ask, rollout, 0, 0))
        names = Names(ask, content, identities[id(resource)], seed)
        keys: list[str] = []
        load: Load | None = None  # the same for all samples of most asks
        for number in range(samples_of(ask)):
            key = names.key(number)
            keys.append(key)
            if key not in jobs:
                request = Request(ask, rollout, number, names.seed(number))
                load = resource.load(request) if load is None or not load.shared else load
                jobs[key] = Job(key, kind, request, resource, load)
        if keys_of_ask is not None:
            keys_of_ask.append(keys)
    return jobs


def _answer(ask: Ask, keys: list[str], state: Results) -> Answer:
    replies = [state.replies[key] for key in keys if key in state.replies]
    reasons = [state.failures[key] for key in keys if key in state.failures]
    return Answer(
        ask,
        tuple(reply.value for reply in replies),
        failed=len(reasons),
        reason=reasons[0] if reasons else "",
        prompt_tokens=sum(reply.prompt_tokens for reply in replies),
        generated_tokens=sum(reply.generated_tokens for reply in replies),
    )


def _ask_missing(
    jobs: list[Job],
    state: Results,
    budget: Budget,
    cache: Cache,
    retry: Retry,
    seed: int,
    summary: Summary,
    progress: Callable[[Progress], None] | None,
) -> None:
    """Resource by resource, so that each one's throughput is measured on its own."""
    by_resource: dict[int, list[Job]] = {}
    for job in jobs:
        by_resource.setdefault(id(job.resource), []).append(job)
    for group in by_resource.values():
        resource = group[0].resource
        resource.open()
        began, before = time.monotonic(), summary.spent()
        try:
            Drain(group, state, budget, cache, retry, random.Random(seed), summary, progress).run()
        finally:
            requests, prompt, generated = (a - b for a, b in zip(summary.spent(), before, strict=True))
            seconds = time.monotonic() - began
            summary.seconds += seconds
            if requests:
                cache.note_speed(resource.identity, Speed(requests, prompt, generated, seconds))
            cache.save()
            summary.unsaved, summary.unsaved_reason = cache.unsaved, cache.problem
