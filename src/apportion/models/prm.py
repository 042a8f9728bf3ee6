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

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from apportion.credit import Credit
from apportion.data import Batch
from apportion.errors import ConfigError, DataError
from apportion.models.backbone import Backbone, backbone_for
from apportion.models.fitting import Progress, Settings, run
from apportion.models.heads import HeadModel
from apportion.models.metrics import measures
from apportion.models.prm_task import Labelled, labelled_steps
from apportion.models.step_labels import labels_of
from apportion.models.step_measures import step_measures
from apportion.numerics import Array, FloatArray, IntArray

PART = "prm"
"""Name of the predictions among `Step.rewards`, which the method `pure` reads."""
FORMS, LEVELS = ("classify", "soft", "regress"), ("step", "token")


class StepPRM(HeadModel):
    """Process reward of each step, from labels of steps. Make it with `fit` or `load`.

    Args:
        backbone: the trunk. form, above, level: see `fit`; `measure` uses them again.
        labels: name of the labels among the rewards of the steps, "" for the rewards themselves, None for numbers.
        hidden: width of the head's hidden layer; 0 = one linear map. seed: of the head's weights.
    """

    BUILT = ("form", "above", "labels", "level", "hidden")

    def __init__(
        self,
        backbone: Backbone,
        *,
        form: str = "classify",
        above: float = 0.0,
        labels: str | None = "",
        level: str = "step",
        hidden: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(backbone, hidden=hidden, seed=seed)
        for name, value, known in (("form", form, FORMS), ("level", level, LEVELS)):
            if value not in known:
                raise ConfigError(f"StepPRM: {name} is {value!r}; give one of {', '.join(known)}")
        if not np.isfinite(above):
            raise ConfigError(f"StepPRM: above is {above!r}; give the label from which on a step is good")
        self.form, self.above, self.labels, self.level = form, above, labels, level

    @classmethod
    def fit(
        cls,
        batch: Batch,
        *,
        backbone: Backbone | Any = "small",
        labels: str | Path | Credit | Array = "",
        form: str = "classify",
        above: float = 0.0,
        level: str = "step",
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
            level: "step" predicts one reward for each step; "token" also one behind each sampled token, for rollouts
                whose steps are segments of one response.
            hidden: width of the head's hidden layer; 0 = one linear map.
            settings, out, resume, progress: as for `ValueHead.fit`; single settings can be named as well.

        Raises:
            DataError: no labelled step, labels of one class only, or, for "soft", outside [0, 1].
            ConfigError: a parameter that cannot be used.
        """
        chosen = Settings.of(settings, **named)
        label_S = labels_of(batch, labels, who="StepPRM")
        part = labels if isinstance(labels, str) and (not labels or labels in batch.reward_parts) else None
        trunk = backbone_for(batch, backbone, Backbone)
        model = cls(trunk, form=form, above=above, labels=part, level=level, hidden=hidden, seed=chosen.seed)
        task = Labelled(model, batch, label_S, chosen)
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

    def token_rewards(self, batch: Batch) -> FloatArray:
        """r of what was written up to and with each sampled token, (T,); 0 at other tokens."""
        rows, own, step = self.rows(batch), np.flatnonzero(batch.sampled_T), batch.step_of_T
        after = rows.after_S[step[own]]
        inside = np.append(step[own[1:]] == step[own[:-1]], False)  # another token of the step follows
        after[inside] = rows.at_T[own[1:]][inside[:-1]]
        out = np.zeros(len(batch.ids_T))
        out[own] = self.rewards_of(self.values_at(rows, rows.row_of_T[own], after))
        return out

    def predict(self, batch: Batch) -> Batch:
        """The same rollouts with `Step.rewards` ``prm``, which the method `pure` reads, and at level "token" the column
        ``prm`` as well, of which `pure` takes the number at the end of each segment."""
        told = iter(self.rewards(batch).tolist())
        by_step = self._columns(batch)
        return Batch.from_trajectories(
            replace(
                t,
                steps=[replace(s, rewards={**s.rewards, PART: next(told)}, columns=next(by_step)) for s in t.steps],
            )
            for t in batch.trajectories
        )

    def _columns(self, batch: Batch) -> Iterator[dict[str, Any]]:
        """The columns of each step."""
        steps = (step for t in batch.trajectories for step in t.steps)
        if self.level == "step":
            yield from (dict(step.columns) for step in steps)
            return
        reward_T = self.token_rewards(batch)
        first_S = np.searchsorted(batch.step_of_T, np.arange(len(batch.traj_of_S) + 1))
        for step, lo, hi in zip(steps, first_S[:-1].tolist(), first_S[1:].tolist(), strict=True):
            yield {**step.columns, PART: reward_T[lo:hi][batch.sampled_T[lo:hi]]}

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
        return self.measured_at(batch, label_S, labelled_steps(batch, label_S, "StepPRM.measure"))

    def measured_at(self, batch: Batch, label_S: FloatArray, at_K: IntArray) -> dict[str, Any]:
        """Measures at some labelled steps, as JSON values."""
        rows = self.rows(batch)
        told = self.rewards_of(self.values_at(rows, rows.row_of_S[at_K], rows.after_S[at_K]))
        label, traj = label_S[at_K], batch.traj_of_S[at_K]
        if self.form == "classify":
            return step_measures(told, label > self.above, traj)
        return measures((1 + told) / 2 if self.form == "soft" else told, label, traj)
