"""``python -m apportion.bench.check``: precision and recall of every check on faults that are planted.

Each fault is planted into rollouts of a generated world (strength and place drawn), beside two kinds of innocents: the
world as it is, and a likeness of the fault that is none. ``--sweep CODE`` shows both against a threshold of the check.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from apportion.bench.check.catalogue import BEGIN, END, catalogue
from apportion.bench.check.faults import faults
from apportion.bench.check.score import CALIBRATION, SWEEPS, Score, score, sweep


def main(argv: Sequence[str] | None = None) -> int:
    """0 when every check finds its fault and spares the innocents as often as it should, 1 else, 2 for wrong usage."""
    known = faults()
    parser = argparse.ArgumentParser(prog="python -m apportion.bench.check", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="faulty, clean and look-alike batches for each fault")
    parser.add_argument("--seed", type=int, default=CALIBRATION, help="first of the seeds; tests use others")
    parser.add_argument("--only", action="append", choices=list(known), help="one fault; may be given several times")
    parser.add_argument(
        "--sweep", choices=["all", *SWEEPS], help="precision and recall against a threshold of this check"
    )
    parser.add_argument("--catalogue", type=Path, metavar="PAGE", help="write the catalogue into this page of the docs")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the numbers to this file")
    options = parser.parse_args(argv)
    if options.runs < 1:
        parser.error("--runs: at least 1")
    console = Console() if sys.stdout.isatty() else Console(width=120)
    if options.catalogue:
        before, _, rest = options.catalogue.read_text(encoding="utf-8").partition(BEGIN)
        options.catalogue.write_text(before + catalogue() + rest.partition(END)[2], encoding="utf-8")
        return 0
    if options.sweep:
        codes = list(SWEEPS) if options.sweep == "all" else [options.sweep]
        rows = [row for code in codes for row in sweep(code, options.runs, options.seed)]
    else:
        rows = [score(known[code], options.runs, options.seed) for code in options.only or known]
    console.print(_table(rows))
    if options.json is not None:
        options.json.write_text(json.dumps([row.to_dict() for row in rows], indent=1) + "\n", encoding="utf-8")
    return int(not options.sweep and any(not row.good for row in rows))


def _table(rows: Sequence[Score]) -> Table:
    out = Table(
        title="planted faults: how many are found, and how many of the findings are right", title_justify="left"
    )
    for name in ("finding", "threshold", "recall", "precision", "on clean", "on look-alikes", "runs"):
        out.add_column(name)
    for row in rows:
        out.add_row(
            row.code,
            row.threshold,
            f"{row.recall:.2f}",
            f"{row.precision:.2f}",
            f"{row.clean}",
            f"{row.alike}",
            f"{row.runs}",
        )
    return out


if __name__ == "__main__":
    sys.exit(main())
