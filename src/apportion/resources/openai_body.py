"""What an OpenAI-compatible server is sent for a completion, and for log-probabilities of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apportion.resources.dialects import SEED_BITS, Dialect
from apportion.resources.sampling import Prompt


def completion_of(
    prompt: Prompt,
    model: str,
    dialect: Dialect,
    *,
    most: int,
    temperature: float,
    top_p: float,
    stop: Sequence[str],
    stop_ids: Sequence[int],
) -> tuple[str, dict[str, Any]]:
    """Path and body for one sample of at most ``most`` tokens."""
    body = {
        "model": model,
        "max_tokens": most,
        "temperature": temperature,
        "top_p": top_p,
        "seed": prompt.seed & ((1 << SEED_BITS) - 1),
        **dialect.plain,
        **dialect.tell,
    }
    body |= {"stop": list(stop)} if stop else {}
    body |= {"stop_token_ids": list(stop_ids)} if stop_ids else {}
    if prompt.messages is None:
        return "/completions", body | {"prompt": list(prompt.ids) if prompt.ids is not None else prompt.text}
    body["messages"] = [{"role": role, "content": text} for role, text in prompt.messages]
    if "logprobs" in body:
        body |= {"logprobs": True, "top_logprobs": 0}
    if prompt.messages[-1][0] == "assistant":
        body |= dialect.prefill or {}
    return "/chat/completions", body


def forcing_of(prompt: Sequence[int], model: str | None) -> dict[str, Any]:
    """Body that asks for the log-probabilities of the ids of a prompt."""
    return {
        "model": model,
        "prompt": list(prompt),
        "max_tokens": 1,  # some servers take no less
        "temperature": 0.0,
        "prompt_logprobs": 0,
    }
