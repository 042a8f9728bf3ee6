"""Which arithmetic runs: the compiled kernels of `_numba`, or their NumPy twins.

Both modules hold the same functions with the same arguments, so a caller writes
``pick(size).gae(...)``. The choice depends on the size of the input and the environment alone, never on what
ran before: a resumed run must repeat the same roundings.
"""

from __future__ import annotations

import functools
import importlib
import os
from types import ModuleType

from apportion.errors import missing_extra
from apportion.numerics import _numpy

THRESHOLD = 2**19
"""Positions from which numba pays: below, the twin needs less time than importing and loading a kernel."""

VARIABLE = "APPORTION_NUMBA"
"""Environment variable: ``0`` never uses numba, ``1`` always; anything else decides by THRESHOLD."""


def pick(size: int) -> ModuleType:
    """The module of kernels for an input of ``size`` positions.

    Raises:
        MissingExtra: APPORTION_NUMBA=1 without numba.
    """
    setting = os.environ.get(VARIABLE, "")
    if setting == "0" or (size < THRESHOLD and setting != "1"):
        return _numpy
    compiled = _compiled()
    if compiled is None:
        if setting == "1":
            raise missing_extra(f"{VARIABLE}=1", "numba", "fast")
        return _numpy
    return compiled


@functools.cache
def _compiled() -> ModuleType | None:
    try:
        return importlib.import_module("apportion.numerics._numba")
    except ImportError:  # not installed, or a numba that refuses this NumPy
        return None
