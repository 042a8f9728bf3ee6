"""A credit model beside the policy: it learns from each batch, or stays as it is, and says what credit is read from.

credit="archer"                                        `companion_archer`
credit="value_head", "agentprm", "implicit_reward"     `companion_refit`
credit=FOLDER                                          `fitted`, a finished model
"""

from __future__ import annotations

from typing import Protocol

from apportion.train.companion_archer import ArCHerCompanion
from apportion.train.companion_refit import Refitted
from apportion.train.config import COMPANIONS, TrainConfig
from apportion.train.fitted import FittedModel
from apportion.train.policy import Policy
from apportion.units import Units


class Companion(Protocol):
    """What the training loop calls.

    Attributes:
        warmup: iterations in which the policy stays as it is.
    """

    warmup: int

    def begin(self) -> None:
        """The policy that the run starts with has been written."""

    def iteration(self, units: Units) -> tuple[Units, dict[str, float]]:
        """The units of an iteration with what the model says of them, and numbers for the log of the run."""

    def told(self, units: Units) -> Units:
        """The units with what the model says of them, without learning."""

    def save(self, iteration: int, *, keep: int) -> None:
        """State after some iterations; to be called before the policy is saved, so that it is there when that is."""

    def go_on(self, iteration: int) -> None:
        """Be as after some iterations, or raise CheckpointError."""

    def finish(self) -> None:
        """The run is at its end."""


def companion_of(config: TrainConfig, policy: Policy) -> Companion | None:
    """What the settings ask for; None where they ask for none.

    Raises:
        ConfigError: a parameter that is not there or cannot be used.
    """
    if config.credit is None:
        return None
    if config.credit not in COMPANIONS:
        return FittedModel(config, len(policy.tokenizer))
    return ArCHerCompanion(config, policy) if config.credit == "archer" else Refitted(config, policy)
