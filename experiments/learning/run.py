"""One run: train, and keep of it what a table or a figure may want, as one JSON file written whole."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from apportion.credit import Credit
from apportion.envs import make
from apportion.numerics import labels
from apportion.train import train
from apportion.train.evaluate import evaluate
from apportion.train.metrics import read_metrics
from apportion.train.policy import Policy
from apportion.train.rollout import Collector
from apportion.units import by_step
from experiments.learning.ceiling import Ceiling
from experiments.learning.plan import ARMS, EXACT, World, digest
from experiments.stored import commit, kept, read, write


def file_of(store: Path, name: str, arm: str, seed: int) -> Path:
    """Where the record of a run lies."""
    return store / name / f"{re.sub('[^a-z0-9_]+', '-', arm)}.{seed}.json"


def warm_start(name: str, world: World, work: Path) -> Path:
    """Folder of the policy that every run of an environment starts from; cloned where it is missing."""
    folder = work / name / "clone"
    if not (folder / "result.json").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        train(replace(world.warm_start(), out=str(folder)))
    return folder / "start"


def run(name: str, world: World, arm: str, seed: int, *, work: Path, store: Path) -> dict[str, Any]:
    """The record from its file, or from training now; a run that was stopped goes on where it was.

    Args:
        name: of the environment's entry in `worlds`. arm: of `plan.ARMS`.
        work: checkpoints and metrics. store: records, small enough to be kept with the project.
    """
    config = world.config(arm, seed)
    path, key = file_of(store, name, arm, seed), digest(world, config)
    if path.is_file():
        found: dict[str, Any] = read(path)
        if found["digest"] == key:
            return found
    config = replace(config, start=str(warm_start(name, world, work)), out=str(work / name / key))
    folder = Path(config.out)
    if not (folder / "result.json").is_file():
        begun = any((folder / "checkpoints").glob("*"))
        if not begun:
            shutil.rmtree(folder, ignore_errors=True)
        ceiling = Ceiling(world.table) if arm == EXACT and world.table else None
        train(config, resume=begun, on_credit=recurrence, credit_by=ceiling)
    record = {
        "env": name, "arm": arm, "method": ARMS[arm].method, "seed": seed, "digest": key, "commit": commit(),
        "lr": config.lr, "before": _started(name, world, work), "after": measured(name, world, folder / "policy"),
        **_trained(folder),
    }  # fmt: skip
    write(path, record)
    shutil.rmtree(folder, ignore_errors=True)
    return record


def recurrence(credit: Credit, iteration: int) -> Mapping[str, float]:
    """Share of the steps whose state another rollout of the group saw too; share of the units that are trained on."""
    units = by_step(credit.units.batch)
    assert units.state_S is not None
    key_S = labels(units.group_of_S, units.state_S)
    pairs = np.unique(np.stack([key_S, units.traj_of_S]), axis=1)
    visitors = np.bincount(pairs[0], minlength=int(key_S.max()) + 1)
    trained = credit.weight_S.mean() if len(credit.weight_S) else 0.0
    return {"recurring": float(np.mean(visitors[key_S] > 1)), "trained": float(trained)}


def measured(name: str, world: World, folder: Path) -> dict[str, float]:
    """What a saved policy is worth: exact return where the game is a table, else on tasks that training never saw."""
    config = replace(world.config("grpo", 0), start=str(folder))
    policy = Policy.from_config(config, make(config.env, **config.env_options))
    if world.table:
        return {"return": Ceiling(world.table).truth(policy).J}
    options = {**config.env_options, **config.eval_options}
    return evaluate(policy, Collector(config.env, options, micro_tokens=8192), world.held_out)


def _started(name: str, world: World, work: Path) -> dict[str, float]:
    """The warm start, measured once."""
    start = warm_start(name, world, work)
    found: dict[str, float] = kept(work / name / "start.json", lambda: measured(name, world, start))
    return found


def _trained(folder: Path) -> dict[str, Any]:
    lines = [line for line in read_metrics(folder / "metrics.jsonl") if "rollout" in line]
    stages = ("collect", "credit", "update", "listeners", "iteration")
    return {
        "iterations": len(lines),
        "generated_tokens": lines[-1]["generated_tokens"],
        "seconds": {stage: round(sum(line["seconds"].get(stage, 0.0) for line in lines), 4) for stage in stages},
        "curve": {
            "tokens": [line["generated_tokens"] for line in lines],
            **{key: [round(line["rollout"][key], 4) for line in lines] for key in ("success", "return", "entropy")},
            **{key: [round(line["listeners"][key], 4) for line in lines] for key in ("recurring", "trained")},
        },
    }
