"""Steps, step rewards and states out of an agent loop, into the rows that verl stores.

    @register("shop")
    class Shop(CreditedLoop, AgentLoopBase):
        async def run(self, sampling_params, **row):
            ...
            self.steps.add(first, len(response_ids), state=page)   # one action of the policy: tokens first … last
            self.steps.reward(earned)                              # of the step that was added last
            ...
            return AgentLoopOutput(prompt_ids=..., response_ids=..., response_mask=..., ...)

A loop that returns several outputs (its context was rewritten) says `self.steps.next_output()` in between.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Sequence
from typing import Any

from apportion.errors import DataError


class StepLog:
    """The steps of one rollout, as they happen."""

    def __init__(self) -> None:
        self.rows: list[list[dict[str, Any]]] = [[]]

    def add(
        self,
        first: int,
        last: int,
        *,
        reward: float | None = None,
        state: str | None = None,
        agent: str | None = None,
        turn: int | None = None,
    ) -> None:
        """One step: tokens ``first`` to ``last`` (excluded) of this output's response, all sampled by the policy.

        Args:
            first, last: places in ``response_ids``.
            reward: what followed the step; it can come later, by `reward`.
            state: text that states are compared by: what the policy saw, without its history.
            agent: who acted. turn: index of its turn.
        """
        before = self.rows[-1][-1]["span"][1] if self.rows[-1] else 0
        if not before <= first <= last:
            raise DataError(
                f"step {len(self.rows[-1])} spans tokens {first} to {last}, and the step before ended at {before}; "
                "give (first, last) in order, last excluded"
            )
        told = {"reward": reward, "state": state, "agent": agent, "turn": turn}
        self.rows[-1].append({"span": [int(first), int(last)], **told})

    def reward(self, value: float) -> None:
        """Add to the reward of the step that was added last, also where that was in the output before."""
        row = next((row for row in reversed(self.rows) if row), None)
        if row is None:
            raise DataError("a reward came before any step; add the step first")
        row[-1]["reward"] = (row[-1]["reward"] or 0.0) + float(value)

    def next_output(self) -> None:
        """What follows is in the next output."""
        self.rows.append([])

    def onto(self, outputs: Any) -> Any:
        """Write the lists into ``extra_fields`` of verl's output, or of each output of the list; returns them.

        Steps that a length limit cut off are shortened, and the rollout is marked as truncated. Where the loop gave no
        ``reward_score`` but its last step has a reward, the sum of the rewards is the score.
        """
        rows = outputs if isinstance(outputs, list) else [outputs]
        told = [row for row in self.rows if row]
        if not told or not rows:
            return outputs
        if len(self.rows) != len(rows):
            raise DataError(
                f"the loop returned {len(rows)} outputs and told the steps of {len(self.rows)}; call next_output() "
                "between them"
            )
        for output, steps in zip(rows, self.rows, strict=True):
            output.extra_fields.update(_lists(steps, len(output.response_ids)))
            if any(step["span"][1] > len(output.response_ids) for step in steps):
                rows[-1].extra_fields["truncated"] = True
        rewards = [step["reward"] for row in self.rows for step in row]
        if rows[-1].reward_score is None and rewards[-1] is not None:
            rows[-1].reward_score = float(sum(r for r in rewards if r is not None))
        return outputs


def _lists(steps: Sequence[dict[str, Any]], size: int) -> dict[str, Any]:
    out: dict[str, Any] = {"steps": [[min(place, size) for place in step["span"]] for step in steps]}
    for key, name in (("reward", "step_rewards"), ("state", "states"), ("agent", "agents"), ("turn", "turns")):
        values = [step[key] for step in steps]
        if any(value is not None for value in values):
            out[name] = values
    return out


_CURRENT: contextvars.ContextVar[tuple[Any, StepLog] | None] = contextvars.ContextVar("apportion_steps", default=None)
"""The loop that runs, and its log; a loop that it starts has another."""


class CreditedLoop:
    """Mixin for an agent loop of verl, before its base class: `self.steps` is the log of the rollout that runs.

    Every ``run`` of a subclass gets a log of its own, also where rollouts run side by side, and what it returns leaves
    with the log written onto it.
    """

    @property
    def steps(self) -> StepLog:
        """Of the rollout that runs."""
        current = _CURRENT.get()
        if current is None or current[0] is not self:
            raise DataError("self.steps is the log of a running rollout; use it inside run()")
        return current[1]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "run" in vars(cls):
            cls.run = _logged(vars(cls)["run"])  # type: ignore[attr-defined]


def _logged(run: Any) -> Any:
    @functools.wraps(run)
    async def logged(self: Any, *args: Any, **kwargs: Any) -> Any:
        current = _CURRENT.get()
        if current is not None and current[0] is self:  # called by the run of a subclass, which will write it
            return await run(self, *args, **kwargs)
        log = StepLog()
        token = _CURRENT.set((self, log))
        try:
            return log.onto(await run(self, *args, **kwargs))
        finally:
            _CURRENT.reset(token)

    return logged
