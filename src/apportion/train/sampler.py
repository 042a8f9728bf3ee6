"""Sampling actions for many episodes at once. Two ways, one result.

`ChoiceSampler`  prompts of their own and admissible actions: a (prompt, beginning of an action) that was met before,
                 in any episode at any time, is looked up and not run again.
`CachedSampler`  growing contexts or free text: keys and values are cached, only new tokens are run.

A sampler serves one collection: the policy must not change meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from apportion.train.choice import Choices, Ids
from apportion.train.policy import Allowed, Policy, entropy


class Request(NamedTuple):
    """One decision that is due.

    episode: who asks. context: new ids. fresh: they are a whole prompt. choices: admissible actions, None = free
    text. random: draws of this episode, so that an episode does not depend on which others are still alive. begun:
    tokens of the action that stand at the end of the context already.
    """

    episode: int
    context: Ids
    fresh: bool
    choices: Choices | None
    random: np.random.Generator
    begun: int = 0


class Sampled(NamedTuple):
    """Token ids with the log-probability and entropy of each, nats, under the distribution it was drawn from."""

    ids: Ids
    logp: tuple[float, ...]
    entropy: tuple[float, ...]


class Sampler(Protocol):
    """Serves all decisions of one moment."""

    def act(self, requests: Sequence[Request]) -> list[Sampled]:
        """One action per request, in order."""


class Distribution(NamedTuple):
    """What can be drawn, with log-probabilities, cumulative probabilities and entropy."""

    tokens: NDArray[np.int64]
    logp: NDArray[np.float32]
    cumulative: NDArray[np.float64]
    entropy: float

    @classmethod
    def of(cls, log_probs: NDArray[np.float32], allowed: Allowed, spread: float) -> Distribution:
        """From log-probabilities of all V tokens."""
        tokens = np.arange(len(log_probs)) if allowed is None else np.asarray(allowed, dtype=np.int64)
        logp = log_probs[tokens]
        return cls(tokens, logp, np.cumsum(np.exp(logp.astype(np.float64))), spread)

    def draw(self, random: np.random.Generator, greedy: bool) -> tuple[int, float, float]:
        """Token, its log-probability, entropy. Greedy takes the likeliest, for certain."""
        if greedy:
            return int(self.tokens[int(self.logp.argmax())]), 0.0, 0.0
        at = int(np.searchsorted(self.cumulative, random.random() * self.cumulative[-1], side="right"))
        at = min(at, len(self.tokens) - 1)
        return int(self.tokens[at]), float(self.logp[at]), self.entropy


def sampler_for(policy: Policy, *, greedy: bool = False, micro_tokens: int = 8192) -> Sampler:
    """The sampler that fits the policy's prompts and actions."""
    if policy.prompts.window is not None and not policy.free_text:
        return ChoiceSampler(policy, greedy=greedy, micro_tokens=micro_tokens)
    return CachedSampler(policy, greedy=greedy)


class _Draft:
    """An action in the making."""

    def __init__(self, request: Request, policy: Policy) -> None:
        self.request, self._policy = request, policy
        self.ids: Ids = ()
        self.logp: list[float] = []
        self.entropy: list[float] = []
        self.forced()

    @property
    def allowed(self) -> Allowed:
        choices = self.request.choices
        return None if choices is None else choices.allowed(self.ids)

    @property
    def done(self) -> bool:
        if self.request.choices is not None:
            return not self.allowed
        return self.ids[-1:] == (self._policy.prompts.stop_id,) or self._full

    @property
    def _full(self) -> bool:
        return len(self.ids) + self.request.begun >= self._policy.max_action_tokens

    def add(self, token: int, logp: float, spread: float) -> None:
        self.ids = (*self.ids, token)
        self.logp.append(logp)
        self.entropy.append(spread)
        self.forced()

    def forced(self) -> None:
        """Take tokens without alternative: probability 1, nothing to ask the model."""
        while (allowed := self.allowed) is not None and len(allowed) == 1:
            self.ids = (*self.ids, allowed[0])
            self.logp.append(0.0)
            self.entropy.append(0.0)

    def result(self) -> Sampled:
        return Sampled(self.ids, tuple(self.logp), tuple(self.entropy))


class ChoiceSampler:
    """Admissible actions under prompts of their own; distributions are remembered by prompt."""

    def __init__(self, policy: Policy, *, greedy: bool = False, micro_tokens: int = 8192) -> None:
        self.policy, self.greedy, self.micro_tokens = policy, greedy, micro_tokens
        self.run = 0
        self.asked = 0
        self._known: dict[tuple[Ids, Allowed], Distribution] = {}

    def act(self, requests: Sequence[Request]) -> list[Sampled]:
        """One action per request."""
        drafts = [_Draft(request, self.policy) for request in requests]
        while open_ := [draft for draft in drafts if not draft.done]:
            keys = [((*d.request.context, *d.ids), d.allowed) for d in open_]
            self._learn([key for key in dict.fromkeys(keys) if key not in self._known])
            self.asked += len(keys)
            for draft, key in zip(open_, keys, strict=True):
                draft.add(*self._known[key].draw(draft.request.random, self.greedy))
        return [draft.result() for draft in drafts]

    def _learn(self, keys: list[tuple[Ids, Allowed]]) -> None:
        keys.sort(key=lambda key: len(key[0]))
        self.run += len(keys)
        while keys:
            size = len(keys)
            while size > 1 and size * len(keys[size - 1][0]) > self.micro_tokens:
                size = min(size - 1, self.micro_tokens // len(keys[size - 1][0])) or 1
            part, keys = keys[:size], keys[size:]
            allowed = [allowed for _, allowed in part]
            with torch.no_grad():
                log_probs = self.policy.log_probs(self.policy.logits([ids for ids, _ in part]), allowed)
                spread = entropy(log_probs).tolist()
            for key, row, h in zip(part, log_probs.cpu().numpy(), spread, strict=True):
                self._known[key] = Distribution.of(row, key[1], h)


class CachedSampler:
    """Any prompts and actions; keys and values of what was run stay."""

    def __init__(self, policy: Policy, *, greedy: bool = False) -> None:
        self.policy, self.greedy = policy, greedy
        self._rows: list[int] = []
        self._cache: Any = None
        self._mask = torch.zeros(0)
        self._waiting: dict[int, list[int]] = {}

    def act(self, requests: Sequence[Request]) -> list[Sampled]:
        """One action per request. Growing contexts: the same episodes as before, or fewer."""
        rows = [request.episode for request in requests]
        if self._cache is None or requests[0].fresh or self.policy.prompts.window is not None:
            self._restart(rows)
        elif rows != self._rows:
            self._select(rows)
        for request in requests:
            self._waiting[request.episode] += request.context
        drafts = [_Draft(request, self.policy) for request in requests]
        for draft in drafts:
            self._waiting[draft.request.episode] += draft.ids
        while any(not draft.done for draft in drafts):
            if self.policy.prompts.window is not None:  # nobody will come back to finished ones
                self._select([d.request.episode for d in drafts if not d.done])
            at = {episode: b for b, episode in enumerate(self._rows)}
            open_ = [draft for draft in drafts if not draft.done]
            with torch.no_grad():
                chosen = self._forward({d.request.episode for d in open_})
                which = torch.tensor([at[d.request.episode] for d in open_], device=chosen.device)
                log_probs = self.policy.log_probs(chosen[which], [draft.allowed for draft in open_])
                spread = entropy(log_probs).tolist()
            for draft, row, h in zip(open_, log_probs.cpu().numpy(), spread, strict=True):
                before = len(draft.ids)
                draft.add(*Distribution.of(row, draft.allowed, h).draw(draft.request.random, self.greedy))
                self._waiting[draft.request.episode] += draft.ids[before:]
        return [draft.result() for draft in drafts]

    def _restart(self, rows: list[int]) -> None:
        self._rows, self._cache = rows, DynamicCache()
        self._mask = torch.zeros((len(rows), 0), dtype=torch.long, device=self.policy.device)
        self._waiting = {row: [] for row in rows}

    def _select(self, rows: list[int]) -> None:
        if rows == self._rows:
            return
        at = {row: b for b, row in enumerate(self._rows)}
        index = torch.tensor([at[row] for row in rows], device=self.policy.device)
        self._mask = self._mask[index]
        if self._mask.shape[1]:
            self._cache.batch_select_indices(index)
        self._waiting = {row: self._waiting[row] for row in rows}
        self._rows = rows

    def _forward(self, episodes: set[int]) -> Tensor:
        """Run what waits for these episodes; the others get padding that nobody attends to. (B, V)"""
        waiting = [self._waiting[row] if row in episodes else [] for row in self._rows]
        ids, mask, _ = self.policy.pad(waiting)
        self._mask = torch.cat([self._mask, mask], dim=1)
        lengths = self._mask.cumsum(-1)
        self.policy.check_length(int(lengths[:, -1].max()))
        positions = (lengths - 1).clamp(min=0)[:, -ids.shape[1] :]
        logits = self.policy.extend(ids, self._mask, positions, self._cache)
        for row in episodes:
            self._waiting[row] = []
        return logits
