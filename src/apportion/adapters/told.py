"""What other people's records tell: objects or dicts, whose numbers are lists, arrays or tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from apportion.errors import DataError, MissingExtra
from apportion.numerics import Array

MISSING = object()


def field(record: Any, name: str, default: Any = MISSING) -> Any:
    """An attribute, or an entry of a mapping.

    Raises:
        DataError: it is absent and there is no default.
    """
    value = record.get(name, MISSING) if isinstance(record, Mapping) else getattr(record, name, MISSING)
    if value is not MISSING:
        return value
    if default is MISSING:
        raise DataError(
            f"a {type(record).__name__} has no {name!r}; give records of the trainer, or dicts with its keys"
        )
    return default


def put(record: Any, name: str, value: Any) -> None:
    """Set an attribute, or an entry of a mapping."""
    if isinstance(record, Mapping):
        record[name] = value  # type: ignore[index]
    else:
        setattr(record, name, value)


def numbers(values: Any) -> Array:
    """A list, an array or a tensor as an array in main memory."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return np.asarray(values)


def like(pattern: Any, values: Array) -> Any:
    """The numbers as what the pattern is: a tensor where it is one, a list where it is one, else an array."""
    if hasattr(pattern, "new_tensor"):
        import torch

        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).to(pattern.device)
    return values.tolist() if isinstance(pattern, list) else values


def steps_told(info: Any, name: str, count: int, where: str) -> list[Any] | None:
    """A list with one entry per step out of a record's free-form dict, or None."""
    values = None if not isinstance(info, Mapping) else info.get(name)
    if values is None:
        return None
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != count:
        size = len(values) if isinstance(values, Sequence) else type(values).__name__
        raise DataError(f"{where}: {name} has {size} entries for {count} steps; give one per step")
    return list(values)


def missing(feature: str, package: str) -> MissingExtra:
    """The sentence for a trainer that is not there; it is not ours to install."""
    return MissingExtra(f"{feature} needs the package {package!r}, which is not installed; run `pip install {package}`")
