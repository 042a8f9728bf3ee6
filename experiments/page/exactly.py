"""Credit against the exact gradient: the comparison of all methods, and the differences that claims are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apportion.bench.compare.cells import CONTROLS
from experiments.markdown import commits, document, items, minus, signed, table

Cells = Sequence[Mapping[str, Any]]
NOISY = "-noisy"
SHOWN = ("gigpo", "hgpo", "pooled", "grpo")
"""Methods that stand in the table of noise also if nothing changes for them."""


def by_method(cells: Cells) -> dict[str, dict[str, Sequence[float]]]:
    """Cosine with the exact gradient by method and game, the best mean over its games first."""
    out: dict[str, dict[str, Sequence[float]]] = {}
    for cell in cells:
        if "metrics" in cell and cell["metrics"]["cosine"][0] is not None:
            out.setdefault(cell["method"], {})[cell["task"]] = cell["metrics"]["cosine"]
    return dict(sorted(out.items(), key=lambda item: -sum(v[0] for v in item[1].values()) / len(item[1])))


def means(bench: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Mean cosine on the games without noise, of every credit that ran on most of them."""
    games = tasks(bench["cells"])
    out = {
        method: {game: float(row[game][0]) for game in games if game in row}
        for method, row in by_method(bench["cells"]).items()
    }
    return {method: row for method, row in out.items() if 2 * len(row) > len(games)}


def all_methods(bench: Mapping[str, Any]) -> str:
    """Every method on every plain game; methods of a few games only stand below."""
    found, games = by_method(bench["cells"]), tasks(bench["cells"])
    asks = {cell["method"]: cell.get("asks", []) for cell in bench["cells"] if "metrics" in cell}
    rows = []
    for method, row in sorted(found.items(), key=lambda item: -len([g for g in item[1] if g in games])):
        cells = [f"{row[g][0]:.2f} ± {(row[g][2] - row[g][1]) / 2:.2f}" if g in row else "" for g in games]
        rows.append([method if method not in CONTROLS else f"*{method}*", ", ".join(asks[method]), *cells])
    shown = table(["credit", "asks", *games], [map(minus, row) for row in rows])
    return document(measured(bench["commit"], bench["plan"]["seeds"]), shown)


def noise(bench: Mapping[str, Any]) -> str:
    """What ids and times in the texts cost: cosine without and with them, of those that change and the best known."""
    found = by_method(bench["cells"])
    games = [g for g in tasks(bench["cells"]) if any(g + NOISY in row for row in found.values())]
    changed = {}
    for method, row in found.items():
        pairs = [(row[g][0], row[g + NOISY][0]) for g in games if g in row and g + NOISY in row]
        if len(pairs) == len(games) > 0:
            changed[method] = sum(y - x for x, y in pairs) / len(pairs)
    shown = [m for m, change in changed.items() if m not in CONTROLS and (abs(change) >= 0.02 or m in SHOWN)]
    rows = []
    for method in sorted(shown, key=lambda m: changed[m]):
        cells = [f"{found[method][g][0]:.2f} → {found[method][g + NOISY][0]:.2f}" for g in games]
        rows.append([method, f"{changed[method]:+.3f}", *cells])
    return table(["credit", "mean change", *games], [map(minus, row) for row in rows])


def reasons(bench: Mapping[str, Any]) -> str:
    """Methods that ran nowhere, and why."""
    ran = {cell["method"] for cell in bench["cells"] if "metrics" in cell}
    why: dict[str, str] = {}
    for cell in bench["cells"]:
        if cell["method"] not in ran:
            why.setdefault(cell["method"], cell["reason"])
    return items(f"`{method}`: {reason}" for method, reason in why.items())


def tasks(cells: Cells) -> list[str]:
    """Games without noise."""
    return sorted({cell["task"] for cell in cells if not cell["task"].endswith(NOISY)})


def differences(claims: Mapping[str, Any]) -> str:
    """Paired differences in the cosine, weak and strong policy, by claim and game."""
    games = sorted({row["task"] for row in claims["rows"] if not row["task"].endswith(NOISY)})
    by: dict[tuple[str, str], dict[str, Sequence[float]]] = {}
    for row in claims["rows"]:
        noisy = row["task"].endswith(NOISY)
        if noisy and not row["claim"].startswith("normalised"):
            continue
        name = f"{row['claim']}{' (noisy texts)' if noisy else ''}"
        by.setdefault((name, row["policy"]), {})[row["task"].removesuffix(NOISY)] = row["difference"]
    rows = [
        [name, policy, *(signed(found[game], 2) if game in found else "" for game in games)]
        for (name, policy), found in by.items()
    ]
    shown = table(["difference", "policy", *games], rows)
    return document(measured(claims["commit"], claims["seeds"]), shown)


def measured(commit: str, seeds: int) -> str:
    """Where the numbers of a table come from."""
    return f"Measured at {commits([commit])}, {seeds} seeds."
