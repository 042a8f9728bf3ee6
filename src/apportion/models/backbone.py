"""The trunk that credit models stand on: any transformer that reads token ids and gives hidden states.

    Backbone("small")            a GPT-2 of two layers made here, trained from nothing; CPU, minutes
    Backbone("path/or/hub-name") a model of transformers with its tokenizer
    Backbone(model, tokenizer)   one that is loaded already

``tune`` says what learns besides the head: "all" weights, "lora" (peft), or "none": then hidden states are computed
once and only the head is fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from apportion.data import Batch
from apportion.errors import CheckpointError, ConfigError, missing_extra
from apportion.numerics import IntArray

TUNE = ("all", "lora", "none")
SMALL: dict[str, Any] = {"n_embd": 64, "n_layer": 2, "n_head": 4}
LONGEST = 1024
"""Positions of a small trunk."""
BYTES = 256


class Backbone(torch.nn.Module):
    """Hidden states of a transformer at chosen places.

    Args:
        model: "small", a folder or hub name, or a model of transformers (its own head is not used).
        tokenizer: for rollouts that have only text; default the folder's, for "small" the bytes of UTF-8.
        vocabulary: of "small": number of ids, default 256 bytes and a start token.
        tune: "all", "lora" or "none".
        lora: arguments of ``peft.LoraConfig``, for tune="lora".
        device: default the GPU where there is one, for a model that is given: where it is.
        seed: of the weights that are made here.
    """

    causal = False
    """Whether the trunk keeps its language model head; see `TokenModel`."""

    def __init__(
        self,
        model: Any = "small",
        tokenizer: Any = None,
        *,
        vocabulary: int | None = None,
        tune: str = "all",
        lora: dict[str, Any] | None = None,
        device: str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if tune not in TUNE:
            raise ConfigError(f"tune is {tune!r}; give one of {', '.join(TUNE)}")
        self.tune, self.lora, self.seed = tune, lora, seed
        self.named, self.source = isinstance(model, str | Path), str(model)
        if model == "small":
            self.vocabulary = vocabulary or BYTES + 1
            trunk, self.start = _small(self.vocabulary, seed, causal=self.causal), self.vocabulary - 1
        else:
            trunk, tokenizer = _loaded(model, tokenizer, causal=self.causal)
            config = trunk.config.get_text_config() if hasattr(trunk.config, "get_text_config") else trunk.config
            self.vocabulary, self.start = int(config.vocab_size), _start(config, tokenizer)
        self.longest = _longest(trunk)
        if tune == "lora":
            trunk = _with_lora(trunk, lora or {}, seed)
        for parameter in trunk.parameters():
            parameter.requires_grad_(parameter.requires_grad and tune != "none")
        self.trunk = trunk
        self.encode = _encoder(model, tokenizer, self.vocabulary)
        self.to(device or ("cuda" if torch.cuda.is_available() and self.named else self.device))

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.trunk.parameters()).device
        return device

    @property
    def width(self) -> int:
        """Numbers in a hidden state."""
        config = self.trunk.config
        config = config.get_text_config() if hasattr(config, "get_text_config") else config
        return int(config.hidden_size)

    def forward(self, rows: Sequence[IntArray], row_K: IntArray, before_K: IntArray) -> Tensor:
        """Hidden states (K, width), float32, at the position before each place.

        Args:
            rows: token ids of some rows, padded here at the right end, where nothing real attends to them.
            row_K: row of each place. before_K: the place; its state is that of position ``before - 1``.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.tune != "none"):
            out = self.trunk(input_ids=self._padded(rows), use_cache=False).last_hidden_state
        at = torch.as_tensor(np.stack((row_K, before_K - 1)), device=self.device)
        chosen: Tensor = out[at[0], at[1]]
        return chosen.float()

    def _padded(self, rows: Sequence[IntArray]) -> Tensor:
        ids = torch.zeros((len(rows), max(map(len, rows))), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.from_numpy(np.ascontiguousarray(row))
        return ids.to(self.device)

    def facts(self) -> dict[str, Any]:
        """What is needed to build it again, as JSON values; its learned weights are not among them."""
        return {
            "model": self.source if self.named else None,
            "vocabulary": self.vocabulary,
            "tune": self.tune,
            "lora": self.lora,
            "seed": self.seed,
        }

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Build it again.

        Raises:
            CheckpointError: the model was handed over as an object, so nobody knows where it is.
        """
        if facts["model"] is None:
            raise CheckpointError(
                "this model's backbone was handed over as an object; give it again: load(…, backbone=…)"
            )
        more = {"vocabulary": facts["vocabulary"]} if facts["model"] == "small" else {}
        return cls(facts["model"], tune=facts["tune"], lora=facts["lora"], seed=facts["seed"], **more)


class TokenModel(Backbone):
    """A causal language model as a backbone: log-probabilities of tokens where they stand. Arguments of `Backbone`."""

    causal = True

    def forward(self, rows: Sequence[IntArray], row_K: IntArray, before_K: IntArray) -> Tensor:
        """Log-probability (K,), nats, float32, of the token at each place given what stands before it.

        Args:
            rows: token ids of some rows. row_K: row of each place. before_K: the place, which lies inside its row.
        """
        ids = self._padded(rows)
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.tune != "none"):
            logits = self.trunk(input_ids=ids, use_cache=False).logits
        at = torch.as_tensor(np.stack((row_K, before_K)), device=self.device)
        chosen = torch.log_softmax(logits[at[0], at[1] - 1].float(), dim=-1)
        return chosen.gather(1, ids[at[0], at[1]][:, None])[:, 0]


Kind = TypeVar("Kind", bound=Backbone)


def backbone_for(batch: Batch, backbone: Backbone | Any, kind: type[Kind], **options: Any) -> Kind:
    """A backbone as it is, or one made for these rollouts: "small" gets room for the ids that are there.

    Args:
        batch: the rollouts. backbone: `Backbone`, or what its first argument may be. kind: `Backbone` or `TokenModel`.
        options: further arguments of the kind.

    Raises:
        ConfigError: a backbone of the other kind.
    """
    if isinstance(backbone, Backbone):
        if not isinstance(backbone, kind):
            raise ConfigError(f"the backbone is a {type(backbone).__name__}; this model stands on a {kind.__name__}")
        return backbone
    if isinstance(backbone, str) and backbone == "small" and batch.has_ids:
        options = {"vocabulary": int(batch.ids_T.max()) + 2} | options
    return kind(backbone, **options)


def _small(vocabulary: int, seed: int, *, causal: bool) -> Any:
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


def _loaded(model: Any, tokenizer: Any, *, causal: bool) -> tuple[Any, Any]:
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


def _start(config: Any, tokenizer: Any) -> int:
    for holder, names in ((tokenizer, ("bos_token_id", "eos_token_id")), (config, ("bos_token_id", "eos_token_id"))):
        for name in names:
            found = getattr(holder, name, None)
            if isinstance(found, int):
                return found
    return 0


def _longest(trunk: Any) -> int:
    config = trunk.config.get_text_config() if hasattr(trunk.config, "get_text_config") else trunk.config
    for name in ("n_positions", "max_position_embeddings"):
        size = getattr(config, name, None)
        if isinstance(size, int) and size > 0:
            return size
    return 2**31


def _with_lora(trunk: Any, options: dict[str, Any], seed: int) -> Any:
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


def _encoder(model: Any, tokenizer: Any, vocabulary: int) -> Callable[[str], list[int]] | None:
    if tokenizer is not None:
        return lambda text: list(tokenizer.encode(text, add_special_tokens=False))
    if isinstance(model, str) and model == "small" and vocabulary == BYTES + 1:
        return lambda text: list(text.encode("utf-8", "surrogatepass"))
    return None
