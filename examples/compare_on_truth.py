"""Methods side by side at equal cost, each against the exact policy gradient and the exact advantage of small games.

    python examples/compare_on_truth.py [METHODS]        names or expressions with commas between

Every method may spend the same number of decisions; one that asks for continuations gets fewer rollouts, and one at
least, whatever it costs (`apportion bench` says where that is more). Intervals are 95% over seeds. The command line has
the same as `apportion bench`. Needs nothing but the base install.
"""

import sys
from pathlib import Path

from apportion.bench.compare import Plan, compare, ranked

METHODS = "exact advantage,grpo,gigpo,pooled,grpo + 0.5*anchor,random"
TASKS = ("keydoor", "chain")


def shown(numbers):
    value, low, high = numbers
    return f"{value:+.2f} [{low:+.2f}, {high:+.2f}]"


def main(methods=METHODS, budget=500, seeds=5, out="runs/examples/bench"):
    wanted = [name.strip() for name in methods.split(",")]
    document = compare(wanted, TASKS, Plan(budget=budget, seeds=seeds), out=Path(out))
    for name in TASKS:
        print(f"\n{name}: cosine with the exact gradient, rank agreement with the exact advantage")
        for cell in ranked([cell for cell in document["cells"] if cell["task"] == name]):
            metrics = cell["metrics"]
            print(f"  {cell['method']:20} {shown(metrics['cosine'])}   {shown(metrics['rank'])}")
    return document


if __name__ == "__main__":
    main(*sys.argv[1:2])
