"""Names for verl's registry of estimators: one ``apportion/<method>`` for each method there is.

A registered estimator sees rewards, a mask and group names, so it can serve methods that need no more: those of whole
rollouts. It is what trainers call that have no advantage stage of their own. For every other method the name says, when
it is reached, that the stage is missing which would have told it more.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from apportion.adapters.verl.contract import ESTIMATORS, LEGACY, STAGE, TESTED, problem, version
from apportion.adapters.verl.crediting import credit_rows
from apportion.adapters.verl.rollouts import Part, unpadded
from apportion.adapters.verl.settings import PREFIX, Settings, settings_of
from apportion.assign import parse
from apportion.assign.expression import leaves
from apportion.errors import ConfigError
from apportion.methods import get, names


def register_names(module: ModuleType) -> None:
    """Put every method of ours, plug-ins too, into the registry of verl's module; once."""
    if hasattr(module, "_apportion") or problem(module, ESTIMATORS):
        return
    module._apportion = True  # type: ignore[attr-defined]
    for name in names("method", plugins=True):
        module.register_adv_est(f"{PREFIX}{name}")(estimator(name))


def outcome_only(settings: Settings) -> bool:
    """Scores and group names are all that it needs: one number for a whole rollout, from outcomes alone."""
    specs = [get(leaf.name) for leaf in leaves(parse(settings.crediting.method))]
    return settings.crediting.cut[0] == "episode" and all(
        spec.unit == "episode" and set(spec.reads) <= {"reward_S"} and spec.plan is None for spec in specs
    )


def estimator(name: str) -> Callable[..., tuple[Any, Any]]:
    """The function behind ``apportion/<name>`` in verl's registry, which calls it by keyword."""

    def advantage(
        token_level_rewards: Any, response_mask: Any, config: Any = None, index: Any = None, **_: Any
    ) -> tuple[Any, Any]:
        settings = settings_of(PREFIX + name, config)
        assert settings is not None
        if not outcome_only(settings):
            raise ConfigError(
                f"apportion/{name} needs more than scores and groups (steps, states, token ids or values), and this "
                f"trainer of verl {version()} has neither {STAGE}.PPOTrainer._compute_advantage nor "
                f"{LEGACY}.compute_advantage as apportion knows them; use verl {TESTED[0]} to {TESTED[1]}, or "
                "apportion/grpo, dr_grpo or rloo"
            )
        if index is None:
            raise ConfigError(f"apportion/{name} compares rows of one uid, and none came; keep 'uid' in the batch")
        return from_scores(settings, token_level_rewards, response_mask, index)

    advantage.__name__ = f"apportion_{name.replace('/', '_')}"
    return advantage


def from_scores(settings: Settings, rewards: Any, mask: Any, groups: Any) -> tuple[Any, Any]:
    """Advantages and returns of padded rows, each a rollout of its own."""
    from apportion.adapters.verl.stage import tensor_like

    width = mask.shape[1]
    parts = []
    for at, group in enumerate(groups):
        sampled = unpadded(mask[at], width).astype(bool)
        parts.append(
            Part(
                at=at,
                group=str(group),
                rollout=str(at),
                order=0,
                prompt_ids=np.zeros(0, dtype=np.int64),
                ids=np.zeros(width, dtype=np.int64),
                sampled=sampled,
                trained=sampled,
                score=unpadded(rewards[at], width).astype(np.float64),
            )
        )
    result = credit_rows(settings, parts)
    advantages = tensor_like(rewards, result.advantage, tuple(mask.shape))
    return advantages, advantages
