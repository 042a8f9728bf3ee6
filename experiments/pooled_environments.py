"""Does credit from recurring states learn faster on texts of which nobody knows the values, with a small transformer?

`rloo`, `gigpo` and `pooled` start from one policy and train on equal tasks, for equal seeds, to equal numbers of
generated tokens; runs, records and the choice of the learning rate are those of `experiments.learning`. The rate is the
best one for GRPO and GiGPO on a seed that is not judged. Area: success of the rollouts trained on (sampled), averaged
over the tokens; final: held-out tasks, sampled.

    python -m experiments.pooled_environments [--seeds 7] [--envs babyai_two,colspec]

One JSON file per run in `results/pooled_environments`, its commit inside; a stopped experiment goes on, inside a run
from its newest checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.command import options
from experiments.learning.plan import World
from experiments.learning.run import run
from experiments.learning.summary import area, interval, score
from experiments.learning.tune import tune
from experiments.markdown import cell, document, table
from experiments.means import paired
from experiments.stored import write_results

ARMS = ("rloo", "gigpo", "pooled")
LAKE = {"id": "FrozenLake-v1", "actions": "left,down,right,up", "max_steps": 20, "kwargs": {"is_slippery": False}}
WORLDS = {
    "lake": World(
        about="Gymnasium's FrozenLake, 4 x 4, not slippery; only the number of the square is seen; untrained",
        settings={"env": "gym", "env_options": LAKE, "warmup": 5},
        clone={},
        tokens=15_000,
        held_out=128,
    ),
    "babyai_two": World(
        about="BabyAI GoToLocalS5N2: two things in a small room, walk up to the one named; the view ahead in words",
        settings={"env": "babyai", "env_options": {"level": "BabyAI-GoToLocalS5N2-v0", "max_steps": 16}, "warmup": 5},
        clone={"clone_episodes": 30, "clone_epochs": 5},
        tokens=18_000,
        held_out=128,
    ),
    "colspec": World(
        about="find out by questions what function somebody wants, then write it; hidden unit tests pay",
        settings={"env": "colspec", "warmup": 5, "tasks": 6},
        clone={"clone_episodes": 40, "clone_epochs": 5},
        tokens=2_000,
        held_out=64,
    ),
}


def tuned(name: str, work: Path, store: Path) -> World:
    """The environment at the rate with the best mean area of the two arms it is tuned with."""
    world = WORLDS[name]
    rows = tune(name, world, work=work, store=store / "rates.json")[name]["area"]
    mean = {rate: float(np.mean([row[rate] for row in rows.values()])) for rate in next(iter(rows.values()))}
    return replace(world, lr=float(max(mean, key=lambda rate: mean[rate])))


def summary(name: str, world: World, seeds: int, work: Path, store: Path) -> dict[str, Any]:
    """Area and end of each arm, and what `pooled` has over it, paired by seed."""
    records = {
        (arm, seed): run(name, world, arm, seed, work=work, store=store) for seed in range(seeds) for arm in ARMS
    }
    out: dict[str, Any] = {
        "about": world.about,
        "lr": world.lr,
        "tokens": world.tokens,
        "before": score(world, records["rloo", 0], "before"),
        "commits": sorted({record["commit"] for record in records.values()}),
        "arms": {},
    }
    for arm in ARMS:
        row: dict[str, Any] = {}
        for key, of in (("area", area), ("final", score)):
            mine = [of(world, records[arm, seed]) for seed in range(seeds)]
            ours = [of(world, records["pooled", seed]) for seed in range(seeds)]
            row[key] = interval(mine)
            if arm != "pooled":
                row[f"{key}_pooled_over"] = paired(ours, mine)
        row["recurring"] = float(np.mean([np.mean(records[arm, s]["curve"]["recurring"]) for s in range(seeds)]))
        seconds = [records[arm, seed]["seconds"] for seed in range(seeds)]
        row["credit_share"] = float(np.mean([one["credit"] / one["iteration"] for one in seconds]))
        out["arms"][arm] = row
    return out


def of_environment(name: str, found: Mapping[str, Any]) -> tuple[str, str, str]:
    """Heading, settings and table of an environment."""
    rows = []
    for arm, row in found["arms"].items():
        over = [row.get(f"{key}_pooled_over") for key in ("area", "final")]
        differences = [cell(three, "+.3f") if three else "" for three in over]
        shares = [f"{row['recurring']:.0%}", f"{row['credit_share']:.1%}"]
        rows.append([arm, cell(row["area"]), cell(row["final"]), *differences, *shares])
    head = ["credit", "area", "final", "area, `pooled` over it, paired", "final, `pooled` over it", "recurring states"]
    return (
        f"### {name}",
        f"{found['about']}. Before: {found['before']:.3f}. {found['tokens']:,} generated tokens, rate\n"
        f"{found['lr']:g}, commit {', '.join(found['commits'])}.",
        table([*head, "time"], rows),
    )


def markdown(found: Mapping[str, Any]) -> str:
    """The page for people."""
    return document(
        "# pooled, GiGPO and RLOO where nobody knows the values, with a small transformer",
        f"Mean over {found['seeds']} paired seeds, Student's 95% interval; equal generated tokens. Area: success of "
        "the\nrollouts trained on, averaged over the tokens. Final: held-out tasks, sampled. Recurring: share of "
        "steps\nwhose state another rollout of the group saw too. Time: that credit takes of an iteration.",
        *(part for name, one in found["environments"].items() for part in of_environment(name, one)),
    )


def main() -> None:
    """Run what is missing, and write the page."""
    parser = options("pooled_environments", __doc__, seeds=7)
    parser.add_argument("--envs", default=",".join(WORLDS))
    given = parser.parse_args()
    names, store = given.envs.split(","), given.out / "pooled_environments"
    store.mkdir(parents=True, exist_ok=True)
    worlds = {name: tuned(name, given.work, store) for name in names}
    for seeds in range(2, given.seeds + 1):  # a first table exists early
        environments = {name: summary(name, worlds[name], seeds, given.work, store) for name in names}
        found = {"seeds": seeds, "environments": environments}
        write_results(given.out, "pooled_environments", found, markdown(found))
    sys.stdout.write(markdown(found))


if __name__ == "__main__":
    main()
