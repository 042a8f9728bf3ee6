"""The learning rate of an environment: one for all arms, chosen on a seed that is not judged."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from apportion.train import train
from apportion.train.metrics import read_metrics
from experiments.command import say
from experiments.learning.plan import TUNING_SEED, World
from experiments.learning.run import warm_start
from experiments.learning.summary import area
from experiments.stored import commit, read, write

RATES = (1e-3, 2e-3, 4e-3)
TUNED_WITH = ("grpo", "gigpo")
"""Arms whose mean area decides: the baseline and the best known method of step level; ours is not among them."""


def tune(name: str, world: World, *, work: Path, store: Path) -> dict[str, Any]:
    """Area of the arms at each rate, from the file or from training now."""
    found: dict[str, Any] = read(store) if store.is_file() else {}
    rows = found.setdefault(name, {"seed": TUNING_SEED, "commit": commit(), "area": {}})["area"]
    for rate in RATES:
        for arm in TUNED_WITH:
            if str(rate) in rows.get(arm, {}):
                continue
            out = work / name / f"tune-{arm}-{rate}"
            shutil.rmtree(out, ignore_errors=True)
            config = replace(world.config(arm, TUNING_SEED, lr=rate), eval_tasks=0, token_budget=world.tokens // 2)
            train(replace(config, start=str(warm_start(name, world, work)), out=str(out)))
            lines = [line for line in read_metrics(out / "metrics.jsonl") if "rollout" in line]
            record = {
                "curve": {
                    "tokens": [line["generated_tokens"] for line in lines],
                    world.score: [line["rollout"][world.score] for line in lines],
                }
            }
            rows.setdefault(arm, {})[str(rate)] = round(area(world, record), 4)
            say(f"{name} {arm} lr {rate}: {rows[arm][str(rate)]}")
            write(store, found, indent=1)
            shutil.rmtree(out, ignore_errors=True)
    return found
