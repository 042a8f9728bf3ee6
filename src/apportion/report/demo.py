"""What the report of a training run shows besides credit: what was learned, and how methods compare with the truth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from apportion.errors import DataError


def training_parts(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The parts ``learning``, ``truth`` and ``facts`` of a report, as far as the summary has them.

    Args:
        summary: any of
            ``learning``: {method: {"success": [one per seed], "mean": x, "ci95": [low, high]}, "before": x}, and, where
            they were measured, "greedy", "greedy_mean", "greedy_ci95" beside them and "before_greedy"; the entry
            "difference" ({"of": "b - a", "mean": x, "ci95": […]}) is the paired difference of two methods;
            ``curves``: {method: {"x": […], "mean": […], "lo": […], "hi": […]}}, with ``curves_x`` and ``curves_y``
            as names of the axes;
            ``truth``: {task: {method: {score: number or [mean, low, high]}}};
            ``env``: name of the environment; everything else is a fact to list.

    Raises:
        DataError: a part has another form.
    """
    parts: dict[str, Any] = {}
    for part in ("learning", "truth", "curves"):
        if not isinstance(summary.get(part, {}), Mapping):
            raise DataError(f"summary[{part!r}] is a {type(summary[part]).__name__}; give a dict of methods or tasks")
    known = {"learning", "truth", "curves", "curves_x", "curves_y", "env"}
    arms = {name: arm for name, arm in summary.get("learning", {}).items() if isinstance(arm, Mapping)}
    curves = summary.get("curves", {})
    for name, curve in curves.items():
        _check_curve(name, curve)
    if arms or curves:
        difference = arms.pop("difference", None)
        learning: dict[str, Any] = {"arms": _finite(arms)}
        if difference is not None:
            learning["difference"] = _finite(difference)
        for name in ("before", "before_greedy"):
            if isinstance(summary.get("learning", {}).get(name), int | float):
                learning[name] = _finite(summary["learning"][name])
        if summary.get("env") is not None:
            learning["env"] = str(summary["env"])
        if curves:
            learning["curves"] = _finite(curves)
            learning["x_label"] = str(summary.get("curves_x", "generated tokens"))
            learning["y_label"] = str(summary.get("curves_y", "success on held-out tasks"))
        parts["learning"] = learning
    if summary.get("truth"):
        parts["truth"] = _finite(summary["truth"])
    facts = {str(name): _finite(value) for name, value in summary.items() if name not in known}
    if facts:
        parts["facts"] = facts
    return parts


def _check_curve(name: str, curve: Any) -> None:
    if not isinstance(curve, Mapping) or "x" not in curve or "mean" not in curve:
        raise DataError(f"curve {name!r} needs 'x' and 'mean' (and 'lo' and 'hi' for a band); give lists of numbers")
    sizes = {key: len(curve[key]) for key in ("x", "mean", "lo", "hi") if key in curve}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{key} {size}" for key, size in sizes.items())
        raise DataError(f"curve {name!r} has lists of different lengths ({told}); give one value per point")


def _finite(value: Any) -> Any:
    """JSON values; a number that was not measured (NaN, infinity) is None."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return _finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float) else str(value)
