"""What an implicit reward is fitted to: log-probabilities of sampled tokens, scores of rollouts, a loss on outcomes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from apportion.data import Batch
from apportion.errors import DataError
from apportion.models.backbone import TokenModel
from apportion.models.fitting import Settings, held_out
from apportion.models.metrics import classified
from apportion.models.places import Places, places
from apportion.models.rows import Rows
from apportion.numerics import FloatArray, IntArray
from apportion.units import by_token

TOGETHER = 32


def token_places(rows: Rows, row_K: IntArray, at_K: IntArray, *, longest: int) -> Places:
    """Places whose windows hold the token at the place too."""
    found = places(rows, row_K, at_K + 1, longest=longest)
    return replace(found, before_K=found.before_K - 1)


def logp_of(trunk: TokenModel, found: Places, items: IntArray) -> tuple[Tensor, IntArray]:
    """Log-probabilities of the tokens in some windows, and which places these are."""
    items = np.sort(items)
    which = np.concatenate([found.of(w) for w in items.tolist()])
    row = np.searchsorted(items, found.window_K[which])
    return trunk([found.windows[w] for w in items.tolist()], row, found.before_K[which]), which


class Outcomes:
    """Items are trajectories for "ce", groups for "dpo"."""

    def __init__(
        self,
        model: Any,
        batch: Batch,
        settings: Settings,
        *,
        loss: str,
        beta: float,
        fitting: bool = True,
    ) -> None:
        self.model, self.beta, self.score, self.loss_name = model, beta, model.score, loss
        units = by_token(batch)
        self.outcome_N, self.group_N = units.outcome_N, units.group_of_N
        self.label_N = units.outcome_N > model.success
        self.read = np.flatnonzero(units.valid_N)
        held_N = held_out(units.group_of_N, settings)
        self.fit_N, self.held_N = (np.flatnonzero(units.valid_N & x) for x in (~held_N, held_N))
        if not len(self.read):
            raise DataError("ImplicitReward: no rollout is scored, whole and has sampled tokens; give outcomes")
        rows = model.rows(batch)
        own = np.flatnonzero(batch.sampled_T)
        self.traj_K, self.step_K = batch.traj_of_T[own], batch.step_of_T[own]
        turn_S = np.cumsum(np.append(0, (np.diff(batch.turn_S) != 0) | (np.diff(batch.traj_of_S) != 0)))
        self.turn_K = turn_S[self.step_K]
        row_K, at_K = rows.row_of_T[own], rows.at_T[own]
        self.found = token_places(rows, row_K, at_K, longest=model.backbone.longest)
        if model.start is not None:
            self.ref_K = model.logp_at(model.start, rows, row_K, at_K)
        elif batch.ref_logp_T is not None:
            self.ref_K = batch.ref_logp_T[own]
        else:
            raise DataError(
                "ImplicitReward: reference='data' reads ref_logp, which the rollouts lack; give Step.ref_logp"
            )
        self.weight_K = self._weights(len(batch))
        traj_of_window = self.traj_K[self.found.order_K[self.found.first_W[:-1]]]
        self.windows_N = [np.flatnonzero(traj_of_window == n) for n in range(len(batch))]
        self.items = self._items(fitting)
        size_N = np.array([sum(len(self.found.windows[w]) for w in of) for of in self.windows_N], dtype=np.int64)
        self.sizes = np.array([size_N[item].sum() for item in self.items], dtype=np.int64)

    def _weights(self, n: int) -> FloatArray:
        """What each token's log-ratio counts in its rollout's score."""
        if self.score == "sum":
            return np.ones(len(self.traj_K))
        if self.score == "mean":
            return 1.0 / np.bincount(self.traj_K, minlength=n)[self.traj_K]
        if self.score == "turn_means":
            return np.asarray(1.0 / np.bincount(self.turn_K)[self.turn_K], dtype=np.float64)
        steps = np.unique(np.stack((self.traj_K, self.step_K)), axis=1)[0]
        return 1.0 / np.bincount(steps, minlength=n)[self.traj_K]

    def _items(self, fitting: bool) -> list[IntArray]:
        if self.loss_name == "ce":
            if fitting and len(np.unique(self.label_N[self.fit_N])) < 2:
                what = "succeeds" if len(self.fit_N) and self.label_N[self.fit_N[0]] else "fails"
                raise DataError(f"ImplicitReward: every rollout {what}, so nothing tells them apart; collect others")
            return [self.fit_N[k : k + 1] for k in range(len(self.fit_N))]
        groups = [self.fit_N[self.group_N[self.fit_N] == g] for g in np.unique(self.group_N[self.fit_N])]
        groups = [members for members in groups if len(np.unique(self.outcome_N[members])) > 1]
        if fitting and not groups:
            raise DataError(
                "ImplicitReward: no group has a better and a worse rollout, so there is no pair; collect several "
                "rollouts of each task, or use loss='ce'"
            )
        return groups

    def begin(self, epoch: int) -> None:
        """Targets are fixed."""

    def loss(self, items: IntArray) -> tuple[Tensor, float]:
        """See `fitting.Task`."""
        members = np.concatenate([self.items[i] for i in items.tolist()])
        score = self._scores(members)
        if self.loss_name == "ce":
            sign = torch.as_tensor(np.where(self.label_N[members], 1.0, -1.0), dtype=score.dtype, device=score.device)
            return -logsigmoid(sign * score).sum(), float(len(members))
        group, outcome = self.group_N[members], self.outcome_N[members]
        better, worse = np.nonzero((group[:, None] == group) & (outcome[:, None] > outcome))
        at = torch.as_tensor(np.stack((better, worse)), device=score.device)
        return -logsigmoid(score[at[0]] - score[at[1]]).sum(), float(len(better))

    def _scores(self, members: IntArray) -> Tensor:
        """Score of each rollout, (B,)."""
        windows = np.concatenate([self.windows_N[n] for n in members.tolist()])
        logp, which = logp_of(self.model.backbone, self.found, windows)
        ref, weight = (
            torch.as_tensor(x[which], dtype=logp.dtype, device=logp.device) for x in (self.ref_K, self.weight_K)
        )
        order = np.argsort(members)
        place = order[np.searchsorted(members[order], self.traj_K[which])]
        out = torch.zeros(len(members), dtype=logp.dtype, device=logp.device)
        return out.index_add(0, torch.as_tensor(place, device=logp.device), self.beta * weight * (logp - ref))

    def measured(self) -> dict[str, Any]:
        """Measures on the held-out rollouts."""
        return self.measured_on(self.held_N)

    @torch.no_grad()
    def measured_on(self, members: IntArray) -> dict[str, Any]:
        """Measures on some rollouts."""
        scores = [self._scores(members[k : k + TOGETHER]).cpu().numpy() for k in range(0, len(members), TOGETHER)]
        return classified(np.concatenate(scores) if scores else np.zeros(0), self.label_N[members])
