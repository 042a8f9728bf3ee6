"""What a method says it costs, held against what somebody who is asked counts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from apportion.asks import Attend, Attended, Logprob
from apportion.assign import assign, cost
from apportion.resources import Request
from apportion.resources.context import sampled
from apportion.units import Units
from tests.asking import asker


def by_content(request: Request) -> Any:
    """An answer of the right form that follows from the seed of the request, which follows from its content."""
    ask = request.ask
    rng = np.random.default_rng(request.seed)
    if isinstance(ask, Logprob):
        step = request.trajectory.steps[ask.at.step]
        end = sampled(step) if ask.until is None else ask.until
        size = len(ask.target.split()) if ask.target is not None else end - ask.at.token
        return tuple((-rng.exponential(size=size)).tolist())
    if isinstance(ask, Attend):
        return Attended(float(rng.normal()), tuple(rng.exponential(size=len(ask.spans)).tolist()))
    return float(rng.normal())


def assert_the_price_is_counted(
    method: str, units: Units, answer: Callable[[Request], Any] = by_content, **params: Any
) -> int:
    """`cost` tells the requests that a counting resource gets; asked again, none. Returns their number."""
    ask = asker(answer)
    quoted = cost(method, units, ask=ask, **params)
    assert cost(method, units, **params).requests == quoted.requests, "without a resource another number is told"
    credit = assign(method, units, ask=ask, **params)
    assert ask.resources[0].calls == quoted.requests, f"{quoted.requests} requests told, {ask.resources[0].calls} came"
    assert credit.notes["asks"] == quoted.asks
    assert cost(method, units, ask=ask, **params).requests == 0, "all of it is in the cache now"
    again = assign(method, units, ask=ask, **params)
    assert ask.resources[0].calls == quoted.requests, "asked twice"
    assert np.array_equal(again.advantage_S, credit.advantage_S)
    return quoted.requests


def number_of(*parts: object) -> float:
    """A normal number that follows from its arguments alone."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return float(np.random.default_rng(int.from_bytes(digest, "big")).normal())
