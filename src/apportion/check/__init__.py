"""Can these rollouts, and this credit, be trusted? Findings, worst first, each with evidence and a remedy.

A new check is one new file in ``checks/``: a function that yields `Finding`, under `register`. A new measure, likewise
in ``measures/``, is a function that counts, under `measure`.
"""

from __future__ import annotations

import importlib
import pkgutil

from apportion.check import checks as _checks
from apportion.check import measures as _measures
from apportion.check.collapse import CollapseMonitor
from apportion.check.findings import SCHEMA, SEVERITIES, Finding, Findings
from apportion.check.front import check, check_credit, check_file, check_rollouts, compare_credits, read_rollouts
from apportion.check.live import LiveCheck
from apportion.check.planning import optimal_window, resolution_risk
from apportion.check.registry import Check, Measure, measure, register
from apportion.check.registry import checks as registered
from apportion.check.registry import measures as registered_measures

for _package in (_checks, _measures):
    for _module in sorted(module.name for module in pkgutil.iter_modules(_package.__path__)):
        importlib.import_module(f"{_package.__name__}.{_module}")

__all__ = [
    "SCHEMA",
    "SEVERITIES",
    "Check",
    "CollapseMonitor",
    "Finding",
    "Findings",
    "LiveCheck",
    "Measure",
    "check",
    "check_credit",
    "check_file",
    "check_rollouts",
    "compare_credits",
    "measure",
    "optimal_window",
    "read_rollouts",
    "register",
    "registered",
    "registered_measures",
    "resolution_risk",
]
