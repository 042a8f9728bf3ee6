"""Every method on every task at equal cost, each number beside the exact answer: `apportion bench`.

document = compare(["grpo", "gigpo"], ["crafttree", "ice"], Plan(budget=2000, seeds=20), out=Path("runs/bench"))
"""

from apportion.bench.compare.cells import CONTROLS, COSTS, METRICS, Plan
from apportion.bench.compare.page import dearer, number, page, ranked, reasons
from apportion.bench.compare.run import compare, every_method, every_task

__all__ = [
    "CONTROLS",
    "COSTS",
    "METRICS",
    "Plan",
    "compare",
    "dearer",
    "every_method",
    "every_task",
    "number",
    "page",
    "ranked",
    "reasons",
]
