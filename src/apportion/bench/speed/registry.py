"""The cases: every module below `cases` that holds a function decorated with `@case`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from apportion.bench.speed.compare import Comparison
from apportion.bench.speed.peers import Peers
from apportion.bench.speed.stand_ins import Absent

Found = TypeVar("Found")


@dataclass(frozen=True)
class Setting:
    """What a case is given: where peers are, and whether a minute is too long."""

    peers: Peers
    quick: bool = False

    def beside_torch(self, load: Callable[[Peers], Found]) -> Found | str:
        """What is loaded of a peer that computes with torch, which then has one thread; or the reason why not."""
        try:
            import torch

            found = load(self.peers)
        except (Absent, ImportError) as reason:
            return str(reason)
        torch.set_num_threads(1)
        return found


Case = Callable[[Setting], Iterator[Comparison]]
_CASES: dict[str, Case] = {}


def case(name: str) -> Callable[[Case], Case]:
    """Register a generator of comparisons under the name that ``--only`` takes."""

    def register(function: Case) -> Case:
        if name in _CASES:
            raise ValueError(f"two benchmark cases are named {name!r}; rename one")
        _CASES[name] = function
        return function

    return register


def cases() -> dict[str, Case]:
    """All cases by name, after importing every module of `cases`."""
    package = importlib.import_module("apportion.bench.speed.cases")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_CASES.items()))
