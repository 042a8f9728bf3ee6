"""Sampling from a policy: what goes in and what comes out, and how ids become text and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from apportion.errors import ConfigError, missing_extra
from apportion.resources.protocol import Refusal, Trouble

Messages = tuple[tuple[str, str], ...]
"""A chat: pairs of role and text."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a policy is given; exactly one of the first three.

    Attributes:
        ids: the context as token ids. text: the context as text. messages: the context as a chat, whose last message
            is continued where it is the assistant's.
        max_tokens: tokens to sample at most. seed: of the sample.
    """

    ids: tuple[int, ...] | None = None
    text: str | None = None
    messages: Messages | None = None
    max_tokens: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Sampled:
    """What a policy said.

    Attributes:
        ids: sampled token ids, the one that stopped it included; None where the policy does not tell them.
        logp: log-probability of each of them, nats, at temperature 1 and without truncation; None where not told.
        text: the same as text, without the token that stopped it.
        finished: it stopped by itself; False = the limit cut it.
        prompt_tokens, generated_tokens: what it cost.
        note: something odd about the counts, for the summary.
    """

    text: str
    ids: tuple[int, ...] | None = None
    logp: tuple[float, ...] | None = None
    finished: bool = True
    prompt_tokens: int = 0
    generated_tokens: int = 0
    note: str = ""


class Sampler(Protocol):
    """A policy that can be sampled from: `OpenAIServer`, `HFPolicy`."""

    def sample(self, prompts: Sequence[Prompt]) -> list[Sampled | Trouble | Refusal]:
        """One outcome for each prompt, in order."""


NEAR = 8
"""Ids before a text that can change how it is spelled."""


class Speller:
    """Token ids to text and back, by a tokenizer of transformers.

    Args:
        tokenizer: the object, or the folder or name that `AutoTokenizer` loads.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._given = tokenizer
        self._loaded: Any = None if isinstance(tokenizer, str) or hasattr(tokenizer, "__fspath__") else tokenizer

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, loaded when it is first needed."""
        if self._loaded is None:
            self._loaded = load_tokenizer(self._given)
        return self._loaded

    def text(self, ids: Sequence[int]) -> str:
        """Text of ids; tokens of the format (end of text, pad, …) are not part of it."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def after(self, context: Sequence[int], ids: Sequence[int]) -> str:
        """Text of ids as they read after others (a blank at their beginning may hang on what came before)."""
        before = list(context[-NEAR:])
        whole, known = self.text([*before, *ids]), self.text(before)
        return whole[len(known) :] if whole.startswith(known) else self.text(ids)

    def ids(self, text: str) -> list[int]:
        """Ids of a text that goes on after others: nothing is put before or after it."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def chat_ids(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """Ids of a chat by the tokenizer's own template; an unfinished message of the assistant is gone on with.

        Raises:
            ConfigError: the tokenizer has no template, or its template does not take these messages.
        """
        told = [{"role": role, "content": text} for role, text in messages]
        go_on = bool(told) and told[-1]["role"] == "assistant"
        try:
            text = self.tokenizer.apply_chat_template(
                told, tokenize=False, add_generation_prompt=not go_on, continue_final_message=go_on
            )
        except Exception as problem:  # a template is a program of its own
            raise ConfigError(
                f"the tokenizer cannot write a chat of {', '.join(role for role, _ in messages)} "
                f"({str(problem).strip().partition(chr(10))[0]}); give one with a chat template"
            ) from None
        return self.ids(text)

    def prompt_ids(self, text: str) -> list[int]:
        """Ids of a text at the beginning of a context, with what the tokenizer puts before it."""
        return list(self.tokenizer(text)["input_ids"])


def load_tokenizer(name: Any) -> Any:
    """A tokenizer from a folder or a hub name.

    Raises:
        ConfigError, MissingExtra: there is none, or transformers is not installed.
    """
    try:
        from transformers import AutoTokenizer
    except ModuleNotFoundError:
        raise missing_extra("reading a tokenizer", "transformers", "train") from None
    try:
        return AutoTokenizer.from_pretrained(str(name), trust_remote_code=False)
    except (OSError, ValueError) as problem:
        first = str(problem).strip().partition("\n")[0]
        raise ConfigError(
            f"no tokenizer can be loaded from {str(name)!r} ({first}); give a folder or a hub name"
        ) from None
