"""One credited trajectory as an SVG picture: a column per step, a row of bars per method.

For a README or a paper. It brings its own background and follows the reader's light or dark scheme; every number
in it comes from the report's dict.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from apportion.errors import ConfigError
from apportion.report.unit_runs import step_values
from apportion.report.verdict import signed
from apportion.report.visible import visible

WIDTH, MARGIN, LABEL = 900, 26, 172
HEAD, ROW, FOOT = 122, 76, 54
NUMBER = 16
"""Pixels kept free above and below the bars for their numbers."""
MOST_STEPS = 14

STYLE = """
.card { fill: #ffffff; stroke: #dcdad4; }
text { font-family: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }
text { fill: #1d1f23; }
.title { font-size: 17px; font-weight: 650; }
.sub, .step, .note { font-size: 12.5px; fill: #666a73; }
.paid { font-size: 12px; font-weight: 650; }
.action { font: 12.5px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.label { font-size: 14.5px; font-weight: 650; }
.value { font-size: 12px; fill: #666a73; font-variant-numeric: tabular-nums; }
.peak { font-weight: 700; fill: #1d1f23; }
.axis { stroke: #c9c8c1; } .rule { stroke: #e9e7e1; }
.pos { fill: #1c6dbd; } .neg { fill: #cf6407; } .zero { fill: #8d919a; }
@media (prefers-color-scheme: dark) {
  .card { fill: #1c1f25; stroke: #343944; }
  text { fill: #e7e9ee; } .sub, .step, .note, .value { fill: #9ba1ad; } .peak { fill: #e7e9ee; }
  .axis { stroke: #454b57; } .rule { stroke: #2a2e37; }
  .pos { fill: #5fb0ff; } .neg { fill: #ff9a45; }
}
"""


def picture(
    model: Mapping[str, Any],
    which: int,
    *,
    title: str | None = None,
    subtitle: str | None = None,
    notes: Mapping[str, str] | None = None,
    credits: Sequence[int] | None = None,
) -> str:
    """Draw one trajectory.

    Args:
        model: what `report_model` returned.
        which: position of the trajectory.
        title, subtitle: lines above it; default the trajectory's id, group and outcome.
        notes: a few words under a method's name, by label.
        credits: positions of the credits to show, top to bottom; default all that this trajectory has.

    Raises:
        ConfigError: the trajectory has more steps than fit, or no such credit.
    """
    trajectory = model["trajectories"][which]
    steps = trajectory["steps"]
    if len(steps) > MOST_STEPS:
        raise ConfigError(
            f"trajectory {which} has {len(steps)} steps, a picture holds {MOST_STEPS}; choose a shorter one"
        )
    chosen = [int(c) for c in trajectory["credit"]] if credits is None else list(credits)
    missing = [c for c in chosen if str(c) not in trajectory["credit"]]
    if missing:
        raise ConfigError(f"trajectory {which} has no credit {missing[0]}; it has {', '.join(trajectory['credit'])}")
    if title is None:
        title = trajectory["id"]
    if subtitle is None:
        group, outcome = model["groups"][trajectory["group"]]["name"], trajectory["outcome"]
        subtitle = f"group {group}, " + ("not scored" if outcome is None else f"outcome {outcome:g}")
    height = HEAD + ROW * len(chosen) + FOOT
    column = (WIDTH - LABEL - 2 * MARGIN) / len(steps)
    middle = [LABEL + MARGIN + column * (s + 0.5) for s in range(len(steps))]

    out = [_text(MARGIN, 38, title, "title"), _text(MARGIN, 60, subtitle, "sub")]
    for s, step in enumerate(steps):
        lines = _wrapped(visible(model["texts"][step["action"]]) or "(nothing)", max(6, int(column / 7.8)))
        for k, line in enumerate(lines):
            out.append(_text(middle[s], HEAD - 10 - 16 * (len(lines) - 1 - k), line, "action", "middle"))
    for row, c in enumerate(chosen):
        out += _row(model, trajectory, c, HEAD + ROW * row, middle, column, (notes or {}))
    foot = HEAD + ROW * len(chosen)
    out.append(f'<line class="rule" x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{foot}" y2="{foot}"/>')
    out.append(_text(MARGIN, foot + 22, "step", "step"))
    for s, step in enumerate(steps):
        paid = step.get("reward")
        out.append(_text(middle[s], foot + 22, f"{s}", "step", "middle"))
        if paid:
            out.append(_text(middle[s], foot + 40, f"● reward {paid:g}", "paid", "middle"))
    name = html.escape(_clean(f"{title} {subtitle}"))
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'role="img" aria-label="{name}">',
            f"<style>{STYLE}</style>",
            f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="12"/>',
            *out,
            "</svg>\n",
        )
    )


def _row(
    model: Mapping[str, Any],
    trajectory: Mapping[str, Any],
    c: int,
    top: int,
    middle: Sequence[float],
    column: float,
    notes: Mapping[str, str],
) -> list[str]:
    values = step_values(trajectory["credit"][str(c)])
    sizes = [abs(value or 0.0) for value in values]
    most = max(sizes) or 1.0
    apart = most - sorted(sizes)[-2] > 0.01 * most if len(sizes) > 1 else True  # nobody is the peak of a flat row
    up, down = (max(0.0, *(sign * (value or 0.0) / most for value in values)) for sign in (1, -1))
    # zero stands where both signs have room, and a line of numbers fits on the side that has no bars
    unit = (ROW - 2 * NUMBER - 6) / max(up + down, 1e-9)
    zero = top + 3 + NUMBER + unit * up
    centre = top + ROW / 2
    label = model["credits"][c]["label"]
    note = notes.get(label)
    out = [
        f'<line class="rule" x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{top}" y2="{top}"/>',
        _text(MARGIN, centre - 2 if note else centre + 5, label, "label"),
        f'<line class="axis" x1="{LABEL + MARGIN}" x2="{WIDTH - MARGIN}" y1="{zero:.1f}" y2="{zero:.1f}"/>',
    ]
    if note:
        out.append(_text(MARGIN, centre + 16, note, "note"))
    wide = min(46.0, column * 0.62)
    for s, value in enumerate(values):
        size = unit * abs(value or 0.0) / most
        peak = " peak" if value and apart and abs(value) == most else ""
        if value:
            edge = zero - size if value > 0 else zero
            sign = "pos" if value > 0 else "neg"
            left = middle[s] - wide / 2
            out.append(
                f'<rect class="{sign}" x="{left:.1f}" y="{edge:.1f}" width="{wide:.1f}" height="{max(size, 1):.1f}" '
                f'rx="2" opacity="{0.45 + 0.55 * abs(value) / most:.2f}"/>'
            )
        place = zero + size + 12 if value and value < 0 else zero - size - 4
        out.append(_text(middle[s], place, _two(value), "value" + peak, "middle"))
    return out


def _two(value: float | None) -> str:
    """Two decimals, for numbers that stand side by side."""
    if value is None or not value or abs(value) < 0.005 or abs(value) >= 100:
        return "0" if value is not None and abs(value) < 0.005 else signed(value)
    return f"{value:+.2f}".replace("-", "−")


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(_clean(text))}</text>'


def _wrapped(text: str, width: int) -> list[str]:
    """At most three lines, broken between words where they allow it."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    lines = [line if len(line) <= width + 2 else line[: width - 1] + "…" for line in lines]
    return lines if len(lines) <= 3 else [*lines[:2], lines[2][: width - 1] + "…"]


def _clean(text: str) -> str:
    """What XML can hold: line breaks and tabs are spaces, what cannot be seen is written out."""
    return visible(text).replace("\n", " ").replace("\t", " ").replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")
