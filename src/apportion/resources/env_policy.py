"""Who plays on in an environment: what a policy is shown, what it answers; adapters for functions and text models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from apportion.errors import ConfigError
from apportion.resources.protocol import Refusal, Trouble
from apportion.resources.sampling import Messages, Prompt, Sampled

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Past:
    """One step that lies behind: what was seen, the action as text, and as ids where there are any."""

    observation: str
    action: str
    ids: Ids | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """What a policy is shown when an action is due.

    Attributes:
        play: which continuation; scenes of one play follow each other.
        past: the steps so far, oldest first. observation: the text now. actions: admissible ones, None = any text.
        begun: beginning of the action that is written already, ids or text; empty as a rule.
        prompt_ids, fresh: the context that the rollout itself had here, where this is a step of it.
        random: for the draws of this play.
    """

    play: int
    past: tuple[Past, ...]
    observation: str
    actions: tuple[str, ...] | None
    random: np.random.Generator
    begun: Ids | str = ()
    prompt_ids: Ids | None = None
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """An action.

    Attributes:
        action: the whole action, as the environment takes it.
        written: what was sampled of it, without what was begun; None = all of it.
        ids, logp: what was sampled, and its log-probabilities in nats.
        prompt_ids, fresh: the context that is new before it, as in `Step`.
        generated: tokens that it cost.
    """

    action: str
    written: str | None = None
    ids: Ids = ()
    logp: tuple[float, ...] | None = None
    prompt_ids: Ids = ()
    fresh: bool = False
    generated: int = 0


@runtime_checkable
class EnvPolicy(Protocol):
    """A policy as `EnvResource` plays it.

    Attributes:
        identity: of the policy and how it samples; part of every cache key.
        most_tokens: tokens of one action at most, 0 where they cost nothing.
        completes: it can finish an action that is begun.
    """

    identity: str
    most_tokens: int
    completes: bool

    def act(self, scenes: Sequence[Scene]) -> list[Act | Trouble | Refusal]:
        """One action for each scene."""

    def text_of(self, ids: Ids, actions: tuple[str, ...] | None) -> str:
        """The action that whole ids stand for.

        Raises:
            Refusal: it cannot be told.
        """


class FunctionPolicy:
    """A plain function as a policy.

    Args:
        function: ``function(observation, actions, rng) -> action``: the text now, the admissible actions (None = any
            text), a NumPy generator for its draws.
        identity: of the function; change it when its answers change.
        history: the function is given all texts, ``(observation, action, …, observation)``, as its first argument.
    """

    most_tokens = 0
    completes = False

    def __init__(self, function: Callable[..., str], *, identity: str, history: bool = False) -> None:
        self.function, self.history = function, history
        self.identity = f"function:{identity}{':history' if history else ''}"

    def act(self, scenes: Sequence[Scene]) -> list[Act | Trouble | Refusal]:
        """One call for each scene."""
        return [Act(self._action(scene)) for scene in scenes]

    def text_of(self, ids: Ids, actions: tuple[str, ...] | None) -> str:
        """A function knows no tokens."""
        raise Refusal("a function knows actions as text, not as token ids; ask with the text of the action")

    def _action(self, scene: Scene) -> str:
        shown: Any = scene.observation
        if self.history:
            shown = (*(text for past in scene.past for text in (past.observation, past.action)), scene.observation)
        action = self.function(shown, scene.actions, scene.random)
        if not isinstance(action, str):
            raise ConfigError(f"the policy function gave a {type(action).__name__}; it returns the text of an action")
        return action


class TextAgent:
    """A policy that samples text (a server, a model) as an agent: it is shown the episode and writes an action.

    Args:
        sampler: `OpenAIServer`, `HFPolicy`, or anything with ``sample`` and ``identity``.
        prompt: the scene as text, or as a chat of (role, text); default `chat`.
        action: the action in what was written; default its first line without blanks around it.
        max_tokens: of one action at most.
        identity: of ``prompt`` and ``action``, where they are yours.
    """

    completes = False

    def __init__(
        self,
        sampler: Any,
        *,
        prompt: Callable[[Scene], str | Messages] | None = None,
        action: Callable[[str], str] | None = None,
        max_tokens: int = 64,
        identity: str = "",
    ) -> None:
        if not callable(getattr(sampler, "sample", None)) or not isinstance(getattr(sampler, "identity", None), str):
            raise ConfigError(f"a {type(sampler).__name__} samples no text; give a policy such as OpenAIServer")
        self.sampler, self.prompt, self.action = sampler, prompt or chat, action or first_line
        self.most_tokens = max_tokens
        self.identity = f"text:{sampler.identity}:{max_tokens}:{identity}"

    def act(self, scenes: Sequence[Scene]) -> list[Act | Trouble | Refusal]:
        """One sample for each scene."""
        outcomes: Sequence[Sampled | Trouble | Refusal] = self.sampler.sample([self._prompt(s) for s in scenes])
        return [self._act(outcome) for outcome in outcomes]

    def text_of(self, ids: Ids, actions: tuple[str, ...] | None) -> str:
        """The sampler's tokens are its own."""
        raise Refusal("an agent that writes text is told actions as text, not as token ids")

    def _prompt(self, scene: Scene) -> Prompt:
        shown = self.prompt(scene)
        text, messages = (shown, None) if isinstance(shown, str) else (None, shown)
        seed = int(scene.random.integers(2**31))
        return Prompt(text=text, messages=messages, max_tokens=self.most_tokens, seed=seed)

    def _act(self, outcome: Sampled | Trouble | Refusal) -> Act | Trouble | Refusal:
        if not isinstance(outcome, Sampled):
            return outcome
        action = self.action(outcome.text)
        return Act(action, ids=outcome.ids or (), logp=outcome.logp, generated=outcome.generated_tokens)


def chat(scene: Scene) -> Messages:
    """Observations as the user's words, actions as the assistant's; the admissible ones are listed at the end."""
    out = [pair for past in scene.past for pair in (("user", past.observation), ("assistant", past.action))]
    listed = "" if scene.actions is None else "\n\nAnswer with one of these actions:\n" + "\n".join(scene.actions)
    return (*out, ("user", scene.observation + listed))


def first_line(text: str) -> str:
    """The first line that is not blank, without blanks around it."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
