"""Run what is missing, seed by seed, so that a first comparison exists early."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from experiments.learning import __doc__ as about
from experiments.learning.plan import ARMS, SEEDS
from experiments.learning.run import run
from experiments.learning.tune import tune
from experiments.learning.worlds import WORLDS

HERE = Path(__file__).parents[1]


def main() -> None:
    """See the package."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.learning", description=about, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--envs", default=",".join(WORLDS))
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--work", type=Path, default=Path("runs/learning"))
    parser.add_argument("--store", type=Path, default=HERE / "results" / "learning")
    parser.add_argument("--tune", action="store_true")
    given = parser.parse_args()
    envs, arms = given.envs.split(","), given.arms.split(",")
    if unknown := [name for name in envs if name not in WORLDS] + [arm for arm in arms if arm not in ARMS]:
        parser.error(f"unknown {unknown[0]!r}; environments: {', '.join(WORLDS)}; arms: {', '.join(ARMS)}")
    if given.tune:
        for name in envs:
            tune(name, WORLDS[name], work=given.work, store=given.store.parent / "learning_rates.json")
        return
    for seed in range(given.seeds):
        for name in envs:
            for arm in (arm for arm in WORLDS[name].arms() if arm in arms):
                began = time.perf_counter()
                record = run(name, WORLDS[name], arm, seed, work=given.work, store=given.store)
                end = record["curve"][WORLDS[name].score][-5:]
                sys.stdout.write(
                    f"{name} {arm} {seed}: {sum(end) / len(end):.3f}, {time.perf_counter() - began:.0f} s\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()
