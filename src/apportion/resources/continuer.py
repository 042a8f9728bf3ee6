"""What every policy that only writes text shares: where it can go on, what it is shown, and what its answer is worth.

Such a policy can finish what it was writing when the environment last spoke. Whatever comes earlier needs the
environment itself (a resource of its own), and is refused with a sentence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from apportion.asks import Continuation, Continue, Move
from apportion.data import Trajectory
from apportion.errors import ConfigError
from apportion.resources.base import BaseResource, limit_of
from apportion.resources.context import context_ids, context_text, path, sampled
from apportion.resources.last_answer import answer_ids, answer_text, branch_of, needs_spelling, spoken_to_after
from apportion.resources.past import digest_upto, has_ids, rest_of
from apportion.resources.protocol import Load, Refusal, Reply, Request, Trouble
from apportion.resources.sampling import Prompt, Sampled, Speller
from apportion.resources.scorers import Score, Scorer, scorer_of

BYTES_PER_TOKEN = 1
"""A tokenizer that nobody knows makes at most one token of each byte: the reservation where only text is given."""


class Continuer(BaseResource):
    """`Continue` by sampling text and scoring it; subclasses write `sample`.

    Args:
        scorer: reward of a finished answer, see `apportion.resources.scorers`; None leaves continuations unscored.
        tokenizer: for rollouts with ids whose text has to be shown, and to count tokens of text exactly.
        temperature, top_p: of sampling; they are the policy's, and part of every cache key.
        max_tokens: sampled tokens of one continuation at most.
        stop, stop_ids: texts and token ids that end an answer, beside the policy's own end of text.
    """

    kinds = frozenset({"continue"})
    speller: Speller | None

    def __init__(
        self,
        *,
        scorer: str | Scorer | Score | None,
        tokenizer: object | None,
        temperature: float,
        top_p: float,
        max_tokens: int,
        stop: Sequence[str],
        stop_ids: Sequence[int],
    ) -> None:
        if not temperature >= 0 or not 0 < top_p <= 1 or max_tokens < 1:
            raise ConfigError(
                f"temperature={temperature}, top_p={top_p}, max_tokens={max_tokens}; give a temperature from 0 on, "
                "a top_p above 0 up to 1, and at least one token"
            )
        self.scorer = None if scorer is None else scorer_of(scorer)
        self.unscored = ""  # why nobody can score a continuation; asks for no reward are answered all the same
        self.speller = None if tokenizer is None else Speller(tokenizer)
        self.temperature, self.top_p, self.max_tokens = float(temperature), float(top_p), int(max_tokens)
        self.stop, self.stop_ids = tuple(stop), tuple(int(x) for x in stop_ids)

    def sampling(self) -> str:
        """How samples are drawn and scored, for identities."""
        told = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
            "stop": self.stop,
            "stop_ids": self.stop_ids,
            "scorer": None if self.scorer is None else self.scorer.name,
        }
        return json.dumps(told, sort_keys=True)

    def sample(self, prompts: Sequence[Prompt]) -> list[Sampled | Trouble | Refusal]:
        """One outcome for each prompt, in order."""
        raise NotImplementedError(f"{type(self).__name__} samples nothing; write its sample()")

    def spell(self, ids: Sequence[int]) -> str | None:
        """Text of ids; None where nobody can tell."""
        return None if self.speller is None else self.speller.text(ids)

    def can_spell(self) -> bool:
        """Whether `spell` tells anything."""
        return self.speller is not None

    def check(self, request: Request) -> str:
        """Why a continuation cannot be had, as a sentence."""
        ask, rollout = request.ask, request.trajectory
        if not isinstance(ask, Continue):
            return ""
        if self.unscored:
            return self.unscored
        step, name = ask.at.step, rollout.id or ask.at.traj
        if spoken_to_after(rollout, step):
            return (
                f"{self.name} writes text and cannot play the environment that spoke after step {step} of rollout "
                f"{name}; give an environment resource, or cut rollouts so that only the last answer is continued"
            )
        last = rollout.steps[step]
        if step == len(rollout.steps) - 1 and ask.first is None and sampled(last) == ask.at.token and last.terminated:
            return f"rollout {name} ends at {ask.at}, so there is nothing to continue there; value it as it is"
        if self._lost(ask, rollout):
            held, given = ("ids", "text") if has_ids(rollout) else ("text", "ids")
            return f"rollout {name} has {held} and the action to try first is {given}; give {self.name} a tokenizer"
        if self.scorer is not None and needs_spelling(ask, rollout) and not self.can_spell():
            return (
                f"the answer of rollout {name} is token ids, and the scorer reads text; give {self.name} the "
                "policy's tokenizer"
            )
        return ""

    def content(self, request: Request) -> bytes:
        """What came before the place, and the metadata where the scorer may read it."""
        if not isinstance(request.ask, Continue):
            return super().content(request)
        before = digest_upto(request.trajectory, request.ask.at)
        if self.scorer is None or not self.scorer.reads_meta:
            return before
        meta = json.dumps(dict(request.trajectory.meta), sort_keys=True, default=repr)
        return hashlib.blake2b(before + meta.encode("utf-8", "surrogatepass"), digest_size=20).digest()

    def load(self, request: Request) -> Load:
        """Tokens of the context, and the limit."""
        ask, rollout = request.ask, request.trajectory
        assert isinstance(ask, Continue)
        if ask.whole:
            return Load()
        if self._lost(ask, rollout):
            return Load(exact=False)  # and `check` says why it cannot be asked
        prompt = self.prompt(request)
        most = prompt.max_tokens
        expected = float(min(most, max(1, rest_of(rollout, ask.at.step, ask.at.token))))
        return Load(self.size(prompt), most, expected, exact=prompt.ids is not None or self.speller is not None)

    def size(self, prompt: Prompt) -> int:
        """Tokens of a prompt; at most, where nobody here can count them."""
        if prompt.ids is not None:
            return len(prompt.ids)
        if self.speller is not None and prompt.text is not None:
            return len(self.speller.prompt_ids(prompt.text))
        texts = [prompt.text or ""] if prompt.messages is None else [text for _, text in prompt.messages]
        count = sum(len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN for text in texts)
        return count + 8 * (1 + len(prompt.messages or ()))

    def prompt(self, request: Request) -> Prompt:
        """What the policy is shown for a `Continue`."""
        ask, rollout = request.ask, request.trajectory
        assert isinstance(ask, Continue)
        limit = limit_of(ask, self.max_tokens)
        if has_ids(rollout):
            ids = context_ids(rollout, ask.at, ask.without) + self._first_ids(ask)
            return Prompt(ids=tuple(ids), max_tokens=limit, seed=request.seed)
        text = context_text(rollout, ask.at, ask.without) + self._first_text(ask)
        return Prompt(text=text, max_tokens=limit, seed=request.seed)

    def answer(self, requests: Sequence[Request]) -> list[Reply | Trouble | Refusal]:
        """Sample what has to be sampled, and score."""
        drawn = [r for r in requests if not _whole(r)]
        outcomes = iter(self.sample([self.prompt(r) for r in drawn]) if drawn else [])
        out: list[Reply | Trouble | Refusal] = []
        for request in requests:
            outcome = Sampled("") if _whole(request) else next(outcomes)
            out.append(self._scored(request, outcome) if isinstance(outcome, Sampled) else outcome)
        return out

    def _scored(self, request: Request, drawn: Sampled) -> Reply:
        ask = request.ask
        assert isinstance(ask, Continue)
        wanted = ask.stop_at_limit and not drawn.finished  # a segment, no end: nothing is due yet
        reward = None if wanted else self._due(request, drawn)
        move = Move(
            ids=drawn.ids or (),
            logp=drawn.logp,
            action=drawn.text,
            reward=0.0 if reward is None else reward,
            terminated=drawn.finished,
            truncated=not drawn.finished and not wanted,
        )
        value = Continuation((move,), scored=wanted or reward is not None, finished=drawn.finished)
        return Reply(value, drawn.prompt_tokens, drawn.generated_tokens, drawn.note)

    def _due(self, request: Request, drawn: Sampled) -> float | None:
        """The scorer's reward of the whole rollout without what its steps before the place had earned already."""
        if self.scorer is None:
            return None
        assert isinstance(request.ask, Continue)
        step, steps = request.ask.at.step, request.trajectory.steps
        whole = self.scorer(branch_of(request.trajectory, step), self._answer(request, drawn))
        earned = sum(steps[s].reward or 0.0 for s in path(request.trajectory, step)[:-1])
        return None if whole is None else whole - earned

    def _answer(self, request: Request, drawn: Sampled) -> str:
        """Everything the policy wrote since the environment last spoke, as text."""
        ask, rollout = request.ask, request.trajectory
        assert isinstance(ask, Continue)
        if not needs_spelling(ask, rollout):
            return answer_text(rollout, ask.at) + self._first_text(ask) + drawn.text
        return (self.spell(answer_ids(rollout, ask.at) + self._first_ids(ask)) or "") + drawn.text

    def _lost(self, ask: Continue, rollout: Trajectory) -> bool:
        """The rollout has ids and the action to try first is text, or the other way round, and nobody can translate."""
        return ask.first is not None and isinstance(ask.first, str) == has_ids(rollout) and self.speller is None

    def _first_ids(self, ask: Continue) -> list[int]:
        if ask.first is None:
            return []
        if not isinstance(ask.first, str):
            return list(ask.first)
        assert self.speller is not None  # check
        return self.speller.ids(ask.first)

    def _first_text(self, ask: Continue) -> str:
        if ask.first is None or isinstance(ask.first, str):
            return ask.first or ""
        assert self.speller is not None  # check
        return self.speller.text(ask.first)


def _whole(request: Request) -> bool:
    return isinstance(request.ask, Continue) and request.ask.whole
