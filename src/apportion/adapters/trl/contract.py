"""What of TRL's trainer is relied on, and what cannot be right with credit that varies inside a rollout."""

from __future__ import annotations

import importlib.metadata
import inspect
import warnings
from collections.abc import Mapping
from typing import Any

from apportion.adapters.crediting import Crediting
from apportion.assign import check_expression
from apportion.assign.expression import Leaf, leaves
from apportion.errors import ConfigError
from apportion.methods import get

TESTED = ("1.16", "1.16")
"""First and last minor version of TRL that the tests ran against."""

METHODS = {
    "_generate_and_score_completions": ("self", "inputs"),
    "_calculate_rewards": ("self", "inputs", "prompts", "completions", "completion_ids_list"),
    "_generate_single_turn": ("self", "prompt_ids"),
    "_get_per_token_logps_and_entropies": ("self", "model", "input_ids", "attention_mask", "logits_to_keep"),
    "_compute_loss": ("self", "model", "inputs"),
}
"""Private methods that are overridden or relied on, with their parameters."""

ATTRIBUTES = (
    "accelerator",
    "environments",
    "eos_token_ids",
    "num_generations",
    "num_generations_eval",
    "processing_class",
    "reward_func_names",
    "reward_weights",
    "rollout_func",
    "_logs",
    "_metrics",
)
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
    if (by := getattr(trainer, "credit_method", None)) is not None:
        raise ConfigError(
            f"{trainer.__name__} credits by {by!r} already; give with_credit the trainer that it was made of, and "
            "add methods up in one expression, like 'grpo + 0.5*anchor'"
        )
    for name, parameters in METHODS.items():
        method = getattr(bases["GRPOTrainer"], name, None)
        found = tuple(inspect.signature(method).parameters)[: len(parameters)] if callable(method) else ()
        if found != parameters:
            raise ConfigError(
                f"TRL {version} has no {name}({', '.join(parameters)}); with_credit was tested with TRL {TESTED[0]} to "
                f"{TESTED[1]}, install one of these"
            )
    for base in trainer.__mro__:
        if base.__name__ == "GRPOTrainer":
            break
        loss = vars(base).get("_compute_loss")
        if loss is not None and not _takes_tokens(loss):
            raise ConfigError(
                f"{base.__name__} has a _compute_loss of its own, which neither calls GRPOTrainer's nor asks for "
                "advantages.dim(); write it for advantages of shape (B, T), or leave the loss to GRPOTrainer"
            )
    if "advantages.dim()" not in inspect.getsource(vars(bases["GRPOTrainer"])["_compute_loss"]):
        raise ConfigError(
            f"TRL {version} no longer takes advantages of shape (B, T); with_credit was tested with TRL {TESTED[0]} to "
            f"{TESTED[1]}, install one of these"
        )


def check_attributes(trainer: Any) -> None:
    """Refuse a trainer that lacks what is read."""
    missing = [name for name in ATTRIBUTES if not hasattr(trainer, name)]
    if missing:
        raise ConfigError(
            f"the trainer of TRL {_version()} has no {missing[0]}; with_credit was tested with TRL {TESTED[0]} to "
            f"{TESTED[1]}, install one of these"
        )


def check_settings(args: Any, crediting: Crediting, *, rollouts_tell: bool) -> None:
    """Refuse settings under which credit would be thrown away, turned around or could never be made.

    Args:
        args: the trainer's GRPOConfig.
        crediting: the method.
        rollouts_tell: a `rollout_func` or an environment can give numbers that TRL has not.

    Raises:
        ConfigError: the setting, why, and what to use instead.
    """
    method = crediting.method
    _check_inputs(args, crediting, rollouts_tell)
    if getattr(args, "multi_objective_aggregation", "sum_then_normalize") == "normalize_then_sum":
        raise ConfigError(
            "multi_objective_aggregation='normalize_then_sum' would have no effect, since the advantage comes from "
            f"{method!r}; leave it at its default, and use the method 'gdpo' to normalise each reward by itself"
        )
    _warn_of_scale(getattr(args, "scale_rewards", "group"), crediting)
    if not crediting.varies_inside:
        return
    specs = [get(leaf.name) for leaf in leaves(check_expression(method, crediting.params))]
    alike = all(spec.kind == "method" and (not spec.units or "episode" in spec.units) for spec in specs)
    whole = "unit='episode'" if alike else "a method that gives a rollout one number, such as 'grpo'"
    if getattr(args, "importance_sampling_level", "token") == "sequence":
        raise ConfigError(
            f"importance_sampling_level='sequence' gives every token of a rollout the rollout's mean advantage, so the "
            f"credit of {method!r} would be lost; use 'token', or {whole}"
        )
    if getattr(args, "loss_type", "grpo") == "vespo":
        raise ConfigError(
            "loss_type='vespo' picks its weights by the sign of a whole rollout's advantage, which credit inside a "
            f"rollout has not; use 'dapo', 'grpo', 'dr_grpo', 'bnpo', 'cispo', 'sapo' or 'luspo', or {whole}"
        )
    if getattr(args, "off_policy_mask_threshold", None) is not None:
        raise ConfigError(
            "off_policy_mask_threshold drops whole rollouts of negative advantage, and credit inside a rollout has "
            f"both signs; leave it None, or use {whole}"
        )


def check_weights(crediting: Crediting, weights: Mapping[str, float]) -> None:
    """Refuse weights of reward functions that a method would not see, since it adds the parts up by weights of its own.

    Raises:
        ConfigError: what to give the method.
    """
    if all(weight == 1 for weight in weights.values()):
        return
    for leaf in leaves(check_expression(crediting.method, crediting.params)):
        spec = get(leaf.name)
        if "outcome_parts" in spec.reads and "weights" in spec.defaults and not leaf.params.get("weights"):
            names, numbers = list(weights), list(weights.values())
            raise ConfigError(
                f"reward_weights={numbers} do not reach {leaf.name!r}, which adds the rewards up itself; give it "
                f"{leaf.name}(parts={names}, weights={numbers})"
            )


SCALED = {"std": "group", "batch": "batch", "none": "none"}
"""What the parameter `scale` of a method is called in TRL."""


def _warn_of_scale(setting: str | bool, crediting: Crediting) -> None:
    """Say that ``scale_rewards`` is not applied, where the method does something else."""
    wanted = {True: "group", False: "none"}.get(setting, setting) if isinstance(setting, bool) else setting
    done = {_scale_of(leaf) for leaf in leaves(check_expression(crediting.method, crediting.params))}
    if done == {wanted}:
        return
    if wanted != "group":
        warnings.warn(
            f"scale_rewards={setting!r} has no effect: how credit is scaled is a parameter of {crediting.method!r} "
            "(scale=, where it has one)",
            stacklevel=4,
        )
    elif done == {"none"}:
        warnings.warn(
            f"scale_rewards='group', TRL's default, is not applied: the credit of {crediting.method!r} is in reward "
            "units, so mind the learning rate where rewards are large; say scale='std' to the method (where it has "
            "one), or scale_rewards='none' to TRL if that is meant",
            stacklevel=4,
        )


def _scale_of(leaf: Leaf) -> str | None:
    """What a method divides credit by, in TRL's words; None = something else, or not known."""
    spec = get(leaf.name)
    if "scale" in spec.defaults and spec.kind == "method":
        scale = leaf.params.get("scale", spec.defaults["scale"])
        return SCALED.get(scale) if spec.scope == "group" or scale == "none" else None
    return "none" if "scale_equivariant" in spec.holds else None


def _check_inputs(args: Any, crediting: Crediting, rollouts_tell: bool) -> None:
    """What the method reads and TRL cannot have."""
    if crediting.reads("ref_logp_S") and getattr(args, "beta", 0.0) == 0.0:
        raise ConfigError(
            f"{crediting.method!r} reads log-probabilities of a reference policy, and with beta=0 TRL has none; give "
            "GRPOConfig a beta above 0, however small"
        )
    if rollouts_tell:
        return
    if crediting.reads("value_S"):
        tell = "'token_values' (one per completion token)"
        if crediting.cut[0] != "token":
            tell = f"'values' (one per step) or {tell}, or an environment keep 'values'"
        raise ConfigError(
            f"{crediting.method!r} reads the values of a critic, and TRL has none; let rollout_func return {tell}, or "
            "choose a method without a critic"
        )
    for column in crediting.all_reads():
        kind, _, name = column.partition(":")
        if kind == "column":
            raise ConfigError(
                f"{crediting.method!r} reads the column {name!r}, and TRL has none; let rollout_func return 'columns', "
                f"for each row a dict like {{{name!r}: [one number per completion token]}}"
            )


def _takes_tokens(loss: Any) -> bool:
    try:
        source = inspect.getsource(loss)
    except OSError:  # typed into an interpreter
        return True
    return "._compute_loss(" in source or "advantages.dim()" in source


def _version() -> str:
    try:
        return importlib.metadata.version("trl")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
