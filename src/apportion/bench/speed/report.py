"""The table and the JSON of a run."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.table import Table

from apportion.bench.speed.compare import Row
from apportion.bench.speed.peers import Peers, versions

SCHEMA = 2


def table(rows: Sequence[Row]) -> Table:
    """One line per row; what falls short of its floor or ceiling is red, what it should be stands in brackets."""
    out = Table(title="CPU time, medians of interleaved rounds in one run", title_justify="left")
    for name in ("kernel", "contender", "batch"):
        out.add_column(name)
    for name in ("ours", "per item", "peer", "ratio", "NumPy alone", "× limit", "× when doubled", "difference"):
        out.add_column(name, justify="right")
    for row in rows:
        out.add_row(
            row.kernel,
            row.contender,
            row.batch,
            seconds(row.seconds),
            _per_item(row),
            f"{row.peer} {seconds(row.peer_seconds)}" if row.peer else "absent" if row.absent else "none",
            _bounded(row.ratio, row.floor, "≥", short=row.below_floor),
            "" if row.numpy_ratio is None else f"{row.numpy_ratio:.1f}",
            _bounded(row.times_limit, row.ceiling, "≤", short=row.above_ceiling),
            _bounded(row.growth, row.steepest, "≤", short=row.too_steep),
            _difference(row),
        )
    return out


def remarks(rows: Sequence[Row]) -> list[str]:
    """Sentences below the table: absent peers, wrong values, what fell short."""
    absent: dict[str, set[str]] = {}
    for row in rows:
        for peer, why in row.absent.items():
            absent.setdefault(why, set()).add(peer)
    out = sorted(f"no comparison with {', '.join(sorted(peers))}: {why}" for why, peers in absent.items())
    for row in rows:
        if row.mismatch:
            gap = f"{row.difference:.2g} (allowed {row.tolerance:g})"
            out.append(f"WRONG VALUES: {_who(row)} differs from {row.peer} by {gap}")
        elif row.below_floor:
            out.append(_short(row, f"is {row.ratio:.3g} times as fast as {row.peer}, not {row.floor:g}"))
    for row in {_who(row): row for row in rows}.values():  # these are the same beside every peer
        if row.too_slow:
            took = f"{seconds(row.seconds / row.items)} a {row.item}, not {seconds(row.slowest)}"
            out.append(_short(row, f"takes {took}"))
        if row.above_ceiling:
            out.append(_short(row, f"takes {row.times_limit:.3g} times the limit, not {row.ceiling:g}"))
        if row.too_steep:
            out.append(_short(row, f"costs {row.growth:.3g} times as much when doubled, not {row.steepest:g}"))
    return out


def _who(row: Row) -> str:
    return f"{row.kernel}, {row.contender}, {row.batch}"


def _short(row: Row, how: str) -> str:
    return f"short of its goal: {_who(row)} {how}"


def as_json(rows: Sequence[Row], peers: Peers, *, quick: bool) -> dict[str, Any]:
    """Everything of a run, with what is needed to read it later."""
    return {
        "schema": SCHEMA,
        "quick": quick,
        "machine": {
            "python": platform.python_version(),
            "system": platform.system(),
            "processor": platform.machine(),
            "cpus": os.cpu_count(),
            "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        },
        "versions": versions(),
        "peer_files": peers.loaded,
        "rows": [
            {
                **dataclasses.asdict(row),
                "difference": row.difference if np.isfinite(row.difference or 0.0) else None,  # JSON has no NaN
                "share_of_limit": None if row.times_limit is None else 1 / row.times_limit,
                "mismatch": row.mismatch,
                "short": row.below_floor or row.too_slow or row.above_ceiling or row.too_steep,
            }
            for row in rows
        ],
    }


def seconds(value: float | None) -> str:
    """Three digits and the fitting unit."""
    if value is None:
        return ""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def _per_item(row: Row) -> str:
    text = seconds(row.seconds / row.items)
    text += f" (≤ {seconds(row.slowest)})" if row.slowest is not None else ""
    return f"[red]{text}[/red]" if row.too_slow else text


def _bounded(value: float | None, bound: float | None, sign: str, *, short: bool) -> str:
    if value is None:
        return ""
    text = f"{value:.3g}" if value < 100 else f"{value:,.0f}"
    text += f" ({sign} {bound:g})" if bound is not None else ""
    return f"[red]{text}[/red]" if short else text


def _difference(row: Row) -> str:
    if row.difference is None:
        return ""
    return f"[red]{row.difference:.1e} WRONG[/red]" if row.mismatch else f"{row.difference:.1e}"
