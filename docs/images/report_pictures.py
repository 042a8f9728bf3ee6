"""Take the pictures of docs/report.md: a report on rollouts of CraftTree, looked at by a headless Chromium.

    python docs/images/report_pictures.py [FOLDER]

Chromium's program may be named in $CHROMIUM.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from credited_trajectory import STRENGTH, trajectories

from apportion.assign import assign
from apportion.bench.exact import advantage_of, exact, improve, sample, uniform
from apportion.bench.tasks import task
from apportion.credit import Credit
from apportion.data import Batch
from apportion.report import report
from apportion.units import by_step

GROUPS, MEMBERS, SEED = 4, 32, 3
PICTURES = {
    "report": ("#t=86&s=5&theme=light", "1280,800"),
    "report-states": ("#t=86&s=5&view=states&theme=light", "1280,800"),
    "report-compare": ("#t=86&s=5&view=compare&theme=dark", "1280,800"),
}


def write_report(path: Path) -> None:
    """GiGPO, GRPO and the exact advantage on the same rollouts."""
    table = task("crafttree").table
    policy = improve(table, uniform(table), STRENGTH)
    rollouts = sample(table, policy, groups=GROUPS, n=MEMBERS, rng=np.random.default_rng(SEED))
    units = by_step(Batch.from_trajectories(trajectories(table, rollouts)))
    truth = Credit(advantage_of(exact(table, policy), rollouts), units, method="exact advantage")
    report([assign("gigpo", units), assign("grpo", units), truth], path, title="CraftTree, 128 rollouts")


def main(folder: Path) -> None:
    """Write the pictures."""
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        sys.exit("no Chromium; install one, or name it in CHROMIUM")
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "report.html"
        write_report(page)
        for name, (fragment, size) in PICTURES.items():
            command = f"{browser} --headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=4000"
            picture = [
                f"--user-data-dir={scratch}/profile",
                f"--window-size={size}",
                f"--screenshot={folder / name}.png",
            ]
            subprocess.run([*command.split(), *picture, page.as_uri() + fragment], check=True, capture_output=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent).resolve())
