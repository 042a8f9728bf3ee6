"""Playing a game that is given by enumerable rules: one set of rules serves the player and the truth."""

from __future__ import annotations

from random import Random
from typing import Any

from apportion.envs.base import BaseEnv
from apportion.envs.protocol import EnvSpec
from apportion.envs.table import Enumerable, best_actions, tabulate

STRIDE = 1_000_003  # keeps (noise seed, step) apart for every episode shorter than this


class TabularEnv(BaseEnv):
    """A text environment over enumerable rules. Its state is a value, so a snapshot costs nothing."""

    def __init__(self, spec: EnvSpec, rules: Enumerable[Any]) -> None:
        super().__init__(spec)
        self.rules = rules
        self.state: Any = None

    def actions(self) -> tuple[str, ...]:
        """The actions that the rules list in this state."""
        self._require_start("actions")
        return self.rules.actions(self.state)

    def expert(self) -> list[str]:
        """An optimal plan by dynamic programming, up to the first step whose outcome is not certain."""
        self._require_start("expert")
        plan: list[str] = []
        if self._over:
            return plan
        table = tabulate(self.rules)
        best_HX = best_actions(table)
        x, done = self.state, False
        for t in range(self.steps, table.horizon):
            i = table.index[x]
            plan.append(table.actions[i][int(best_HX[t, i] - table.first_slot_X[i])])
            outcomes = {(y, over) for _, y, _, over in self.rules.step(x, plan[-1])}
            if len(outcomes) > 1:
                break
            x, done = outcomes.pop()
            if done:
                break
        return plan

    def _start(self, seed: int) -> None:
        starts = self.rules.starts()
        self.state = Random(seed).choices([x for _, x in starts], [p for p, _ in starts])[0]

    def _observe(self) -> str:
        return self.rules.text(self.state, self.steps_left)

    def _state(self) -> str:
        return repr(self.state)

    def _apply(self, action: str) -> tuple[float, bool, bool]:
        before, outcomes = self.state, self.rules.step(self.state, action)
        at = 0
        if len(outcomes) > 1:  # a function of (noise seed, step): nothing to store, nothing to share
            stream = Random(self.noise_seed * STRIDE + self.steps)
            at = stream.choices(range(len(outcomes)), [p for p, *_ in outcomes])[0]
        _, self.state, reward, done = outcomes[at]
        return reward, done, done and self.rules.won(before, action)

    def _save(self) -> tuple[Any]:
        return (self.state,)

    def _load(self, state: tuple[Any]) -> None:
        (self.state,) = state
