"""`OpenAIServer`: any server that speaks OpenAI's protocol, as a policy; token ids in and out where the server can.

Rollouts with ids are continued from exactly these ids (``prompt`` as a list), so nothing is tokenised again. vLLM,
SGLang and llama.cpp's server are recognised by their list of models; any other is spoken to in plain OpenAI.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from apportion.asks import Logprob
from apportion.data import Trajectory
from apportion.errors import ConfigError
from apportion.resources.continuer import Continuer
from apportion.resources.dialects import DIALECTS, forced_of
from apportion.resources.forcing import forced, needs_speller
from apportion.resources.http import Http
from apportion.resources.openai_body import completion_of, forcing_of
from apportion.resources.openai_chat import messages_of, plain_before
from apportion.resources.openai_models import Server, met
from apportion.resources.openai_reply import first_choice, sampled_of
from apportion.resources.past import has_ids
from apportion.resources.protocol import Load, Refusal, Reply, Request, Trouble
from apportion.resources.sampling import Prompt, Sampled
from apportion.resources.scorers import Score, Scorer


class OpenAIServer(Continuer):
    """A policy behind an OpenAI-compatible server: `Continue`, and `Logprob` where the server can (vLLM).

    Args:
        url: address up to ``/v1``.
        model: name of the policy there; None = the only one that the server lists (it must be up, then, to be named).
        reference: name of the reference model there, for `Logprob` under it.
        scorer: reward of a finished answer (`apportion.resources.scorers`); None leaves continuations unscored.
        tokenizer: the policy's, for rollouts with ids without text and for exact counts of text. Not needed for ids
            with vLLM and llama.cpp, which spell ids themselves.
        chat: ask ``/chat/completions``: for rollouts of text whose contexts are chats.
        temperature, top_p, max_tokens, stop, stop_ids: of sampling; part of every cache key.
        key_env: environment variable with the key. timeout: seconds for one answer. workers: requests at a time.
        dialect: "auto", or a name of `DIALECTS`.
        option: what the user gave the address as, for messages.
    """

    name = "the server"
    batch = 1

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        reference: str | None = None,
        scorer: str | Scorer | Score | None = None,
        tokenizer: object | None = None,
        chat: bool = False,
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int = 1024,
        stop: Sequence[str] = (),
        stop_ids: Sequence[int] = (),
        key_env: str | None = "OPENAI_API_KEY",
        timeout: float = 600.0,
        workers: int = 16,
        dialect: str = "auto",
        option: str = "the address",
    ) -> None:
        super().__init__(
            scorer=scorer,
            tokenizer=tokenizer,
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            stop=stop,
            stop_ids=stop_ids,
        )
        if dialect != "auto" and dialect not in DIALECTS:
            raise ConfigError(f"no dialect is named {dialect!r}; there are auto, {', '.join(DIALECTS)}")
        how: dict[str, Any] = {"option": option, "key_env": key_env, "timeout": timeout, "connections": workers}
        self.http, self.root = Http(url, **how), Http(re.sub(r"/v1/?$", "", url), **how)
        self.kinds = frozenset({"continue", "logprob"})
        self.workers, self.chat, self.reference = workers, chat, reference
        self._model, self._dialect = model, dialect
        self._server: Server | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"OpenAIServer({self.http.url!r}, model={self._model!r})"

    @property
    def model(self) -> str:
        """Name of the policy.

        Raises:
            ResourceError: none was given, and the server is not there to tell.
        """
        return self._model if self._model is not None else self.server().model

    @property
    def identity(self) -> str:  # type: ignore[override]
        """Model, sampling and scorer. Not the address: the same model may be served somewhere else tomorrow."""
        told = {"model": self.model, "reference": self.reference, "chat": self.chat, "dialect": self._dialect}
        return f"openai:{json.dumps(told, sort_keys=True)}:{self.sampling()}"

    def open(self) -> None:
        """See that the server is there and has the model."""
        self.server()

    def close(self) -> None:
        """Close the connections."""
        self.http.close()
        self.root.close()

    def server(self) -> Server:
        """What the server says about itself, asked once.

        Raises:
            ResourceError: it is not there, or has not the model.
        """
        with self._lock:
            if self._server is None:
                self._server = met(self.http.url, self.http.reach("/models"), self._model, self._dialect)
            return self._server

    def check(self, request: Request) -> str:
        """Why this cannot be asked of it."""
        ask, rollout = request.ask, request.trajectory
        if isinstance(ask, Logprob):
            return self._cannot_force(ask, rollout)
        if self.chat and has_ids(rollout):
            return "a rollout with ids is continued from its ids, and a chat takes messages; leave the chat option out"
        if self.chat and self.prompt(request).messages[-1][0] == "assistant":  # type: ignore[index]
            dialect = self.server().dialect
            if dialect.prefill is None:
                return (
                    f"the server (dialect {dialect.name}) cannot go on inside a message of the assistant; cut rollouts "
                    "by turn, or ask without the chat option"
                )
        if self.stop_ids and not self.server().dialect.stop_ids:
            return f"the server (dialect {self.server().dialect.name}) takes no stop ids; give stop as text"
        return super().check(request)

    def load(self, request: Request) -> Load:
        """Tokens of the context and the limit; of a `Logprob` the tokens that are run."""
        if isinstance(request.ask, Logprob):
            if self.speller is None and needs_speller(request.ask, request.trajectory):
                return Load(exact=False)  # and `check` says why it cannot be asked
            run = forced(request.ask, request.trajectory, self.speller)
            return Load(len(run.context) + len(run.target), 1, 1.0)
        return super().load(request)

    def prompt(self, request: Request) -> Prompt:
        """Ids or text; messages for a chat."""
        prompt = super().prompt(request)
        if not self.chat or prompt.text is None:
            return prompt
        told = messages_of(request.trajectory, request.ask.at.step)  # type: ignore[union-attr]
        begun = prompt.text[len(plain_before(request.trajectory, request.ask.at.step)) :]  # type: ignore[union-attr]
        told += (("assistant", begun),) if begun else ()
        return replace(prompt, text=None, messages=told)

    def answer(self, requests: Sequence[Request]) -> list[Reply | Trouble | Refusal]:
        """One request after the other; the workers are what runs side by side."""
        if any(isinstance(r.ask, Logprob) for r in requests):
            return [_outcome(self._logprob, request) for request in requests]
        return super().answer(requests)

    def sample(self, prompts: Sequence[Prompt]) -> list[Sampled | Trouble | Refusal]:
        """One completion for each prompt."""
        return [_outcome(self._complete, prompt) for prompt in prompts]

    def can_spell(self) -> bool:
        """With a tokenizer, or where the server turns ids into text."""
        return self.speller is not None or bool(self.server().dialect.detokenize)

    def spell(self, ids: Sequence[int]) -> str | None:
        """Text of ids, by the tokenizer or else the server."""
        if self.speller is not None:
            return self.speller.text(ids)
        field = self.server().dialect.detokenize
        if not ids or not field:
            return "" if not ids else None
        told = self.root.post("/detokenize", {"model": self.model, "tokens": list(ids)}).get(field)
        if not isinstance(told, str):
            raise Trouble("the server did not spell the ids", spent=True)
        return told

    def _complete(self, prompt: Prompt) -> Sampled:
        server = self.server()
        most = prompt.max_tokens
        if prompt.ids is not None and server.room is not None:
            most = min(most, server.room - len(prompt.ids))
            if most < 1:
                raise Refusal(
                    f"a context of {len(prompt.ids)} tokens leaves no room for an answer ({server.room} in all)"
                )
        path, body = completion_of(
            prompt,
            self.model,
            server.dialect,
            most=most,
            temperature=self.temperature,
            top_p=self.top_p,
            stop=self.stop,
            stop_ids=self.stop_ids,
        )
        return sampled_of(self.http.post(path, body), prompt, self.size(prompt), most)

    def _logprob(self, request: Request) -> Reply:
        ask = request.ask
        assert isinstance(ask, Logprob)
        run = forced(ask, request.trajectory, self.speller)
        prompt = run.context + run.target
        if not run.target:
            return Reply(())
        model = self.model if ask.model == "policy" else self.reference
        choice, notes = first_choice(self.http.post("/completions", forcing_of(prompt, model)))
        values = forced_of(choice, prompt, len(run.context))
        if values is None:
            raise Refusal("the server told no log-probabilities of the prompt", spent=True)
        return Reply(run.report(values), len(prompt), 1, " and ".join(notes))

    def _cannot_force(self, ask: Logprob, rollout: Trajectory) -> str:
        if ask.model == "reference" and self.reference is None:
            return "log-probabilities under the reference model are asked for; name it (reference=…) on the server"
        if needs_speller(ask, rollout) and self.speller is None:
            return "log-probabilities of text need the policy's tokenizer; give it (--tokenizer, in Python tokenizer=)"
        if not self.server().dialect.forced:
            return (
                f"the server (dialect {self.server().dialect.name}) tells no log-probabilities of a prompt; ask "
                "vLLM, or a model of transformers in this process (HFPolicy)"
            )
        run = forced(ask, rollout, self.speller)
        return "" if run.context else "nothing stands before the tokens to be scored, and the server scores none there"


def _outcome(call: Callable[[Any], Any], one: object) -> Any:
    """What a call gives, or how it failed."""
    try:
        return call(one)
    except (Trouble, Refusal) as problem:
        return problem
