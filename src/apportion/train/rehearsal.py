"""Two episodes before a run: whether its rollouts can be credited as the settings say, before anything is written."""

from __future__ import annotations

from apportion.assign import assign, whom_asks
from apportion.data import Batch
from apportion.errors import ConfigError, DataError
from apportion.train.companion import Companion
from apportion.train.config import TRAIN_SEED, TrainConfig
from apportion.train.policy import Policy
from apportion.train.rollout import Collector

REHEARSAL_STREAM = 6


def rehearse(config: TrainConfig, collector: Collector, policy: Policy, companion: Companion | None = None) -> None:
    """Play one task twice and credit it; the draws are of a stream of their own, so no number of the run changes.

    Args:
        config: of the run. collector: of its environment. policy: as it is before cloning.
        companion: the credit model beside it; here it only predicts.

    Raises:
        ConfigError: the method needs what these rollouts have not, or one of its parameters cannot be used.
    """
    seed = TRAIN_SEED * (config.seed + 1)
    played = collector.collect(policy, [seed], rollouts=2, stream=(config.seed, REHEARSAL_STREAM))
    try:
        units = config.units(Batch.from_trajectories(played.trajectories))
        units = units if companion is None else companion.told(units)
        asked = whom_asks(config.method, units, **config.method_params)
        if not asked:
            assign(config.method, units, **config.method_params)
    except (ConfigError, DataError) as problem:
        raise ConfigError(f"rollouts of {config.env} cannot be credited: {problem}") from None
    if asked:
        whom = " and a ".join(who.replace("_", " ") for who in asked)
        raise ConfigError(f"{config.method!r} asks a {whom}, and a training run has none; take one that asks nobody")
