"""What stored numbers have in common: the commit that made them, and how a mean is written."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from apportion.bench.intervals import t_interval

HERE = Path(__file__).parent


def commit() -> str:
    """The commit of the code, with a mark where the library differs from it."""
    asked = ["git", "-C", str(HERE), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def interval(values: Sequence[float]) -> list[float]:
    """Mean and Student's 95% interval, to five digits."""
    return [round(x, 5) for x in (float(np.mean(values)), *t_interval(values))]
