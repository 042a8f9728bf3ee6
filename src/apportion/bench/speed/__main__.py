"""``python -m apportion.bench.speed``: time our kernels against the peers' in one run."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from apportion.bench.speed.compare import Row, measure
from apportion.bench.speed.peers import Peers
from apportion.bench.speed.registry import Setting, cases
from apportion.bench.speed.report import as_json, remarks, table

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
WIDE = 190
"""Columns of the table in a file or a pipe."""
MISLEADING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Where these are set, OpenBLAS may run kernels of another processor."""


def main(argv: Sequence[str] | None = None) -> int:
    """0 when all values agree, 1 when some differ, 2 for a wrong command line."""
    known = cases()
    parser = argparse.ArgumentParser(prog="python -m apportion.bench.speed", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the numbers to this file")
    parser.add_argument("--quick", action="store_true", help="an eighth of the batches, two rounds, goals not judged")
    parser.add_argument(
        "--peer-src", type=Path, metavar="DIR", help="folder with checkouts of peers that are not installed"
    )
    parser.add_argument("--only", action="append", choices=list(known), help="one case; may be given several times")
    parser.add_argument("--rounds", type=int, help="timings of each call (default 5, quick 2)")
    options = parser.parse_args(argv)
    if options.peer_src is not None and not options.peer_src.is_dir():
        parser.error(f"--peer-src: {options.peer_src} is not a folder")
    if options.json is not None and not options.json.resolve().parent.is_dir():
        parser.error(f"--json: the folder of {options.json} does not exist")
    rounds = options.rounds if options.rounds is not None else 2 if options.quick else 5
    if rounds < 1:
        parser.error("--rounds: at least 1")

    terminal = Console()
    console = terminal if terminal.is_terminal else Console(width=WIDE)
    progress = Console(stderr=True)
    peers = Peers(options.peer_src)
    rows: list[Row] = []
    for name in options.only or known:
        for comparison in known[name](Setting(peers, options.quick)):
            progress.print(f"{comparison.kernel}, {comparison.batch} …", style="dim")
            rows += measure(comparison, rounds, goals=not options.quick)
    console.print(table(rows))
    for sentence in remarks(rows):
        console.print(sentence, markup=False)
    if options.json is not None:
        text = json.dumps(as_json(rows, peers, quick=options.quick), indent=1, ensure_ascii=False, allow_nan=False)
        options.json.write_text(text + "\n", encoding="utf-8")
    return 1 if any(row.mismatch for row in rows) else 0


def one_thread_each() -> None:
    """Start again with one thread per library: the pools have been sized by the time this module is loaded."""
    wanted = {k: v for k, v in ONE_THREAD.items() if os.environ.get(k) != v}
    wrong = [k for k in MISLEADING if k in os.environ]
    if wanted or wrong:
        environment = {k: v for k, v in os.environ.items() if k not in wrong} | wanted
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, "-m", "apportion.bench.speed", *sys.argv[1:]], environment)


if __name__ == "__main__":
    one_thread_each()
    sys.exit(main())
