"""SWEET-RL's critic: it sees what the policy never sees, and its mean log-ratio over a turn is the turn's advantage.

    A(turn) = 1/L * sum over the turn's tokens of log pi(token | c, history) / pi_0(token | c, history)
    loss    - log sigmoid(beta * (sum of A over the better rollout - sum of A over the worse))     pairs of one task

c is `Trajectory.reference` (the gold answer, hidden tests): it stands in front of all else in the critic's input, and
only there. Predictions are numbers for turns; no text or id of a rollout changes.

Source    SWEET-RL (arXiv:2503.15478), equations 2 and 3; the paper's defaults.
Deviates  1. The public code averages over all tokens of a rollout: ``normalise="rollout"``.
          2. It pairs the best rollout of a task, if it is a full success, with every worse one; here every pair of a
             better and a worse rollout counts, as equation 2 allows.
          3. ``normalise="none"`` sums log-ratios, the paper's ablation that collapses to ever shorter turns.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from apportion.data import Batch, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.models.backbone import TokenModel
from apportion.models.fitting import Progress, Settings
from apportion.models.implicit import ImplicitReward
from apportion.models.metrics import paired
from apportion.models.rows import Rows, rows_of
from apportion.numerics import FloatArray, IntArray
from apportion.units import by_token

PART = "advantage"
"""Name of the predictions among `Step.rewards`."""
SCORES = {"turn": "turn_means", "rollout": "mean", "none": "sum"}


class SweetCritic(ImplicitReward):
    """Advantages of turns by a critic that sees the reference artefact. Make it with `fit` or `load`.

    Args:
        backbone: the language model; it needs a tokenizer to read the reference.
        sees_reference: False is the same critic without the artefact, for comparison.
        score: how log-ratios become a rollout's score, see `ImplicitReward.fit`.
    """

    BUILT = ("sees_reference", "score")

    def __init__(self, backbone: TokenModel, *, sees_reference: bool = True, score: str = "turn_means") -> None:
        if sees_reference and backbone.encode is None:
            raise ConfigError("SweetCritic: the backbone has no tokenizer to read the reference with; give one")
        super().__init__(backbone, score=score)
        self.sees_reference = sees_reference

    @classmethod
    def fit(
        cls,
        batch: Batch,
        *,
        backbone: TokenModel | Any = "small",
        beta: float = 0.1,
        normalise: str = "turn",
        sees_reference: bool = True,
        settings: Settings | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        progress: Progress | None = None,
        **named: Any,
    ) -> Self:
        """Fit to pairs of better and worse rollouts of one task.

        Args:
            batch: scored rollouts with `Trajectory.reference`; groups are tasks.
            backbone: `TokenModel`, or what its first argument may be.
            beta: of the loss.
            normalise: over what log-ratios are averaged: "turn", "rollout", or "none".
            sees_reference: see the class.
            settings, out, resume, progress: as for `ValueHead.fit`; single settings can be named as well.

        Raises:
            DataError: no reference, or no group with a better and a worse rollout.
            ConfigError: a parameter that cannot be used.
        """
        if normalise not in SCORES:
            raise ConfigError(f"SweetCritic: normalise is {normalise!r}; give one of {', '.join(SCORES)}")
        return cls._fitted(
            batch,
            backbone,
            Settings.of(settings, **named),
            build={"sees_reference": sees_reference, "score": SCORES[normalise]},
            loss="dpo",
            beta=beta,
            out=out,
            resume=resume,
            progress=progress,
        )

    def advantages(self, batch: Batch) -> FloatArray:
        """A of the turn of each step, (S,), nats per token; NaN where a turn has no token.

        Without length normalisation, ``normalise="none"``, it is nats per turn, as the critic was fitted.
        """
        turn_S = _turns(batch)
        return self._of_turns(batch, turn_S, np.flatnonzero(batch.sampled_T))[turn_S]

    def last_turns(self, batch: Batch) -> FloatArray:
        """A of the last turn of each rollout, (N,), as `advantages`; what is before it is read and not scored."""
        turn_S = _turns(batch)
        last_N = turn_S[np.flatnonzero(np.append(np.diff(batch.traj_of_S) != 0, True))]
        own = np.flatnonzero(batch.sampled_T & np.isin(turn_S, last_N)[batch.step_of_T])
        return self._of_turns(batch, turn_S, own)[last_N]

    def _of_turns(self, batch: Batch, turn_S: IntArray, own: IntArray) -> FloatArray:
        """A of each turn from its tokens; NaN where none is given."""
        rows = self.rows(batch)
        here = rows.row_of_T[own], rows.at_T[own]
        assert self.start is not None
        ratio = self.logp_at(self.backbone, rows, *here) - self.logp_at(self.start, rows, *here)
        turn_K = turn_S[batch.step_of_T[own]]
        count = np.bincount(turn_K, minlength=int(turn_S[-1]) + 1)
        total = np.bincount(turn_K, weights=ratio, minlength=len(count))
        size = 1 if self.score == SCORES["none"] else np.maximum(count, 1)
        return np.asarray(np.where(count > 0, total / size, np.nan), dtype=np.float64)

    def measure(self, batch: Batch) -> dict[str, Any]:
        """As `ImplicitReward.measure`, and ``pairs``: how often the better of two rollouts of a task scores higher.

        A pair is two rollouts of one group with different outcomes; a tie of scores counts a half.
        """
        found = super().measure(batch)
        units = by_token(batch)
        score_N = self._scores(batch)
        groups = [np.flatnonzero(units.valid_N & (units.group_of_N == g)) for g in np.unique(units.group_of_N)]
        return {**found, "pairs": paired([(score_N[of], units.outcome_N[of]) for of in groups])}

    def _scores(self, batch: Batch) -> FloatArray:
        """Score of each rollout as the loss reads it, (N,), nats."""
        turn_S, own = _turns(batch), np.flatnonzero(batch.sampled_T)
        told_S = self.advantages(batch)
        first_S = np.append(True, np.diff(turn_S) != 0) & np.isfinite(told_S)
        if self.score != SCORES["rollout"]:
            sums = np.bincount(batch.traj_of_S[first_S], weights=told_S[first_S], minlength=len(batch))
            return np.asarray(sums, dtype=np.float64)
        size_S = np.bincount(turn_S[batch.step_of_T[own]], minlength=int(turn_S[-1]) + 1)[turn_S]
        sums = np.bincount(batch.traj_of_S[first_S], weights=(told_S * size_S)[first_S], minlength=len(batch))
        return np.asarray(sums / np.maximum(np.bincount(batch.traj_of_T[own], minlength=len(batch)), 1))

    def predict(self, batch: Batch) -> Batch:
        """The same rollouts with `Step.rewards` ``advantage`` at the last step of each turn, read by `sweet_rl`."""
        told = self.advantages(batch)
        last = np.append(np.diff(_turns(batch)) != 0, True)
        out, k = [], 0
        for rollout in batch.trajectories:
            steps = []
            for step in rollout.steps:
                if last[k] and np.isfinite(told[k]):
                    step = replace(step, rewards={**step.rewards, PART: float(told[k])})
                steps.append(step)
                k += 1
            out.append(replace(rollout, steps=steps))
        return Batch.from_trajectories(out)

    def rows(self, batch: Batch) -> Rows:
        """The batch as the critic reads it, each rollout behind its reference."""
        trunk = self.backbone
        rows = rows_of(
            batch,
            start=trunk.start,
            encode=trunk.encode,
            vocabulary=trunk.vocabulary,
            private=self._private if self.sees_reference else None,
        )
        longest = max(map(len, rows.ids))
        if longest > trunk.longest:
            raise DataError(
                f"SweetCritic: a rollout behind its reference has {longest} tokens and the backbone takes "
                f"{trunk.longest}; a part of it would be read without the reference, so give a backbone that takes more"
            )
        return rows

    def _private(self, rollout: Trajectory) -> list[int]:
        if rollout.reference is None:
            raise DataError(
                "SweetCritic: a rollout has no reference, which is what the critic shall see; give "
                "Trajectory.reference, or sees_reference=False"
            )
        assert self.backbone.encode is not None
        return [*self.backbone.encode(rollout.reference), self.backbone.start]


def _turns(batch: Batch) -> IntArray:
    """Turn of each step, (S,), counted over the batch."""
    new_S = (np.diff(batch.turn_S) != 0) | (np.diff(batch.traj_of_S) != 0)
    return np.cumsum(np.append(0, new_S))
