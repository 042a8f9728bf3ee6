"""The truth part of `make demo` at full size, kept for the README's table.

    python -m experiments.demo_truth [--work runs/demo_truth]

Each task's numbers are kept when they are there, so a stopped run goes on. Writes results/demo_truth.json.
"""

from __future__ import annotations

from apportion.bench.demo.run import SIZES, TRUTH, truth_on
from experiments.command import options
from experiments.stored import write_results


def main() -> None:
    """Measure, shorten to five digits, so that the two which are shown are rounded once, write."""
    given = options("demo_truth", __doc__).parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    tasks = {}
    for name, config in TRUTH.items():
        found = truth_on(name, config, SIZES["full"], given.work, lambda label, share: None)
        rows = {
            method: {key: [round(x, 5) for x in interval] for key, interval in row.items()}
            for method, row in found.rows.items()
        }
        tasks[name] = {"J": round(found.J, 3), "batches": found.batches, "steps": found.steps, "rows": rows}
    write_results(given.out, "demo_truth", {"tasks": tasks})


if __name__ == "__main__":
    main()
