"""Rollouts from other people's files: what a file is, it is asked; what it cannot tell, the report says.

A new format is one new file in ``formats/``: a function that recognises it, one that reads it, and `register`.
"""

from __future__ import annotations

import importlib
import pkgutil

from apportion.adapters.readers import formats as _formats
from apportion.adapters.readers.front import Detection, Reading, detect, read_any
from apportion.adapters.readers.registry import Context, Format, Head, get, known, register
from apportion.adapters.readers.report import ReadReport

for _module in sorted(module.name for module in pkgutil.iter_modules(_formats.__path__)):
    importlib.import_module(f"{_formats.__name__}.{_module}")

__all__ = [
    "Context",
    "Detection",
    "Format",
    "Head",
    "ReadReport",
    "Reading",
    "detect",
    "get",
    "known",
    "read_any",
    "register",
]
