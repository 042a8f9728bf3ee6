"""The embedded trainer: collect → assign → loss → update, on any causal language model of transformers.

    result = train(TrainConfig(env="crafttree", method="gigpo", out="runs/craft"))

Settings can be read without torch; training needs the extra `train`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from apportion.errors import missing_extra
from apportion.train.config import TrainConfig

if TYPE_CHECKING:
    from apportion.credit import Credit
    from apportion.train.listening import OnCredit
    from apportion.train.policy import Policy
    from apportion.train.result import Progress, RunResult
    from apportion.units import Units

__all__ = ["TrainConfig", "train"]


def train(
    config: TrainConfig,
    *,
    resume: bool = False,
    on_progress: Callable[[Progress], Any] | None = None,
    on_credit: OnCredit | Sequence[OnCredit] = (),
    credit_by: Callable[[Units, Policy], Credit] | None = None,
) -> RunResult:
    """Train as configured; see `apportion.train.loop.train`."""
    try:
        from apportion.train import loop
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "apportion":
            raise
        raise missing_extra("training", error.name or "torch", "train") from error
    return loop.train(config, resume=resume, on_progress=on_progress, on_credit=on_credit, credit_by=credit_by)
