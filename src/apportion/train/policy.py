"""A causal language model as a policy: batches of unequal rows, the distribution over allowed tokens.

Sampling and training use the same arithmetic: logits of the allowed tokens, divided by the temperature, through
one log-softmax. Disallowed tokens have probability 0 in both, so log-probabilities of sampling can be compared with
recomputed ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apportion.envs import TextEnv
from apportion.errors import ConfigError
from apportion.numerics import IntArray
from apportion.train.choice import Choices, Ids
from apportion.train.config import TrainConfig
from apportion.train.model import load_model, longest_context, no_bars
from apportion.train.prompt import Prompts

Allowed = Ids | None
"""Token ids that can be drawn; None = any."""


class Policy:
    """A model, its tokenizer, and how observations become prompts.

    Args:
        model, tokenizer: of transformers. Any causal language model.
        temperature: divides the logits, in sampling and in training alike.
        window: steps shown before the present observation; None = the context grows.
        free_text: actions are free text; else one of the admissible ones.
        max_action_tokens: longest free text.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        temperature: float = 1.0,
        window: int | None = 0,
        free_text: bool = False,
        max_action_tokens: int = 16,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.temperature = temperature
        self.free_text = free_text
        self.max_action_tokens = max_action_tokens
        self.prompts = Prompts(tokenizer, window=window, free_text=free_text)
        self.longest = longest_context(model)
        takes = inspect.signature(model.forward).parameters
        self._keeps = "logits_to_keep" in takes
        self._cache_name = "cache" if "cache" in takes else "past_key_values"  # its old name
        self.choices = lru_cache(maxsize=4096)(self._choices)

    @classmethod
    def from_config(cls, config: TrainConfig, env: TextEnv) -> Policy:
        """The policy that a run starts from."""
        model, tokenizer = load_model(config, env)
        return cls(
            model,
            tokenizer,
            temperature=config.temperature,
            window=config.window if config.prompt == "window" else None,
            free_text=config.actions == "text",
            max_action_tokens=config.max_action_tokens,
        )

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = next(self.model.parameters()).device
        return device

    def save(self, folder: str | Path) -> None:
        """Write model (safetensors) and tokenizer; transformers' Auto classes read them."""
        with no_bars():
            self.model.save_pretrained(str(folder))
        self.tokenizer.save_pretrained(str(folder))

    def _choices(self, actions: tuple[str, ...]) -> Choices:
        return Choices(actions, [self.prompts.encode_action(a) for a in actions], self.prompts.stop_id)

    def check_length(self, tokens: int) -> None:
        """Raise when a context is longer than the model can take."""
        if self.longest is not None and tokens > self.longest:
            raise ConfigError(
                f"a context has {tokens} tokens and the model takes {self.longest}; "
                "set prompt to 'window', or make episodes shorter"
            )

    def pad(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Tensor]:
        """Rows of unequal length as ids, mask and positions, each (B, L), real tokens at the right end."""
        width = max(len(row) for row in rows)
        ids = torch.full((len(rows), width), int(self.tokenizer.pad_token_id), dtype=torch.long)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for i, row in enumerate(rows):
            if len(row):
                ids[i, width - len(row) :] = torch.as_tensor(row, dtype=torch.long)
                mask[i, width - len(row) :] = 1
        return ids.to(self.device), mask.to(self.device), (mask.cumsum(-1) - 1).clamp(min=0).to(self.device)

    def logits(
        self, rows: Sequence[Sequence[int]], row_K: IntArray | None = None, at_K: IntArray | None = None
    ) -> Tensor:
        """Logits (K, V) after token ``at_K[k]`` of row ``row_K[k]``, float32; default the last token of each row.

        Padding stands at the right end, where no real token attends to it; so there is no mask to build, and
        positions are those of an unpadded row.
        """
        sizes = [len(row) for row in rows]
        self.check_length(max(sizes))
        if row_K is None or at_K is None:
            row_K, at_K = np.arange(len(rows)), np.array(sizes) - 1
        ids = torch.empty((len(rows), max(sizes)), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.as_tensor(row, dtype=torch.long)
            ids[i, len(row) :] = row[-1]  # any token would do; transformers warns of the padding token
        kept, place_K = np.unique(at_K, return_inverse=True)
        given = {"logits_to_keep": torch.as_tensor(kept, device=self.device)} if self._keeps else {}
        out = self.model(input_ids=ids.to(self.device), use_cache=False, **given).logits
        column = torch.as_tensor(place_K if self._keeps else at_K, device=self.device)
        chosen: Tensor = out[torch.as_tensor(row_K, device=self.device), column]
        return chosen.float()

    def extend(self, ids: Tensor, mask: Tensor, positions: Tensor, cache: Any) -> Tensor:
        """Logits (B, V) after the last of the new ids; ``cache`` is updated in place, the mask covers it too."""
        given: dict[str, Any] = {self._cache_name: cache}
        if self._keeps:
            given["logits_to_keep"] = 1
        out = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            **given,
        )
        logits: Tensor = out.logits[:, -1].float()
        return logits

    def log_probs(self, logits: Tensor, allowed: Sequence[Allowed]) -> Tensor:
        """Log-probabilities (B, V) of the next token where row b may draw ``allowed[b]``; -inf elsewhere."""
        if any(a is not None for a in allowed):
            distinct = list(dict.fromkeys(allowed))
            open_to = torch.stack([self._mask(a, logits.shape[-1]) for a in distinct]).to(logits.device)
            which = torch.tensor([distinct.index(a) for a in allowed], device=logits.device)
            logits = logits.masked_fill(~open_to[which], -torch.inf)
        return torch.log_softmax(logits / self.temperature, dim=-1)

    @staticmethod
    @lru_cache(maxsize=4096)
    def _mask(allowed: Allowed, size: int) -> Tensor:
        if allowed is None:
            return torch.ones(size, dtype=torch.bool)
        mask = torch.zeros(size, dtype=torch.bool)
        mask[list(allowed)] = True
        return mask


def entropy(log_probs: Tensor) -> Tensor:
    """Entropy of each distribution along the last axis, nats; tokens of probability 0 add nothing."""
    p = log_probs.exp()
    return -(p * log_probs.masked_fill(p == 0, 0.0)).sum(-1)
