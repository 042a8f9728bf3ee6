"""What of TRL's trainer is relied on, and what cannot be right with credit that varies inside a rollout."""

from __future__ import annotations

import importlib.metadata
import inspect
from typing import Any

from apportion.errors import ConfigError

TESTED = ("1.16", "1.16")
"""First and last minor version of TRL that the tests ran against."""

METHODS = {
    "_generate_and_score_completions": ("self", "inputs"),
    "_calculate_rewards": ("self", "inputs", "prompts", "completions", "completion_ids_list"),
    "_compute_loss": ("self", "model", "inputs"),
}
"""Private methods that are overridden or relied on, with their parameters."""

ATTRIBUTES = ("num_generations", "num_generations_eval", "reward_weights", "accelerator", "eos_token_ids", "loss_type")
"""Attributes of a trainer that are read."""


def check_class(trainer: type) -> None:
    """Refuse what is no GRPOTrainer, or one of a TRL that changed what is relied on.

    Raises:
        ConfigError: in one sentence.
    """
    version = _version()
    bases = {base.__name__: base for base in trainer.__mro__} if isinstance(trainer, type) else {}
    if "GRPOTrainer" not in bases or "GMPOTrainer" in bases:
        name = getattr(trainer, "__name__", repr(trainer))
        raise ConfigError(
            f"with_credit takes trl.GRPOTrainer or a subclass of it, got {name}; only its loss takes one advantage per "
            "token (RLOOTrainer's and GMPOTrainer's take one per rollout, so credit inside a rollout would be lost)"
        )
    for name, parameters in METHODS.items():
        method = getattr(trainer, name, None)
        found = tuple(inspect.signature(method).parameters)[: len(parameters)] if callable(method) else ()
        if found != parameters:
            raise ConfigError(
                f"TRL {version} has no {name}({', '.join(parameters)}); with_credit was tested with TRL {TESTED[0]} to "
                f"{TESTED[1]}, install one of these"
            )
    if "advantages.dim()" not in inspect.getsource(vars(bases["GRPOTrainer"])["_compute_loss"]):
        raise ConfigError(
            f"TRL {version} no longer takes advantages of shape (B, T); with_credit was tested with TRL {TESTED[0]} to "
            f"{TESTED[1]}, install one of these"
        )


def check_settings(args: Any, *, varies_inside: bool, method: str) -> None:
    """Refuse settings under which credit inside a rollout would be thrown away or turned around.

    Args:
        args: the trainer's GRPOConfig.
        varies_inside: the credit may differ between tokens of one rollout.
        method: for the message.

    Raises:
        ConfigError: the setting, why, and what to use instead.
    """
    if not varies_inside:
        return
    loss = getattr(args, "loss_type", "grpo")
    level = getattr(args, "importance_sampling_level", "token")
    if level == "sequence":
        raise ConfigError(
            f"importance_sampling_level='sequence' gives every token of a rollout the rollout's mean advantage, so the "
            f"credit of {method!r} would be lost; use 'token', or unit='episode'"
        )
    if loss == "vespo":
        raise ConfigError(
            "loss_type='vespo' picks its weights by the sign of a whole rollout's advantage, which credit inside a "
            "rollout has not; use 'dapo', 'grpo', 'dr_grpo', 'bnpo', 'cispo' or 'sapo', or unit='episode'"
        )
    if getattr(args, "off_policy_mask_threshold", None) is not None:
        raise ConfigError(
            "off_policy_mask_threshold drops whole rollouts of negative advantage, and credit inside a rollout has "
            "both signs; leave it None, or use unit='episode'"
        )


def _version() -> str:
    try:
        return importlib.metadata.version("trl")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
