"""The answers: what a method's fold reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apportion.asks.requests import Ask


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a continuation, or the rest of the step in which it began.

    Attributes:
        ids, logp: what was sampled, and its log-probabilities in nats where the sampler tells them.
        action: the same as text.
        reward: what followed, reward units; 0.0 where nothing did.
        observation: what the policy read before it; "" in the first move, whose context is the rollout's own.
        prompt_ids: the same as ids, where there are ids.
        state: key of the state it acted in, where the environment tells one.
        terminated, truncated: the task ended here, or a limit ended it.
        fresh: the prompt does not extend the tokens before it.
        noise: the environment drew its noise afresh from this seed on, before the action; None = it went on as before.
        actions: admissible actions, where the environment lists them.
    """

    ids: tuple[int, ...] = ()
    logp: tuple[float, ...] | None = None
    action: str = ""
    reward: float = 0.0
    observation: str = ""
    prompt_ids: tuple[int, ...] = ()
    state: str | None = None
    terminated: bool = False
    truncated: bool = False
    fresh: bool = False
    noise: int | None = None
    actions: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Continuation:
    """How a rollout could have gone on.

    Attributes:
        moves: its steps.
        scored: the rewards of the moves are what the rollout earned. False: nobody could score it, and its return is
            unknown, not zero.
        finished: it came to its end. False: cut by a length limit, and scored as its resource scores such.
    """

    moves: tuple[Move, ...]
    scored: bool = True
    finished: bool = True

    def total(self, gamma: float = 1.0) -> float:
        """Discounted return from where it began: Σ γ^j reward_j over its moves; reward units."""
        return float(sum(gamma**j * move.reward for j, move in enumerate(self.moves)))


@dataclass(frozen=True, slots=True)
class Attended:
    """A reward model's score and the share of its attention that each span of the ask got (not normalised)."""

    score: float
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One opinion.

    Attributes:
        scores: one entry per unit, None = no verdict. labels: the same in the judge's words, where it has words.
        text: what the judge wrote.
        scale: ends of the scale that the template declares; its middle is neutral.
    """

    scores: tuple[float | None, ...]
    labels: tuple[str | None, ...] = ()
    text: str = ""
    scale: tuple[float, float] = (-1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one ask.

    Attributes:
        ask: the question.
        samples: at most as many as were asked for, in order of their number; a `Continuation`, `Verdict`, `Attended`,
            float, or tuple of floats, by the kind of ask. Fewer where some failed; empty: nothing is known.
        failed: samples that could not be had, and why the first of them failed.
        prompt_tokens, generated_tokens: what the samples cost when they were asked.
    """

    ask: Ask
    samples: tuple[Any, ...] = ()
    failed: int = 0
    reason: str = ""
    prompt_tokens: int = 0
    generated_tokens: int = 0

    @property
    def one(self) -> Any:
        """The only sample; None where it failed."""
        return self.samples[0] if self.samples else None
