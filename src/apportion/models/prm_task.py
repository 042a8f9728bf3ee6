"""What a process reward model is fitted to: windows of the places behind labelled steps, and the loss of each form."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from apportion.data import Batch
from apportion.errors import DataError
from apportion.models.fitting import Settings, held_out
from apportion.models.heads import PlaceValues
from apportion.models.places import places
from apportion.numerics import FloatArray, IntArray


class Labelled:
    """Items are windows of the places behind labelled steps."""

    def __init__(self, model: Any, batch: Batch, label_S: FloatArray, settings: Settings) -> None:
        self.model = model
        taken_S = labelled_steps(batch, label_S, "StepPRM")
        held_N = held_out(batch.group_of_N, settings)
        held = held_N[batch.traj_of_S[taken_S]]
        self.fit_S, self.held_S = taken_S[~held], taken_S[held]
        if not len(self.fit_S):
            raise DataError("StepPRM: no labelled step is left beside the held-out groups; lower held_out")
        label = label_S[self.fit_S]
        if model.form == "classify":
            target = (label > model.above).astype(np.float64)
            if target.min() == target.max():
                what = "good" if target[0] else "bad"
                raise DataError(
                    f"StepPRM: every labelled step is {what} (labels from {label.min():g} to {label.max():g}, good "
                    f"above {model.above:g}), so there is nothing to tell apart; set above, or label others"
                )
        else:
            target = label
        if model.form == "soft" and (target.min() < 0 or target.max() > 1):
            raise DataError(
                f"StepPRM: labels lie between {target.min():g} and {target.max():g}, and form='soft' takes "
                "probabilities, from 0 to 1; scale them, or use form='regress'"
            )
        self.target_K = target
        rows = model.rows(batch)
        at = rows.row_of_S[self.fit_S], rows.after_S[self.fit_S]
        self.found = places(rows, *at, longest=model.backbone.longest)
        self.sizes = np.array([len(w) for w in self.found.windows], dtype=np.int64)
        self.values = PlaceValues(model, self.found)

    def begin(self, epoch: int) -> None:
        """Labels are fixed."""

    def loss(self, items: IntArray) -> tuple[Tensor, float]:
        """See `fitting.Task`."""
        value, which = self.values(items)
        target = torch.as_tensor(self.target_K[which], dtype=value.dtype, device=value.device)
        if self.model.form == "regress":
            return 0.5 * ((value - target) ** 2).sum(), float(len(which))
        return binary_cross_entropy_with_logits(value, target, reduction="sum"), float(len(which))


def labelled_steps(batch: Batch, label_S: FloatArray, who: str) -> IntArray:
    """Steps that have a label, in rollouts that did not fail.

    Raises:
        DataError: there is none.
    """
    taken = np.flatnonzero(np.isfinite(label_S) & ~batch.failed_N[batch.traj_of_S])
    if not len(taken):
        raise DataError(
            f"{who}: no step has a label; give labels the name of a part of Step.rewards, credit of the steps, or "
            "numbers"
        )
    return taken
