"""Running one file of somebody else's package without the package around it.

Only what it imports is replaced where it is absent: an import that has nothing to do with the arithmetic (configs,
distributed runtimes, tokenizers) becomes an empty stand-in.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any


class Absent(Exception):
    """A peer is not there; the text says what was looked for."""


def load(path: Path) -> ModuleType:
    """Run one file as a module; whatever else it imports from absent packages becomes a `StandIn`."""
    # not "trl.…" or "verl.…": the file must not drag in the package around it
    name = f"_peer_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = set(sys.modules)
    finder = _Missing()
    sys.meta_path.insert(0, finder)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as reason:
        raise Absent(f"{path.name} cannot be loaded: {type(reason).__name__}: {reason}") from reason
    finally:
        sys.meta_path.remove(finder)
        sys.modules.pop(name, None)
        for added in set(sys.modules) - before:
            if isinstance(sys.modules[added], StandIn):
                del sys.modules[added]
    return module


REAL = {"numpy", "torch", *sys.stdlib_module_names}
"""What a peer may really import: its arithmetic is written in these."""


class _Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        top = fullname.partition(".")[0]
        inside_real = top in REAL or top in _real_now()
        return None if inside_real else importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def _real_now() -> set[str]:
    """What torch and numpy themselves may still import while a peer runs."""
    real = {name.partition(".")[0] for name, module in sys.modules.items() if not isinstance(module, StandIn)}
    return real - {"verl", "trl", "transformers", "tensordict"}


class StandIn(ModuleType):
    """A module, class, decorator or value that is never used in the arithmetic."""

    def __init__(self, name: str = "absent", *args: Any, **named: Any) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (StandIn,), {})

    def __call__(self, *args: Any, **named: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not named else self
