"""The truth part of `make demo` at full size, kept for the README's table.

    python -m experiments.demo_truth [--out runs/demo_truth]

Each task's numbers are written when they are there, so a stopped run goes on. Writes results/demo_truth.json, with the
commit of the code.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from apportion.bench.demo.run import SIZES, TRUTH, truth_on
from apportion.data.atomic import atomic_write
from experiments.stored import commit

HERE = Path(__file__).parent


def main() -> None:
    """Measure, shorten to three digits, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("runs/demo_truth"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    tasks = {}
    for name, config in TRUTH.items():
        found = truth_on(name, config, SIZES["full"], given.out, lambda label, share: None)
        rows = {
            method: {key: [round(x, 3) for x in interval] for key, interval in row.items()}
            for method, row in found.rows.items()
        }
        tasks[name] = {"J": round(found.J, 3), "batches": found.batches, "steps": found.steps, "rows": rows}
    text = json.dumps({"commit": commit(), "tasks": tasks}, indent=1)
    with atomic_write(HERE / "results" / "demo_truth.json") as file:
        file.write(text.encode() + b"\n")


if __name__ == "__main__":
    main()
