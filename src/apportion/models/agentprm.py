"""AgentPRM: a process reward model whose score of a step is a promise, and whose increments are progress.

    promise   L_Q = ½ (M[t] - Q^[t])²
    progress  L_A = ((M[t] - M[t-1]) - target[t])²      from the second step on; gradients through both
              target = Q^[t] - Q^[t-1] ("labels"), or the advantage Q^[t] - M⁰[t-1] ("advantage", M⁰ before the epoch)
    loss      L_Q + beta L_A,   Q^: `td_labels`, or numbers that are given (method `agentprm_mc`, credit="promise")

Source    arXiv:2511.08325; no code was found.
Deviates  1. With "advantage" and without gradients through M[t-1] the second term would be twice the first; the default
             is the difference of labels.
          2. Differences of labels are no estimate of differences of promises: given what came after, the label of step
             t - 1 has the mean of step t, so with lam = 1 every target is 0 and the term pulls neighbours together. The
             default ``beta`` is the paper's; 0 leaves the term out, and is right where promises shall be calibrated.
          3. A rollout that a limit cut off is labelled by its outcome, as the paper's failures are.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from apportion.data import Batch
from apportion.errors import ConfigError, DataError
from apportion.models.backbone import Backbone, backbone_for
from apportion.models.fitting import Progress, Settings, held_out, run
from apportion.models.heads import HeadModel
from apportion.models.labels import td_labels
from apportion.models.metrics import measures
from apportion.models.places import Places, places
from apportion.numerics import Array, FloatArray, IntArray
from apportion.units import by_step

PART = "promise"
"""Name of the predictions among `Step.rewards`."""
TARGETS = ("labels", "advantage")


class AgentPRM(HeadModel):
    """Promise of each step, reward units: what a rollout will earn after it. Make it with `fit` or `load`."""

    BUILT = ("hidden",)

    @classmethod
    def fit(
        cls,
        batch: Batch,
        *,
        backbone: Backbone | Any = "small",
        labels: str | Array = "td",
        gamma: float = 1.0,
        lam: float = 0.95,
        beta: float = 1.0,
        progress_target: str = "labels",
        hidden: int = 0,
        settings: Settings | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        progress: Progress | None = None,
        **named: Any,
    ) -> Self:
        """Fit promises to labels.

        Args:
            batch: scored rollouts; others are not read.
            backbone: `Backbone`, or what its first argument may be.
            labels: "td", or one number for each step of the batch; NaN = no label.
            gamma, lam: of "td", see `td_labels`.
            beta: weight of the progress term. progress_target: "labels" or "advantage", see the module.
            hidden: width of the head's hidden layer; 0 = one linear map.
            settings, out, resume, progress: as for `ValueHead.fit`; single settings can be named as well.

        Raises:
            DataError: no rollout that can be read, or labels that are not one for each step.
            ConfigError: a parameter that cannot be used.
        """
        chosen = Settings.of(settings, **named)
        how: dict[str, Any] = {"gamma": gamma, "lam": lam, "beta": beta, "progress_target": progress_target}
        cls.check_task(**how)
        model = cls(backbone_for(batch, backbone, Backbone), hidden=hidden, seed=chosen.seed)
        task = model.task(batch, chosen, labels=labels, **how)
        folder = None if out is None else Path(out) / "checkpoints"
        model.fitted = run(model, task, chosen, folder=folder, resume=resume, progress=progress)
        model.fitted.measures = model.measured_at(batch, task.held_N)
        if out is not None:
            model.save(out)
        return model

    @staticmethod
    def check_task(
        *, gamma: float = 1.0, lam: float = 0.95, beta: float = 1.0, progress_target: str = "labels"
    ) -> None:
        """Raise ConfigError for what a fit cannot use."""
        if progress_target not in TARGETS:
            raise ConfigError(f"AgentPRM: progress_target is {progress_target!r}; give one of {', '.join(TARGETS)}")
        for name, value, largest, wanted in (
            ("beta", beta, 1e9, "a number from 0 up"),
            ("gamma", gamma, 1, "a number from 0 to 1"),
            ("lam", lam, 1, "a number from 0 to 1"),
        ):
            if not (isinstance(value, int | float) and 0 <= value <= largest):
                raise ConfigError(f"AgentPRM: {name} is {value!r}; give {wanted}")

    def task(self, batch: Batch, settings: Settings, *, labels: str | Array = "td", **how: Any) -> _Promises:
        """What `fit` makes steps on, for `Refit`; arguments and errors as there."""
        return _Promises(self, batch, settings, labels, **how)

    def promises(self, batch: Batch) -> FloatArray:
        """M of each step of the batch, (S,), reward units."""
        rows = self.rows(batch)
        return self.values_at(rows, rows.row_of_S, rows.after_S)

    def predict(self, batch: Batch) -> Batch:
        """The same rollouts with `Step.rewards` ``promise``, which the method `agentprm` reads."""
        told = iter(self.promises(batch).tolist())
        return Batch.from_trajectories(
            replace(t, steps=[replace(s, rewards={**s.rewards, PART: next(told)}) for s in t.steps])
            for t in batch.trajectories
        )

    def measure(self, batch: Batch) -> dict[str, Any]:
        """Measures of promises against outcomes, see `metrics.measures`."""
        return self.measured_at(batch, np.flatnonzero(by_step(batch).valid_N))

    def measured_at(self, batch: Batch, member_N: IntArray) -> dict[str, Any]:
        """Measures on some rollouts."""
        taken = np.isin(batch.traj_of_S, member_N)
        outcome_S = batch.outcome_N[batch.traj_of_S]
        return measures(self.promises(batch)[taken], outcome_S[taken], batch.traj_of_S[taken])


class _Promises:
    """Items are trajectories: progress compares neighbours."""

    def __init__(
        self,
        model: AgentPRM,
        batch: Batch,
        settings: Settings,
        labels: str | Array,
        *,
        gamma: float = 1.0,
        lam: float = 0.95,
        beta: float = 1.0,
        progress_target: str = "labels",
    ) -> None:
        self.model, self.gamma, self.lam, self.beta, self.target = model, gamma, lam, beta, progress_target
        self.units = units = by_step(batch)
        self.rows = model.rows(batch)
        self.given = None if isinstance(labels, str) else np.asarray(labels, dtype=np.float64)
        if isinstance(labels, str) and labels != "td":
            raise ConfigError(f"AgentPRM: labels is {labels!r}; give 'td', or one number for each step")
        if self.given is not None and self.given.shape != (len(units),):
            raise DataError(
                f"AgentPRM: {self.given.size} labels for {len(units)} steps; give one for each, NaN for none"
            )
        held = held_out(units.group_of_N, settings)
        self.held_N = np.flatnonzero(units.valid_N & held)
        fit_N = np.flatnonzero(units.valid_N & ~held)
        if not len(fit_N):
            raise DataError("AgentPRM: no rollout is scored, whole and has sampled tokens; give outcomes")
        self.steps = [np.flatnonzero(units.traj_of_S == n) for n in fit_N.tolist()]
        self.sizes = np.array([sum(map(len, self._places(s).windows)) for s in self.steps], dtype=np.int64)
        self.label_S = self.before_S = np.zeros(len(units))

    def begin(self, epoch: int) -> None:
        """Labels of the model as it is, unless they are given."""
        if self.given is None or self.target == "advantage":
            self.before_S = self.model.values_at(self.rows, self.rows.row_of_S, self.rows.after_S)
        if self.given is None:
            self.label_S = td_labels(self.before_S, self.units, gamma=self.gamma, lam=self.lam)
        else:
            self.label_S = self.given

    def loss(self, items: IntArray) -> tuple[Tensor, float]:
        """See `fitting.Task`."""
        steps = np.concatenate([self.steps[item] for item in items.tolist()])
        found = self._places(steps)
        value, which = self.model(found, np.arange(len(found.windows)))
        promise = torch.zeros(len(steps), device=value.device).index_put(
            (torch.as_tensor(which, device=value.device),), value
        )
        label = self.label_S[steps]
        told = torch.as_tensor(np.isfinite(label), device=value.device)
        want = torch.as_tensor(np.nan_to_num(label), dtype=value.dtype, device=value.device)
        total = 0.5 * ((promise - want) ** 2)[told].sum()
        if self.beta and len(steps) > 1:
            before = torch.as_tensor(np.nan_to_num(self.before_S[steps]), dtype=value.dtype, device=value.device)
            aim = want[1:] - (want[:-1] if self.target == "labels" else before[:-1])
            neighbours = torch.as_tensor(np.diff(self.units.traj_of_S[steps]) == 0, device=value.device)
            both = told[1:] & told[:-1] & neighbours
            total = total + self.beta * ((promise[1:] - promise[:-1] - aim) ** 2)[both].sum()
        return total, float(told.sum())

    def _places(self, steps: IntArray) -> Places:
        rows = self.rows
        return places(rows, rows.row_of_S[steps], rows.after_S[steps], longest=self.model.backbone.longest)
