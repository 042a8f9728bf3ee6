"""Room 4, *credit*: one file = one method, a pure function from `Units` to `Credit`.

A built-in registers itself when its file is imported, and its file is imported when its name is asked for, or the list
of all of them: a new method is one new file and no list to edit.
"""

from __future__ import annotations

from apportion.methods.describe import Description, describe, markdown_table, methods
from apportion.methods.registry import get, names, register
from apportion.methods.spec import LAWS, MethodSpec

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
