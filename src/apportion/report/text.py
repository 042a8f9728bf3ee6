"""One trajectory in a terminal: the same dict as the page, as a table of steps.

A transcript is data: it is never read as console markup, and control characters, escape sequences and marks that
turn the direction of text around are shown as signs instead of being obeyed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from apportion.errors import DataError
from apportion.report.model import step_values

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

HALF = 8
"""Cells of the bar on either side of zero."""
LINES, CHARACTERS = 6, 600
"""What is shown of an action unless everything is asked for."""

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb]"
)


def print_trajectory(
    model: Mapping[str, Any],
    which: int | str | None = None,
    *,
    credit: int = 0,
    full: bool = False,
    console: Console | None = None,
) -> None:
    """Print one trajectory with its credit.

    Args:
        model: what `report_model` returned.
        which: position or id; default the trajectory with the largest credit.
        credit: position of the credit in the model.
        full: whole texts and contexts, not their beginnings.
        console: where to; default standard output.

    Raises:
        DataError: no such trajectory or credit.
    """
    from rich.console import Console

    (console or Console()).print(trajectory_table(model, which, credit=credit, full=full))


def trajectory_table(
    model: Mapping[str, Any], which: int | str | None = None, *, credit: int = 0, full: bool = False
) -> RenderableType:
    """What `print_trajectory` prints, as something that rich can render."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if not 0 <= credit < len(model["credits"]):
        raise DataError(f"the report has {len(model['credits'])} credits, there is no credit {credit}; count from 0")
    shown = model["credits"][credit]
    trajectory = model["trajectories"][_find(model, which, credit)]
    entry = trajectory["credit"][str(credit)]
    values = step_values(entry)
    scale = max([shown["scale"], *(abs(value) for value in values if value is not None)])

    head = Text()
    head.append(visible(trajectory["id"]), style="bold")
    head.append(f"  outcome {_brief(trajectory['outcome'])}", style="bold")
    head.append(f"  group {visible(model['groups'][trajectory['group']]['name'])}", style="dim")
    for flag in ("truncated", "failed"):
        if trajectory.get(flag):
            head.append(f"  {flag}", style="yellow")
    by = Text(f"{visible(shown['label'])}, one number per {shown['level']}", style="dim")

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("step", justify="right", style="dim", no_wrap=True)
    table.add_column("", no_wrap=True, width=2 * HALF + 1)
    table.add_column("credit", justify="right", no_wrap=True)
    parts = shown["parts"] if "parts" in entry else []
    for name in parts:
        table.add_column(Text(visible(name)), justify="right", style="dim", no_wrap=True)
    table.add_column("what happened", ratio=1, overflow="fold")
    part_values = [step_values({**entry, "units": units}) for units in entry.get("parts", ())]
    peak = _peak(values)
    dropped = set(entry.get("dropped", ()))
    for s, (step, value) in enumerate(zip(trajectory["steps"], values, strict=True)):
        colour = "" if not value else "bright_blue" if value > 0 else "dark_orange"
        strong = "bold " if s == peak else ""
        body = Text()
        if "context" in step:
            context = model["texts"][step["context"]]
            body.append((visible(context) if full else _one_line(context)) + "\n", style="dim")
        if step.get("agent"):
            body.append(f"{visible(step['agent'])}: ", style="italic")
        body.append(_cut(model["texts"][step["action"]], full) or "(nothing)", style=strong.strip() or "none")
        tail = [f"reward {_brief(step['reward'])}"] if step.get("reward") else []
        tail += [flag for flag in step.get("flags", ()) if flag != "terminated"]
        tokens = sum(run[2] for run in entry["runs"][s])
        idle = sum(run[2] for run in entry["runs"][s] if run[0] in dropped or len(run) > 3)
        if idle:
            tail.append("not trained on" if idle == tokens else f"{tokens - idle} of {tokens} tokens trained on")
        if tail:
            body.append("  ● " + ", ".join(tail), style="bold")
        table.add_row(
            str(s + 1),
            Text(_bar(value, scale), style=colour),
            Text(signed(value), style=strong + colour),
            *(Text(signed(column[s])) for column in part_values),
            body,
        )
    end = Text()
    if "end" in trajectory:
        ending = model["texts"][trajectory["end"]]
        end.append(visible(ending) if full else _one_line(ending), style="dim")
    return Group(head, by, Text(), table, end)


def visible(text: str) -> str:
    """The text with everything a terminal might obey written out: ESC as ␛, a direction mark as ⟨U+202E⟩.

    Line breaks and tabs stay.
    """
    return _UNSEEN.sub(_sign, text)


def signed(value: float | None) -> str:
    """``+0.42``, ``−1.30``, ``0``, ``?`` where unknown."""
    if value is None:
        return "?"
    return f"{value:+.3g}".replace("-", "−") if value else "0"


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def _find(model: Mapping[str, Any], which: int | str | None, credit: int) -> int:
    trajectories = model["trajectories"]
    able = [t for t, trajectory in enumerate(trajectories) if str(credit) in trajectory["credit"]]
    if which is None:
        return max(able, key=lambda t: max(abs(x or 0.0) for x in step_values(trajectories[t]["credit"][str(credit)])))
    if isinstance(which, str):
        named = [t for t in able if trajectories[t]["id"] == which]
        if named:
            return named[0]
        which = int(which) if which.isdecimal() and len(which) < 10 else which
    if which not in able:
        raise DataError(f"there is no trajectory {which!r} in this report; give an id, or a position below {len(able)}")
    return int(which)


def _peak(values: list[float | None]) -> int:
    sizes = [abs(value or 0.0) for value in values]
    return sizes.index(max(sizes)) if any(sizes) else -1


def _bar(value: float | None, scale: float) -> str:
    """Blame to the left of the middle, credit to the right, in half cells."""
    if value is None:
        return " " * HALF + "?"
    halves = min(2 * HALF, round(abs(value) / scale * 2 * HALF))
    if value < 0:
        return ("▐" * (halves % 2) + "█" * (halves // 2)).rjust(HALF) + "│"
    return " " * HALF + "│" + "█" * (halves // 2) + "▌" * (halves % 2)


def _one_line(text: str, most: int = 160) -> str:
    line = " ".join(visible(text[: 4 * most]).split())
    return line if len(line) <= most and len(text) <= 4 * most else line[:most] + "…"


def _cut(text: str, full: bool) -> str:
    shown = visible(text)
    if full:
        return shown
    lines = shown[:CHARACTERS].split("\n")
    cut = "\n".join(lines[:LINES])
    return cut if len(cut) == len(shown) else f"{cut} … ({len(shown) - len(cut):,} more characters)"


def _brief(value: float | None) -> str:
    return "not scored" if value is None else f"{value:g}"
