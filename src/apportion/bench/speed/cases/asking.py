"""Planning and pricing of methods that ask at every step or token, on rollouts of hundreds of steps.

There is no peer; the time is held to what grows with the steps, though each question stands behind all that was before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from apportion.assign import cost
from apportion.bench.speed.compare import Comparison, Contender
from apportion.bench.speed.registry import Setting, case
from apportion.data import Batch, Step, Trajectory
from apportion.units import by_step, by_token

STEPS = 400
STEEPEST = 2.6
"""Growth when the steps double: 2 is linear, the rest is noise."""


@case("asking")
def asking_cases(setting: Setting) -> Iterator[Comparison]:
    """Price of a method at each step, and of one at each token."""
    steps = STEPS // (8 if setting.quick else 1)
    for method, cut in (("vineppo", by_step), ("red", by_token)):
        units, half = cut(_long(steps)), cut(_long(steps // 2))
        asks = cost(method, units).asks
        yield Comparison(
            kernel=f"pricing {method}",
            batch=f"2 rollouts, {steps} steps",
            items=asks,
            item="ask",
            peers={},
            contenders={
                "cost": Contender(
                    run=lambda method=method, units=units: cost(method, units),  # type: ignore[misc]
                    value=lambda price: np.array([price.requests]),
                    half=lambda method=method, half=half: cost(method, half),  # type: ignore[misc]
                    steepest=STEEPEST,
                    compiled=False,
                )
            },
        )


def _long(steps: int) -> Batch:
    rng = np.random.default_rng(0)
    return Batch.from_trajectories(
        Trajectory(
            [
                Step(prompt_ids=rng.integers(0, 50_000, 40), ids=rng.integers(0, 50_000, 20), logp=-rng.random(20))
                for _ in range(steps)
            ],
            group="g",
            outcome=float(n),
        )
        for n in range(2)
    )
