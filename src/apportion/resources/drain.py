"""Asking one resource: several requests at a time, again what may pass, each answer stored as it arrives."""

from __future__ import annotations

import heapq
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from apportion.errors import ConfigError
from apportion.resources.budget import Budget
from apportion.resources.cache import Cache
from apportion.resources.codec import decode, encode
from apportion.resources.protocol import Load, Refusal, Reply, Request, Resource, Trouble
from apportion.resources.summary import Progress, Summary
from apportion.resources.workers import Workers

OVER_BUDGET = "left out: over the budget"
OTHERWISE = 4
"""Times that one request may be asked again otherwise (`Trouble.again`) without counting them as tries."""
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
    otherwise: int = 0


@dataclass(slots=True)
class Results:
    """What has come in so far."""

    replies: dict[str, Reply] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


class Drain:
    """Asks one resource until nothing waits, nothing is to be tried again and nobody is at work."""

    def __init__(
        self,
        jobs: list[Job],
        state: Results,
        budget: Budget,
        cache: Cache,
        retry: Retry,
        rng: random.Random,
        summary: Summary,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.resource = jobs[0].resource
        self.waiting = deque(jobs)
        self.later: list[tuple[float, int, Job]] = []  # a heap: when to ask again, and in which order
        self.jobs = {job.key: job for job in jobs}
        self.state, self.budget, self.cache, self.retry, self.rng = state, budget, cache, retry, rng
        self.summary, self.progress = summary, progress
        self.done, self.failed, self.failed_in_a_row, self.last_reason = 0, 0, 0, ""
        self.troubles = 0  # tries that failed since the last that did not
        self.silent_until = 0.0  # when the other side wants to be asked again
        self.began = time.monotonic()

    def run(self) -> None:
        """Ask.

        Raises:
            BaseException: a stop, or what a resource raised that is neither `Trouble` nor `Refusal`.
        """
        with Workers(self.resource, self.resource.workers) as workers:
            try:
                while self.waiting or self.later or workers.busy or workers.inbox or workers.problem is not None:
                    self._requeue()
                    if self.failed_in_a_row >= self.retry.give_up:
                        self._give_up()
                    self._send(workers)
                    if pause := self._pause(workers):
                        workers.wait(pause)
                    self._take(workers)
                    if workers.problem is not None:
                        raise workers.problem
            except BaseException:
                self._last_answers(workers)
                raise

    def _requeue(self) -> None:
        """What is due to be tried again goes before what was not tried yet."""
        now, due = time.monotonic(), []
        while self.later and self.later[0][0] <= now:
            due.append(heapq.heappop(self.later)[2])
        self.waiting.extendleft(reversed(due))

    def _pause(self, workers: Workers) -> float:
        """Seconds until something can happen that no worker tells of, half a second at most."""
        if workers.inbox or not (self.waiting or self.later or workers.busy):
            return 0.0
        until = self.later[0][0] if self.later else float("inf")
        if self.waiting and self.silent_until:
            until = min(until, self.silent_until)
        return min(max(until - time.monotonic(), 0.001), 0.5)

    def _send(self, workers: Workers) -> None:
        if time.monotonic() < self.silent_until:
            return
        # free is read before the inbox: what freed a worker is then seen, and is settled before anything is sent
        while self.waiting and workers.free and not workers.inbox and not self._struggling(workers):
            chunk: list[Job] = []
            while self.waiting and len(chunk) < self.resource.batch and self.budget.reserve(self.waiting[0].load):
                job = self.waiting.popleft()
                job.tries += 1
                chunk.append(job)
            if chunk:
                workers.send([(job.key, job.request) for job in chunk])
            elif workers.busy:
                return  # what is out may cost less than was set aside for it
            else:
                self._leave_out()

    def _struggling(self, workers: Workers) -> bool:
        """As many tries as go out at a time failed in a row: those are tried again before anything new is."""
        beyond = self.troubles >= max(self.resource.workers, 1) * max(self.resource.batch, 1)
        return beyond and self.waiting[0].tries == 0 and bool(self.later or workers.busy)

    def _take(self, workers: Workers) -> None:
        news = bool(workers.inbox)
        while workers.inbox:
            key, outcome = workers.inbox[0]
            self._settle(self.jobs[key], outcome)
            workers.inbox.popleft()  # only now: a stop in between must not lose it
        if self.progress is not None and (news or not self.waiting):
            seconds = time.monotonic() - self.began
            self.progress(Progress.of(len(self.jobs), self.done, self.failed, self.summary, seconds))

    def _settle(self, job: Job, outcome: Reply | Trouble | Refusal) -> None:
        outcome = _usable(job.kind, outcome)
        if isinstance(outcome, Reply):
            self.state.replies[job.key] = self.cache.put(job.kind, job.key, outcome)
            self.budget.settle(job.load, outcome.prompt_tokens, outcome.generated_tokens, outcome.requests)
            self.summary.add_asked(outcome)
            self.done, self.failed_in_a_row, self.troubles = self.done + 1, 0, 0
        elif isinstance(outcome, Refusal):
            self._give_back(job, outcome, job.load.prompt_tokens)
            self.troubles = 0
            self._fail(job, str(outcome))
        else:
            self._give_back(job, outcome, 0)
            if outcome.again and job.otherwise < OTHERWISE:
                job.tries, job.otherwise = job.tries - 1, job.otherwise + 1
                self.waiting.appendleft(job)
                return
            self.troubles += 1
            if outcome.wait > 0:
                self.silent_until = max(self.silent_until, time.monotonic() + outcome.wait)
            if job.tries < self.retry.attempts:
                wait = self.retry.wait(job.tries, outcome.wait, self.rng)
                self.summary.retried += 1
                heapq.heappush(self.later, (time.monotonic() + wait, self.summary.retried, job))
            else:
                self._fail(job, str(outcome))
                self.failed_in_a_row, self.last_reason = self.failed_in_a_row + 1, str(outcome)

    def _give_back(self, job: Job, outcome: Trouble | Refusal, prompt_tokens: int) -> None:
        """What a failed try did not spend; of one that may have been worked on only the calls that were not made."""
        load = job.load
        kept = (load.prompt_tokens, load.most_generated) if outcome.spent else (prompt_tokens, 0)
        self.budget.settle(load, *kept, outcome.requests)

    def _fail(self, job: Job, reason: str) -> None:
        self.state.failures[job.key] = reason
        self.done, self.failed = self.done + 1, self.failed + 1

    def _leave_out(self) -> None:
        """Nothing is out, so what is spent is known, and the next request does not fit."""
        for job in self.waiting:
            self._fail(job, OVER_BUDGET)
        self.waiting.clear()

    def _give_up(self) -> None:
        reason = f"not asked: {self.failed_in_a_row} requests in a row had failed ({self.last_reason})"
        for job in (*self.waiting, *(job for _, _, job in self.later)):
            self._fail(job, reason)
        self.waiting.clear()
        self.later.clear()

    def _last_answers(self, workers: Workers) -> None:
        """Store what is in, and what comes in within the grace after a stop; it is paid for."""
        until = time.monotonic() + GRACE_S
        while True:
            while workers.inbox:
                key, outcome = workers.inbox.popleft()
                if isinstance(_usable(self.jobs[key].kind, outcome), Reply):
                    self._settle(self.jobs[key], outcome)
            left = until - time.monotonic()
            if left <= 0 or not (workers.busy or workers.inbox):
                return
            workers.wait(min(left, 0.2))


def _usable(kind: str, outcome: Reply | Trouble | Refusal) -> Reply | Trouble | Refusal:
    """The outcome, or a refusal where a reply holds no answer of its kind (a NaN, a value of another type)."""
    if isinstance(outcome, Reply):
        try:
            decode(kind, encode(kind, outcome.value))
        except (ValueError, AttributeError, TypeError) as problem:
            return Refusal(f"the answer cannot be used: {problem}")
    return outcome
