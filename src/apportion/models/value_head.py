"""A value head: V(state) from the hidden state before a token or a step, fitted to returns.

    target   V̂[t] = A[t] + V[t]     with generalised advantages A of the values as they are before the epoch
             lam = 1: the sampled return, which no value enters
    loss     ½ (V − V̂)²;   with ``clip``:  ½ max((V − V̂)², (V₀ + clamp(V − V₀, ±clip) − V̂)²),  V₀ before the epoch

Source    PPO's critic (arXiv:1707.06347, its clipping from the public code); turn level: MT-PPO (arXiv:2505.11821),
          Turn-PPO (arXiv:2512.17008), StepPO.
Deviates  1. ``hidden`` puts one hidden layer before the linear map that the public code has.
          2. Truncated rollouts bootstrap with the value behind their last token, as `gae` does.
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
from apportion.models.heads import HeadModel, PlaceValues
from apportion.models.metrics import measures
from apportion.models.places import places
from apportion.models.rows import Rows
from apportion.numerics import FloatArray, IntArray, gae, to_go
from apportion.units import Units, by_step, by_token, by_turn

CUTS = {"token": by_token, "step": by_step, "turn": by_turn}


class ValueHead(HeadModel):
    """Values of states, reward units.

    Make it with `fit` or `load`.

    Args:
        backbone: the trunk. level: "token", "step" or "turn".
        gamma: discount of what the values stand for.
        hidden: width of the hidden layer of the head; 0 = one linear map.
        seed: of the head's weights.

    Attributes:
        fitted: what the fit did, its measures included; None before.
    """

    BUILT = ("level", "gamma", "hidden")

    def __init__(
        self, backbone: Backbone, *, level: str = "token", gamma: float = 1.0, hidden: int = 0, seed: int = 0
    ) -> None:
        super().__init__(backbone, hidden=hidden, seed=seed)
        if level not in CUTS:
            raise ConfigError(f"ValueHead: level is {level!r}; give one of {', '.join(CUTS)}")
        self.level, self.gamma = level, gamma

    @classmethod
    def fit(
        cls,
        batch: Batch,
        *,
        backbone: Backbone | Any = "small",
        level: str = "token",
        gamma: float = 1.0,
        lam: float = 1.0,
        clip: float | None = None,
        hidden: int = 0,
        settings: Settings | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        progress: Progress | None = None,
        **named: Any,
    ) -> Self:
        """Fit values to the returns of rollouts.

        Args:
            batch: scored rollouts. Those that are unscored, failed or without sampled tokens are not read.
            backbone: `Backbone`, or what its first argument may be.
            level: where values stand: before each sampled token, each step, or the first step of each turn.
            gamma: discount per token, step or turn. lam: of the targets, see the formula.
            clip: reward units; None = no clipping.
            hidden: see the class.
            settings: see `Settings`; single ones can be named as well (``epochs=5``).
            out: folder for checkpoints and the finished model; None = neither.
            resume: go on from the newest checkpoint in ``out``.
            progress: called after each step.

        Raises:
            DataError: no rollout that can be read, or a loss that is not finite.
            ConfigError: a parameter that cannot be used. CheckpointError: see `fitting.run`.
        """
        chosen = Settings.of(settings, **named)
        cls.check_task(gamma=gamma, lam=lam, clip=clip)
        trunk = backbone_for(batch, backbone, Backbone)
        model = cls(trunk, level=level, gamma=gamma, hidden=hidden, seed=chosen.seed)
        task = model.task(batch, chosen, lam=lam, clip=clip)
        folder = None if out is None else Path(out) / "checkpoints"
        model.fitted = run(model, task, chosen, folder=folder, resume=resume, progress=progress)
        model.fitted.measures = task.measured()
        if out is not None:
            model.save(out)
        return model

    @staticmethod
    def check_task(*, gamma: float = 1.0, lam: float = 1.0, clip: float | None = None) -> None:
        """Raise ConfigError for numbers that a fit cannot use."""
        for name, value in (("gamma", gamma), ("lam", lam)):
            if not (isinstance(value, int | float) and 0 <= value <= 1):
                raise ConfigError(f"ValueHead: {name} is {value!r}; give a number from 0 to 1")
        if clip is not None and not (isinstance(clip, int | float) and clip > 0):
            raise ConfigError(f"ValueHead: clip is {clip!r}; give a positive number of reward units, or None")

    def task(self, batch: Batch, settings: Settings, *, lam: float = 1.0, clip: float | None = None) -> _Returns:
        """What `fit` makes steps on, for `Refit`; arguments and errors as there."""
        return _Returns(self, batch, settings, gamma=self.gamma, lam=lam, clip=clip)

    def predict(self, batch: Batch) -> Batch:
        """The same rollouts with values: `Step.value` before every step, at level "token" also `Step.token_values`,
        and `Trajectory.final_value` behind every rollout.

        Values that the rollouts had are replaced.

        Raises:
            DataError: rollouts that the backbone cannot read.
        """
        laid = self.rows(batch)
        value_S, final_N = (
            self.values_at(laid, laid.row_of_S, laid.at_S),
            self.values_at(laid, laid.row_of_N, laid.at_N),
        )
        token_T = None
        if self.level == "token":
            token_T = np.zeros(len(batch.ids_T))
            own = np.flatnonzero(batch.sampled_T)
            token_T[own] = self.values_at(laid, laid.row_of_T[own], laid.at_T[own])
        return _with_values(batch, value_S, token_T, final_N)

    def measure(self, batch: Batch) -> dict[str, Any]:
        """Measures against the sampled returns, discounted as in the fit, of other rollouts, see `metrics.measures`.

        Raises:
            DataError: no rollout that can be read.
        """
        units = CUTS[self.level](batch)
        taken = np.flatnonzero(units.valid_N[units.traj_of_S])
        if not len(taken):
            raise DataError("ValueHead.measure: no rollout is scored, whole and has sampled tokens; give outcomes")
        return self.measured_at(units, self.rows(batch), taken)

    def measured_at(self, units: Units, rows: Rows, at_K: IntArray) -> dict[str, Any]:
        """Measures at some units, as JSON values."""
        row_S, at_S = self.places_of(units, rows)
        value = self.values_at(rows, row_S[at_K], at_S[at_K])
        came = to_go(units.reward_S, units.traj_of_S, gamma=self.gamma)
        return measures(value, came[at_K], units.traj_of_S[at_K])

    def places_of(self, units: Units, rows: Rows) -> tuple[IntArray, IntArray]:
        """Row and place before each unit."""
        if self.level != "token":
            return rows.row_of_S[units.step_of_S], rows.at_S[units.step_of_S]
        own = np.flatnonzero(units.unit_of_T >= 0)
        return rows.row_of_T[own], rows.at_T[own]


class _Returns:
    """Values against λ-returns at the begin of each unit.

    Attributes:
        read, clipped: with ``clip``, values that steps were made on, and those of them that the clip left no gradient.
    """

    def __init__(
        self, model: ValueHead, batch: Batch, settings: Settings, *, gamma: float, lam: float, clip: float | None
    ) -> None:
        self.model, self.gamma, self.lam, self.clip = model, gamma, lam, clip
        units = self.units = CUTS[model.level](batch)
        taken_S = units.valid_N[units.traj_of_S]
        if not taken_S.any():
            raise DataError("ValueHead.fit: no rollout is scored, whole and has sampled tokens; give outcomes")
        self.rows = model.rows(batch)
        held_N = held_out(units.group_of_N, settings)
        row_S, at_S = model.places_of(units, self.rows)
        self.fit_S = np.flatnonzero(taken_S & ~held_N[units.traj_of_S])
        self.held_S = np.flatnonzero(taken_S & held_N[units.traj_of_S])
        if not len(self.fit_S):
            raise DataError("ValueHead.fit: no rollout is left beside the held-out groups; lower held_out")
        self.row_S, self.at_S = row_S, at_S
        self.found = places(self.rows, row_S[self.fit_S], at_S[self.fit_S], longest=model.backbone.longest)
        self.sizes = np.array([len(w) for w in self.found.windows], dtype=np.int64)
        self.values = PlaceValues(model, self.found)
        self.begun = False
        self.read = self.clipped = 0
        self.target_S = np.zeros(len(units))
        self.before_S = np.zeros(len(units))

    def begin(self, epoch: int) -> None:
        """Targets; without bootstrapping they are the same in every epoch."""
        units = self.units
        bootstraps = self.lam < 1 or bool(units.truncated_N.any())
        if self.begun and not bootstraps and self.clip is None:
            return  # the first epoch of a resumed fit is not epoch 0
        self.begun = True
        if bootstraps or self.clip is not None:
            self.before_S = self.model.values_at(self.rows, self.row_S, self.at_S)
        if not bootstraps:
            self.target_S = to_go(units.reward_S, units.traj_of_S, gamma=self.gamma)
            return
        last = self.model.values_at(self.rows, self.rows.row_of_N, self.rows.at_N)
        last = np.where(units.truncated_N, last, 0.0)[np.unique(units.traj_of_S)]
        self.target_S = self.before_S + gae(
            units.reward_S, self.before_S, units.traj_of_S, gamma=self.gamma, lam=self.lam, last_value=last
        )

    def loss(self, items: IntArray) -> tuple[Tensor, float]:
        """See `fitting.Task`."""
        value, which = self.values(items)
        at = self.fit_S[which]
        target = torch.as_tensor(self.target_S[at], dtype=value.dtype, device=value.device)
        error = (value - target) ** 2
        if self.clip is not None:
            before = torch.as_tensor(self.before_S[at], dtype=value.dtype, device=value.device)
            bounded = (before + (value - before).clamp(-self.clip, self.clip) - target) ** 2
            self.read, self.clipped = self.read + len(at), self.clipped + int((bounded > error).sum())
            error = torch.maximum(error, bounded)
        return 0.5 * error.sum(), float(len(at))

    def measured(self) -> dict[str, Any]:
        """Measures on the held-out rollouts."""
        return self.model.measured_at(self.units, self.rows, self.held_S)


def _with_values(batch: Batch, value_S: FloatArray, token_T: FloatArray | None, final_N: FloatArray) -> Batch:
    first_S = np.searchsorted(batch.step_of_T, np.arange(len(value_S) + 1))
    out, k = [], 0
    for n, rollout in enumerate(batch.trajectories):
        steps = []
        for step in rollout.steps:
            more: dict[str, Any] = {"value": float(value_S[k])}
            if token_T is not None:
                lo, hi = int(first_S[k]), int(first_S[k + 1])
                more["token_values"] = token_T[lo:hi][batch.sampled_T[lo:hi]]
            steps.append(replace(step, **more))
            k += 1
        out.append(replace(rollout, steps=steps, final_value=float(final_N[n])))
    return Batch.from_trajectories(out)
