"""Rollouts as rows of token ids for a model, and where each token of the batch stands in them.

A row holds what the policy had in its context: from a rewritten context (`Step.fresh`) to the next, a start token in
front. Ids are taken as they were sampled; where a rollout has only text, each of its words is tokenised by itself, so
that a place between words is a place between tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from apportion.data import Batch, Trajectory
from apportion.data.words import words
from apportion.errors import DataError
from apportion.numerics import IntArray

Encode = Callable[[str], list[int]]
"""Text to token ids, without special tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """R rows of unequal length. A place is a position in a row; what a model knows there ends at the position before.

    Attributes:
        ids: token ids of each row; the first is the start token, so no place is 0.
        row_of_T, at_T: row and place of each token of the batch.
        row_of_S, at_S: row and place of the action of each step, whether it has tokens or not.
        after_S: place behind that action, in the same row.
        row_of_N, at_N: row and place behind each trajectory, its final observation included where it is text.
    """

    ids: tuple[IntArray, ...]
    row_of_T: IntArray
    at_T: IntArray
    row_of_S: IntArray
    at_S: IntArray
    after_S: IntArray
    row_of_N: IntArray
    at_N: IntArray

    def __len__(self) -> int:
        return len(self.ids)


def rows_of(
    batch: Batch,
    *,
    start: int,
    encode: Encode | None,
    vocabulary: int | None = None,
    private: Callable[[Trajectory], list[int]] | None = None,
) -> Rows:
    """Lay a batch out in rows.

    Args:
        batch: rollouts; each a chain of steps.
        start: id of the token that begins a row.
        encode: for rollouts that have only text, and for final observations; None = they cannot be read.
        vocabulary: number of ids that the model knows; None = not checked.
        private: ids that a model is shown before everything else of a rollout, in each of its rows, and that belong to
            no token of the batch.

    Raises:
        DataError: text without ``encode``, steps that branch, an id that the model does not know.
    """
    layout = _Layout(batch, start, encode, private)
    for n in range(len(batch)):
        layout.add(n)
    if vocabulary is not None:
        for n, row in zip(layout.traj_of_row, layout.rows, strict=True):
            if int(row.min()) < 0 or int(row.max()) >= vocabulary:
                raise DataError(
                    f"trajectory {n} has token id {int(row.max())} and the backbone knows {vocabulary} ids; give the "
                    "backbone whose tokenizer made the rollouts"
                )
    return Rows(tuple(layout.rows), *layout.of_T, *layout.of_S, *layout.of_N)


class _Layout:
    def __init__(
        self,
        batch: Batch,
        start: int,
        encode: Encode | None,
        private: Callable[[Trajectory], list[int]] | None,
    ) -> None:
        self.batch, self.start, self.encode, self.private = batch, start, encode, private
        self.first_S = np.searchsorted(batch.step_of_T, np.arange(len(batch.traj_of_S) + 1))
        self.first_N = np.searchsorted(batch.traj_of_S, np.arange(len(batch) + 1))
        self.rows: list[IntArray] = []
        self.traj_of_row: list[int] = []
        self.of_T, self.of_N = (np.zeros((2, size), dtype=np.int64) for size in (len(batch.ids_T), len(batch)))
        self.of_S = np.zeros((3, len(batch.traj_of_S)), dtype=np.int64)

    def add(self, n: int) -> None:
        """The rows of one trajectory."""
        batch, rollout = self.batch, self.batch.trajectories[n]
        if any(step.parent is not None and step.parent != k - 1 for k, step in enumerate(rollout.steps)):
            raise DataError(f"trajectory {n} branches, and a model reads one path; unfold it into its paths")
        if not batch.has_ids_N[n] and self.encode is None:
            raise DataError(
                f"trajectory {n} has only text; give a backbone that has a tokenizer, or rollouts with token ids"
            )
        head = np.array([self.start, *(self.private(rollout) if self.private is not None else ())], dtype=np.int64)
        row, size = [head], len(head)
        for k in range(int(self.first_N[n]), int(self.first_N[n + 1])):
            if batch.fresh_S[k] and size > len(head):
                self._close(n, row)
                row, size = [head], len(head)
            lo, hi = int(self.first_S[k]), int(self.first_S[k + 1])
            pieces, length = self._step(n, k, lo, hi)
            begin = size + np.cumsum(length) - length
            context = int(np.count_nonzero(~batch.sampled_T[lo:hi]))
            self.of_T[0, lo:hi], self.of_T[1, lo:hi] = len(self.rows), begin
            self.of_S[:, k] = len(self.rows), size + int(length[:context].sum()), size + int(length.sum())
            row += pieces
            size += int(length.sum())
        if rollout.final_observation and self.encode is not None:
            row.append(np.array(self.encode(rollout.final_observation), dtype=np.int64))
            size += len(row[-1])
        self.of_N[:, n] = len(self.rows), size
        self._close(n, row)

    def _close(self, n: int, row: list[IntArray]) -> None:
        self.rows.append(np.concatenate(row))
        self.traj_of_row.append(n)

    def _step(self, n: int, k: int, lo: int, hi: int) -> tuple[list[IntArray], IntArray]:
        """Ids of a step, and how many each token of the batch has."""
        if self.batch.has_ids_N[n]:
            return [self.batch.ids_T[lo:hi]], np.ones(hi - lo, dtype=np.int64)
        assert self.encode is not None
        step = self.batch.trajectories[n].steps[k - int(self.first_N[n])]
        pieces = [
            np.array(self.encode(word), dtype=np.int64)
            for text in (step.observation, step.action)
            for word in words(text or "")
        ]
        return pieces, np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
