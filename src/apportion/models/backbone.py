"""The trunk that credit models stand on: any transformer that reads token ids and gives hidden states.

    Backbone("small")            a GPT-2 of two layers made here, trained from nothing; CPU, minutes
    Backbone("path/or/hub-name") a model of transformers with its tokenizer
    Backbone(model, tokenizer)   one that is loaded already

``tune`` says what learns besides the head: "all" weights, "lora" (peft), or "none": then hidden states are computed
once and only the head is fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from apportion.data import Batch
from apportion.errors import CheckpointError, ConfigError
from apportion.models.trunk import BYTES, encoder_of, loaded, longest_of, small, start_of, with_lora
from apportion.numerics import IntArray

TUNE = ("all", "lora", "none")


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
            trunk, self.start = small(self.vocabulary, seed, causal=self.causal), self.vocabulary - 1
        else:
            trunk, tokenizer = loaded(model, tokenizer, causal=self.causal)
            config = trunk.config.get_text_config() if hasattr(trunk.config, "get_text_config") else trunk.config
            self.vocabulary, self.start = int(config.vocab_size), start_of(config, tokenizer)
        self.longest = longest_of(trunk)
        if tune == "lora":
            trunk = with_lora(trunk, lora or {}, seed)
        for parameter in trunk.parameters():
            parameter.requires_grad_(parameter.requires_grad and tune != "none")
        self.trunk = trunk
        self.encode = encoder_of(model, tokenizer, self.vocabulary)
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
