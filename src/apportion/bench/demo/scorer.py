"""A transformer as a table: the probability of every admissible action given every text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from apportion.numerics import FloatArray

if TYPE_CHECKING:
    from apportion.train.policy import Policy

ROWS = 512
"""Contexts in one pass of the model."""


def scorer(policy: Policy) -> Callable[[list[str], list[tuple[str, ...]]], list[FloatArray]]:
    """What `apportion.bench.exact.probabilities` asks: (texts, action lists) → probability vectors.

    The probability of an action is the product over its tokens, each among those that still lead to an admissible
    action, exactly as the policy samples.
    """
    import torch

    def score(texts: list[str], lists: list[tuple[str, ...]]) -> list[FloatArray]:
        asked: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []  # text, tokens so far, tokens allowed
        rows: list[tuple[int, ...]] = []
        for i, (text, actions) in enumerate(zip(texts, lists, strict=True)):
            prompt, _ = policy.prompts.start().see(text)
            choices = policy.choices(actions)
            prefixes = dict.fromkeys(ids[:k] for ids in choices.ids for k in range(len(ids)))
            for prefix in prefixes:
                asked.append((i, prefix, choices.allowed(prefix)))
                rows.append((*prompt, *prefix))
        logp: dict[tuple[int, tuple[int, ...]], FloatArray] = {}
        order = sorted(range(len(rows)), key=lambda r: len(rows[r]))
        for start in range(0, len(order), ROWS):
            some = order[start : start + ROWS]
            with torch.no_grad():
                logits = policy.logits([rows[r] for r in some])
                found = policy.log_probs(logits, [asked[r][2] for r in some]).double().numpy()
            for r, row in zip(some, found, strict=True):
                logp[asked[r][:2]] = row
        out = []
        for i, actions in enumerate(lists):
            ids = policy.choices(actions).ids
            paths = [sum(logp[i, action[:k]][action[k]] for k in range(len(action))) for action in ids]
            p = np.exp(np.array(paths))
            out.append(p / p.sum())
        return out

    return score
