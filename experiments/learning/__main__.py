"""Run what is missing, seed by seed, so that a first comparison exists early."""

from __future__ import annotations

import time

from experiments.command import options, say
from experiments.learning import __doc__ as about
from experiments.learning.plan import ARMS, SEEDS
from experiments.learning.run import run
from experiments.learning.tune import tune
from experiments.learning.worlds import WORLDS


def main() -> None:
    """See the package."""
    parser = options("learning", about, seeds=len(SEEDS))
    parser.add_argument("--envs", default=",".join(WORLDS))
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--tune", action="store_true")
    given = parser.parse_args()
    envs, arms = given.envs.split(","), given.arms.split(",")
    if unknown := [name for name in envs if name not in WORLDS] + [arm for arm in arms if arm not in ARMS]:
        parser.error(f"unknown {unknown[0]!r}; environments: {', '.join(WORLDS)}; arms: {', '.join(ARMS)}")
    if given.tune:
        for name in envs:
            tune(name, WORLDS[name], work=given.work, store=given.out / "learning_rates.json")
        return
    for seed in range(given.seeds):
        for name in envs:
            for arm in (arm for arm in WORLDS[name].arms() if arm in arms):
                began = time.perf_counter()
                record = run(name, WORLDS[name], arm, seed, work=given.work, store=given.out / "learning")
                end = record["curve"][WORLDS[name].score][-5:]
                say(f"{name} {arm} {seed}: {sum(end) / len(end):.3f}, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
