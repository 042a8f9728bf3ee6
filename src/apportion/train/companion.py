"""A credit model that learns beside the policy: each batch goes into its buffer, and it says what credit is read from.

credit="archer"      `apportion.models.ArCHerCritic` on a trunk of its own, which reads the policy's token ids
out/credit/          the fitted model; its buffer and state, which a run goes on from
"""

from __future__ import annotations

from pathlib import Path

from apportion.data import Batch
from apportion.errors import ConfigError
from apportion.models import ArCHerCritic, Backbone
from apportion.train.config import COMPANIONS, TrainConfig
from apportion.train.fitted import FittedModel
from apportion.units import Units, with_batch

BUILD = ("gamma", "tau", "expectile", "timeout", "capacity", "hidden")
UPDATE = ("steps", "draws", "lr", "clip_norm", "micro_tokens")
OWN = ("backbone", "tune", "warmup")


class Companion:
    """ArCHer's critic in a training run.

    Args:
        config: of the run; ``credit_params`` may name arguments of `ArCHerCritic` (gamma, tau, expectile, timeout,
            capacity, hidden), of its `update` (steps, draws, lr, clip_norm, micro_tokens), and: ``backbone`` and
            ``tune``, see `Backbone`; ``warmup``, iterations in which the critic alone learns, 0 by default. ``timeout``
            is "terminal" where the limit of steps belongs to the task.
        vocabulary: ids of the policy's tokenizer.

    Raises:
        ConfigError: a parameter that is not there or cannot be used.
    """

    def __init__(self, config: TrainConfig, vocabulary: int) -> None:
        given = dict(config.credit_params)
        known = (*BUILD, *UPDATE, *OWN)
        if unknown := [name for name in given if name not in known]:
            raise ConfigError(f"credit_params: {config.credit} takes no {unknown[0]!r}; there are {', '.join(known)}")
        self.warmup = given.get("warmup", 0)
        if not isinstance(self.warmup, int) or isinstance(self.warmup, bool) or self.warmup < 0:
            raise ConfigError(f"credit_params: warmup is {self.warmup!r}; give a number of iterations from 0 up")
        self.folder = Path(config.out) / "credit"
        self.how = {name: given[name] for name in UPDATE if name in given}
        model = given.get("backbone", "small")
        room = vocabulary + 1 if model == "small" else None  # one more: the token that begins a row
        trunk = Backbone(model, vocabulary=room, tune=given.get("tune", "all"), device=config.device, seed=config.seed)
        build = {name: given[name] for name in BUILD if name in given}
        self.critic = ArCHerCritic(trunk, level=config.cut, folder=self.folder, seed=config.seed, **build)
        self.critic.check_update(**self.how)

    def learn(self, batch: Batch) -> dict[str, float]:
        """Take an iteration's rollouts in and make steps; numbers for the log of the run."""
        return self.critic.update(batch, **self.how)

    def told(self, units: Units) -> Units:
        """The units with what the critic says of them."""
        return with_batch(units, self.critic.predict(units.batch))

    def save(self, iteration: int, *, keep: int) -> None:
        """State after some iterations; to be called before the policy is saved, so that it is there when that is."""
        self.critic.save_state(self.folder, number=iteration, keep=keep + 1)

    def go_on(self, iteration: int) -> None:
        """Be as after some iterations.

        Raises:
            CheckpointError: that state is missing or damaged.
        """
        self.critic.go_on_from(self.folder, number=iteration)

    def finish(self) -> None:
        """Write the fitted model, for `apportion.models.load`."""
        self.critic.save_model(self.folder)


def companion_of(config: TrainConfig, vocabulary: int) -> Companion | FittedModel | None:
    """What the settings ask for; None where they ask for none."""
    if config.credit is None:
        return None
    return Companion(config, vocabulary) if config.credit in COMPANIONS else FittedModel(config, vocabulary)
