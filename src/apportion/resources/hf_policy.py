"""`HFPolicy`: any causal language model of transformers in this process, as a policy."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from apportion.asks import Continue, Logprob, Place, Value
from apportion.data import Trajectory
from apportion.errors import ConfigError
from apportion.resources.context import context_ids, context_text
from apportion.resources.continuer import Continuer
from apportion.resources.forcing import Forced, forced, needs_speller
from apportion.resources.hf_models import Weights, ends_of, loaded, room_of, torch_
from apportion.resources.hf_sampling import Track, draw, forced_logp
from apportion.resources.past import has_ids
from apportion.resources.protocol import Load, Refusal, Reply, Request, Trouble
from apportion.resources.sampling import NEAR, Prompt, Sampled
from apportion.resources.scorers import Score, Scorer


class HFPolicy(Continuer):
    """A policy in this process: `Continue` on exactly the ids of the rollout, `Logprob`, and `Value` with a head.

    Args:
        model: a causal language model of transformers, or the folder or hub name of one (weights as safetensors).
        tokenizer: its tokenizer, or where it lies; None = that of ``model`` if that is a name, else none: then rollouts
            need ids, and are scored only where they have text.
        reference: the reference model, for `Logprob` under it; the same kinds of values.
        value_head: ``value_head(hidden) -> values``: from the last hidden states (N, H) of N contexts to N numbers in
            reward units; a tensor.
        scorer: reward of a finished answer (`apportion.resources.scorers`); None leaves continuations unscored.
        temperature, top_p, max_tokens, stop, stop_ids: of sampling; part of every cache key. The model's own ends of
            text always end an answer.
        batch: samples at a time. device: where a model that is loaded by name goes; None = a GPU if there is one.
        identity: of the model, where its weights are known by a better name than a digest of them.

    The digest is that of the weights at the moment of asking, so answers of a policy in training are not mixed.
    """

    name = "the model"
    workers = 1

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        reference: Any = None,
        value_head: Callable[[Any], Any] | None = None,
        scorer: str | Scorer | Score | None = None,
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int = 1024,
        stop: Sequence[str] = (),
        stop_ids: Sequence[int] = (),
        batch: int = 16,
        device: str | None = None,
        identity: str | None = None,
    ) -> None:
        named = isinstance(model, str) or hasattr(model, "__fspath__")
        super().__init__(
            scorer=scorer,
            tokenizer=model if tokenizer is None and named else tokenizer,
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            stop=stop,
            stop_ids=stop_ids,
        )
        if self.stop and self.speller is None:
            raise ConfigError("stop is text, and the model samples ids; give the tokenizer, or stop_ids")
        if batch < 1:
            raise ConfigError(f"batch is {batch}; give a whole number from 1 on")
        self.model = loaded(model, "AutoModelForCausalLM", device)
        self.reference = None if reference is None else loaded(reference, "AutoModelForCausalLM", device)
        self.value_head, self.batch, self.room = value_head, batch, room_of(self.model)
        self.kinds = frozenset({"continue", "logprob"} | ({"value"} if value_head is not None else set()))
        self._named = identity
        self._weights = [Weights(m) for m in (self.model, self.reference) if m is not None]
        self._lock = threading.Lock()

    @property
    def identity(self) -> str:  # type: ignore[override]
        """The weights as they are now, sampling and scorer."""
        weights = self._named or "+".join(weights.name() for weights in self._weights)
        if self.value_head is not None:
            weights += f"+{Weights(self.value_head).name() if hasattr(self.value_head, 'parameters') else 'head'}"
        return f"hf:{weights}:{json.dumps(sorted(self.ends()))}:{self.sampling()}"

    def ends(self) -> frozenset[int]:
        """Ids that end an answer: the model's own and those that were given."""
        tokenizer = None if self.speller is None else self.speller.tokenizer.eos_token_id
        return frozenset(int(x) for x in (*ends_of(self.model), *self.stop_ids, tokenizer) if x is not None)

    def forget_weights(self) -> None:
        """Say that weights were changed in a way that PyTorch does not count (through ``.data``)."""
        for weights in self._weights:
            weights.forget()

    def check(self, request: Request) -> str:
        """Why this cannot be asked of it."""
        ask, rollout = request.ask, request.trajectory
        if isinstance(ask, Logprob) and ask.model == "reference" and self.reference is None:
            return "log-probabilities under the reference model are asked for; give HFPolicy(reference=…)"
        if self.speller is None and self._needs_tokenizer(ask, rollout):
            return f"rollout {rollout.id or 0} or the question is text; give HFPolicy the tokenizer"
        if isinstance(ask, Logprob) and not self._forced(request).context:
            return "nothing stands before the tokens to be scored, and a model gives no probability to a first token"
        return super().check(request)

    def load(self, request: Request) -> Load:
        """Tokens that are run, and sampled at most."""
        ask, rollout = request.ask, request.trajectory
        if self.speller is None and self._needs_tokenizer(ask, rollout):
            return Load(exact=False)  # and `check` says why it cannot be asked
        if isinstance(ask, Logprob):
            run = self._forced(request)
            return Load(len(run.context) + len(run.target))
        if isinstance(ask, Value):
            return Load(len(self._context(rollout, ask.at)))
        return super().load(request)

    def prompt(self, request: Request) -> Prompt:
        """Ids always."""
        prompt = super().prompt(request)
        if prompt.ids is not None:
            return prompt
        assert self.speller is not None  # check
        ids = tuple(self.speller.prompt_ids(prompt.text or ""))
        return Prompt(ids=ids, max_tokens=prompt.max_tokens, seed=prompt.seed)

    def answer(self, requests: Sequence[Request]) -> list[Reply | Trouble | Refusal]:
        """By kind, each kind in one batch."""
        out: dict[int, Reply | Trouble | Refusal] = {}
        for kind, reply in ((Continue, super().answer), (Logprob, self._logprobs), (Value, self._values)):
            chosen = [k for k, r in enumerate(requests) if isinstance(r.ask, kind)]
            if chosen:
                out |= dict(zip(chosen, reply([requests[k] for k in chosen]), strict=True))
        return [out[k] for k in range(len(requests))]

    def sample(self, prompts: Sequence[Prompt]) -> list[Sampled | Trouble | Refusal]:
        """All prompts in one batch; chats by the tokenizer's template."""
        out: list[Sampled | Trouble | Refusal | None] = []
        tracks: list[Track] = []
        for prompt in prompts:
            ids = self._ids(prompt)
            most = prompt.max_tokens if self.room is None else min(prompt.max_tokens, self.room - len(ids))
            if not ids or most < 1:
                why = f"a context of {len(ids)} tokens leaves no room for an answer ({self.room} in all)"
                out.append(Refusal(why if ids else "there is no context to go on from"))
                continue
            tracks.append(Track(ids, most, np.random.default_rng(prompt.seed)))
            out.append(None)
        with self._lock:
            for k in range(0, len(tracks), self.batch):
                draw(
                    self.model,
                    tracks[k : k + self.batch],
                    temperature=self.temperature,
                    top_p=self.top_p,
                    ends=self.ends(),
                    stopped=self._stopped if self.stop else None,
                )
        drawn = iter(tracks)
        return [self._sampled(next(drawn)) if outcome is None else outcome for outcome in out]

    def _ids(self, prompt: Prompt) -> tuple[int, ...]:
        if prompt.ids is not None:
            return prompt.ids
        if self.speller is None:
            raise ConfigError("the prompt is text, and HFPolicy has no tokenizer; give it one")
        if prompt.messages is None:
            return tuple(self.speller.prompt_ids(prompt.text or ""))
        return tuple(self.speller.chat_ids(prompt.messages))

    def _sampled(self, track: Track) -> Sampled:
        text = ""
        if self.speller is not None:
            ids = track.ids[:-1] if track.finished and track.ids[-1] in self.ends() else track.ids
            text = self.speller.after(track.context, ids)
            for stop in self.stop:
                text = text.partition(stop)[0]
        return Sampled(text, tuple(track.ids), tuple(track.logp), track.finished, len(track.context), len(track.ids))

    def _stopped(self, track: Track) -> bool:
        assert self.speller is not None
        late = track.ids[-max(map(len, self.stop)) - NEAR :]  # no stop is longer than one id for each character
        text = self.speller.text(late)
        return any(stop in text for stop in self.stop)

    def _logprobs(self, requests: Sequence[Request]) -> list[Reply | Trouble | Refusal]:
        runs = [self._forced(r) for r in requests]
        out: list[Reply | Trouble | Refusal] = [Refusal("no tokens to score")] * len(requests)
        for model in ("policy", "reference"):
            chosen = []
            for k, (request, run) in enumerate(zip(requests, runs, strict=True)):
                if request.ask.model != model:  # type: ignore[union-attr]
                    continue
                size = len(run.context) + len(run.target)
                if not run.target:
                    out[k] = Reply(())
                elif self.room is not None and size > self.room:
                    out[k] = Refusal(f"{size} tokens are more than the {self.room} that the model has places for")
                else:
                    chosen.append(k)
            for first in range(0, len(chosen), self.batch):
                part = chosen[first : first + self.batch]
                with self._lock:
                    told = forced_logp(
                        self.model if model == "policy" else self.reference,
                        [(runs[k].context, runs[k].target) for k in part],
                    )
                for k, logp in zip(part, told, strict=True):
                    out[k] = Reply(runs[k].report(logp), len(runs[k].context) + len(runs[k].target))
        return out

    def _values(self, requests: Sequence[Request]) -> list[Reply | Trouble | Refusal]:
        torch = torch_()
        contexts = [self._context(r.trajectory, r.ask.at) for r in requests]  # type: ignore[union-attr]
        out: list[Reply | Trouble | Refusal] = []
        for context in contexts:
            if not context:
                out.append(Refusal("nothing stands before this place, so there is nothing to value it by"))
                continue
            with self._lock, torch.inference_mode():
                ids = torch.tensor([context], device=next(self.model.parameters()).device)
                hidden = self.model(input_ids=ids, output_hidden_states=True).hidden_states[-1][:, -1]
                assert self.value_head is not None
                value = float(torch.as_tensor(self.value_head(hidden)).reshape(-1)[0])
            out.append(Reply(value, len(context)))
        return out

    def _context(self, rollout: Trajectory, place: Place) -> list[int]:
        if has_ids(rollout):
            return context_ids(rollout, place)
        assert self.speller is not None  # check
        return self.speller.prompt_ids(context_text(rollout, place))

    def _forced(self, request: Request) -> Forced:
        assert isinstance(request.ask, Logprob)
        return forced(request.ask, request.trajectory, self.speller)

    def _needs_tokenizer(self, ask: object, rollout: Trajectory) -> bool:
        if isinstance(ask, Logprob):
            return needs_speller(ask, rollout)
        return not has_ids(rollout)
