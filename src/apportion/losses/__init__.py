"""Policy losses: one number per token, then one rule that adds them up.

    loss_T = LOSSES["ppo"](tokens, eps_high=0.28)                     per token, reward units
    loss   = aggregate(loss_T, tokens.weight_T, tokens.row_of_T)      one number

The two are apart on purpose: a trainer's name for a loss (GRPO, DAPO, Dr. GRPO, "bnpo") fixes both, here any loss goes
with any aggregation.

`apportion.losses.reference` is NumPy and says what each name means; `backend("torch")` gives the same names on
tensors, with gradients. torch is imported there and nowhere else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import ModuleType
from typing import Any

from apportion.errors import ConfigError, UnknownName, missing_extra
from apportion.losses.aggregation import AGGREGATIONS, aggregate, denominator, shares
from apportion.losses.pairing import FineCreditLost, check_pairing
from apportion.losses.reference import LOSSES, cispo, from_rows, gspo, gspo_token, kl, ppo, reinforce
from apportion.losses.tokens import Tokens

__all__ = [
    "AGGREGATIONS",
    "LOSSES",
    "FineCreditLost",
    "Tokens",
    "aggregate",
    "backend",
    "bind",
    "check_pairing",
    "cispo",
    "denominator",
    "from_rows",
    "get",
    "gspo",
    "gspo_token",
    "kl",
    "ppo",
    "reinforce",
    "shares",
]


def backend(name: str) -> ModuleType:
    """The module with every loss for "numpy" arrays or "torch" tensors.

    Raises:
        UnknownName: another name.
        MissingExtra: torch is not installed.
    """
    if name == "numpy":
        from apportion.losses import reference

        return reference
    if name == "torch":
        try:
            from apportion.losses import torch
        except ImportError as error:
            raise missing_extra("losses on tensors", "torch", "train") from error
        return torch
    raise UnknownName(f"no losses for {name!r}; there are 'numpy' and 'torch'")


def get(name: str, *, on: str = "numpy") -> Callable[..., Any]:
    """A loss by name, for arrays or tensors; a wrong name gets the nearest suggested."""
    known: dict[str, Callable[..., Any]] = backend(on).LOSSES
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
        raise UnknownName(f"no loss named {name!r}; {hint}")
    return known[name]


def bind(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a loss, defaults filled in and names checked."""
    takes = {
        key: parameter.default
        for key, parameter in inspect.signature(get(name)).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and key != "held_T"
    }
    for key in params:
        if key not in takes:
            raise ConfigError(f"{name}: unknown option {key!r}; it takes {', '.join(takes) or 'none'}")
    return {**takes, **params}
