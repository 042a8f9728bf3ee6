"""A process reward model: one reward for each step, read behind its action, learned from labels of steps.

    "classify"  two classes: P(good) = sigmoid(z), cross-entropy on label > above;   r = P(good) - P(bad) = tanh(z / 2)
    "soft"      the same with the label as the probability: shares of continuations that succeed;  r = tanh(z / 2)
    "regress"   ½ (z - label)²;                                                                     r = z

Causal: it reads what came before a step and the step, never what follows, so it cannot see that nothing follows (the
"thank you" hack of PURE); give the method `pure` a verifier beside it.

Source    PURE (arXiv:2504.15275): two classes, r in [-1, 1]; labels of people as in PRM800K (arXiv:2305.20050), by
          Monte Carlo as in Math-Shepherd (arXiv:2312.08935, hard and soft) or AgentPRM (arXiv:2511.08325).
Deviates  1. One logit, the difference of PURE's two; the loss and r are the same.
          2. One stage; PURE fits the head first, then everything: ``tune="none"`` is its first stage.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from apportion.credit import Credit
from apportion.data import Batch
from apportion.errors import ConfigError, DataError
from apportion.models.backbone import Backbone, backbone_for
from apportion.models.fitting import Progress, Settings, held_out, run
from apportion.models.heads import HeadModel
from apportion.models.metrics import measures
from apportion.models.places import places
from apportion.models.step_labels import labels_of
from apportion.models.step_measures import step_measures
from apportion.numerics import Array, FloatArray, IntArray

PART = "prm"
"""Name of the predictions among `Step.rewards`, which the method `pure` reads."""
FORMS = ("classify", "soft", "regress")


class StepPRM(HeadModel):
    """Process reward of each step, from labels of steps. Make it with `fit` or `load`.

    Args:
        backbone: the trunk. form, above: see `fit`; `measure` uses them again.
        labels: name of the labels among the rewards of the steps, "" for the rewards themselves, None for numbers.
        hidden: width of the head's hidden layer; 0 = one linear map. seed: of the head's weights.
    """

    BUILT = ("form", "above", "labels", "hidden")

    def __init__(
        self,
        backbone: Backbone,
        *,
        form: str = "classify",
        above: float = 0.0,
        labels: str | None = "",
        hidden: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(backbone, hidden=hidden, seed=seed)
        if form not in FORMS:
            raise ConfigError(f"StepPRM: form is {form!r}; give one of {', '.join(FORMS)}")
        if not np.isfinite(above):
            raise ConfigError(f"StepPRM: above is {above!r}; give the label from which on a step is good")
        self.form, self.above, self.labels = form, above, labels

    @classmethod
    def fit(
        cls,
        batch: Batch,
        *,
        backbone: Backbone | Any = "small",
        labels: str | Path | Credit | Array = "",
        form: str = "classify",
        above: float = 0.0,
        hidden: int = 0,
        settings: Settings | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        progress: Progress | None = None,
        **named: Any,
    ) -> Self:
        """Fit process rewards to labels of steps.

        Args:
            batch: rollouts, scored or not; those that failed are not read.
            backbone: `Backbone`, or what its first argument may be.
            labels: "" = the steps' rewards; the name of a part of them ("rating"); credit of the steps, or a file of it
                (``.jsonl``, ``.parquet``); or one number for each step, NaN = not labelled.
            form: "classify", "soft" or "regress", see the module.
            above: of "classify": labels above it are good. PRM800K's ratings are -1, 0 and 1: -0.5 takes its neutral
                steps for good ones.
            hidden: width of the head's hidden layer; 0 = one linear map.
            settings, out, resume, progress: as for `ValueHead.fit`; single settings can be named as well.

        Raises:
            DataError: no labelled step, labels of one class only, or, for "soft", outside [0, 1].
            ConfigError: a parameter that cannot be used.
        """
        chosen = Settings.of(settings, **named)
        if form not in FORMS:
            raise ConfigError(f"StepPRM: form is {form!r}; give one of {', '.join(FORMS)}")
        label_S = labels_of(batch, labels, who="StepPRM")
        part = labels if isinstance(labels, str) and (not labels or labels in batch.reward_parts) else None
        trunk = backbone_for(batch, backbone, Backbone)
        model = cls(trunk, form=form, above=above, labels=part, hidden=hidden, seed=chosen.seed)
        task = _Labelled(model, batch, label_S, chosen)
        folder = None if out is None else Path(out) / "checkpoints"
        model.fitted = run(model, task, chosen, folder=folder, resume=resume, progress=progress)
        model.fitted.measures = model.measured_at(batch, label_S, task.held_S)
        if out is not None:
            model.save(out)
        return model

    def rewards(self, batch: Batch) -> FloatArray:
        """r of each step of the batch, (S,): in [-1, 1], or, for "regress", in the units of the labels."""
        rows = self.rows(batch)
        return self.rewards_of(self.values_at(rows, rows.row_of_S, rows.after_S))

    def rewards_of(self, logit: FloatArray) -> FloatArray:
        """r of what the head gives."""
        return logit if self.form == "regress" else np.asarray(np.tanh(logit / 2), dtype=np.float64)

    def predict(self, batch: Batch) -> Batch:
        """The same rollouts with `Step.rewards` ``prm``, which the method `pure` reads."""
        told = iter(self.rewards(batch).tolist())
        return Batch.from_trajectories(
            replace(t, steps=[replace(s, rewards={**s.rewards, PART: next(told)}) for s in t.steps])
            for t in batch.trajectories
        )

    def measure(self, batch: Batch, *, labels: str | Path | Credit | Array | None = None) -> dict[str, Any]:
        """Measures on other rollouts: `step_measures` of classes, `metrics.measures` of numbers.

        Args:
            batch: labelled rollouts. labels: as for `fit`; default those of the fit, by name.

        Raises:
            DataError: no labelled step, or a model that was fitted to numbers and is not told which to use here.
        """
        chosen = self.labels if labels is None else labels
        if chosen is None:
            raise DataError("StepPRM.measure: it was fitted to numbers that are not in the rollouts; give labels")
        label_S = labels_of(batch, chosen, who="StepPRM.measure")
        return self.measured_at(batch, label_S, _labelled(batch, label_S, "StepPRM.measure"))

    def measured_at(self, batch: Batch, label_S: FloatArray, at_K: IntArray) -> dict[str, Any]:
        """Measures at some labelled steps, as JSON values."""
        rows = self.rows(batch)
        told = self.rewards_of(self.values_at(rows, rows.row_of_S[at_K], rows.after_S[at_K]))
        label, traj = label_S[at_K], batch.traj_of_S[at_K]
        if self.form == "classify":
            return step_measures(told, label > self.above, traj)
        return measures((1 + told) / 2 if self.form == "soft" else told, label, traj)


class _Labelled:
    """Items are windows of the places behind labelled steps."""

    def __init__(self, model: StepPRM, batch: Batch, label_S: FloatArray, settings: Settings) -> None:
        self.model = model
        taken_S = _labelled(batch, label_S, "StepPRM")
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
        self.hidden: Tensor | None = None

    def begin(self, epoch: int) -> None:
        """Labels are fixed."""

    def loss(self, items: IntArray) -> tuple[Tensor, float]:
        """See `fitting.Task`."""
        if self.model.backbone.tune == "none":
            which = np.concatenate([self.found.of(w) for w in items.tolist()])
            value = self.model.head(self._frozen()[torch.from_numpy(which)])[:, 0]
        else:
            value, which = self.model(self.found, items)
        target = torch.as_tensor(self.target_K[which], dtype=value.dtype, device=value.device)
        if self.model.form == "regress":
            return 0.5 * ((value - target) ** 2).sum(), float(len(which))
        return binary_cross_entropy_with_logits(value, target, reduction="sum"), float(len(which))

    def _frozen(self) -> Tensor:
        """Hidden states of all places, of a trunk that does not learn: read once."""
        if self.hidden is None:
            self.hidden = self.model.all_hidden(self.found)
        return self.hidden


def _labelled(batch: Batch, label_S: FloatArray, who: str) -> IntArray:
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
