"""ArCHer's critic beside the policy: each batch goes into its buffer, and it says what credit is read from.

credit="archer"      `apportion.models.ArCHerCritic` on a trunk of its own, which reads the policy's token ids
out/credit/          the fitted model; its buffer and state, which a run goes on from
"""

from __future__ import annotations

from pathlib import Path

from apportion.models import ArCHerCritic, Backbone
from apportion.train.companion_params import OWN, known_only, trunk_of, warmup_of
from apportion.train.config import TrainConfig
from apportion.train.policy import Policy
from apportion.units import Units, with_batch

BUILD = ("gamma", "tau", "expectile", "timeout", "capacity", "hidden")
UPDATE = ("steps", "draws", "lr", "clip_norm", "micro_tokens")


class ArCHerCompanion:
    """ArCHer's critic in a training run.

    Args:
        config: of the run; ``credit_params`` may name arguments of `ArCHerCritic` (gamma, tau, expectile, timeout,
            capacity, hidden), of its `update` (steps, draws, lr, clip_norm, micro_tokens), and `companion_params.OWN`;
            the trunk is "small" by default. ``timeout`` is "terminal" where the limit of steps belongs to the task.
        policy: that the run starts with.

    Raises:
        ConfigError: a parameter that is not there or cannot be used.
    """

    def __init__(self, config: TrainConfig, policy: Policy) -> None:
        given = self.given = known_only(config, (*BUILD, *UPDATE, *OWN))
        self.config, self.policy = config, policy
        self.folder, self.warmup = Path(config.out) / "credit", warmup_of(given)
        self.how = {name: given[name] for name in UPDATE if name in given}
        self.begin()
        self.critic.check_update(**self.how)

    def begin(self) -> None:
        """Make the critic anew; to be called again once the policy that the run starts with is written."""
        trunk = trunk_of(self.config, self.policy, self.given, Backbone, "small")
        build = {name: self.given[name] for name in BUILD if name in self.given}
        self.critic = ArCHerCritic(trunk, level=self.config.cut, folder=self.folder, seed=self.config.seed, **build)

    def iteration(self, units: Units) -> tuple[Units, dict[str, float]]:
        """Take an iteration's rollouts in and make steps; the units with what the critic then says of them, and numbers
        for the log of the run."""
        numbers = self.critic.update(units.batch, **self.how)
        return self.told(units), numbers

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
