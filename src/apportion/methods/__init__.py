"""Room 4, *credit*: one file = one method, a pure function from `Units` to `Credit`.

Importing this package registers every built-in: each module of the folder is imported, so a new method is one new
file and no list to edit.
"""

from __future__ import annotations

import importlib
import pkgutil

from apportion.methods.describe import Description, describe, markdown_table, methods
from apportion.methods.registry import LAWS, MethodSpec, get, names, register

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

__all__ = [
    "LAWS",
    "Description",
    "MethodSpec",
    "describe",
    "get",
    "markdown_table",
    "methods",
    "names",
    "register",
]
