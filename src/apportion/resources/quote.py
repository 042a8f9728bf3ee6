"""What a plan would cost, before anything is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apportion.asks import KINDS, Ask, Attend, Continue, Judge, Logprob, Score, Value
from apportion.data import Trajectory
from apportion.resources.base import BaseResource, limit_of
from apportion.resources.cache import Cache, Speed
from apportion.resources.context import sampled, tokens_of
from apportion.resources.judge import JudgeResource
from apportion.resources.past import context_size, has_ids, rest_of, size_upto
from apportion.resources.protocol import Load, Request, Resource
from apportion.resources.runner import plan_jobs, refuse


@dataclass(frozen=True, slots=True)
class Quote:
    """Price of a plan.

    Attributes:
        asks: questions. requests: samples to be asked; equal ones once, those in the cache not at all.
        most_requests: calls at most, without tries that fail: a judge may have to be reminded. A budget reserves these.
        cached: samples that the cache holds.
        prompt_tokens: of all requests. generated_tokens: at most; this is what a budget reserves.
        expected_tokens: generated tokens if continuations are as long as the rollouts' own rest.
        exact: requests and prompt tokens are what will be counted, where no judge has to be reminded. False: somebody
            else tokenises, or later questions depend on earlier answers.
        seconds: wall time at a measured throughput; None without one.
    """

    asks: int
    requests: int
    most_requests: int
    cached: int
    prompt_tokens: int
    generated_tokens: int
    expected_tokens: int
    exact: bool
    seconds: float | None = None

    def to_dict(self) -> dict[str, object]:
        """JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


class Ruler(BaseResource):
    """Counts what others would answer: tokens of the rollouts as they are, words where there are no ids.

    A judge is mostly shown its instruction, so what it would be asked is written out: four bytes are a token there.

    Args:
        max_tokens: tokens of a continuation at most; None = as many as the longest rest of a rollout in the plan, which
            says nothing about a policy that writes more.
    """

    name = "ruler"
    kinds = frozenset(KINDS.values())
    identity = "ruler"

    def __init__(self, max_tokens: int | None = None) -> None:
        self.max_tokens = max_tokens
        self._judge = JudgeResource(identity=self.identity, decode=_unspelt)

    def content(self, request: Request) -> bytes:
        """Of a verdict what a judge would be shown, so that two units behind one history are asked about once."""
        return self._judge.content(request) if isinstance(request.ask, Judge) else super().content(request)

    def load(self, request: Request) -> Load:
        """Tokens by the kind of ask; exact where the rollout has ids and nobody frames them in other text."""
        ask, rollout = request.ask, request.trajectory
        ids = has_ids(rollout)
        match ask:
            case Continue(at=place, first=first):
                prompt = context_size(rollout, place)
                prompt += 0 if first is None else len(first) if not isinstance(first, str) else tokens_of(first)
                rest = rest_of(rollout, place.step, place.token)
                most = limit_of(ask, self.max_tokens if self.max_tokens is not None else max(rest, 1))
                single = len(rollout.steps) - 1 == place.step
                known = ids and single and not ask.without and not isinstance(first, str)
                return Load(prompt, most, float(min(rest, most)), exact=known)
            case Judge():
                return self._judge.load(request)
            case Logprob(at=place, until=until, target=target, frame=frame):
                prompt = context_size(rollout, place)
                own = (sampled(rollout.steps[place.step]) if until is None else until) - place.token
                prompt += own if target is None else tokens_of(target)
                return Load(prompt, 0, 0.0, exact=ids and frame is None and target is None)
            case Score(upto=place) if place is not None:
                return Load(size_upto(rollout, place.step) + place.token, exact=False)
            case Value(at=place):
                prompt = context_size(rollout, place)
                return Load(prompt, exact=ids)
            case Score() | Attend():
                return Load(size_upto(rollout, len(rollout.steps)), exact=False)
        raise AssertionError(ask)


def quote(
    asks: Sequence[Ask],
    trajectories: Sequence[Trajectory],
    resources: Sequence[Resource],
    *,
    cache: Cache | None = None,
    seed: int = 0,
    speed: Speed | None = None,
    exact: bool = True,
    who: str = "cost",
) -> Quote:
    """Price of asking all this; nothing is asked.

    Args:
        asks, trajectories, resources, seed: as for `run`.
        cache: what it holds costs nothing. Its measured throughput is used where ``speed`` is None.
        speed: measured throughput.
        exact: False says that the plan itself is an upper bound.
        who: asks, for messages.

    Raises:
        ResourceError: a resource cannot be asked this, as `run` says it.
    """
    jobs = list(plan_jobs(asks, trajectories, resources, seed).values())
    missing = [job for job in jobs if cache is None or cache.get(job.kind, job.key) is None]
    refuse(missing, who)
    loads = [job.load for job in missing]
    if speed is None and cache is not None:
        speed = next((s for job in missing if (s := cache.speed(job.resource.identity)) is not None), None)
        speed = speed if speed is not None or not missing else cache.speed()
    expected = sum(load.expected_generated for load in loads)
    return Quote(
        asks=len(asks),
        requests=len(missing),
        most_requests=sum(load.requests for load in loads),
        cached=len(jobs) - len(missing),
        prompt_tokens=sum(load.prompt_tokens for load in loads),
        generated_tokens=sum(load.most_generated for load in loads),
        expected_tokens=round(expected),
        exact=exact and all(load.exact for load in loads),
        seconds=None
        if speed is None
        else _seconds(speed, len(loads), sum(load.prompt_tokens for load in loads), expected),
    )


def _unspelt(ids: list[int]) -> str:
    """Ids that nobody can spell here, as four bytes each: a price sees how many there are, and which differ."""
    return "".join(f"{i % 1000:03} " for i in ids)


def _seconds(speed: Speed, requests: int, prompt: int, expected: float) -> float:
    """By generated tokens where the measurement generated any, else by requests, else by tokens of the prompts."""
    if speed.generated_tokens and expected:
        return expected * speed.seconds / speed.generated_tokens
    if speed.requests or not speed.prompt_tokens:
        return requests * speed.seconds / max(speed.requests, 1)
    return prompt * speed.seconds / speed.prompt_tokens
