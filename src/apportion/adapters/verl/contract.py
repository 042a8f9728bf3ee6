"""What of verl is relied on, by name, and the sentences for a verl that has it no longer."""

from __future__ import annotations

import importlib.metadata
import inspect
import warnings
from types import ModuleType
from typing import Any

from apportion.adapters.crediting import Crediting
from apportion.assign import parse
from apportion.assign.expression import Leaf, leaves
from apportion.errors import ConfigError
from apportion.methods import get

TESTED = ("0.9", "0.9")
"""First and last minor version of verl that the tests ran against."""

ESTIMATORS = "verl.trainer.ppo.core_algos"
LEGACY = "verl.trainer.ppo.ray_trainer"
STAGE = "verl.trainer.ppo.v1.trainer_base"

RELIED_ON = {
    (ESTIMATORS, "register_adv_est"): ("name_or_enum",),
    (LEGACY, "compute_advantage"): ("data", "adv_estimator"),
    (STAGE, "PPOTrainer.__init__"): ("self", "config"),
    (STAGE, "PPOTrainer._compute_advantage"): ("self", "batch", "metrics"),
    (STAGE, "PPOTrainer._save_checkpoint"): ("self",),
    (STAGE, "PPOTrainer._load_checkpoint"): ("self",),
    (STAGE, "compute_advantage_for_multi_trajectories"): ("data", "batch_keys", "adv_estimator"),
    (STAGE, "tq.kv_batch_get"): ("keys", "partition_id", "select_fields"),
    (STAGE, "tq.kv_batch_put"): ("keys", "partition_id", "fields"),
}
"""Names that are replaced or called, with the parameters that are counted on, in any order behind the first."""

FIELDS = ("prompts", "responses", "response_mask", "loss_mask", "extra_fields")
"""Fields of a row in the queue that are read besides the columns of numbers."""

COLUMNS = {
    "logp": ("rollout_log_probs", "old_log_probs"),
    "ref_logp": ("ref_log_prob",),
    "entropy": ("entropy",),
    "token_values": ("values",),
}
"""Numbers per response token, and under which names verl has them, best first."""


def problem(module: ModuleType, home: str) -> str:
    """One sentence on what this verl lacks of what is relied on in ``home``, or ""."""
    for (where, dotted), wanted in RELIED_ON.items():
        if where != home:
            continue
        found: Any = module
        for name in dotted.split("."):
            found = getattr(found, name, None)
        has = tuple(inspect.signature(found).parameters) if callable(found) else ()
        if not callable(found) or any(name not in has for name in wanted):
            return (
                f"verl {version()} has no {home}.{dotted}({', '.join(wanted)}), which apportion builds on; it was "
                f"tested with verl {TESTED[0]} to {TESTED[1]}, install one of these"
            )
    return ""


def check_config(config: Any, crediting: Crediting) -> None:
    """Refuse settings of the trainer under which credit would be lost, or a critic would have nothing to learn.

    Args:
        config: the trainer's whole configuration. crediting: the method.

    Raises:
        ConfigError: the setting, why, and what to use instead.
    """
    mode = at(config, "actor_rollout_ref", "actor", "policy_loss", "loss_mode")
    if crediting.varies_inside and mode == "geo_mean":
        raise ConfigError(
            f"policy_loss.loss_mode=geo_mean gives every token of a row the row's mean advantage, so the credit of "
            f"{crediting.method!r} would be lost; use vanilla, gspo or cispo, or +algorithm.apportion.unit=episode"
        )
    if at(config, "critic", "enable") is True and len(value_readers(crediting)) != 1:
        raise ConfigError(no_target(crediting))


def warn_if_untested() -> None:
    """Say once that this verl is another than those of the tests, where it still has every name that is relied on."""
    minor = ".".join(version().split(".")[:2])
    if minor not in TESTED:
        warnings.warn(
            f"verl {version()} is not one that apportion was tested with ({TESTED[0]} to {TESTED[1]}); compare "
            "apportion/grpo with epsilon=1e-6 and group_of_one=raw with verl's grpo before you trust it",
            stacklevel=2,
        )


def value_readers(crediting: Crediting) -> list[Leaf]:
    """The methods of the expression that read values."""
    return [leaf for leaf in leaves(parse(crediting.method)) if "value_S" in get(leaf.name).reads]


def no_target(crediting: Crediting) -> str:
    """Why a critic cannot be trained beside this method."""
    return (
        f"a critic is trained, and {len(value_readers(crediting))} methods of {crediting.method!r} read its values, so "
        "it has no target; set critic.enable=false, or use one method on values, like gae"
    )


def at(config: Any, *names: str) -> Any:
    """What stands under these names, None where one of them is absent."""
    for name in names:
        config = None if config is None else config.get(name, None)
    return config


def version() -> str:
    """Of the installed verl."""
    try:
        return importlib.metadata.version("verl")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
