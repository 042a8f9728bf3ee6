"""What a report says about each credit as a whole: its name, scale, spread, notes, cost and record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from apportion.credit import Credit
from apportion.report.texts import short

FULL_COLOUR = 0.98
"""Share of units whose credit lies inside the colour scale; the few beyond it get the full colour too."""
BINS = 31


def labels(credits: Sequence[Credit]) -> list[str]:
    """Names that tell the credits apart: the method, with its parameters where the name alone would not do."""
    names = [credit.method or "unnamed" for credit in credits]
    for i, name in enumerate(list(names)):
        if names.count(name) > 1 and credits[i].params:
            names[i] = f"{name}({', '.join(f'{k}={v!r}' for k, v in credits[i].params.items())})"
    return [name if names.count(name) == 1 else f"{name} #{names[:i].count(name) + 1}" for i, name in enumerate(names)]


def credit_entry(credit: Credit, record: Mapping[str, Any], label: str, source: int) -> dict[str, Any]:
    """One entry of ``credits`` in a report model."""
    known, weight = np.asarray(credit.known_S), credit.weight_S
    size = np.abs(credit.advantage_S[known])
    scale = float(np.quantile(size[size > 0], FULL_COLOUR)) if (size > 0).any() else 1.0
    return {
        "label": label,
        "method": credit.method,
        "source": source,
        "level": credit.units.level,
        "scale": short(scale),
        "parts": list(credit.parts),
        "units": len(credit.units),
        "known": int(known.sum()),
        "trained": int(weight.sum()),
        "histogram": histogram(credit.advantage_S[known]),
        "part_histograms": [histogram(part[known]) for part in credit.parts.values()],
        "notes": {name: short(note) if isinstance(note, float) else note for name, note in credit.notes.items()},
        "cost": {
            "requests": credit.cost.requests,
            "prompt_tokens": credit.cost.prompt_tokens,
            "generated_tokens": credit.cost.generated_tokens,
        },
        "record": plain(record),
    }


def histogram(values: np.ndarray) -> dict[str, Any]:
    """Counts in bins around zero; zero itself is counted apart, because most methods give it a meaning."""
    limit = float(np.abs(values).max()) if len(values) else 0.0
    counts, edges = np.histogram(values[values != 0], bins=BINS, range=(-limit, limit) if limit else (-1.0, 1.0))
    return {
        "edges": [short(edge) for edge in edges.tolist()],
        "counts": counts.tolist(),
        "zeros": int((values == 0).sum()),
    }


def plain(value: Any) -> Any:
    """JSON values for showing: what JSON has no sign for becomes its text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else repr(value)
