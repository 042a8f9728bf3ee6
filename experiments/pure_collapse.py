"""Does a sum of process rewards collapse a policy, does the monitor catch it, and does a minimum with a verifier not?

A small transformer is cloned on sums worked out line by line (`gameable_sums`). A process reward model (`StepPRM`) is
fitted to people's labels of the lines that this policy writes. From the same policy, with the same model and as many
generated tokens, one run for each arm:

    sum             pure, form="sum", the process reward alone
    sum+verifier    the same beside the verifier
    min             pure, form="soft" (the paper's), the process reward alone
    min+verifier    the same beside the verifier
    verifier        RLOO on the verifier alone

`CollapseMonitor` with its defaults listens, and no run is ended: so what it says can be held against what came of it.

    python -m experiments.pure_collapse [--seeds 5] [--work runs/pure_collapse]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from apportion.check import CollapseMonitor
from apportion.credit import Credit
from apportion.data import Batch
from apportion.envs import make
from apportion.errors import StopRun
from apportion.models import Backbone, StepPRM
from apportion.train import TrainConfig, train
from apportion.train.policy import Policy
from apportion.train.rollout import Collector
from experiments.command import options, say
from experiments.gameable_sums import NAME, labels
from experiments.pure_collapse_page import markdown, summary
from experiments.stored import kept, read, write_results

BUDGET = 16_000
LABELLED_TASKS, LABELLED_SEED = 96, 5_000_000
ARMS: dict[str, dict[str, Any]] = {
    "sum": {"method": "pure", "method_params": {"form": "sum", "outcome_weight": 0.0}},
    "sum+verifier": {"method": "pure", "method_params": {"form": "sum"}},
    "min": {"method": "pure", "method_params": {"outcome_weight": 0.0}},
    "min+verifier": {"method": "pure", "method_params": {}},
    "verifier": {"method": "rloo", "method_params": {}},
}
SERIES = ("verdict", "clip_rate", "repetitive", "praised_failures", "process", "steps")


def settings(seed: int, out: Path, **changes: Any) -> TrainConfig:
    """What all runs of a seed have in common."""
    common = {
        "env": NAME, "seed": seed, "unit": "step", "tasks": 4, "rollouts": 8, "lr": 1e-3, "warmup": 5, "iterations": 0,
        "eval_tasks": 0, "eval_every": 0, "checkpoint_every": 10, "tensorboard": False, "out": str(out),
        "method": "rloo",
    }  # fmt: skip
    return TrainConfig(**{**common, **changes})


def cloned(seed: int, work: Path) -> Path:
    """The policy that all arms start from: neither good nor bad."""
    config = settings(seed, work / "base", clone_episodes=120, clone_epochs=5, clone_noise=0.2)
    if not (Path(config.out) / "policy").is_dir():
        train(config)
    return Path(config.out) / "policy"


def process_model(seed: int, start: Path, work: Path) -> tuple[Path, dict[str, Any]]:
    """A process reward model, fitted to labels of what the policy writes, and how good it is on other tasks."""
    folder = work / "prm"
    if not (folder / "model.json").is_file():
        policy = Policy.from_config(settings(seed, work, start=str(start)), make(NAME))
        tasks = range(LABELLED_SEED, LABELLED_SEED + LABELLED_TASKS)
        played = Collector(NAME, {}).collect(policy, tasks, rollouts=4, stream=(seed, 77))
        batch = Batch.from_trajectories(played.trajectories)
        trunk = Backbone("small", vocabulary=len(policy.tokenizer) + 1, seed=seed)
        StepPRM.fit(
            batch, backbone=trunk, labels=labels(batch), epochs=10, lr=2e-3, batch_tokens=1024, held_out=0.25,
            seed=seed, out=folder,
        )  # fmt: skip
    facts = read(folder / "model.json")
    return folder, facts["fitted"]["measures"]


class Recorder:
    """A monitor that is heard and not obeyed."""

    def __init__(self) -> None:
        self.monitor = CollapseMonitor(process="prm")
        self.reasons: list[tuple[int, str]] = []

    def __call__(self, credit: Credit, step: int) -> Mapping[str, float]:
        try:
            return self.monitor(credit, step)
        except StopRun as stop:
            self.reasons.append((step, str(stop)))
            return stop.numbers


def arm(name: str, seed: int, start: Path, model: Path, work: Path) -> dict[str, Any]:
    """One run, from the cloned policy to the end of the budget."""
    more: dict[str, Any] = {} if name == "verifier" else {"credit": str(model)}
    config = settings(
        seed, work / name, start=str(start), iterations=400, token_budget=BUDGET, eval_tasks=64, **ARMS[name], **more
    )
    heard, began = Recorder(), time.perf_counter()
    result = train(config, on_credit=heard)
    lines = [line for line in result.metrics if "collapse" in line]
    told = {key: [line["collapse"].get(key) for line in lines] for key in SERIES}
    told["tokens"] = [line["generated_tokens"] for line in lines]
    return {
        "series": told,
        "stop": heard.reasons[0] if heard.reasons else None,
        "before": dict(result.before),
        "after": dict(result.after),
        "iterations": result.iterations,
        "seconds": time.perf_counter() - began,
    }


def measured(seed: int, work: Path) -> dict[str, Any]:
    """Everything of one seed; finished arms are kept."""
    folder = work / f"seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    start = cloned(seed, folder)
    model, quality = process_model(seed, start, folder)
    arms = {name: kept(folder / f"{name}.json", partial(arm, name, seed, start, model, folder)) for name in ARMS}
    return {"model": quality, "arms": arms}


def main() -> None:
    """Run what is missing, then write the tables."""
    parser = options("pure_collapse", __doc__, seeds=5)
    parser.add_argument("--first", type=int, default=0, help="first seed; pilots used others than the judged ones")
    given = parser.parse_args()
    torch.set_num_threads(1)
    runs = {}
    for seed in range(given.first, given.first + given.seeds):
        runs[seed] = measured(seed, given.work)
        for name, run in runs[seed]["arms"].items():
            verdict = [x for x in run["series"]["verdict"] if x is not None]
            stop = run["stop"][0] if run["stop"] else None
            say(
                f"seed {seed} {name}: right {np.mean(verdict[:3]):.2f} -> {np.mean(verdict[-3:]):.2f}, "
                f"{run['iterations']} iterations, stop {stop}, {run['seconds']:.0f} s"
            )
    if given.seeds >= 2 and given.first == 0:
        found = summary(runs)
        write_results(given.out, "pure_collapse", found, markdown(found))
        sys.stdout.write(markdown(found))


if __name__ == "__main__":
    main()
