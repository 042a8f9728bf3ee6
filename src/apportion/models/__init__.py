"""Learned credit: models that are fitted to rollouts and predict what a method reads. Needs the extra ``train``.

    model  = ap.models.ValueHead.fit(batch, backbone="small")
    credit = ap.assign("gae", ap.by_token(batch), values=model)

rows → backbone (hidden states before each place) → head → targets, loss, fit → predict: columns of the same rollouts.
"""

from pathlib import Path
from typing import Any

from apportion.errors import CheckpointError
from apportion.models.agentprm import AgentPRM
from apportion.models.archer import ArCHerCritic
from apportion.models.backbone import Backbone, TokenModel
from apportion.models.fitting import Fitted, Settings
from apportion.models.implicit import ImplicitReward
from apportion.models.prm import StepPRM
from apportion.models.refitting import Refit
from apportion.models.saving import described
from apportion.models.sweet import SweetCritic
from apportion.models.value_head import ValueHead

KINDS: dict[str, Any] = {
    "value_head": ValueHead,
    "agentprm": AgentPRM,
    "archer": ArCHerCritic,
    "implicit_reward": ImplicitReward,
    "prm": StepPRM,
    "sweet": SweetCritic,
}
"""Every credit model by its name on the command line."""


def load(folder: str | Path, *, backbone: Backbone | None = None) -> Any:
    """Read a fitted model of any kind.

    Args:
        folder: where it was saved. backbone: its trunk, where that was handed over as an object.

    Raises:
        CheckpointError: no model is there, or it is damaged or of another version.
    """
    kind = described(folder)["kind"]
    for model in KINDS.values():
        if model.__name__ == kind:
            return model.load(folder, backbone=backbone)
    raise CheckpointError(f"{folder} holds a {kind!r}, which this version does not know; fit the model again")


__all__ = [
    "KINDS",
    "AgentPRM",
    "ArCHerCritic",
    "Backbone",
    "Fitted",
    "ImplicitReward",
    "Refit",
    "Settings",
    "StepPRM",
    "SweetCritic",
    "TokenModel",
    "ValueHead",
    "load",
]
