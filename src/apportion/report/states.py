"""States that several steps of one group were taken in: the anchor groups that step credit compares inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apportion.credit import Credit
from apportion.data import Batch
from apportion.report.comparison import as_entry, compare_actions
from apportion.report.texts import Decode, Texts, action_of


class SharedStates:
    """Steps by state, for each group of a batch.

    Attributes:
        first_step: position of the first step of each trajectory.
    """

    def __init__(self, batch: Batch, credits: Sequence[Credit]) -> None:
        keys = list(batch.state_S)
        for credit in credits:  # a state key of the user's own is what the method compared
            units = credit.units
            if units.state_S is not None and units.level == "step":
                for s, key in zip(units.step_of_S.tolist(), units.state_S, strict=True):
                    keys[s] = key
                break
        self.batch = batch
        steps_N = np.bincount(batch.traj_of_S, minlength=len(batch))
        self.first_step: list[int] = (np.cumsum(steps_N) - steps_N).tolist()
        self._traj_of_S = batch.traj_of_S.tolist()
        self._by_group: dict[int, dict[Any, list[int]]] = {}
        for s, (n, key) in enumerate(zip(self._traj_of_S, keys, strict=True)):
            self._by_group.setdefault(int(batch.group_of_N[n]), {}).setdefault(key, []).append(s)
        self._outcomes = {n: float(batch.outcome_N[n]) for n in np.flatnonzero(batch.valid_N).tolist()}

    def of(
        self, group: int, first_t: int, first_g: int, first_state: int, texts: Texts, decode: Decode | None
    ) -> tuple[list[dict[str, Any]], dict[int, int]]:
        """The shared states of one group, and the position of the state of each step that is in one.

        Args:
            group: of the batch. first_t, first_g: where this batch begins in the report.
            first_state: position that the first of these states will have.
        """
        entries: list[dict[str, Any]] = []
        state_of: dict[int, int] = {}
        for key, steps in self._by_group.get(group, {}).items():
            if len(steps) < 2:
                continue
            visits = [(n := self._traj_of_S[s], s - self.first_step[n]) for s in steps]
            did = [(n, action_of(self.batch.trajectories[n].steps[k], decode).strip()) for n, k in visits]
            entries.append(
                {
                    "group": first_g + group,
                    "text": texts(str(key)),
                    "visits": [[first_t + n, k] for n, k in visits],
                    "actions": [
                        {"action": texts(action), "visits": places, **as_entry(found)}
                        for action, places, found in compare_actions(did, self._outcomes)
                    ],
                }
            )
            state_of.update(dict.fromkeys(steps, first_state + len(entries) - 1))
        return entries, state_of
