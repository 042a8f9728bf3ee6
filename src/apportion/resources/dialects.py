"""What OpenAI-compatible servers take and tell beyond the common fields.

A server's own defaults of sampling (a top_k of 40, a repetition penalty from the model's files) would make it another
policy than the one that was asked for, so what it takes is switched off in every request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SEED_BITS = 31
"""Seeds that every server takes; more bits are cut off."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One family of servers.

    Attributes:
        name: as the option takes it. owned_by: how its list of models names the owner.
        plain: fields that switch off what would change the sampling.
        tell: fields that ask for ids and log-probabilities.
        stop_ids: takes ``stop_token_ids``. forced: takes ``prompt_logprobs``.
        prefill: fields with which a chat goes on from an unfinished message of the assistant; None = it does not.
        detokenize: field that holds the text in the answer of ``/detokenize``, which stands beside ``/v1``.
    """

    name: str
    owned_by: str = ""
    plain: Mapping[str, Any] = field(default_factory=dict)
    tell: Mapping[str, Any] = field(default_factory=dict)
    stop_ids: bool = False
    forced: bool = False
    prefill: Mapping[str, Any] | None = None
    detokenize: str = ""


_OFF = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
_GO_ON = {"continue_final_message": True, "add_generation_prompt": False}

DIALECTS: dict[str, Dialect] = {
    d.name: d
    for d in (
        Dialect(
            "vllm",
            "vllm",
            plain=_OFF,
            tell={"return_token_ids": True, "logprobs": 0},
            stop_ids=True,
            forced=True,
            prefill=_GO_ON,
            detokenize="prompt",
        ),
        Dialect(
            "sglang",
            "sglang",
            plain=_OFF,
            tell={"return_token_ids": True, "logprobs": 1},
            stop_ids=True,
            prefill=_GO_ON,
        ),
        Dialect(
            "llama.cpp",
            "llamacpp",
            plain={
                "top_k": 0,
                "min_p": 0.0,
                "typical_p": 1.0,
                "repeat_penalty": 1.0,
                "xtc_probability": 0.0,
                "dry_multiplier": 0.0,
            },
            tell={"n_probs": 1},
            prefill={},
            detokenize="content",
        ),
        Dialect("openai"),
    )
}


def dialect_of(owned_by: object) -> Dialect:
    """The family of a server by the owner of its models; plain OpenAI where it is not known."""
    return next((d for d in DIALECTS.values() if d.owned_by and d.owned_by == owned_by), DIALECTS["openai"])


def ids_of(choice: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Sampled ids of an answer, where they are told; None for anything else."""
    for name in ("token_ids", "response_token_ids", "output_ids"):
        if isinstance(choice.get(name), list):
            return _whole_numbers(choice[name])
    if isinstance(rows := _rows(choice), list):
        return _whole_numbers([row.get("id") if isinstance(row, dict) else None for row in rows])
    return None


def logp_of(choice: Mapping[str, Any]) -> tuple[float, ...] | None:
    """Log-probabilities of the sampled tokens, where they are told."""
    told = choice.get("logprobs")
    values: Any = told.get("token_logprobs") if isinstance(told, dict) else None
    if values is None and isinstance(rows := _rows(choice), list):
        values = [row.get("logprob") if isinstance(row, dict) else None for row in rows]
    if not isinstance(values, list) or not all(_real(x) for x in values):
        return None
    return tuple(min(float(x), 0.0) for x in values)


def forced_of(choice: Mapping[str, Any], prompt: tuple[int, ...], first: int) -> list[float] | None:
    """Log-probabilities of the ids of a prompt from ``first`` on, as vLLM tells them."""
    rows = choice.get("prompt_logprobs")
    if not isinstance(rows, list) or len(rows) != len(prompt):
        return None
    out = []
    for id_, row in zip(prompt[first:], rows[first:], strict=True):
        told = row.get(str(id_)) if isinstance(row, dict) else None
        value: Any = told.get("logprob") if isinstance(told, dict) else told
        if not _real(value):
            return None
        out.append(float(value))
    return out


def _rows(choice: Mapping[str, Any]) -> Any:
    told = choice.get("logprobs")
    return told.get("content") if isinstance(told, dict) else None


def _real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value and value > float("-inf")


def _whole_numbers(values: list[Any]) -> tuple[int, ...] | None:
    return tuple(values) if all(type(x) is int and x >= 0 for x in values) else None
