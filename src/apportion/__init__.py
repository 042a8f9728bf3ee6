"""apportion: which decision deserves how much of the outcome.

batch  = ap.read("rollouts.jsonl")              rollouts, checked
units  = ap.by_step(batch)                      what is credited
credit = ap.assign("gigpo", units, gamma=0.95)  one number per unit
tokens = credit.to_tokens()                     on exactly the tokens that were sampled
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apportion.assign.assign import assign, cost, remake
    from apportion.assign.values import value_quality
    from apportion.check import Finding, Findings, check
    from apportion.credit import Cost, Credit, Padded, TokenAdvantages, read_credit
    from apportion.data import Batch, Row, Step, Trajectory, fold, on_truncated, read, stream, unfold
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
        StopRun,
        UnknownName,
    )
    from apportion.methods.describe import describe, methods
    from apportion.methods.registry import register
    from apportion.recommend import recommend
    from apportion.report import report
    from apportion.resources import Asker, Budget, Cache, Quote
    from apportion.units import Units, by_agent, by_episode, by_segment, by_step, by_token, by_tree, by_turn

__version__ = "0.1.0"

_ROOMS = {
    "apportion.assign.assign": "assign cost remake",
    "apportion.assign.values": "value_quality",
    "apportion.check": "Finding Findings check",
    "apportion.credit": "Cost Credit Padded TokenAdvantages read_credit",
    "apportion.data": "Batch Row Step Trajectory fold on_truncated read stream unfold",
    "apportion.errors": "ApportionError BudgetError CheckpointError ConfigError DataError EnvError FormatError "
    "MissingExtra ResourceError StopRun UnknownName",
    "apportion.methods.describe": "describe methods",
    "apportion.methods.registry": "register",
    "apportion.recommend": "recommend",
    "apportion.report": "report",
    "apportion.resources": "Asker Budget Cache Quote",
    "apportion.units": "Units by_agent by_episode by_segment by_step by_token by_tree by_turn",
}
_WHERE = {name: room for room, names in _ROOMS.items() for name in names.split()}
"""Where each public name comes from; it is imported when it is first used (scientific-python SPEC 1)."""


def write(path: str | os.PathLike[str], what: Credit | Batch | Iterable[Trajectory]) -> None:
    """Write credit (with its rollouts), or rollouts, in the format that the name ends with.

    Args:
        path: ends in .jsonl, .jsonl.gz, .jsonl.zst, .parquet or (rollouts only) .arrow. The file is whole or absent.
        what: `Credit`, `Batch`, or any iterable of trajectories.
    """
    from apportion.credit import Credit, write_credit
    from apportion.data import write as write_rollouts

    if isinstance(what, Credit):
        write_credit(path, what)
    else:
        write_rollouts(path, what)


if not TYPE_CHECKING:  # a type checker that saw it would let every misspelling pass

    def __getattr__(name: str) -> Any:
        if name == "models":  # a room that is used by its own name, and needs torch
            return _models()
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(_WHERE[name]), name)
        return value


def _models() -> ModuleType:
    try:
        return importlib.import_module("apportion.models")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "apportion":
            raise
        from apportion.errors import missing_extra

        raise missing_extra("a credit model", error.name or "torch", "train") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        # The import system binds each room here; where a public function has the room's name, the function stays.
        if not (name in _WHERE and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

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
    "StopRun",
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
    "recommend",
    "register",
    "remake",
    "report",
    "stream",
    "unfold",
    "value_quality",
    "write",
]
