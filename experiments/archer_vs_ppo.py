"""How many episodes does ArCHer need against token-level PPO, on Twenty Questions with a small truth table?

Four objects, three questions at most, then a guess; only a right guess pays 1, so the optimum is 1 exactly. One small
transformer is cloned lightly from the optimum's play; from there each arm goes on with the same policy loss, rate and
batches.

    ppo       a value head before every token, GAE over tokens; the batch is all that the critic ever sees of it
    archer    twin Q and V of utterances from a replay buffer of all batches; every token gets A(s, a)

The paper counts environment samples up to a common return, and finds about 100 times fewer.

    python -m experiments.archer_vs_ppo [--seeds 5] [--work runs/archer_vs_ppo]
"""

from __future__ import annotations

import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from apportion.envs import make
from apportion.envs.twentyq.optimum import success
from apportion.train import TrainConfig, train
from experiments.archer_vs_ppo_page import markdown, told
from experiments.command import options, say
from experiments.stored import kept, write_results

TABLE = """name,furry,flies,swims
bat,1,1,0
bear,1,0,1
crow,0,1,0
trout,0,0,1
"""
QUESTIONS = 3
BATCH = 16  # episodes of an iteration, each of another task
WINDOW = 10  # iterations that a return is averaged over
LEVELS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
ARMS: dict[str, dict[str, Any]] = {
    "ppo": {
        "credit": "value_head", "method": "gae | whiten", "iterations": 100,
        "credit_params": {"epochs": 4, "lr": 4e-3},
    },
    "archer": {
        "credit": "archer", "method": "archer | whiten", "iterations": 36,
        "credit_params": {
            "backbone": "policy", "steps": 24, "draws": 32, "timeout": "terminal", "warmup": 8,
        },
    },
}  # fmt: skip
POLICY = {"lr": 1e-3, "epochs": 1}


def environment(work: Path) -> dict[str, Any]:
    """Of the environment, with the truth table on the disk; the player does not see it."""
    work.mkdir(parents=True, exist_ok=True)
    file = work / "table.csv"
    file.write_text(TABLE, encoding="utf-8")
    return {"table": str(file.resolve()), "objects": 4, "questions": QUESTIONS, "show_table": False, "split": "all"}


def settings(work: Path, seed: int, out: str, **more: Any) -> TrainConfig:
    """What both arms and the clone share."""
    given: dict[str, Any] = {
        "env": "twentyq", "env_options": environment(work), "hidden": 32, "layers": 2, "heads": 4, "vocabulary": 320,
        "tasks": BATCH, "rollouts": 1, "eval_tasks": 0, "tensorboard": False, "checkpoint_every": 20, "seed": seed,
        "out": str(work / out),
    }  # fmt: skip
    return TrainConfig(**given | more)


def ran(work: Path, seed: int, arm: str) -> dict[str, Any]:
    """Returns of the episodes by iteration; a stopped run goes on."""
    begun = work / f"clone-{seed}"
    if not (begun / "result.json").is_file():
        light = {"clone_episodes": 64, "clone_epochs": 16, "clone_lr": 4e-3, "method": "grpo", "iterations": 0}
        train(settings(work, seed, begun.name, **light), resume=(begun / "checkpoints").is_dir())
    config = settings(work, seed, f"{arm}-{seed}", start=str(begun / "start"), **POLICY, **ARMS[arm])
    result = train(config, resume=(Path(config.out) / "checkpoints").is_dir())
    lines = result.metrics[1:]
    return {
        "return": [line["rollout"]["return"] for line in lines],
        "steps": [line["rollout"]["steps"] for line in lines],
        "seconds": sum(line["seconds"]["iteration"] for line in lines),
    }


def reached(returns: list[float], level: float) -> int | None:
    """Episodes until the mean return of `WINDOW` iterations is at the level; None where it never is."""
    mean = np.convolve(returns, np.full(WINDOW, 1 / WINDOW), mode="valid")
    at = np.flatnonzero(mean >= level)
    return None if not len(at) else int(at[0] + WINDOW) * BATCH


def summary(runs: dict[int, dict[str, Any]], optimum: float) -> dict[str, Any]:
    """Episodes to each level, ratios paired by seed, and returns at the ends."""
    levels = []
    for level in LEVELS:
        row: dict[str, Any] = {"level": level}
        for arm in ARMS:
            took = [reached(run[arm]["return"], level) for run in runs.values()]
            row[arm] = told([x for x in took if x is not None])
            row[f"{arm}_reached"] = sum(x is not None for x in took)
        pairs = [
            (reached(run["ppo"]["return"], level), reached(run["archer"]["return"], level)) for run in runs.values()
        ]
        logs = [math.log(p / a) for p, a in pairs if p is not None and a is not None]
        row["pairs"] = len(logs)
        row["ratio"] = [round(math.exp(x), 3) for x in told(logs, digits=6)] if len(logs) > 1 else None
        levels.append(row)
    shortest = min(len(run[arm]["return"]) for run in runs.values() for arm in ARMS)
    equal = {
        arm: told([float(np.mean(r[arm]["return"][shortest - WINDOW : shortest])) for r in runs.values()])
        for arm in ARMS
    }
    gap = [
        float(
            np.mean(r["archer"]["return"][shortest - WINDOW : shortest])
            - np.mean(r["ppo"]["return"][shortest - WINDOW : shortest])
        )
        for r in runs.values()
    ]
    return {
        "seeds": sorted(runs),
        "optimum": optimum,
        "start": told([float(np.mean([r[arm]["return"][0] for arm in ARMS])) for r in runs.values()]),
        "levels": levels,
        "equal": {"episodes": shortest * BATCH, **equal, "archer - ppo": told(gap)},
        "last": {
            arm: {
                "episodes": len(next(iter(runs.values()))[arm]["return"]) * BATCH,
                "return": told([float(np.mean(r[arm]["return"][-WINDOW:])) for r in runs.values()]),
                "seconds": told([r[arm]["seconds"] for r in runs.values()]),
            }
            for arm in ARMS
        },
        "curves": {
            arm: [
                [(k + WINDOW) * BATCH, *told([float(np.mean(r[arm]["return"][k : k + WINDOW])) for r in runs.values()])]
                for k in range(0, len(next(iter(runs.values()))[arm]["return"]) - WINDOW + 1, 2 * WINDOW)
            ]
            for arm in ARMS
        },
        "settings": {"arms": ARMS, "policy": POLICY, "batch": BATCH, "window": WINDOW},
    }


def main() -> None:
    """Run what is missing, then write the tables."""
    parser = options("archer_vs_ppo", __doc__, seeds=5)
    parser.add_argument("--first", type=int, default=0, help="first seed; tables are of all from 0")
    parser.add_argument("--only", choices=list(ARMS), help="one arm, without tables")
    given = parser.parse_args()
    env = make("twentyq", **environment(given.work))
    env.reset(seed=0)
    optimum = success(env.task, env.belief, QUESTIONS)  # type: ignore[attr-defined]
    runs: dict[int, dict[str, Any]] = {}
    for seed in range(given.first, given.first + given.seeds):
        runs[seed] = {}
        for arm in [given.only] if given.only else ARMS:
            runs[seed][arm] = kept(given.work / f"{arm}-{seed}.json", partial(ran, given.work, seed, arm))
            say(f"seed {seed}, {arm}: {np.mean(runs[seed][arm]['return'][-WINDOW:]):.2f}")
    if given.only is None and given.first == 0 and given.seeds > 1:
        found = summary(runs, optimum)
        write_results(given.out, "archer_vs_ppo", found, markdown(found))
        sys.stdout.write(markdown(found))


if __name__ == "__main__":
    main()
