"""Threads that ask one resource; they die with the program, so that a stalled server cannot keep it alive."""

from __future__ import annotations

import queue
import threading
from collections import deque
from types import TracebackType
from typing import Self

from apportion.resources.protocol import Refusal, Reply, Request, Resource, Trouble

Outcome = Reply | Trouble | Refusal


class Workers:
    """At most ``count`` calls of `Resource.answer` at a time.

    Attributes:
        inbox: outcomes by key, put in by the threads. Whoever reads looks at the first, stores it and only then takes
            it out: a value that a call has returned and no name holds yet is lost when Ctrl-C comes in between.
        problem: what a resource raised that is neither `Trouble` nor `Refusal`, which is a mistake in it or says that
            nothing will ever work; the first of several.
    """

    def __init__(self, resource: Resource, count: int) -> None:
        self._resource, self._count = resource, max(1, count)
        self._out: queue.SimpleQueue[list[tuple[str, Request]] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._sent, self._ended = 0, 0
        self._ending, self._news = threading.Lock(), threading.Event()
        self.inbox: deque[tuple[str, Outcome]] = deque()
        self.problem: BaseException | None = None

    @property
    def busy(self) -> int:
        """Chunks that are out; the outcomes of all others are in `inbox` or were taken out of it."""
        return self._sent - self._ended

    @property
    def free(self) -> int:
        """Chunks that can be sent now."""
        return self._count - self.busy

    def send(self, chunk: list[tuple[str, Request]]) -> None:
        """Give one chunk to a worker; starts another thread where all are at work."""
        if len(self._threads) <= self.busy:
            thread = threading.Thread(target=self._work, name="apportion-ask", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._sent += 1
        self._out.put(chunk)

    def wait(self, timeout: float) -> None:
        """Until something has come in since the last call, or so many seconds."""
        self._news.wait(timeout)
        self._news.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _ in self._threads:
            self._out.put(None)

    def _work(self) -> None:
        while (chunk := self._out.get()) is not None:
            try:
                self.inbox.extend(_ask(self._resource, chunk))
            except BaseException as problem:
                self.problem = self.problem or problem
            with self._ending:
                self._ended += 1
            self._news.set()


def _ask(resource: Resource, chunk: list[tuple[str, Request]]) -> list[tuple[str, Outcome]]:
    keys = [key for key, _ in chunk]
    try:
        outcomes = resource.answer([request for _, request in chunk])
    except (Trouble, Refusal) as problem:
        return [(key, problem) for key in keys]
    if len(outcomes) != len(keys):
        raise RuntimeError(f"{resource.name} gave {len(outcomes)} outcomes for {len(keys)} requests")
    return list(zip(keys, outcomes, strict=True))
