"""What most resources share: content by kind of ask, no connection to open, nothing to refuse."""

from __future__ import annotations

from collections.abc import Sequence

from apportion.asks import Continue, Logprob, Score, Value
from apportion.resources.past import digest_all, digest_upto
from apportion.resources.protocol import Load, Refusal, Reply, Request, Trouble


class BaseResource:
    """A resource but for its answers: subclass, set ``kinds`` and ``identity``, write `answer` and `load`."""

    name = "resource"
    kinds: frozenset[str] = frozenset()
    identity = ""
    batch = 1
    workers = 1

    def open(self) -> None:
        """Nothing to reach."""

    def close(self) -> None:
        """Nothing to let go of."""

    def check(self, request: Request) -> str:
        """Everything can be answered."""
        return ""

    def content(self, request: Request) -> bytes:
        """What was before the place of the ask; the whole rollout where the ask shows it."""
        ask, rollout = request.ask, request.trajectory
        match ask:
            case Continue() | Value():
                return digest_upto(rollout, ask.at)
            case Score(upto=place) if place is not None:
                return digest_upto(rollout, place)
            case Logprob(target=str(), frame=frame) if "{outcome}" not in (frame or ""):
                return digest_upto(rollout, ask.at)
        return digest_all(rollout)

    def load(self, request: Request) -> Load:
        """One request, no tokens."""
        return Load()

    def answer(self, requests: Sequence[Request]) -> list[Reply | Trouble | Refusal]:
        """Outcomes in order."""
        raise NotImplementedError(f"{type(self).__name__} answers nothing; write its answer()")


def limit_of(ask: Continue, most: int) -> int:
    """Sampled tokens that a request may take: the ask's own limit, if it is below the resource's."""
    return most if ask.max_tokens is None else min(ask.max_tokens, most)
