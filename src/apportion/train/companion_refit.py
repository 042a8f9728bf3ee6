"""Credit models that are fitted to each batch beside the policy: a value head, AgentPRM, an implicit reward.

credit="value_head"        PPO's critic, before tokens (method `gae`), steps (`step_gae`) or turns (`turn_gae`)
credit="agentprm"          promises of steps, labels by temporal differences (`agentprm`)
credit="implicit_reward"   log-ratios of a language model to its start, from outcomes (`prime`; `istar` with loss "dpo")

Values and promises are told before the batch is learned: a critic that has seen how a rollout ended holds a part of
that in the baseline of its actions. An implicit reward is told behind it, as PRIME has it; ``order`` changes that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from apportion.assign import check_expression
from apportion.assign.expression import leaves
from apportion.errors import ConfigError
from apportion.methods import get
from apportion.models import AgentPRM, Backbone, ImplicitReward, Settings, TokenModel, ValueHead
from apportion.models.refitting import Refit
from apportion.numerics import to_go
from apportion.numerics.value_quality import explained_variance
from apportion.train.companion_params import OWN, known_only, trunk_of, warmup_of
from apportion.train.config import COMPANIONS, TrainConfig
from apportion.train.policy import Policy
from apportion.units import Units, with_batch

PASSES = tuple(f.name for f in fields(Settings) if f.name not in ("held_out", "seed"))
ORDERS = ("tell_first", "learn_first")


@dataclass(frozen=True, slots=True)
class _Kind:
    """A model, its trunk, what its constructor takes, what its fit takes, and the order."""

    model: Any
    trunk: type[Backbone]
    build: tuple[str, ...]
    fit: tuple[str, ...]
    order: str = "tell_first"
    own: tuple[str, ...] = ()


KINDS: Mapping[str, _Kind] = {
    "value_head": _Kind(ValueHead, Backbone, ("gamma", "hidden"), ("lam", "clip")),
    "agentprm": _Kind(AgentPRM, Backbone, ("hidden",), ("gamma", "lam", "beta", "progress_target")),
    "implicit_reward": _Kind(
        ImplicitReward, TokenModel, ("score", "success"), ("loss", "beta"), "learn_first", ("order",)
    ),
}


class Refitted:
    """A credit model that is fitted to each batch.

    Args:
        config: of the run; ``credit_params`` may name arguments of the model and of its fit (see `KINDS`), of
            `Settings`, and `companion_params.OWN`. ``gamma``, ``lam`` and ``beta`` are by default those of the method
            that reads the model; the trunk is by default a copy of the policy that the run starts with.
            ``order`` of "implicit_reward": "learn_first" or "tell_first".
        policy: that the run starts with.

    Raises:
        ConfigError: a parameter that is not there or cannot be used.
    """

    def __init__(self, config: TrainConfig, policy: Policy) -> None:
        assert config.credit is not None
        kind = self.kind = KINDS[config.credit]
        given = self.given = known_only(config, (*kind.build, *kind.fit, *PASSES, *kind.own, *OWN))
        self.config, self.policy = config, policy
        self.folder, self.warmup = Path(config.out) / "credit", warmup_of(given)
        self.order = given.get("order", kind.order)
        if self.order not in ORDERS:
            raise ConfigError(f"credit_params: order is {self.order!r}; give one of {', '.join(ORDERS)}")
        chosen = {**_of_method(config), **given}
        self.build = {name: chosen[name] for name in kind.build if name in chosen}
        self.fit = {name: chosen[name] for name in kind.fit if name in chosen}
        passes = {name: given[name] for name in PASSES if name in given}
        self.settings = Settings(**passes, held_out=0.0, seed=config.seed)
        checked = {**self.fit, **({"gamma": self.build["gamma"]} if "gamma" in self.build else {})}
        kind.model.check_task(**checked)
        self.begin()

    def begin(self) -> None:
        """Make the model anew; to be called again once the policy that the run starts with is written."""
        kind, trunk = self.kind, trunk_of(self.config, self.policy, self.given, self.kind.trunk, "policy")
        more: dict[str, Any] = {"level": self.config.cut} if kind.model is ValueHead else {}
        more |= {"seed": self.config.seed} if kind.trunk is not TokenModel else {}
        self.model = kind.model(trunk, **self.build, **more)
        self.refit = Refit(self.model, self.settings)

    def iteration(self, units: Units) -> tuple[Units, dict[str, float]]:
        """The units with what the model says of them, and numbers for the log of the run.

        ``steps`` and ``loss`` of its fit; of the batch before it was learned: ``explained_variance`` of the returns
        (of the outcomes by promises), or ``accuracy`` and ``auc`` of an implicit reward; ``clip_share`` with ``clip``.
        """
        told = self.told(units) if self.order == "tell_first" else None
        task = self.model.task(units.batch, self.settings, **self.fit)
        numbers = self._measured(task, told)
        numbers |= self.refit.update(task)
        if self.fit.get("clip") is not None:
            numbers["clip_share"] = task.clipped / max(task.read, 1)
        told = self.told(units) if told is None else told
        return told, {name: x for name, x in numbers.items() if np.isfinite(x)}

    def told(self, units: Units) -> Units:
        """The units with what the model says of them."""
        return with_batch(units, self.model.predict(units.batch))

    def save(self, iteration: int, *, keep: int) -> None:
        """State after some iterations; to be called before the policy is saved, so that it is there when that is."""
        self.refit.save_state(self.folder, number=iteration, keep=keep + 1)

    def go_on(self, iteration: int) -> None:
        """Be as after some iterations.

        Raises:
            CheckpointError: that state is missing or damaged.
        """
        self.refit.go_on_from(self.folder, number=iteration)

    def finish(self) -> None:
        """Write the fitted model, for `apportion.models.load`."""
        self.model.save(self.folder)

    def _measured(self, task: Any, told: Units | None) -> dict[str, float]:
        if isinstance(self.model, ImplicitReward):
            found = task.measured_on(task.read)
            return {name: found[name][0] for name in ("accuracy", "auc") if found[name][0] is not None}
        assert told is not None
        if isinstance(self.model, ValueHead):
            assert told.value_S is not None
            value_S, came_S = told.value_S, to_go(told.reward_S, told.traj_of_S, gamma=self.model.gamma)
        else:
            value_S, came_S = told.reward_parts["promise"], told.outcome_N[told.traj_of_S]
        known = told.valid_S & np.isfinite(value_S)
        return {"explained_variance": explained_variance(value_S[known], came_S[known])}


def _of_method(config: TrainConfig) -> dict[str, Any]:
    """gamma, lam and beta of the method that reads the model."""
    readers = COMPANIONS[config.credit or ""]
    for leaf in leaves(check_expression(config.method, config.method_params)):
        if leaf.name in readers:
            bound = {**get(leaf.name).defaults, **leaf.params}
            return {name: bound[name] for name in ("gamma", "lam", "beta") if name in bound}
    return {}
