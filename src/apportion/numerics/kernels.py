"""Which arithmetic runs: the compiled kernels of `_numba`, or their NumPy twins.

Both modules hold the same functions with the same arguments, so a caller writes
``pick(size).gae(...)``. Further families have a pair of modules of their own: ``pick(size, "grams")`` chooses between
`_numba_grams` and `_numpy_grams`. Where roundings may differ, the choice depends on the size of the input and the
environment alone, never on what ran before: a resumed run must repeat them.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType

from apportion.errors import missing_extra

THRESHOLD = 2**19
"""Positions from which numba pays: below, the twin needs less time than importing and loading a kernel."""

VARIABLE = "APPORTION_NUMBA"
"""Environment variable: ``0`` never uses numba, ``1`` always; anything else decides by THRESHOLD."""


_SIZE_MATTERS = ContextVar("size_matters", default=True)


@contextmanager
def one_for_all_sizes() -> Iterator[None]:
    """Inside, NumPy's twins run whatever the size (unless APPORTION_NUMBA says 1).

    For work that is done in pieces: compiled sums round otherwise in the last bit, so a rollout must not meet them in
    a large piece and miss them in a small one.
    """
    token = _SIZE_MATTERS.set(False)
    try:
        yield
    finally:
        _SIZE_MATTERS.reset(token)


def pick(size: int, family: str = "", *, exact: bool = False) -> ModuleType:
    """The module of kernels of one family for an input of ``size`` positions.

    Args:
        size: positions. family: see above.
        exact: both modules give the same bits, as counts and positions do: small inputs then use compiled kernels too
            where a large one has loaded them, since nothing is left to pay for and nothing can differ.

    Raises:
        MissingExtra: APPORTION_NUMBA=1 without numba.
    """
    setting = os.environ.get(VARIABLE, "")
    small = size < THRESHOLD or not _SIZE_MATTERS.get()
    if exact and _name("_numba", family) in sys.modules:
        small = False
    if setting == "0" or (small and setting != "1"):
        return _twin(family)
    compiled = _compiled(family)
    if compiled is None:
        if setting == "1":
            raise missing_extra(f"{VARIABLE}=1", "numba", "fast")
        return _twin(family)
    return compiled


@functools.cache
def _twin(family: str) -> ModuleType:
    return importlib.import_module(_name("_numpy", family))


@functools.cache
def _compiled(family: str) -> ModuleType | None:
    try:
        return importlib.import_module(_name("_numba", family))
    except ImportError:  # not installed, or a numba that refuses this NumPy
        return None


def _name(kind: str, family: str) -> str:
    return f"apportion.numerics.{kind}" + (f"_{family}" if family else "")
