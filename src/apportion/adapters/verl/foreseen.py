"""What a run of verl will lack, and what of its settings nobody will read: said when its trainer is made."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from apportion.adapters.crediting import Crediting
from apportion.adapters.verl.contract import ESTIMATORS, at, value_readers
from apportion.assign import check_expression, parse
from apportion.assign.expression import leaves
from apportion.errors import ConfigError
from apportion.methods import get, names

OF_TOKENS = ("token", "segment", "tree")
"""Levels at which a value is needed before single tokens, so that one for each step is not enough."""


def check_estimator(adv_estimator: Any) -> None:
    """Refuse a name that verl does not know and that is a method here: verl says it only after the first rollouts.

    Raises:
        ConfigError: what to write.
    """
    name = getattr(adv_estimator, "value", adv_estimator)
    known = getattr(sys.modules.get(ESTIMATORS), "ADV_ESTIMATOR_REGISTRY", None)
    if known is not None and isinstance(name, str) and name not in known and name in names():
        raise ConfigError(
            f"verl has no estimator {name!r}; for apportion's, say algorithm.adv_estimator=apportion/{name}"
        )


def check_values(config: Any, crediting: Crediting) -> None:
    """Refuse a method that needs numbers which this run will not have: a critic's, or a reference policy's.

    Values of steps and turns may also be told by the agent loop, which nobody knows before; then it is a warning.

    Raises:
        ConfigError: what it reads, and the setting that brings it.
    """
    readers = [leaf.name for leaf in value_readers(crediting)]
    if readers and at(config, "critic", "enable") is not True:
        if crediting.cut[0] in OF_TOKENS:
            raise ConfigError(
                f"{readers[0]} reads a value before every token, and no critic is trained; set critic.enable=true "
                "(verl does that by itself for its own gae only)"
            )
        warnings.warn(
            f"{readers[0]} reads values, and no critic is trained: set critic.enable=true, or let the agent loop tell "
            "'values'; without them the first batch is refused",
            stacklevel=2,
        )
    refers = [leaf.name for leaf in leaves(parse(crediting.method)) if "ref_logp_S" in get(leaf.name).reads]
    actor = at(config, "actor_rollout_ref", "actor", "use_kl_loss")
    if refers and not actor and not at(config, "algorithm", "use_kl_in_reward"):
        raise ConfigError(
            f"{refers[0]} reads the reference policy's log-probabilities, and no reference policy is loaded; set "
            "actor_rollout_ref.actor.use_kl_loss=true (with kl_loss_coef=0 where the loss shall stay as it is)"
        )


def warn_of_unread(config: Any, crediting: Crediting) -> None:
    """Say which of verl's own settings this method would read under verl's name, and does not read here."""
    taken = list(leaves(check_expression(crediting.method, crediting.params)))
    for name, default in (("gamma", 1.0), ("lam", 1.0)):
        value = at(config, "algorithm", name)
        unset = [leaf.name for leaf in taken if name in get(leaf.name).defaults and name not in leaf.params]
        if value not in (None, default) and unset:
            own = get(unset[0]).defaults[name]
            warnings.warn(
                f"algorithm.{name}={value} is not read by {unset[0]}, which takes {name}={own}; say "
                f"+algorithm.apportion.{name}={value}",
                stacklevel=2,
            )
    twice = [leaf.name for leaf in taken if leaf.params.get("kl_coef")]
    if twice and at(config, "algorithm", "use_kl_in_reward"):
        warnings.warn(
            f"algorithm.use_kl_in_reward subtracts a KL from the rewards and {twice[0]}'s kl_coef another; use one",
            stacklevel=2,
        )
