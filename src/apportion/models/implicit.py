"""Implicit rewards: a language model fitted to outcomes, whose log-ratio to its start is a reward of each token.

    s(tau) = beta * sum over sampled tokens of log pi(token) / pi_0(token)        pi_0: the model before the fit
    "ce"     - [y log sigmoid(s) + (1 - y) log sigmoid(-s)],  y = outcome > success      PRIME
    "dpo"    - log sigmoid(s+ - s-)  over all pairs of one group, better and worse       Bradley-Terry; iStar, DPO

Only differences are identified: a constant per prompt is lost. With what an environment says between the tokens, the
sum is the return less the value of the start only up to the surprise of that text (arXiv:2404.12358).

Source    PRIME (arXiv:2502.01456), iStar (arXiv:2509.19199), "From r to Q*" (arXiv:2404.12358).
Deviates  1. iStar's code takes the mean over steps of step sums as the score: ``score="step_mean"``.
          2. The reference is the model before the fit, not the rollout policy; give rollouts with ``ref_logp`` and
             ``reference="data"`` for that.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch

from apportion.data import Batch
from apportion.errors import ConfigError
from apportion.models.backbone import TokenModel, backbone_for
from apportion.models.fitting import Fitted, Progress, Settings, run
from apportion.models.implicit_task import TOGETHER, Outcomes, logp_of, token_places
from apportion.models.rows import Rows, rows_of
from apportion.models.saving import Saved
from apportion.numerics import FloatArray, IntArray

LOSSES, SCORES, REFERENCES = ("ce", "dpo"), ("sum", "mean", "step_mean", "turn_means"), ("start", "data")


class ImplicitReward(Saved, torch.nn.Module):
    """Rewards of tokens, as log-ratios of a model that was fitted to outcomes. Make it with `fit` or `load`.

    Args:
        backbone: the language model.
        reference: "start", the model as it is handed over, or "data", the rollouts' own ``ref_logp``.
        score, success: see `fit`; `measure` uses them again.

    Attributes:
        fitted: what the fit did, its measures included; None before.
    """

    BACKBONE = TokenModel
    BUILT: ClassVar[tuple[str, ...]] = ("reference", "score", "success")

    def __init__(
        self, backbone: TokenModel, *, reference: str = "start", score: str = "sum", success: float = 0.5
    ) -> None:
        super().__init__()
        for name, value, known in (("reference", reference, REFERENCES), ("score", score, SCORES)):
            if value not in known:
                raise ConfigError(f"ImplicitReward: {name} is {value!r}; give one of {', '.join(known)}")
        if backbone.tune == "none":
            raise ConfigError("ImplicitReward: tune='none' leaves nothing to learn; give 'all' or 'lora'")
        self.backbone, self.reference = backbone, reference
        self.score, self.success = score, success
        start = copy.deepcopy(backbone) if reference == "start" else None
        if start is not None:
            for parameter in start.parameters():
                parameter.requires_grad_(False)
        self.start = start
        self.fitted: Fitted | None = None

    @classmethod
    def fit(
        cls,
        batch: Batch,
        *,
        backbone: TokenModel | Any = "small",
        loss: str = "ce",
        beta: float = 0.05,
        score: str = "sum",
        success: float = 0.5,
        reference: str = "start",
        settings: Settings | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        progress: Progress | None = None,
        **named: Any,
    ) -> Self:
        """Fit to the outcomes of rollouts.

        Args:
            batch: scored rollouts; others are not read.
            backbone: `TokenModel`, or what its first argument may be.
            loss: "ce" or "dpo", see the module.
            beta: reward per nat.
            score: how a rollout's log-ratios become its score: their "sum", their "mean", "step_mean" (the mean of the
                steps' sums) or "turn_means" (the sum of the turns' means).
            success: outcomes above it are successes, reward units; for loss="ce".
            reference: see the class.
            settings, out, resume, progress: as for `ValueHead.fit`; single settings can be named as well.

        Raises:
            DataError: no rollout that can be read; outcomes of one kind only, from which nothing can be learned.
            ConfigError: a parameter that cannot be used.
        """
        chosen = Settings.of(settings, **named)
        return cls._fitted(
            batch,
            backbone,
            chosen,
            build={"reference": reference, "score": score, "success": success},
            loss=loss,
            beta=beta,
            out=out,
            resume=resume,
            progress=progress,
        )

    @classmethod
    def _fitted(
        cls,
        batch: Batch,
        backbone: TokenModel | Any,
        settings: Settings,
        *,
        build: dict[str, Any],
        loss: str,
        beta: float,
        out: str | Path | None,
        resume: bool,
        progress: Progress | None,
    ) -> Self:
        cls.check_task(loss=loss, beta=beta)
        model = cls(backbone_for(batch, backbone, TokenModel), **build)
        task = Outcomes(model, batch, settings, loss=loss, beta=beta)
        folder = None if out is None else Path(out) / "checkpoints"
        model.fitted = run(model, task, settings, folder=folder, resume=resume, progress=progress)
        model.fitted.measures = task.measured()
        if out is not None:
            model.save(out)
        return model

    @classmethod
    def check_task(cls, *, loss: str = "ce", beta: float = 0.05) -> None:
        """Raise ConfigError for what a fit cannot use."""
        if loss not in LOSSES:
            raise ConfigError(f"{cls.__name__}: loss is {loss!r}; give one of {', '.join(LOSSES)}")
        if not (isinstance(beta, int | float) and beta > 0):
            raise ConfigError(f"{cls.__name__}: beta is {beta!r}; give a positive number")

    def task(self, batch: Batch, settings: Settings, *, loss: str = "ce", beta: float = 0.05) -> Outcomes:
        """What `fit` makes steps on, for `Refit`; outcomes of one kind and groups without pairs are no error here."""
        return Outcomes(self, batch, settings, loss=loss, beta=beta, fitting=False)

    def predict(self, batch: Batch) -> Batch:
        """The same rollouts with column ``prm_logp`` (of the fitted model) and ``ref_logp`` (of the reference), nats.

        `prime`, `itpo` and `implicit_q` make rewards of their difference. With reference="data", ``ref_logp`` stays.
        """
        rows, own = self.rows(batch), np.flatnonzero(batch.sampled_T)
        here = rows.row_of_T[own], rows.at_T[own]
        own_T = np.zeros((2, len(batch.ids_T)))
        own_T[0, own] = self.logp_at(self.backbone, rows, *here)
        if self.start is not None:
            own_T[1, own] = self.logp_at(self.start, rows, *here)
        first_S = np.searchsorted(batch.step_of_T, np.arange(len(batch.traj_of_S) + 1))
        out, k = [], 0
        for rollout in batch.trajectories:
            steps = []
            for step in rollout.steps:
                lo, hi = int(first_S[k]), int(first_S[k + 1])
                logp, ref = own_T[:, lo:hi][:, batch.sampled_T[lo:hi]]
                step = replace(step, columns={**step.columns, "prm_logp": logp})
                steps.append(step if self.start is None else replace(step, ref_logp=ref))
                k += 1
            out.append(replace(rollout, steps=steps))
        return Batch.from_trajectories(out)

    def measure(self, batch: Batch) -> dict[str, Any]:
        """Accuracy and area under the curve of scores against outcomes, with 95% intervals over trajectories."""
        task = Outcomes(self, batch, Settings(held_out=0.0), loss="ce", beta=1.0, fitting=False)  # no scale matters
        return task.measured_on(task.read)

    def rows(self, batch: Batch) -> Rows:
        """The batch as the backbone reads it."""
        trunk = self.backbone
        return rows_of(batch, start=trunk.start, encode=trunk.encode, vocabulary=trunk.vocabulary)

    @torch.no_grad()
    def logp_at(self, trunk: TokenModel, rows: Rows, row_K: IntArray, at_K: IntArray) -> FloatArray:
        """Log-probabilities of the tokens at some places, (K,) nats."""
        found = token_places(rows, row_K, at_K, longest=trunk.longest)
        out = np.zeros(len(found))
        order = np.argsort([len(w) for w in found.windows], kind="stable")
        for items in np.array_split(order, max(1, -(-len(order) // TOGETHER))):
            if len(items):
                logp, which = logp_of(trunk, found, items)
                out[which] = logp.double().cpu().numpy()
        return out
