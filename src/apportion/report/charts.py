"""Learning curves as pictures inside the page.

Drawn by matplotlib when the report is written, not by a chart library in the page. Python packages that carry a
JavaScript one were weighed: plotly's file is 4.8 MB and bokeh's about 1 MB in every report, both add style elements
at run time, which the page's content security policy refuses, and uPlot is on no Python index. A curve with its
band needs no interaction, an SVG of it has some 20 kB, and matplotlib is there wherever training is. As an image it
can run nothing. The numbers stand in a table below it.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping
from itertools import cycle
from typing import Any

from apportion.errors import missing_extra

# Okabe and Ito's colours that stay apart for every common form of colour blindness, in a light and a dark tone.
COLOURS = {
    "light": ("#0072b2", "#d55e00", "#009e73", "#8a4f7d", "#a67c00", "#404040"),
    "dark": ("#56b4e9", "#ff9a45", "#3fc79a", "#d98cc0", "#f0d24a", "#d0d0d0"),
}
INK = {"light": "#4a4d55", "dark": "#b3b8c2"}
GRID = {"light": "#e2e1dc", "dark": "#2d313a"}
MARKERS = "os^Dvx"
LINES = ("-", "--", "-.", ":")


def learning_pictures(learning: Mapping[str, Any]) -> dict[str, dict[str, str]] | None:
    """The curves as data addresses of SVG, one for light and one for dark pages; None without a curve of two points.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    if not any(len(curve["x"]) > 1 for curve in learning.get("curves", {}).values()):
        return None
    return {"learning": {theme: _address(_svg(learning, theme)) for theme in ("light", "dark")}}


def _svg(learning: Mapping[str, Any], theme: str) -> str:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("the learning curves of a report", "matplotlib", "train") from None
    ink = INK[theme]
    # text stays text, ids do not change from run to run, and dollar signs in a name are not formulas
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "apportion", "font.size": 10, "text.parse_math": False}
    style |= {"text.color": ink, "axes.labelcolor": ink}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(8.6, 3.6), layout="constrained")
        axes = figure.subplots()
        looks = zip(cycle(COLOURS[theme]), cycle(LINES), cycle(MARKERS), strict=False)
        for (name, curve), (colour, line, marker) in zip(learning["curves"].items(), looks, strict=False):
            x, mean = _numbers(curve["x"]), _numbers(curve["mean"])
            if "lo" in curve and "hi" in curve:
                low, high = _numbers(curve["lo"]), _numbers(curve["hi"])
                axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
            axes.plot(x, mean, line, color=colour, marker=marker, markersize=4, linewidth=1.8, label=_clean(name))
        before = learning.get("before")
        if isinstance(before, int | float):
            axes.axhline(before, color=ink, linewidth=1, linestyle=(0, (1, 3)), label="before training, held out")
        axes.set_xlabel(_clean(learning["x_label"]))
        axes.set_ylabel(_clean(learning["y_label"]))
        axes.grid(axis="y", color=GRID[theme], linewidth=0.8)
        axes.tick_params(colors=ink, length=3)
        for side, spine in axes.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(GRID[theme])
        axes.legend(frameon=False)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return out.getvalue()


def _numbers(values: Any) -> list[float]:
    return [float("nan") if value is None else float(value) for value in values]


def _clean(text: str) -> str:
    """A name without the characters that XML or a legend has no place for."""
    shown = re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)
    return "\u200b" + shown if shown.startswith("_") else shown  # matplotlib hides labels that start with _


def _address(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode("utf-8")).decode("ascii")
