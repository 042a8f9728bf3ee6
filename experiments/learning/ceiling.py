"""Credit by the exact advantage of the transformer as it is: the ceiling of every method on an enumerable game."""

from __future__ import annotations

import numpy as np

from apportion.bench.demo.scorer import scorer
from apportion.bench.exact import Exact, exact
from apportion.bench.tasks import task
from apportion.credit import Credit
from apportion.train.policy import Policy
from apportion.units import Units


class Ceiling:
    """A function for `apportion.train.train(credit_by=...)`.

    Args:
        name: of an enumerable task whose texts tell the whole state.
    """

    def __init__(self, name: str) -> None:
        table = self.table = task(name).table
        self._slot = {
            (table.text(x, 0), action): int(table.first_slot_X[x]) + k
            for x in range(len(table.states))
            for k, action in enumerate(table.actions[x])
        }
        if len(self._slot) != table.slots:
            raise ValueError(f"{name}: two states have one text, so a step does not say which advantage is its own")

    def truth(self, policy: Policy) -> Exact:
        """Values and advantages of this policy."""
        return exact(self.table, scorer(policy))

    def __call__(self, units: Units, policy: Policy) -> Credit:
        """One exact advantage per step."""
        advantage_HK = self.truth(policy).advantage_HK
        found = [
            float(advantage_HK[time][self._slot[step.observation or "", step.action or ""]])
            for trajectory in units.batch.trajectories
            for time, step in enumerate(trajectory.steps)
        ]
        return Credit(np.array(found), units)
