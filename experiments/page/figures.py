"""The figures of the page, as SVG without a date, so that equal numbers give equal files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.learning.plan import EXACT
from experiments.learning.summary import Records, curves
from experiments.learning.worlds import WORLDS

INK, GRID = "#333333", "#e4e4e4"
COLOURS = {
    "grpo": "#4477aa", "gigpo": "#ee7733", "pooled": "#228833", "rloo": "#66ccee", "hgpo": "#aa3377",
    EXACT: "#222222", "reinforce_pp": "#bbaa33", "critical_only": "#999999",
}  # fmt: skip
"""Distinguishable with the common colour blindnesses (Paul Tol's bright and vibrant sets)."""
DRAWN = ("grpo", "gigpo", "pooled", "rloo", EXACT)
"""Curves with intervals; more than five cannot be told apart, the rest is in the tables."""


def digest(data: Any) -> str:
    """Of the numbers that a figure shows."""
    return hashlib.blake2b(json.dumps(data, sort_keys=True).encode(), digest_size=8).hexdigest()


def digest_in(path: Path) -> str | None:
    """The digest that a figure carries."""
    found = re.search(r"numbers ([0-9a-f]{16})", path.read_text(encoding="utf-8")) if path.is_file() else None
    return found[1] if found else None


def learning_data(store: Mapping[str, Records]) -> dict[str, Any]:
    """Curves by environment and arm."""
    found = {name: curves(WORLDS[name], store[name]) for name in WORLDS if name in store}
    return {name: {arm: lines[arm] for arm in DRAWN if arm in lines} for name, lines in found.items()}


def draw_learning(path: Path, data: Mapping[str, Mapping[str, Mapping[str, list[float]]]]) -> None:
    """Score by generated tokens, a panel for each environment."""

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(data), squeeze=False)[0]
        for axes, (name, lines) in zip(panels, data.items(), strict=True):
            for arm, line in lines.items():
                style = "--" if arm == EXACT else "-"
                tokens = [x / 1000 for x in line["tokens"]]
                axes.plot(tokens, line["mean"], style, color=COLOURS[arm], label=arm, linewidth=1.4)
                band = line["low"], line["high"]
                axes.fill_between(tokens, *band, color=COLOURS[arm], alpha=0.12, linewidth=0)
            score = "return / best" if WORLDS[name].score == "return" else WORLDS[name].score
            axes.set_title(name, fontsize=9, color=INK, loc="left")
            axes.set_xlabel("generated tokens, thousands", fontsize=8)
            axes.set_ylabel(f"{score}, while training", fontsize=8)
            axes.set_xlim(left=0)
            axes.set_ylim(0, 1)
            axes.locator_params(axis="x", nbins=5)
            _plain(axes)
        most = max(panels, key=lambda axes: len(axes.get_legend_handles_labels()[0]))
        handles, names = most.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False, fontsize=8)

    _save(path, data, draw, (2.9 * len(data), 2.9))


def draw_better(path: Path, data: Mapping[str, Sequence[float]]) -> None:
    """Chance of a larger area than GRPO's, with its interval, a row for each arm."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        arms = list(reversed(list(data)))
        for row, arm in enumerate(arms):
            value, low, high = data[arm]
            axes.plot([low, high], [row, row], color=COLOURS[arm], linewidth=2, solid_capstyle="butt")
            axes.plot([value], [row], "o", color=COLOURS[arm], markersize=5)
        axes.axvline(0.5, color=INK, linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(arms)), arms, fontsize=8)
        axes.set_xlim(0, 1)
        axes.set_ylim(-0.6, len(data) - 0.4)
        axes.set_xlabel("chance that a run learns faster than GRPO's (area)", fontsize=8)
        _plain(axes)

    _save(path, data, draw, (5.4, 0.6 + 0.32 * len(data)))


def draw_bench(path: Path, data: Mapping[str, Mapping[str, float]]) -> None:
    """Cosine with the exact gradient, a row for each credit, a column for each game; empty where it cannot run."""

    def draw(figure: Any) -> None:
        import numpy as np

        games = sorted({game for row in data.values() for game in row})
        grid = np.array([[row.get(game, np.nan) for game in games] for row in data.values()])
        axes = figure.subplots()
        axes.imshow(grid, cmap="Blues", vmin=0, vmax=1.1, aspect="auto")
        for i, line in enumerate(grid):
            for k, value in enumerate(line):
                if np.isfinite(value):
                    ink = "white" if value > 0.65 else INK
                    axes.text(k, i, f"{value:.2f}", ha="center", va="center", fontsize=6.5, color=ink)
        axes.set_xticks(range(len(games)), games, fontsize=7.5)
        axes.set_yticks(range(len(data)), list(data), fontsize=7.5)
        axes.xaxis.tick_top()
        axes.tick_params(length=0, colors=INK)
        axes.spines[:].set_visible(False)

    _save(path, data, draw, (6.6, 0.7 + 0.19 * len(data)))


def _plain(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.tick_params(labelsize=7, colors=INK)
    axes.grid(axis="both", color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)


def _save(path: Path, data: Any, draw: Callable[[Any], None], size: tuple[float, float]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": "apportion", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure = pyplot.figure(figsize=size, layout="constrained")
        draw(figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None, "Description": f"numbers {digest(data)}"})
        pyplot.close(figure)
    text = path.read_text(encoding="utf-8")
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")
