"""A model that is fitted again and again, to batch after batch of a policy that goes on collecting.

    refit = Refit(model, Settings(held_out=0.0))
    refit.update(model.task(batch, refit.settings))     labels of the model as it is, then so many passes

    folder/online/000007/   checkpoint after the seventh iteration: the model and its optimizer

A run that was killed goes on from its newest save to the numbers of a run that was not.
"""

from __future__ import annotations

from pathlib import Path

import torch

from apportion.errors import ConfigError
from apportion.models.checkpoint import load_checkpoint, save_checkpoint, undisturbed
from apportion.models.fitting import Settings, Task, pass_over


class Refit:
    """One optimizer over all batches, and a count of the passes, on which their order depends.

    Args:
        model: what learns. settings: of each update: ``epochs`` passes; ``held_out`` must be 0, since every rollout of
            a training run is learned from.

    Raises:
        ConfigError: ``held_out`` above 0.
    """

    def __init__(self, model: torch.nn.Module, settings: Settings) -> None:
        if settings.held_out > 0:
            raise ConfigError(f"Refit: held_out is {settings.held_out}; give 0, the next batch is what was not fitted")
        self.model, self.settings, self.passes = model, settings, 0
        learning = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(learning, lr=settings.lr, weight_decay=settings.weight_decay)

    def update(self, task: Task) -> dict[str, float]:
        """Make steps on one batch.

        Args:
            task: of the batch; begun here, once, so labels and clip are of the model as it was before the first pass.

        Returns:
            ``steps`` made, and where there is one the mean ``loss`` over them.

        Raises:
            DataError: a loss that is not finite.
        """
        task.begin(0)
        steps, total, weight = 0, 0.0, 0.0
        for _ in range(self.settings.epochs):
            for summed, weighs, _ in pass_over(self.model, task, self.optimizer, self.settings, self.passes):
                steps, total, weight = steps + 1, total + summed, weight + weighs
            self.passes += 1
        return {"steps": float(steps)} | ({"loss": total / weight} if weight else {})

    def save_state(self, folder: Path, *, number: int, keep: int) -> None:
        """Write what `update` needs to go on; the ``keep`` newest states stay."""
        save_checkpoint(folder / "online", number, self.model, self.optimizer, {"passes": self.passes}, keep=keep)

    def go_on_from(self, folder: Path, *, number: int) -> None:
        """Be as a saved state was.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        with undisturbed():
            _, counters = load_checkpoint(folder / "online", self.model, self.optimizer, at=number)
        self.passes = counters["passes"]
