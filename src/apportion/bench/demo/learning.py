"""Part b: the same cloned agent, trained with two credit methods on paired tasks and equal generated tokens."""

from __future__ import annotations

import json
import multiprocessing
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from apportion.bench.intervals import t_interval
from apportion.bench.workers import workers
from apportion.train import TrainConfig, train
from apportion.train.result import Progress

POLL, TAIL = 1.0, 20_000
"""Seconds between looks at the runs; bytes of metrics that are looked at."""

Done = Callable[[str, float], object]
"""Called with a label and the share that is done, 0 to 1."""


def clone_policy(config: TrainConfig, out: Path, told: Done) -> Path:
    """The warm start that every arm shares: only cloning and the evaluation before training."""
    folder = out / "clone"
    cloning, evaluating = "clone an expert", "evaluate the clone"

    def advance(p: Progress) -> None:
        if p.stage == "clone":
            told(cloning, p.done / p.total)
        else:
            told(evaluating, 0.0)

    if not (folder / "result.json").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        told(cloning, 0.0)
        train(replace(config, iterations=0, out=str(folder)), on_progress=advance)
        told(evaluating, 1.0)
    else:
        told(cloning, 1.0)
    return folder / "start"


def run_arms(
    config: TrainConfig,
    arms: Mapping[str, Mapping[str, Any]],
    seeds: Sequence[int],
    out: Path,
    *,
    jobs: int,
    told: Done,
) -> dict[str, list[dict[str, Any]]]:
    """Train every method with every seed; runs that were stopped go on where they were.

    Args:
        config: shared settings. Equal seeds play equal tasks from equal start states.
        arms: settings that differ, by name of the arm.
        seeds: one run per arm and seed.
        out: run folders are ``out/<arm>-<seed>``.
        jobs: processes at a time, one thread each.

    Returns:
        For each arm, the ``result.json`` of each seed.
    """
    runs = {
        (arm, seed): replace(config, **changes, seed=seed, out=str(out / f"{arm}-{seed}"))
        for seed in seeds
        for arm, changes in arms.items()
    }
    training = f"train {len(runs)} runs: {', '.join(arms)}"
    told(training, 0.0)
    with workers(jobs) as pool:
        waiting: dict[tuple[str, int], Future[None]] = {key: pool.submit(_run, c) for key, c in runs.items()}
        try:
            while not all(future.done() for future in waiting.values()):
                for future in waiting.values():
                    if future.done():
                        future.result()  # an error ends the wait
                told(training, float(np.mean([_share(c) for c in runs.values()])))
                time.sleep(POLL)
            for future in waiting.values():
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    told(training, 1.0)
    return {arm: [_result(Path(runs[arm, seed].out)) for seed in seeds] for arm in arms}


def _run(config: TrainConfig) -> None:
    folder = Path(config.out)
    if (folder / "result.json").is_file():
        return
    begun = (folder / "config.json").is_file() and any((folder / "checkpoints").glob("*"))
    if folder.exists() and not begun:
        shutil.rmtree(folder)
    train(config, resume=begun)


def _result(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """Complete lines of a run's metrics, also while it is running."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        return []
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _share(config: TrainConfig) -> float:
    folder = Path(config.out)
    if (folder / "result.json").is_file():
        return 1.0
    path = folder / "metrics.jsonl"
    if not path.is_file() or not config.token_budget:
        return 0.0
    with path.open("rb") as file:  # the end of it only: this is asked again and again while others need the processor
        file.seek(max(0, path.stat().st_size - TAIL))
        found = re.findall(rb'"generated_tokens": (\d+)', file.read())
    return min(int(found[-1]) / config.token_budget, 0.99) if found else 0.0


def summarise(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Held-out success by arm: every seed, mean and Student's 95% interval over seeds; and the paired difference."""
    out: dict[str, Any] = {}
    for arm, runs in results.items():
        greedy, sampled = ([run["after"][f"success_{kind}"] for run in runs] for kind in ("greedy", "sampled"))
        out[arm] = {
            "success": sampled,
            "mean": float(np.mean(sampled)),
            "ci95": list(t_interval(sampled, low=0, high=1)),
            "greedy": greedy,
            "greedy_mean": float(np.mean(greedy)),
            "greedy_ci95": list(t_interval(greedy, low=0, high=1)),
            "generated_tokens": [run["generated_tokens"] for run in runs],
        }
    first, second = list(results)[:2]
    gap = np.subtract(out[second]["success"], out[first]["success"])
    out["difference"] = {
        "of": f"{second} - {first}",
        "success": gap.tolist(),
        "mean": float(gap.mean()),
        "ci95": list(t_interval(gap.tolist(), low=-1, high=1)),
    }
    before = next(iter(results.values()))[0]["before"]
    out["before"] = float(np.mean([run["before"]["success_sampled"] for runs in results.values() for run in runs]))
    out["before_greedy"] = before["success_greedy"]
    return out


def curves(out: Path, arms: Sequence[str], seeds: Sequence[int], points: int = 12) -> dict[str, dict[str, list[float]]]:
    """Success while training (sampled, training tasks), by generated tokens: mean and Student's interval over seeds.

    Iterations are averaged in equal spans of tokens, the same for all runs.
    """
    found = {
        (arm, seed): [
            (line["generated_tokens"], line["rollout"]["success"])
            for line in read_lines(out / f"{arm}-{seed}")
            if "rollout" in line
        ]
        for arm in arms
        for seed in seeds
    }
    end = min(line[-1][0] for line in found.values())
    points = max(1, min(points, *(len(line) for line in found.values())))
    edges = np.linspace(0, end, points + 1)
    result: dict[str, dict[str, list[float]]] = {}
    for arm in arms:
        rows = []
        for seed in seeds:
            tokens, success = np.array(found[arm, seed], dtype=np.float64).T
            place = np.clip(np.searchsorted(edges, tokens, side="left") - 1, 0, points - 1)
            count = np.bincount(place, minlength=points)
            mean = np.bincount(place, weights=success, minlength=points) / np.maximum(count, 1)
            rows.append(np.interp(np.arange(points), np.flatnonzero(count), mean[count > 0]))
        band = [t_interval(column, low=0, high=1) for column in np.array(rows).T]
        result[arm] = {
            "x": edges[1:].tolist(),
            "mean": np.mean(rows, axis=0).tolist(),
            "lo": [low for low, _ in band],
            "hi": [high for _, high in band],
        }
    return result
