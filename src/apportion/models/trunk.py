"""Transformers that a backbone stands on: made here or loaded, with adapters, and what they say of themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from apportion.errors import ConfigError, missing_extra

SMALL: dict[str, Any] = {"n_embd": 64, "n_layer": 2, "n_head": 4}
LONGEST = 1024
"""Positions of a small trunk."""
BYTES = 256


def small(vocabulary: int, seed: int, *, causal: bool) -> Any:
    """A GPT-2 of two layers, made here; ``causal``: with its head."""
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model

    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=LONGEST,
        activation_function="gelu",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=vocabulary - 1,
        eos_token_id=vocabulary - 1,
        **SMALL,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GPT2LMHeadModel(config) if causal else GPT2Model(config)


def loaded(model: Any, tokenizer: Any, *, causal: bool) -> tuple[Any, Any]:
    """The trunk, with its head for a `TokenModel`, in float32, and a tokenizer where there is one."""
    if isinstance(model, str | Path):
        from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            trunk = (AutoModelForCausalLM if causal else AutoModel).from_pretrained(
                str(model), dtype=torch.float32, use_safetensors=True, trust_remote_code=False
            )
            if tokenizer is None:
                tokenizer = AutoTokenizer.from_pretrained(str(model), trust_remote_code=False)
        except (OSError, ValueError) as problem:
            first = str(problem).strip().partition("\n")[0]
            raise ConfigError(
                f"no backbone can be loaded from {str(model)!r} ({first}); give 'small', a folder or a hub name"
            ) from None
        finally:
            if shown:
                logging.enable_progress_bar()  # type: ignore[no-untyped-call]
        for parameter in trunk.parameters():  # out of the mapped file, whose odd addresses change rounding
            parameter.data = parameter.data.clone()
        return trunk, tokenizer
    if not isinstance(model, torch.nn.Module):
        raise ConfigError(f"the backbone is a {type(model).__name__}; give 'small', a folder, or a transformers model")
    return model if causal else getattr(model, "base_model", model), tokenizer


def start_of(config: Any, tokenizer: Any) -> int:
    """The id that a row begins with."""
    for holder, names in ((tokenizer, ("bos_token_id", "eos_token_id")), (config, ("bos_token_id", "eos_token_id"))):
        for name in names:
            found = getattr(holder, name, None)
            if isinstance(found, int):
                return found
    return 0


def longest_of(trunk: Any) -> int:
    """Positions that the trunk can take."""
    config = trunk.config.get_text_config() if hasattr(trunk.config, "get_text_config") else trunk.config
    for name in ("n_positions", "max_position_embeddings"):
        size = getattr(config, name, None)
        if isinstance(size, int) and size > 0:
            return size
    return 2**31


def with_lora(trunk: Any, options: dict[str, Any], seed: int) -> Any:
    """The trunk with adapters, which alone learn."""
    try:
        from peft import LoraConfig, get_peft_model
    except ModuleNotFoundError:
        raise missing_extra("tune='lora'", "peft", "train") from None
    chosen: dict[str, Any] = {"r": 8, "lora_alpha": 16, "target_modules": "all-linear"} | options
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return get_peft_model(trunk, LoraConfig(**chosen))
    except (TypeError, ValueError) as problem:
        raise ConfigError(f"lora={options} does not fit this backbone ({problem})") from None


def encoder_of(model: Any, tokenizer: Any, vocabulary: int) -> Callable[[str], list[int]] | None:
    """Text to ids; None where nobody knows how."""
    if tokenizer is not None:
        return lambda text: list(tokenizer.encode(text, add_special_tokens=False))
    if isinstance(model, str) and model == "small" and vocabulary == BYTES + 1:
        return lambda text: list(text.encode("utf-8", "surrogatepass"))
    return None
