"""Take the README's picture: rollouts of a small transformer on CraftTree, credited, beside the exact advantage.

    python docs/images/front.py [FILE]

The transformer is the demo's: cloned from a few games of the expert, so neither random nor good. Its rollouts are
sampled, its exact advantage follows by dynamic programming. The rollout shown is the one whose best step by `pooled`
is also the best by the exact advantage, by the widest margin among those with a supported verdict. Chromium's program
may be named in $CHROMIUM.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from apportion.assign import assign
from apportion.bench.demo.run import TRUTH
from apportion.bench.demo.scorer import scorer
from apportion.bench.exact import advantage_of, exact, sample
from apportion.bench.tasks import task
from apportion.bench.truth import to_batch
from apportion.credit import Credit
from apportion.envs import make
from apportion.report import report, report_model
from apportion.train import train
from apportion.train.policy import Policy
from apportion.units import by_step

GROUPS, MEMBERS, SEED = 6, 32, 0
SIZE = "1280,760"


def credited(scratch: Path) -> list[Credit]:
    """`pooled`, GiGPO, GRPO and the exact advantage of the same rollouts."""
    config = replace(TRUTH["crafttree"], iterations=0, eval_tasks=0, out=str(scratch / "clone"), tensorboard=False)
    train(config)
    policy = Policy.from_config(replace(config, start=str(scratch / "clone" / "start")), make("crafttree"))
    truth = exact(task("crafttree").table, scorer(policy))
    rollouts = sample(truth.table, truth.policy, groups=GROUPS, n=MEMBERS, rng=np.random.default_rng(SEED))
    units = by_step(to_batch(truth, rollouts))
    ours = [assign(name, units) for name in ("pooled", "gigpo", "grpo")]
    return [*ours, Credit(advantage_of(truth, rollouts), units, method="exact advantage")]


def to_show(credits: list[Credit]) -> tuple[int, int]:
    """A rollout and its step, see the module."""
    units, right_S = credits[0].units, credits[-1].advantage_S
    document = report_model(credits)
    found = []
    for n, told in enumerate(document["trajectories"]):
        own = np.flatnonzero(units.traj_of_S == n)
        credit_s, right_s = credits[0].advantage_S[own], right_S[own]
        best = int(np.argmax(credit_s))
        supported = told["credit"]["0"]["verdict"]["trust"] == "good"
        if supported and best == int(np.argmax(right_s)) and 0 < best < len(own) - 1 and 6 <= len(own) <= 12:
            found.append((float(np.sort(credit_s)[-1] - np.sort(credit_s)[-2]), n, best))
    if not found:
        sys.exit("no rollout fits; draw another SEED")
    _, n, step = max(found)
    return n, step


def main(picture: Path) -> None:
    """Write the picture."""
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        sys.exit("no Chromium; install one, or name it in CHROMIUM")
    with tempfile.TemporaryDirectory() as scratch:
        credits = credited(Path(scratch))
        n, step = to_show(credits)
        page = Path(scratch) / "report.html"
        report(credits, page, title=f"A small transformer on CraftTree, {GROUPS * MEMBERS} rollouts")
        told = "--headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=4000"
        where = [f"--user-data-dir={scratch}/profile", f"--window-size={SIZE}", f"--screenshot={picture}"]
        address = f"{page.as_uri()}#t={n + 1}&s={step}&theme=light"
        subprocess.run([browser, *told.split(), *where, address], check=True, capture_output=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("front.png")).resolve())
