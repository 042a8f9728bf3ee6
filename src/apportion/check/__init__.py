"""Can these rollouts, and this credit, be trusted? Findings, worst first, each with evidence and a remedy.

A new check is one new file in ``checks/``: a function that yields `Finding`, under `register`.
"""

from __future__ import annotations

import importlib
import pkgutil

from apportion.check import checks as _checks
from apportion.check.findings import SCHEMA, SEVERITIES, Finding, Findings
from apportion.check.front import check, check_credit, check_file
from apportion.check.registry import Check, register
from apportion.check.registry import checks as registered

for _module in sorted(module.name for module in pkgutil.iter_modules(_checks.__path__)):
    importlib.import_module(f"{_checks.__name__}.{_module}")

__all__ = [
    "SCHEMA",
    "SEVERITIES",
    "Check",
    "Finding",
    "Findings",
    "check",
    "check_credit",
    "check_file",
    "register",
    "registered",
]
