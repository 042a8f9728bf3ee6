"""A judge behind an OpenAI-compatible server: chat completions, several at a time, held to JSON where it can be."""

from __future__ import annotations

from typing import Any

from apportion.errors import ConfigError, ResourceError
from apportion.resources.http import Http
from apportion.resources.judge import JudgeResource
from apportion.resources.judge_price import Completion, Messages
from apportion.resources.protocol import Refusal, Request, Trouble

LARGEST_SEED = 2**31 - 1
"""Servers differ in how many bits of a seed they take; all take these."""
NEW_LIMIT = "max_completion_tokens"


class JudgeServer(JudgeResource):
    """A chat model on a server as judge.

        judge = JudgeServer("http://127.0.0.1:8000/v1", model="Qwen/Qwen2.5-72B-Instruct")
        credit = assign("capo", units, ask=Asker(judge))

    Args:
        url: address that ``/chat/completions`` is added to. model: its name there, part of every cache key.
        temperature: of votes; 0 gives every vote the same reply, so several votes are refused. None = not sent, for
            models that take none.
        top_p: of sampling, None = not sent.
        json_schema: ask the server to hold the model to the schema (``response_format``). "auto" stops asking where the
            server does not take it, True and False do not try. Replies are read strictly all the same.
        key_env: environment variable with the key. timeout: seconds for one reply. workers: requests at a time.
        option: what the user gave the address as, for messages.
        options: as `JudgeResource`.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str,
        temperature: float | None = 0.7,
        top_p: float | None = None,
        json_schema: bool | str = "auto",
        key_env: str | None = "OPENAI_API_KEY",
        timeout: float = 600.0,
        workers: int = 8,
        option: str = "the address of the judge",
        **options: Any,
    ) -> None:
        if not 0 <= (temperature or 0) <= 10 or (top_p is not None and not 0 < top_p <= 1):
            raise ConfigError(f"judge: temperature={temperature!r}, top_p={top_p!r}; give 0 to 10, and 0 to 1")
        if json_schema not in ("auto", True, False):
            raise ConfigError(f"judge: json_schema is {json_schema!r}; give 'auto', True or False")
        if not isinstance(model, str) or not model.strip():
            raise ConfigError(f"judge: model is {model!r}; give the name that the server knows it by")
        http = Http(url, option=option, key_env=key_env, timeout=timeout, connections=workers)
        sampling = f"temperature={temperature!r} top_p={top_p!r} thinking={options.get('thinking', 0)!r}"
        super().__init__(
            identity=f"judge:{model} {sampling}", name=f"the judge at {http.url}", workers=workers, **options
        )
        self.http, self.model, self.temperature, self.top_p = http, model, temperature, top_p
        self._schema, self._limit = json_schema, "max_tokens"
        self._bare: set[int] = set()  # seeds of calls that were refused with a schema

    def open(self) -> None:
        """Make sure that the server is there and has the model.

        Raises:
            ResourceError: it is not, or has not.
        """
        listed = self.http.reach().get("data")
        entries = listed if isinstance(listed, list) else []
        told = [entry.get("id") for entry in entries if isinstance(entry, dict)]
        names = [name for name in told if isinstance(name, str)]
        if names and self.model not in names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            raise ResourceError(
                f"the server at {self.http.url} has no model {self.model!r}; it has {', '.join(names[:5])}{more}"
            )

    def check(self, request: Request) -> str:
        """Also: votes that could not differ."""
        votes = getattr(request.ask, "votes", 1)
        if self.temperature == 0 and votes > 1:
            return f"{votes} votes at temperature 0 are one vote asked {votes} times; ask for one, or set a temperature"
        return super().check(request)

    def complete(self, messages: Messages, *, seed: int, max_tokens: int, schema: dict[str, Any]) -> Completion:
        """One chat completion."""
        body: dict[str, Any] = {"model": self.model, "messages": messages, "seed": seed & LARGEST_SEED}
        body |= {} if self.temperature is None else {"temperature": self.temperature}
        body |= {} if self.top_p is None else {"top_p": self.top_p}
        held, limit = bool(self._schema) and seed not in self._bare, self._limit
        if held:
            wanted = {"name": "verdict", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": wanted}
        try:
            answer = self.http.post("/chat/completions", {**body, limit: max_tokens})
        except Refusal as problem:
            # one call, one request of the budget: what is to be asked otherwise goes back to the runner
            if limit != NEW_LIMIT and NEW_LIMIT in str(problem):
                self._limit = NEW_LIMIT  # newer models of OpenAI's take no other
                raise Trouble(str(problem), again=True) from None
            if held and self._schema == "auto":
                self._bare.add(seed)
                raise Trouble(str(problem), again=True) from None
            raise
        if self._schema == "auto":
            self._schema = held
        return _read(answer)

    def close(self) -> None:
        """Close the connections."""
        self.http.close()


def _read(answer: dict[str, Any]) -> Completion:
    """Text and counts of a chat completion."""
    try:
        text = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise Trouble("the judge's server sent an answer without a message", spent=True) from None
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    prompt, wrote = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return Completion(
        text if isinstance(text, str) else "",  # null: it wrote nothing, or called a tool
        prompt if type(prompt) is int else None,
        wrote if type(wrote) is int else None,
    )
