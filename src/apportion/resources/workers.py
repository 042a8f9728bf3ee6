"""Threads that ask one resource; they die with the program, so that a stalled server cannot keep it alive."""

from __future__ import annotations

import queue
import threading
from types import TracebackType
from typing import Self

from apportion.resources.protocol import Refusal, Reply, Request, Resource, Trouble

Outcome = Reply | Trouble | Refusal


class Workers:
    """At most ``count`` calls of `Resource.answer` at a time.

    Attributes:
        busy: chunks that are out. free: chunks that can be sent now.
        problem: what a resource raised that is neither `Trouble` nor `Refusal`, which is a mistake in it or says that
            nothing will ever work; the first of several.
    """

    def __init__(self, resource: Resource, count: int) -> None:
        self._resource, self._count = resource, max(1, count)
        self._out: queue.SimpleQueue[list[tuple[str, Request]] | None] = queue.SimpleQueue()
        self._in: queue.SimpleQueue[list[tuple[str, Outcome]] | BaseException] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self.busy = 0
        self.problem: BaseException | None = None

    @property
    def free(self) -> int:
        return self._count - self.busy

    def send(self, chunk: list[tuple[str, Request]]) -> None:
        """Give one chunk to a worker; starts another thread where all are at work."""
        self.busy += 1
        if len(self._threads) < self.busy:
            thread = threading.Thread(target=self._work, name="apportion-ask", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._out.put(chunk)

    def receive(self, timeout: float) -> list[tuple[str, Outcome]]:
        """Outcomes that are in, waiting for the first of them; those beside a `problem` are not lost with it."""
        out: list[tuple[str, Outcome]] = []
        try:
            chunk = self._in.get(timeout=timeout)
            while True:
                self.busy -= 1
                if isinstance(chunk, BaseException):
                    self.problem = self.problem or chunk
                else:
                    out += chunk
                chunk = self._in.get_nowait()
        except queue.Empty:
            return out

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
                self._in.put(_ask(self._resource, chunk))
            except BaseException as problem:
                self._in.put(problem)


def _ask(resource: Resource, chunk: list[tuple[str, Request]]) -> list[tuple[str, Outcome]]:
    keys = [key for key, _ in chunk]
    try:
        outcomes = resource.answer([request for _, request in chunk])
    except (Trouble, Refusal) as problem:
        return [(key, problem) for key in keys]
    if len(outcomes) != len(keys):
        raise RuntimeError(f"{resource.name} gave {len(outcomes)} outcomes for {len(keys)} requests")
    return list(zip(keys, outcomes, strict=True))
