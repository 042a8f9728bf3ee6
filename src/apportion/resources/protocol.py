"""What can be asked: the protocol of a resource, one request to it, its reply, and the two ways to fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from apportion.asks import Ask
from apportion.data import Trajectory
from apportion.errors import ApportionError


@dataclass(frozen=True, slots=True)
class Request:
    """One sample of one ask.

    Attributes:
        ask: the question. trajectory: the rollout that it is about.
        number: which of the ask's samples this is, from 0.
        seed: for everything random in the answer; follows from the content, the number and the run's seed, so it does
            not depend on the order of asking.
    """

    ask: Ask
    trajectory: Trajectory
    number: int
    seed: int


@dataclass(frozen=True, slots=True)
class Load:
    """What one request costs: prompt tokens, and generated tokens at most (the reservation) and expected.

    Attributes:
        exact: the prompt tokens are what will be counted, not an estimate.
        requests: calls of the other side at most (two where a judge may have to be reminded); the tokens of all but the
            first are part of ``most_generated``.
        shared: the same for every sample of its ask.
    """

    prompt_tokens: int = 0
    most_generated: int = 0
    expected_generated: float = 0.0
    exact: bool = True
    requests: int = 1
    shared: bool = True


@dataclass(frozen=True, slots=True)
class Reply:
    """One sample with what it cost; how many calls it took, and what was odd about it, for the summary (not stored)."""

    value: Any
    prompt_tokens: int = 0
    generated_tokens: int = 0
    note: str = ""
    requests: int = 1


class Trouble(ApportionError):
    """This request failed and may succeed when asked again (429, 5xx, a broken connection, a time-out).

    Args:
        reason: for the summary.
        wait: seconds that the other side asked us to wait.
        spent: the other side may have worked on it all the same (a time-out), so its reservation stays spent.
        again: it is asked otherwise from now on, so it is asked again at once, and this was none of its tries.

    Attributes:
        requests: calls that were made.
    """

    requests = 1

    def __init__(self, reason: str, *, wait: float = 0.0, spent: bool = False, again: bool = False) -> None:
        super().__init__(reason)
        self.wait, self.spent, self.again = wait, spent, again


class Refusal(ApportionError):
    """This request cannot be answered, however often it is asked; others may be.

    Args:
        reason: for the summary.
        spent: the other side worked on it all the same, so its reservation stays spent.

    Attributes:
        requests: calls that were made.
    """

    requests = 1

    def __init__(self, reason: str, *, spent: bool = False) -> None:
        super().__init__(reason)
        self.spent = spent


@runtime_checkable
class Resource(Protocol):
    """Something that answers asks.

    Attributes:
        name: for people.
        kinds: kinds of asks it answers, names of `apportion.asks.KINDS`.
        identity: everything that its answers depend on beside the request (model, sampling parameters, scorer, version
            of a prompt). Part of every cache key; holds no secret.
        batch: requests that one call of `answer` takes at most. workers: calls at a time.
    """

    name: str
    kinds: frozenset[str]
    identity: str
    batch: int
    workers: int

    def open(self) -> None:
        """Make sure that it is there, before anything is asked.

        Raises:
            ResourceError: it is not; where, why, what to do.
        """

    def check(self, request: Request) -> str:
        """Why this request cannot be answered by it, as a sentence; "" when it can."""

    def content(self, request: Request) -> bytes:
        """What of the rollout an answer depends on; equal content may share one answer."""

    def load(self, request: Request) -> Load:
        """What the request costs."""

    def answer(self, requests: Sequence[Request]) -> list[Reply | Trouble | Refusal]:
        """One outcome for each request, in order. Raising `Trouble` or `Refusal` says it of all of them."""

    def close(self) -> None:
        """Let go of connections and memory."""
