"""The runner: the only place where asks turn into spending.

cached answers → what is missing fits the budget → ask, several at a time → retry what may pass → store each answer
as it arrives. Answers depend on content and seed, never on order, concurrency or on how often the run was stopped.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from apportion.asks import KINDS, Answer, Ask, samples_of, traj_of
from apportion.data import Trajectory
from apportion.errors import ConfigError, ResourceError
from apportion.resources.budget import Budget
from apportion.resources.cache import Cache, Speed
from apportion.resources.codec import decode, encode
from apportion.resources.keys import key_of, seed_of
from apportion.resources.protocol import Load, Refusal, Reply, Request, Resource, Trouble
from apportion.resources.summary import Progress, Summary
from apportion.resources.workers import Workers

OVER_BUDGET = "left out: over the budget"
GRACE_S = 5.0
"""Seconds that a stopped run waits for answers that are under way, so that what was paid for is stored."""


@dataclass(frozen=True, slots=True)
class Retry:
    """When to ask again.

    Attributes:
        attempts: tries of one request, the first included.
        first_wait, longest_wait: seconds before the second try, doubled each time up to the longest, with jitter; a
            wait that the other side asks for is kept instead.
        give_up: requests in a row that fail for good before the run stops asking that resource.
    """

    attempts: int = 6
    first_wait: float = 0.5
    longest_wait: float = 30.0
    give_up: int = 8

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.give_up < 1 or not 0 <= self.first_wait <= self.longest_wait:
            raise ConfigError(f"{self} is no rule for trying again; give attempts and give_up from 1, waits from 0 up")

    def wait(self, tries: int, asked: float, rng: random.Random) -> float:
        """Seconds to wait after so many tries; ``asked``: what the other side wants."""
        if asked > 0:
            return asked * (1 + 0.1 * rng.random())
        return min(self.first_wait * 2.0 ** (tries - 1), self.longest_wait) * (0.5 + rng.random())


@dataclass(slots=True)
class Job:
    """One request, and where its sample belongs."""

    key: str
    kind: str
    request: Request
    resource: Resource
    load: Load
    tries: int = 0


@dataclass(slots=True)
class _Run:
    """What has come in so far."""

    replies: dict[str, Reply] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


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
    state = _Run()
    missing: list[Job] = []
    for job in jobs.values():
        found = cache.get(job.kind, job.key)
        if found is None:
            missing.append(job)
        else:
            state.replies[job.key] = found
    summary.add_found(state.replies.values(), cache.damaged)
    for job in missing:
        if sentence := job.resource.check(job.request):
            raise ResourceError(f"{who}: {sentence}")
    fits = budget.admit([job.load for job in missing], who)
    for job in missing[fits:]:
        state.failures[job.key] = OVER_BUDGET
    _ask_missing(missing[:fits], state, budget, cache, retry, seed, summary, progress)
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


def plan_jobs(
    asks: Sequence[Ask],
    trajectories: Sequence[Trajectory],
    resources: Sequence[Resource],
    seed: int,
    keys_of_ask: list[list[str]] | None = None,
) -> dict[str, Job]:
    """Every request once, by key in the order of the plan; ``keys_of_ask`` is filled with the keys of each ask."""
    jobs: dict[str, Job] = {}
    for ask in asks:
        kind = KINDS[type(ask)]
        resource = resource_for(kind, resources)
        rollout = trajectories[traj_of(ask)]
        content = resource.content(Request(ask, rollout, 0, 0))
        keys: list[str] = []
        for number in range(samples_of(ask)):
            key = key_of(ask, content, resource.identity, number, seed)
            keys.append(key)
            if key not in jobs:
                request = Request(ask, rollout, number, seed_of(ask, content, number, seed))
                jobs[key] = Job(key, kind, request, resource, resource.load(request))
        if keys_of_ask is not None:
            keys_of_ask.append(keys)
    return jobs


def _answer(ask: Ask, keys: list[str], state: _Run) -> Answer:
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
    state: _Run,
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
            _Drain(group, state, budget, cache, retry, random.Random(seed), summary, progress).run()
        finally:
            requests, prompt, generated = (a - b for a, b in zip(summary.spent(), before, strict=True))
            seconds = time.monotonic() - began
            summary.seconds += seconds
            if requests:
                cache.note_speed(resource.identity, Speed(requests, prompt, generated, seconds))
            cache.save()
            summary.unsaved, summary.unsaved_reason = cache.unsaved, cache.problem


class _Drain:
    """Asks one resource until nothing waits, nothing is to be tried again and nobody is at work."""

    def __init__(
        self,
        jobs: list[Job],
        state: _Run,
        budget: Budget,
        cache: Cache,
        retry: Retry,
        rng: random.Random,
        summary: Summary,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.resource = jobs[0].resource
        self.waiting = deque(jobs)
        self.later: list[tuple[float, Job]] = []  # when to ask again
        self.jobs = {job.key: job for job in jobs}
        self.state, self.budget, self.cache, self.retry, self.rng = state, budget, cache, retry, rng
        self.summary, self.progress = summary, progress
        self.done, self.failed_in_a_row, self.last_reason = 0, 0, ""
        self.began = time.monotonic()

    def run(self) -> None:
        with Workers(self.resource, self.resource.workers) as workers:
            try:
                while self.waiting or self.later or workers.busy:
                    self._requeue()
                    if self.failed_in_a_row >= self.retry.give_up:
                        self._give_up()
                    self._send(workers)
                    self._take(workers.receive(timeout=self._pause()))
            except BaseException:
                self._last_answers(workers)
                raise

    def _requeue(self) -> None:
        now = time.monotonic()
        self.waiting.extendleft(job for when, job in reversed(self.later) if when <= now)
        self.later = [entry for entry in self.later if entry[0] > now]

    def _pause(self) -> float:
        """Seconds until something can happen that no worker tells of, half a second at most."""
        until = min((when for when, _ in self.later), default=float("inf")) - time.monotonic()
        return min(max(until, 0.001), 0.5)

    def _send(self, workers: Workers) -> None:
        while self.waiting and workers.free:
            chunk: list[Job] = []
            while self.waiting and len(chunk) < self.resource.batch:
                job = self.waiting.popleft()
                if self.budget.reserve(job.load):
                    job.tries += 1
                    chunk.append(job)
                else:
                    self._fail(job, OVER_BUDGET)
            if chunk:
                workers.send([(job.key, job.request) for job in chunk])

    def _take(self, outcomes: Iterable[tuple[str, Reply | Trouble | Refusal]]) -> None:
        for key, outcome in outcomes:
            self._settle(self.jobs[key], outcome)
        if self.progress is not None:
            failed = sum(key in self.jobs for key in self.state.failures)
            seconds = time.monotonic() - self.began
            self.progress(Progress.of(len(self.jobs), self.done, failed, self.summary, seconds))

    def _settle(self, job: Job, outcome: Reply | Trouble | Refusal) -> None:
        outcome = _usable(job.kind, outcome)
        if isinstance(outcome, Reply):
            self.budget.settle(job.load, outcome.prompt_tokens, outcome.generated_tokens)
            self.state.replies[job.key] = self.cache.put(job.kind, job.key, outcome)
            self.summary.add_asked(outcome)
            self.done, self.failed_in_a_row = self.done + 1, 0
        elif isinstance(outcome, Refusal):
            if not outcome.spent:
                self.budget.settle(job.load, job.load.prompt_tokens, 0)
            self._fail(job, str(outcome))
        else:
            if not outcome.spent:
                self.budget.settle(job.load, 0, 0)
            if job.tries < self.retry.attempts:
                wait = self.retry.wait(job.tries, outcome.wait, self.rng)
                self.later.append((time.monotonic() + wait, job))
                self.summary.retried += 1
            else:
                self._fail(job, str(outcome))
                self.failed_in_a_row, self.last_reason = self.failed_in_a_row + 1, str(outcome)

    def _fail(self, job: Job, reason: str) -> None:
        self.state.failures[job.key] = reason
        self.done += 1

    def _give_up(self) -> None:
        reason = f"not asked: {self.failed_in_a_row} requests in a row had failed ({self.last_reason})"
        for job in (*self.waiting, *(job for _, job in self.later)):
            self._fail(job, reason)
        self.waiting.clear()
        self.later.clear()

    def _last_answers(self, workers: Workers) -> None:
        """Store what comes in within the grace after a stop; it is paid for."""
        until = time.monotonic() + GRACE_S
        while workers.busy and (left := until - time.monotonic()) > 0:
            for key, outcome in workers.receive(timeout=min(left, 0.2)):
                if isinstance(_usable(self.jobs[key].kind, outcome), Reply):
                    self._settle(self.jobs[key], outcome)


def _usable(kind: str, outcome: Reply | Trouble | Refusal) -> Reply | Trouble | Refusal:
    """The outcome, or a refusal where a reply holds no answer of its kind (a NaN, a value of another type)."""
    if isinstance(outcome, Reply):
        try:
            decode(kind, encode(kind, outcome.value))
        except (ValueError, AttributeError, TypeError) as problem:
            return Refusal(f"the answer cannot be used: {problem}")
    return outcome
