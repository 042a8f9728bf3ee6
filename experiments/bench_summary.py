"""Keep of a comparison by `apportion bench` what the results page shows: values with intervals, costs, reasons.

    apportion bench --methods all --tasks all --budget 2000 --seeds 5 --out runs/bench
    python -m experiments.bench_summary [runs/bench/bench.json ...]

Comparisons of other methods or tasks under the same plan may be given together; a cell counts once. Writes
results/bench.json, with the commit of the code; run it from the tree that the comparison ran from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.command import options
from experiments.stored import commit, read, write_text

KEPT = ("cosine", "cosine_mean", "rank", "sign", "top1", "error", "bias")


def kept(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell without what the page does not show, to three digits."""
    out = {"method": cell["method"], "task": cell["task"]}
    if "reason" in cell:
        return {**out, "reason": cell["reason"]}
    metrics = {name: [None if x is None else round(x, 3) for x in cell["metrics"][name]] for name in KEPT}
    cost = {name: round(cell["cost"][name][0]) for name in ("rollouts", "decisions", "calls")}
    return {**out, "asks": cell["asks"], "metrics": metrics, "cost": cost}


def main() -> None:
    """Read, shorten, write."""
    parser = options("bench_summary", __doc__, work=False)
    parser.add_argument("bench", type=Path, nargs="*", default=[Path("runs/bench/bench.json")])
    given = parser.parse_args()
    documents = [read(path) for path in given.bench]
    document = documents[0]
    for path, other in zip(given.bench, documents, strict=True):
        if any(other[key] != document[key] for key in ("plan", "version")):
            parser.error(f"{path} is of another plan or version than {given.bench[0]}; compare under one plan")
    cells = {(cell["method"], cell["task"]): kept(cell) for one in documents for cell in one["cells"]}
    lines = ",\n".join(json.dumps(cell, separators=(",", ":"), ensure_ascii=False) for cell in cells.values())
    head = json.dumps({"commit": commit(), "version": document["version"], "plan": document["plan"]})[:-1]
    write_text(given.out / "bench.json", f'{head}, "cells": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
