"""Room 4, *credit*: one file = one method, a pure function from `Units` to `Credit`.

Importing this package registers every built-in: each module of the folder is imported, so a new method is one new
file and no list to edit.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from apportion.methods.registry import LAWS, MethodSpec, get, names, register

if TYPE_CHECKING:
    from apportion.methods.registry import REQUIRED as REQUIRED

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

__all__ = ["LAWS", "MethodSpec", "get", "names", "register"]
