"""The demo as one function: both parts, the summary, the picture and the report."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from apportion.assign import assign
from apportion.bench.demo.learning import clone_policy, curves, run_arms, summarise
from apportion.bench.demo.scorer import scorer
from apportion.bench.tasks import task
from apportion.bench.truth import Measured, measure
from apportion.credit import Credit
from apportion.data import read
from apportion.data.atomic import atomic_write
from apportion.errors import missing_extra
from apportion.report import demo_report
from apportion.train import TrainConfig, train
from apportion.units import by_step

TRUTH = {
    "crafttree": TrainConfig(env="crafttree", clone_episodes=24, clone_epochs=6, clone_noise=0.3, clone_lr=2e-3),
    "keydoor": TrainConfig(env="keydoor", clone_episodes=4, clone_epochs=6, clone_noise=0.3, clone_lr=2e-3),
}
"""A lightly cloned transformer per task: neither random nor good, where credit matters."""

LEARNING = TrainConfig(
    env="babyai",
    env_options={"max_steps": 24},
    window=1,
    tasks=8,
    rollouts=8,
    lr=5e-4,
    eval_every=0,
    checkpoint_every=5,
    dump_every=10_000,  # the first iteration only: both arms share its rollouts
)
ARMS: dict[str, dict[str, Any]] = {
    "grpo": {"method": "grpo", "method_params": {"scale": "none"}, "unit": "step"},
    "gigpo": {"method": "gigpo", "method_params": {}, "unit": "step"},
}
"""Both without division by a standard deviation, so that they differ in the step part only."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much the demo does.

    batches: of the truth part. clone_episodes, clone_epochs: of the learning part's warm start.
    token_budget: generated tokens per arm and seed. eval_tasks: held-out tasks. seeds: of the arms.
    """

    batches: int
    clone_episodes: int
    clone_epochs: int
    token_budget: int
    eval_tasks: int
    seeds: tuple[int, ...]


SIZES = {
    "full": Size(40, 600, 5, 95_000, 384, (0, 1, 2)),
    "quick": Size(4, 16, 2, 1_500, 8, (0, 1, 2)),
}

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "tensorboard", "matplotlib", "minigrid")
"""What the two parts import on their way."""

Told = Callable[[str, float], object]
"""Called with what is being done and the share of it that is done."""


def run_demo(
    out: Path, *, size: str = "full", jobs: int | None = None, told: Told = lambda label, share: None
) -> dict[str, Any]:
    """Run both parts and write ``summary.json``, ``learning.png`` and ``report.html`` into ``out``.

    A demo that was stopped goes on where it was; a finished one, or one of another size, starts anew.

    Args:
        out: folder; what an earlier demo wrote there is replaced.
        size: "full" or "quick" (toy size, for a look and for CI).
        jobs: training processes at a time; default the number of cores, at most 3.
        told: for progress.

    Raises:
        MissingExtra: a package of `PACKAGES` is not installed; nothing was touched.
    """
    began = time.perf_counter()
    equipped()
    plan = SIZES[size]
    _prepare(out, size)
    truth = {name: truth_on(name, config, plan, out, told) for name, config in TRUTH.items()}
    config = replace(
        LEARNING,
        clone_episodes=plan.clone_episodes,
        clone_epochs=plan.clone_epochs,
        token_budget=plan.token_budget,
        iterations=100_000,
        eval_tasks=plan.eval_tasks,
        tensorboard=size == "full",
    )
    start = clone_policy(config, out, told)
    config = replace(config, start=str(start), clone_episodes=0)
    jobs = jobs or min(os.cpu_count() or 1, 3)
    results = run_arms(config, ARMS, plan.seeds, out, jobs=jobs, told=told)
    learning = summarise(results)
    drawn = curves(out, list(ARMS), plan.seeds)
    told("write the report", 0.0)
    summary = {
        "truth": {name: dict(found.rows) for name, found in truth.items()},
        "truth_policies": {
            name: {"J": found.J, "batches": found.batches, "steps": found.steps} for name, found in truth.items()
        },
        "truth_skipped": {name: dict(found.skipped) for name, found in truth.items()},
        "learning": learning,
        "env": f"{config.env} {_level(config.env_options)}".strip(),
        "size": size,
        "seconds": time.perf_counter() - began,
        "credit_share": max(run["credit_share"] for run in results["gigpo"]),
    }
    _write_json(out / "curves.json", drawn)
    _draw(out / "learning.png", drawn, learning)
    demo_report(
        {**_facts(summary), "curves": drawn, "curves_y": "success while training (sampled)"},
        _credits(out),
        out / "report.html",
        title="apportion demo: GRPO and GiGPO from one cloned agent",
        decode=_decoder(start),
    )
    summary["seconds"] = time.perf_counter() - began
    _write_json(out / "summary.json", summary)
    told("write the report", 1.0)
    return summary


def equipped() -> None:
    """Nothing where every package of `PACKAGES` is there, else the sentence that names the first that is not."""
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise missing_extra("the demo", package, "train,envs")


def _prepare(out: Path, size: str) -> None:
    """A folder to work in: that of a stopped demo of this size as it is, any other emptied of what a demo writes."""
    mark = out / "demo.json"
    same = mark.is_file() and json.loads(mark.read_text()).get("plan") == _plan(size)
    if not same or (out / "summary.json").is_file():
        for name in ("clone", *(f"truth-{name}" for name in TRUTH)):
            shutil.rmtree(out / name, ignore_errors=True)
        for arm in ARMS:
            for folder in out.glob(f"{arm}-*"):
                shutil.rmtree(folder, ignore_errors=True)
        for name in ("summary.json", "curves.json", "learning.png", "report.html", *(f"truth-{n}.json" for n in TRUTH)):
            (out / name).unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    _write_json(mark, {"plan": _plan(size)})


def _plan(size: str) -> dict[str, Any]:
    plan = {"size": asdict(SIZES[size]), "learning": LEARNING.to_mapping(), "arms": ARMS}
    copy: dict[str, Any] = json.loads(json.dumps(plan))
    return copy


def truth_on(name: str, config: TrainConfig, plan: Size, out: Path, told: Told) -> Measured:
    """Every method's credit on one task against its exact answer; read from ``out`` where it was measured before."""
    cloning, label = f"clone a player of {name}", f"credit against truth: {name}"
    done = out / f"truth-{name}.json"
    if done.is_file():
        told(label, 1.0)
        return Measured(**json.loads(done.read_text()))
    folder = out / f"truth-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    told(cloning, 0.0)  # before torch is imported, which takes seconds
    from apportion.envs import make
    from apportion.train.policy import Policy

    train(
        replace(config, iterations=0, eval_tasks=0, out=str(folder), tensorboard=False),
        on_progress=lambda p: told(cloning, p.done / p.total),
    )
    policy = Policy.from_config(replace(config, start=str(folder / "start")), make(name))
    count = 0

    def advance() -> None:
        nonlocal count
        count += 1
        told(label, count / plan.batches)

    told(label, 0.0)
    found = measure(task(name).table, scorer(policy), batches=plan.batches, seed=0, progress=advance)
    _write_json(done, asdict(found))
    return found


def _credits(out: Path) -> list[Credit]:
    """Both methods' credit of the rollouts that both arms began with."""
    first = sorted((out / "gigpo-0" / "rollouts").glob("*.jsonl"))[0]
    units = by_step(read(first))
    return [assign(arm["method"], units, **arm["method_params"]) for arm in ARMS.values()]


def _decoder(start: Path) -> Callable[[Any], list[str]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(start), trust_remote_code=False)
    return lambda ids: [str(tokenizer.decode([int(i)])) for i in ids]


def _facts(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: summary[name] for name in ("truth", "learning", "env", "size")},
        "credit share of an iteration": f"{summary['credit_share']:.2%}",
        "seconds": round(summary["seconds"]),
    }


def _level(options: Mapping[str, Any]) -> str:
    from apportion.envs import make

    spec = make("babyai", **options).spec
    return str(dict(spec.options).get("level", ""))


def _draw(path: Path, drawn: Mapping[str, Mapping[str, Any]], learning: Mapping[str, Any]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), dpi=150)
    for colour, (arm, line) in zip(("#4477aa", "#ee7733", "#228833"), drawn.items(), strict=False):
        axes.plot(line["x"], line["mean"], color=colour, label=arm)
        axes.fill_between(line["x"], line["lo"], line["hi"], color=colour, alpha=0.15, linewidth=0)
    axes.axhline(learning["before"], color="#777777", linestyle=":", label="before (held out)")
    axes.set(xlabel="generated tokens", ylabel="success while training (sampled)", ylim=(0, 1))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def _write_json(path: Path, value: Any) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(value, indent=2).encode() + b"\n")
