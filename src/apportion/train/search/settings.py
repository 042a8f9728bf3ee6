"""Settings of a search, and the policy that it is done with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from apportion.errors import ConfigError
from apportion.train.config import EVAL_SEED, TrainConfig

SCORES = ("last", "min", "mean")
"""What the promises of a rollout's steps are folded to; "last" is the paper's."""
MODES = ("both", "best-of-n", "beam")
OF_POLICY = ("prompt", "window", "actions", "max_action_tokens", "temperature", "micro_tokens", "device", "threads")
"""Settings of a run that say how its policy is asked."""
OF_RUN = ("env", "env_options", "eval_options", *OF_POLICY)


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How is searched, and on what.

    Attributes:
        mode: "best-of-n", "beam" or "both". Best-of-N is always played: it is the control of the beam.
        n: whole rollouts of each task; None = width x branch, about the actions that the beam samples.
        width, branch: of the beam: rollouts that are kept, actions that are sampled from each.
        score: promises of a rollout's steps to its score, "last", "min" or "mean".
        tasks: how many. first: seed of the first; by default the tasks that training never plays.
        seed: of the draws.
        at_once: tasks that are searched together, and finished or not together when a search is stopped.
    """

    mode: str = "both"
    n: int | None = None
    width: int = 4
    branch: int = 4
    score: str = "last"
    tasks: int = 64
    first: int = EVAL_SEED
    seed: int = 0
    at_once: int = 8

    def __post_init__(self) -> None:
        for name, value, known in (("mode", self.mode, MODES), ("score", self.score, SCORES)):
            if value not in known:
                raise ConfigError(f"search: {name} is {value!r}; give one of {', '.join(known)}")
        least = {"n": 1, "width": 1, "branch": 1, "tasks": 1, "first": 0, "seed": 0, "at_once": 1}
        for name, low in least.items():
            value = getattr(self, name)
            if name == "n" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                raise ConfigError(f"search: {name} is {value!r}; give a whole number from {low} up")
        if self.beams and self.width * self.branch == 1:
            raise ConfigError("search: a beam of width 1 with branch 1 chooses nothing; give a larger branch")

    @property
    def rollouts(self) -> int:
        """Whole rollouts of each task."""
        return self.width * self.branch if self.n is None else self.n

    @property
    def beams(self) -> bool:
        """Whether there is a beam."""
        return self.mode != "best-of-n"

    @property
    def chunks(self) -> list[range]:
        """Seeds of the tasks that are searched together."""
        end = self.first + self.tasks
        return [range(k, min(k + self.at_once, end)) for k in range(self.first, end, self.at_once)]

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "n": self.rollouts}


def run_config(folder: str | Path, *, env: str | None = None, overrides: Sequence[str] = ()) -> TrainConfig:
    """How a policy of `apportion train` is asked, and on which environment: that of its run, held-out options included.

    Args:
        folder: the run, or its ``policy`` (or ``start``) folder.
        env: another environment; its options are then its own, by default.
        overrides: ``key=value`` as for `TrainConfig.with_overrides`, of `OF_RUN`.

    Raises:
        ConfigError: no policy is there, no environment is named, or a setting that a search does not read.
    """
    folder = Path(folder)
    weights = folder / "policy" if (folder / "policy").is_dir() else folder
    if not (weights / "config.json").is_file():
        raise ConfigError(f"{folder} holds no policy; give the folder of a run of `apportion train`, or its policy/")
    told = _echoed(weights.parent / "config.json")
    if env is not None and env != told.get("env"):
        told = {name: value for name, value in told.items() if name in OF_POLICY} | {"env": env}
    if "env" not in told:
        raise ConfigError(f"{weights.parent} does not tell the environment of the policy; name it with --env")
    for item in overrides:
        key = item.partition("=")[0].strip().partition(".")[0]
        if key not in OF_RUN:
            raise ConfigError(f"search reads no setting {key!r}; there are {', '.join(OF_RUN)}")
    held_out = told.pop("eval_options", {})
    told["env_options"] = {**told.get("env_options", {}), **held_out}
    return TrainConfig.from_mapping({**told, "start": str(weights)}).with_overrides(overrides)


def _echoed(file: Path) -> dict[str, Any]:
    """Settings that a run left beside its policy; none where there is no such file."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return {name: found[name] for name in OF_RUN if name in found}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError) as problem:
        raise ConfigError(f"{file} cannot be read ({problem}); give the folder of a run of `apportion train`") from None
