"""A fitted credit model that stays as it is in a run: it says what each batch's credit is read from, and never learns.

credit="runs/prm"     a folder of `apportion models fit`; the method that reads it is taken by default
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.data.atomic import atomic_write
from apportion.errors import CheckpointError, ConfigError
from apportion.units import Units, with_batch

if TYPE_CHECKING:
    from apportion.train.config import TrainConfig

READERS: Mapping[str, tuple[str, ...]] = {
    "StepPRM": ("pure",),
    "AgentPRM": ("agentprm", "pure"),
    "ValueHead": ("step_gae", "gae", "turn_gae", "bilevel_gae"),
    "ArCHerCritic": ("archer",),
    "ImplicitReward": ("prime", "itpo", "istar", "implicit_q"),
    "SweetCritic": ("sweet_rl",),
}
"""Methods that read what a kind of model predicts; the first is taken where none is named."""


def readers_of(folder: str) -> tuple[str, ...]:
    """Methods that read the model in a folder; needs no torch.

    Raises:
        ConfigError: no fitted model is there, or one whose method has to be named.
    """
    try:
        facts = json.loads((Path(folder) / "model.json").read_text(encoding="utf-8"))
        kind = str(facts["kind"])
    except OSError:
        raise ConfigError(f"{folder} holds no fitted model; fit one into it with `apportion models fit`") from None
    except (ValueError, KeyError, TypeError) as problem:
        raise ConfigError(f"{folder}/model.json cannot be read ({problem}); fit the model again") from None
    return READERS.get(kind, ())


class FittedModel:
    """A fitted model in a training run, see `Companion`.

    Args:
        config: of the run; ``credit`` is the folder.
        vocabulary: ids of the policy's tokenizer.

    Raises:
        ConfigError: parameters, which a finished model does not take, or a trunk that does not know the policy's ids.
        CheckpointError: the folder is damaged.
    """

    warmup = 0

    def __init__(self, config: TrainConfig, vocabulary: int) -> None:
        from apportion.models import load

        assert config.credit is not None
        if config.credit_params:
            raise ConfigError("credit_params are for a model that learns beside the policy; a fitted one takes none")
        self.model = load(config.credit)
        known = self.model.backbone.vocabulary
        least = vocabulary + (self.model.backbone.source == "small")  # a small trunk begins rows with an id of its own
        if known < least:
            raise ConfigError(
                f"credit={config.credit} knows {known} token ids and the policy may sample {vocabulary}, so the run "
                f"could end in the middle; fit it with --vocabulary {least}"
            )
        self.marker = Path(config.out) / "credit_model.json"
        facts = json.loads((Path(config.credit) / "model.json").read_text(encoding="utf-8"))
        self.facts = {"folder": config.credit, "kind": facts["kind"], "digest": facts["digest"]}

    def begin(self) -> None:
        """Nothing: the model does not stand on the policy."""

    def iteration(self, units: Units) -> tuple[Units, dict[str, float]]:
        """The units with what the model says of them; it learns nothing and has no numbers for the log."""
        return self.told(units), {}

    def told(self, units: Units) -> Units:
        """The units with what the model says of them."""
        return with_batch(units, self.model.predict(units.batch))

    def save(self, iteration: int, *, keep: int) -> None:
        """Note which model it is; its weights stay in its own folder."""
        with atomic_write(self.marker) as file:
            file.write(json.dumps(self.facts, indent=1).encode() + b"\n")

    def go_on(self, iteration: int) -> None:
        """Make sure that the folder still holds the model that the run began with.

        Raises:
            CheckpointError: it holds another, with which the run would not end in the same numbers.
        """
        was: Any = json.loads(self.marker.read_text(encoding="utf-8"))
        if was["digest"] != self.facts["digest"]:
            raise CheckpointError(
                f"{self.facts['folder']} holds another model than the run in {self.marker.parent} was started with; "
                "put it back, or start a new run in another folder"
            )

    def finish(self) -> None:
        """Nothing: the model is where it was."""
