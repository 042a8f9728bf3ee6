"""What verl loads at ``import verl`` in every process (entry point ``verl.plugins``).

Nothing of verl is imported here: most processes never use its trainer. Each module that is changed is changed right
after it has been imported, or at once where it already was. Where verl is not one that we know, nothing is changed,
and the name ``apportion/<method>`` says so when it is used.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import logging
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

AFTER = {
    "verl.trainer.ppo.core_algos": ("estimators", "register_names"),
    "verl.trainer.ppo.ray_trainer": ("dataproto", "wrap"),
    "verl.trainer.ppo.v1.trainer_base": ("stage", "take_place"),
}
"""Modules of verl, and the function of this folder that is called with each."""


def install() -> None:
    """Change the modules of `AFTER` that are there, and wait for the others; a second call does nothing."""
    if not any(type(finder).__name__ == _Waiting.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, _Waiting())
    for name in AFTER:
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None)
        if module is not None and not getattr(spec, "_initializing", False):
            _change(module, name)


def _change(module: ModuleType, name: str) -> None:
    """Never an error in somebody else's import: what is wrong is said where an estimator of ours is used."""
    file, function = AFTER[name]
    try:
        getattr(importlib.import_module(f"apportion.adapters.verl.{file}"), function)(module)
    except Exception:
        logging.getLogger("apportion").warning("apportion cannot work inside %s", name, exc_info=True)


class _Waiting(importlib.abc.MetaPathFinder):
    """Finds the modules of `AFTER` as everybody else would, and has them changed once they are loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in AFTER:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(fullname, path, target)) is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """The loader that was found, with a call behind it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self.inner.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.inner
        module.__loader__ = self.inner
        self.inner.exec_module(module)
        _change(module, module.__name__)


install()
