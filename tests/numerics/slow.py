"""The numerics once more, one position at a time in plain Python and written from the formulas alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def runs(seg: Sequence[int]) -> list[list[int]]:
    """Positions of each contiguous run of equal ids."""
    out: list[list[int]] = []
    for t, s in enumerate(seg):
        if t == 0 or s != seg[t - 1]:
            out.append([])
        out[-1].append(t)
    return out


def gae(
    reward: Sequence[float],
    value: Sequence[float],
    seg: Sequence[int],
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    last_value: Sequence[float] | None = None,
    mask: Sequence[bool] | None = None,
) -> list[float]:
    out = [0.0] * len(reward)
    for k, positions in enumerate(runs(seg)):
        after = 0.0 if last_value is None else float(last_value[k])
        later = 0.0
        for t in reversed(positions):
            if mask is not None and not mask[t]:
                continue
            later = (float(reward[t]) + gamma * after - float(value[t])) + gamma * lam * later
            after = float(value[t])
            out[t] = later
    return out


def to_go(x: Sequence[float], seg: Sequence[int], *, gamma: float = 1.0) -> list[float]:
    out = [0.0] * len(x)
    for positions in runs(seg):
        later = 0.0
        for t in reversed(positions):
            later = float(x[t]) + gamma * later
            out[t] = later
    return out


def whitened(
    a: Sequence[float], chosen: Sequence[bool] | None = None, *, ddof: int = 1, epsilon: float = 0.0
) -> list[float]:
    own = [x for i, x in enumerate(a) if chosen is None or chosen[i]]
    n = len(own)
    if n <= ddof:
        return [0.0] * len(a)
    mean = math.fsum(own) / n
    variance = math.fsum((x - mean) ** 2 for x in own) / (n - ddof)
    if math.sqrt(variance) <= 1e-9 * max(map(abs, own)):
        return [0.0] * len(a)
    scale = 1.0 / math.sqrt(variance + epsilon)
    return [(x - mean) * scale if chosen is None or chosen[i] else 0.0 for i, x in enumerate(a)]


def members(seg: Sequence[int], where: Sequence[bool] | None, n: int) -> list[list[int]]:
    out: list[list[int]] = [[] for _ in range(n)]
    for i, s in enumerate(seg):
        if where is None or where[i]:
            out[s].append(i)
    return out


def std(values: Sequence[float], ddof: int) -> float:
    """0 with at most ``ddof`` values or where the spread is rounding."""
    if len(values) <= ddof or len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    out = math.sqrt(math.fsum((x - mean) ** 2 for x in values) / (len(values) - ddof))
    return out if out > 1e-9 * max(map(abs, values)) else 0.0


def centre(
    x: Sequence[float],
    seg: Sequence[int],
    *,
    scale: str = "none",
    ddof: int = 1,
    where: Sequence[bool] | None = None,
    leave_one_out: bool = False,
    epsilon: float = 0.0,
) -> list[float]:
    out = [0.0] * len(x)
    for group in members(seg, where, max(seg, default=-1) + 1):
        own = [float(x[i]) for i in group]
        if len(own) < 2 or std(own, min(ddof, 1)) == 0.0:
            continue
        for k, i in enumerate(group):
            others = own[:k] + own[k + 1 :] if leave_one_out else own
            out[i] = own[k] - math.fsum(others) / len(others)
            if scale == "std":
                spread = std(others, ddof)
                if spread > 0.0:
                    out[i] /= spread + epsilon
                elif not leave_one_out:
                    out[i] = 0.0
    return out


def labels(*columns: Sequence[Any]) -> list[int]:
    seen: list[Any] = []
    out = []
    for row in zip(*columns, strict=True):
        if row not in seen:
            seen.append(row)
        out.append(seen.index(row))
    return out
