"""What the commands of the experiments have in common: how many seeds, where parts and results lie, what is said."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.stored import RESULTS


def options(name: str, about: str | None, *, seeds: int | None = None, work: bool = True) -> argparse.ArgumentParser:
    """A parser with the text of a module for its help.

    Args:
        name: of the experiment. Its parts lie in ``runs/NAME`` unless ``--work`` says otherwise.
        about: the module's text.
        seeds: how many are run by default; None where there are none to choose.
        work: whether the experiment leaves parts, so that a stopped run goes on.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments.{name}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if seeds is not None:
        parser.add_argument("--seeds", type=int, default=seeds, help=f"two at least for an interval (default {seeds})")
    if work:
        parts = Path("runs") / name
        parser.add_argument("--work", type=Path, default=parts, help=f"finished parts, kept (default {parts})")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results (default experiments/results)")
    return parser


def say(line: str) -> None:
    """A line of progress, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
