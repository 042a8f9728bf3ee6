"""What all credit models beside a policy share in their settings: known names, a warm-up, and a trunk."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from apportion.errors import ConfigError
from apportion.models import Backbone
from apportion.train.config import TrainConfig
from apportion.train.policy import Policy

OWN = ("backbone", "tune", "warmup")
"""``backbone``: "policy", a copy of the policy as the run starts with it, or as for `Backbone`; ``tune``: see there;
``warmup``: iterations in which the credit model alone learns, 0 by default."""

Kind = TypeVar("Kind", bound=Backbone)


def known_only(config: TrainConfig, known: tuple[str, ...]) -> dict[str, Any]:
    """``credit_params``, all of whose names are known.

    Raises:
        ConfigError: one is not.
    """
    given = dict(config.credit_params)
    if unknown := [name for name in given if name not in known]:
        raise ConfigError(f"credit_params: {config.credit} takes no {unknown[0]!r}; there are {', '.join(known)}")
    return given


def warmup_of(given: Mapping[str, Any]) -> int:
    """Iterations in which the policy stays as it is.

    Raises:
        ConfigError: no whole number from 0 up.
    """
    warmup = given.get("warmup", 0)
    if not isinstance(warmup, int) or isinstance(warmup, bool) or warmup < 0:
        raise ConfigError(f"credit_params: warmup is {warmup!r}; give a number of iterations from 0 up")
    return warmup


def trunk_of(config: TrainConfig, policy: Policy, given: Mapping[str, Any], kind: type[Kind], default: str) -> Kind:
    """The trunk of a credit model, apart from the policy and of its token ids.

    Args:
        config: of the run. policy: that the run starts with; once its folder ``start`` is written, that is read.
        given: ``credit_params``. kind: of the trunk. default: the ``backbone`` where none is given.
    """
    model = given.get("backbone", default)
    how: dict[str, Any] = {"tune": given.get("tune", "all"), "device": config.device, "seed": config.seed}
    if model == "small":  # one more id: the token that begins a row
        return kind("small", vocabulary=len(policy.tokenizer) + 1, **how)
    start = Path(config.out) / "start"
    if model != "policy":
        return kind(model, **how)
    if start.is_dir():
        return kind(str(start.resolve()), **how)
    trunk = kind(copy.deepcopy(policy.model), policy.tokenizer, **how)
    trunk.eval()
    return trunk
