"""Credit by the exact advantage of the transformer as it is: the ceiling of every method on an enumerable game."""

from __future__ import annotations

import numpy as np

from apportion.bench.demo.scorer import scorer
from apportion.bench.exact import Exact, exact
from apportion.bench.tasks import task
from apportion.credit import Credit
from apportion.numerics import FloatArray
from apportion.train.policy import Policy
from apportion.units import Units


class Ceiling:
    """A function for `apportion.train.train(credit_by=...)`.

    Args:
        name: of an enumerable task. States with one text must have one future, as those of a full observation have.
    """

    def __init__(self, name: str) -> None:
        table = self.table = task(name).table
        self.name = name
        self._slots: dict[tuple[str, str], list[int]] = {}
        for x in range(len(table.states)):
            for k, action in enumerate(table.actions[x]):
                key = table.text(x, 0), action
                self._slots.setdefault(key, []).append(int(table.first_slot_X[x]) + k)

    def truth(self, policy: Policy) -> Exact:
        """Values and advantages of this policy."""
        return exact(self.table, scorer(policy))

    def __call__(self, units: Units, policy: Policy) -> Credit:
        """One exact advantage per step."""
        advantage_HK = self.truth(policy).advantage_HK
        found = [
            self._of(advantage_HK[time], step.observation or "", step.action or "")
            for trajectory in units.batch.trajectories
            for time, step in enumerate(trajectory.steps)
        ]
        return Credit(np.array(found), units)

    def _of(self, advantage_K: FloatArray, text: str, action: str) -> float:
        """The advantage of an action where this text is shown, at one time; NaN: a state that cannot be met then."""
        slots = self._slots[text, action]
        if len(slots) == 1:
            return float(advantage_K[slots[0]])
        values = advantage_K[slots]
        values = values[np.isfinite(values)]
        if not len(values) or np.ptp(values) > 1e-9:
            raise ValueError(f"{self.name}: {text!r} stands for states with different futures")
        return float(values[0])
