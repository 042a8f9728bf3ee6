"""What `pure_collapse` measured: each arm's way, what the monitor said of it, and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments import markdown as md
from experiments.means import interval, side

LAST = 5
"""Batches that an end is the mean of."""
COLUMNS = (
    "right at first",
    "right at the end",
    "cut off at the end",
    "repetitive at the end",
    "process reward at the end",
)


def ways(run: Mapping[str, Any]) -> dict[str, float]:
    """Numbers of one run."""
    series = {k: np.array([np.nan if x is None else x for x in v], dtype=float) for k, v in run["series"].items()}
    verdict, stop = series["verdict"], run["stop"]
    out = {
        "right at first": verdict[:3].mean(),
        "right at the end": verdict[-LAST:].mean(),
        "cut off at first": series["clip_rate"][:3].mean(),
        "cut off at the end": series["clip_rate"][-LAST:].mean(),
        "repetitive at the end": series["repetitive"][-LAST:].mean(),
        "process reward at the end": float(np.mean(series["process"][-LAST:])),
        "held out, before": run["before"]["success_sampled"],
        "held out, after": run["after"]["success_sampled"],
        "batches": float(len(verdict)),
        "stopped": float(stop is not None),
    }
    half = np.flatnonzero(_smooth(verdict) < 0.5 * verdict[:3].mean())
    out["half lost at"] = float(half[0]) if len(half) else np.nan
    if stop is not None:
        at = stop[0]
        out |= {"stop at": float(at), "tokens at the stop": series["tokens"][at] / series["tokens"][-1]}
    return {name: float(value) for name, value in out.items()}


def _smooth(x: np.ndarray) -> np.ndarray:
    """Mean of three batches in a row, the last of them at its place."""
    return np.array([x[max(0, k - 2) : k + 1].mean() for k in range(len(x))])


def summary(runs: Mapping[int, Any]) -> dict[str, Any]:
    """Mean and interval of every number over seeds, arm by arm, and paired differences of what is right at the end."""
    arms = list(next(iter(runs.values()))["arms"])
    per = {name: [ways(run["arms"][name]) for run in runs.values()] for name in arms}
    table = {
        name: {key: told([row[key] for row in rows]) for key in rows[0] if all(key in row for row in rows)}
        for name, rows in per.items()
    }
    reasons = {
        name: [run["arms"][name]["stop"][1] for run in runs.values() if run["arms"][name]["stop"]] for name in arms
    }
    differences = {}
    for a in ("min+verifier", "verifier"):
        for b in arms:
            if a != b:
                gaps = [x["held out, after"] - y["held out, after"] for x, y in zip(per[a], per[b], strict=True)]
                differences[f"{a} - {b}"] = told(gaps)
    stops = {name: [row.get("stop at") for row in rows] for name, rows in per.items()}
    lost = {
        name: [None if np.isnan(row["half lost at"]) else row["half lost at"] for row in rows]
        for name, rows in per.items()
    }
    used = {name: [row.get("tokens at the stop") for row in rows] for name, rows in per.items()}
    quality = {key: told([run["model"][key][0] for run in runs.values()]) for key in ("accuracy", "auc", "good")}
    return {
        "seeds": sorted(runs), "table": table, "stops": stops, "half_lost": lost, "used": used, "reasons": reasons,
        "differences": differences, "model": quality,
    }  # fmt: skip


def told(values: Sequence[float]) -> list[float | None]:
    """Mean, and the two ends of Student's 95% interval; None where a run has no number."""
    return [*interval(values, digits=4)] if np.isfinite(values).all() else [None] * 3


def cell(three: Sequence[float | None]) -> str:
    """What `told` gives: ``0.81 (0.78 to 0.84)``, or a dash."""
    return "–" if three[0] is None else md.cell(three, ".2f")


def markdown(found: dict[str, Any]) -> str:
    """The page for people."""
    quality, shown = found["model"], (*COLUMNS, "held out, before", "held out, after")
    arms = [[name, *(cell(row[column]) for column in shown)] for name, row in found["table"].items()]
    stops = []
    for name, at in found["stops"].items():
        ended = [int(x) for x in at if x is not None]
        lost = ["never" if x is None else str(int(x)) for x in found["half_lost"][name]]
        spent = [f"{x:.2f}" for x in found["used"][name] if x is not None]
        told_ = (", ".join(map(str, ended)), ", ".join(lost), ", ".join(spent))
        stops.append([name, f"{len(ended)} of {len(at)}", *told_])
    example = next((reasons[0] for reasons in found["reasons"].values() if reasons), None)
    return md.document(
        "# Process rewards by their sum and by their minimum, and the monitor of the collapse",
        "Sums of three operations, worked out line by line, at most ten lines; a line that restates what is known is "
        "true and costs nothing. A small cloned transformer; a process reward model fitted to labels of the lines it "
        f"writes (held-out accuracy {cell(quality['accuracy'])}, area under the curve {cell(quality['auc'])}, good "
        f"lines {cell(quality['good'])}). All arms of a seed start from one policy and generate as many tokens; the "
        "monitor listens with its defaults and ends nothing. Mean over "
        f"{len(found['seeds'])} seeds with Student's 95% interval; an end is the mean of the last {LAST} batches.",
        md.table(["arm", *shown], arms),
        "## What the monitor said",
        md.table(
            ["arm", "would have ended", "in batch", "half of the right answers lost in batch", "budget spent by then"],
            stops,
        ),
        "Half is lost where the mean of three batches is below half of the first three; batches are of 4 sums.",
        *([f"For instance: *{example}*"] if example else []),
        md.table(
            ["paired difference, held out after", "mean, 95% interval"],
            [[name, cell(gap)] for name, gap in found["differences"].items()],
        ),
        "## What it says",
        verdict(found),
    )


def verdict(found: dict[str, Any]) -> str:
    """The claims, and what the numbers say of them."""
    said, of = [], len(found["seeds"])
    for name, row in found["table"].items():
        before, after = row["held out, before"], row["held out, after"]
        ended = sum(x is not None for x in found["stops"][name])
        how = (
            "collapse"
            if after[2] < 0.5 * before[1]
            else "grow"
            if after[1] > before[2]
            else "neither grow nor collapse"
        )
        of_runs = f"the monitor would have ended {ended} of {of} runs"
        said.append(f"**{name}**: right answers {how} (held out {before[0]:.2f} to {after[0]:.2f}); {of_runs}.")
    alone, drift = found["differences"]["min+verifier - verifier"], found["table"]["min"]["cut off at the end"]
    if side(alone) == 0:
        said.append(
            "The minimum beside the verifier is not to be told from the verifier alone: here the process reward does "
            "no harm and brings nothing."
        )
    if drift[1] > found["table"]["min"]["cut off at first"][2]:
        said.append(
            f"The minimum **without** a verifier drifts too: {cell(drift)} are cut off at the end. A true line, said "
            "for ever, is as good a minimum as a solution, and safer than a computation."
        )
    said.append(
        "Learning rate, sizes and rewards were fixed before the first run, and that run collapsed; the budget, and two "
        "epochs of the process reward model's fit, were cut afterwards, for time. The monitor has its defaults, none "
        "of which was chosen on these runs. It speaks late, when most of the damage is done: half of the rollouts have "
        "to be at the limit on three batches in a row. So its sentence names the batch that a checkpoint must precede."
    )
    return md.items(said)
