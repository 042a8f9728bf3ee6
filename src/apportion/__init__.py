"""apportion: which decision deserves how much of the outcome.

batch  = ap.read("rollouts.jsonl")              rollouts, checked
units  = ap.by_step(batch)                      what is credited
credit = ap.assign("gigpo", units, gamma=0.95)  one number per unit
tokens = credit.to_tokens()                     on exactly the tokens that were sampled
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from apportion.assign import assign, cost, remake
from apportion.assign.values import value_quality
from apportion.check import Finding, Findings, check
from apportion.credit import Cost, Credit, Padded, TokenAdvantages, read_credit, write_credit
from apportion.data import Batch, Row, Step, Trajectory, fold, on_truncated, read, stream, unfold
from apportion.data import write as _write_rollouts
from apportion.errors import (
    ApportionError,
    BudgetError,
    CheckpointError,
    ConfigError,
    DataError,
    EnvError,
    FormatError,
    MissingExtra,
    ResourceError,
    UnknownName,
)
from apportion.methods import describe, methods, register
from apportion.report import report
from apportion.resources import Asker, Budget, Cache, Quote
from apportion.units import Units, by_agent, by_episode, by_segment, by_step, by_token, by_tree, by_turn

__version__ = "0.1.0"


def write(path: str | os.PathLike[str], what: Credit | Batch | Iterable[Trajectory]) -> None:
    """Write credit (with its rollouts), or rollouts, in the format that the name ends with.

    Args:
        path: ends in .jsonl, .jsonl.gz, .jsonl.zst, .parquet or (rollouts only) .arrow. The file is whole or absent.
        what: `Credit`, `Batch`, or any iterable of trajectories.
    """
    if isinstance(what, Credit):
        write_credit(path, what)
    else:
        _write_rollouts(path, what)


__all__ = [
    "ApportionError",
    "Asker",
    "Batch",
    "Budget",
    "BudgetError",
    "Cache",
    "CheckpointError",
    "ConfigError",
    "Cost",
    "Credit",
    "DataError",
    "EnvError",
    "Finding",
    "Findings",
    "FormatError",
    "MissingExtra",
    "Padded",
    "Quote",
    "ResourceError",
    "Row",
    "Step",
    "TokenAdvantages",
    "Trajectory",
    "Units",
    "UnknownName",
    "assign",
    "by_agent",
    "by_episode",
    "by_segment",
    "by_step",
    "by_token",
    "by_tree",
    "by_turn",
    "check",
    "cost",
    "describe",
    "fold",
    "methods",
    "on_truncated",
    "read",
    "read_credit",
    "register",
    "remake",
    "report",
    "stream",
    "unfold",
    "value_quality",
    "write",
]
