"""Twins beside a policy that goes on collecting: batches go into the buffer, draws from it make steps.

    folder/online/000007/   checkpoint after the seventh save: pairs, copies, optimizer, and what the buffer held

A run that was killed goes on from its newest save to the numbers of a run that was not.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from apportion.data import Batch
from apportion.errors import CheckpointError, ConfigError, DataError
from apportion.models.checkpoint import checkpoints, load_checkpoint, save_checkpoint, undisturbed
from apportion.models.replay import Replay
from apportion.models.transitions import Transitions
from apportion.models.twins import Propose, Twins
from apportion.numerics import IntArray


class Online(Twins):
    """Twins with a buffer, an optimizer and a memory of where they were saved."""

    seed: int
    replay: Replay
    saved_in: tuple[Path, int | None] | None = None
    """Folder whose state the next `update` goes on from, and which; None = the newest."""
    updates = 0
    optimizer: torch.optim.Optimizer | None = None

    @abstractmethod
    def transitions(self, batch: Batch) -> Transitions:
        """What the buffer gets of a batch."""

    def update(
        self,
        batch: Batch | None = None,
        *,
        steps: int = 50,
        draws: int = 256,
        lr: float = 1e-3,
        clip_norm: float = 1.0,
        micro_tokens: int = 8192,
        propose: Propose | None = None,
        beside: Iterable[torch.nn.Parameter] = (),
    ) -> dict[str, float]:
        """Put new rollouts into the buffer and make steps on draws from it.

        Args:
            batch: scored rollouts; others are not read. None = nothing new.
            steps: of Adam. draws: transitions of a step, with replacement. lr: of Adam. clip_norm: of the gradients.
            micro_tokens: tokens that are read at a time, about; results do not depend on it beyond rounding.
            propose: fresh actions of the policy for the target of V; None = the actions of the data.
            beside: parameters whose gradients, as they lie, are clipped by one norm with the critic's (the policy's,
                as the released code has it).

        Returns:
            Means over the steps: ``loss``, ``grad_norm`` before clipping, squared reward units; and ``buffer``, the
            transitions it holds.

        Raises:
            DataError: no rollout that can be read, or a loss that is not finite: then all is as before the step.
            ConfigError: a parameter that cannot be used. CheckpointError: what was saved is missing or damaged.
        """
        self.check_update(steps=steps, draws=draws, lr=lr, clip_norm=clip_norm, micro_tokens=micro_tokens)
        self._check_folder()
        optimizer = self._going_on()
        if batch is not None:
            self.replay.add(self.transitions(batch))
        if not len(self.replay):
            raise DataError("ArCHerCritic.update: the buffer is empty; give a batch")
        for group in optimizer.param_groups:
            group["lr"] = lr
        learning = [p for p in self.pairs.parameters() if p.requires_grad]
        others, told = list(beside), {"loss": 0.0, "grad_norm": 0.0}
        for _ in range(steps):
            at = self.replay.draw(draws, np.random.default_rng([self.seed, self.updates, 2]))
            optimizer.zero_grad(set_to_none=True)
            loss = self._gradients(at, micro_tokens, propose)
            if not math.isfinite(loss):
                optimizer.zero_grad(set_to_none=True)
                raise DataError(
                    f"ArCHerCritic.update: the loss is {loss} in step {self.updates + 1}, which was not made; lower lr "
                    f"(now {lr:g}), and look for huge rewards in the rollouts"
                )
            norm = torch.nn.utils.clip_grad_norm_([*learning, *others], clip_norm)
            optimizer.step()
            self.follow()
            self.updates += 1
            told = {"loss": told["loss"] + loss / steps, "grad_norm": told["grad_norm"] + float(norm) / steps}
        optimizer.zero_grad(set_to_none=True)
        return {**told, "buffer": float(len(self.replay))}

    @staticmethod
    def check_update(**given: Any) -> None:
        """Raise ConfigError for numbers that `update` cannot use."""
        for name, value in given.items():
            if name in ("steps", "draws", "micro_tokens"):
                if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                    raise ConfigError(f"ArCHerCritic.update: {name} is {value!r}; give a whole number from 1 up")
            elif not (isinstance(value, int | float) and 0 < value < 1e9):
                raise ConfigError(f"ArCHerCritic.update: {name} is {value!r}; give a positive number")

    def save_state(self, folder: Path, *, number: int | None = None, keep: int = 1) -> None:
        """Write what `update` needs to go on, then remove what no state needs any more.

        Args:
            folder: of the run. number: of this state; None = one more than the newest. keep: states that stay.
        """
        optimizer, held = self._going_on(), folder / "online"
        if number is None:
            number = 1 + max((int(path.name) for path in checkpoints(held)), default=0)
        counters = {"updates": self.updates, "replay": self.replay.state(folder / "buffer")}
        save_checkpoint(held, number, self, optimizer, counters, keep=keep)
        states = [json.loads((path / "state.json").read_text(encoding="utf-8")) for path in checkpoints(held)]
        self.replay.tidy(
            folder / "buffer", {name for state in states for name in state["counters"]["replay"]["segments"]}
        )

    def go_on_from(self, folder: Path, *, number: int | None = None) -> None:
        """Be as a saved state was, at once.

        Args:
            folder: of the run. number: of the state; None = the newest.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        self.saved_in = folder, number
        self._going_on()

    def _check_folder(self) -> None:
        """A new model does not write over the buffer of another."""
        folder, new = self.replay.folder, self.optimizer is None and self.saved_in is None
        if new and folder is not None and checkpoints(folder.parent / "online"):
            raise ConfigError(f"{folder.parent} holds a critic already; load it to go on, or give another folder")

    def _gradients(self, at_K: IntArray, micro_tokens: int, propose: Propose | None) -> float:
        """Gradients of the mean loss of some transitions, and that loss."""
        part = np.cumsum(self.replay.sizes(at_K)) // micro_tokens
        total = 0.0
        for p in np.unique(part).tolist():
            loss = self.losses(self.replay.read(at_K[part == p]), propose).sum() / len(at_K)
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.item())
        return total

    def _going_on(self) -> torch.optim.Optimizer:
        """The optimizer; after `load`, everything as it was saved."""
        if self.optimizer is None:
            learning = [p for p in self.pairs.parameters() if p.requires_grad]
            self.optimizer = torch.optim.AdamW(learning, weight_decay=0.0)
        if self.saved_in is not None:
            folder, number = self.saved_in
            if not checkpoints(folder / "online"):
                raise CheckpointError(
                    f"{folder}: what an update goes on from is missing (online/); fit the model again"
                )
            with undisturbed():
                _, counters = load_checkpoint(folder / "online", self, self.optimizer, at=number)
            self.replay = Replay.opened(folder / "buffer", counters["replay"])
            self.updates, self.saved_in = counters["updates"], None
        return self.optimizer
