"""A policy that a run left, with the environment it plays, from the run's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apportion.data.atomic import atomic_write
from apportion.errors import ConfigError
from apportion.train.config import TrainConfig
from apportion.train.policy import Policy
from apportion.train.rollout import Collector


def of_run(folder: str | Path, *, which: str = "policy") -> tuple[TrainConfig, Policy, Collector]:
    """The settings of a run, its policy, and who plays its environment.

    Args:
        folder: of the run, as `apportion train` or `apportion pairs train` leaves it.
        which: "policy", as it ended, or "start", as reinforcement learning began.

    Raises:
        ConfigError: no run is there, or one that has not come so far.
    """
    folder = Path(folder)
    if which not in ("policy", "start"):
        raise ConfigError(f"a run leaves 'policy' and 'start', not {which!r}")
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} holds no run; give the folder of `apportion train --out`")
    if not (folder / which / "config.json").is_file():
        raise ConfigError(f"{folder} holds no {which} yet; let the run come to its end")
    config = TrainConfig.from_file(folder / "config.json")
    played: dict[str, Any] = {
        "method": "",
        "method_params": {},
        "credit": None,
        "credit_params": {},
        "unit": None,
        "model": None,
    }
    begun = TrainConfig.from_mapping({**config.to_mapping(), **played, "start": str(folder / which)})
    collector = Collector(config.env, config.env_options, micro_tokens=config.micro_tokens)
    return config, Policy.from_config(begun, collector.env), collector


def write_config(out: str | Path, config: TrainConfig, *, start: Path) -> None:
    """Make a folder with a ``policy`` a run: its settings, those of the run that it comes from.

    Args:
        out: the folder. config: of the other run. start: the policy that it began with.
    """
    begun = {"start": str(start), "model": None, "clone_episodes": 0, "out": str(out)}
    with atomic_write(Path(out) / "config.json") as file:
        file.write(TrainConfig.from_mapping({**config.to_mapping(), **begun}).to_json().encode())
