"""One trajectory in a terminal: the same dict as the page, as a verdict, a table of steps and a table of choices.

A transcript is data: it is never read as console markup, and control characters, escape sequences and marks that
turn the direction of text around are shown as signs instead of being obeyed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from apportion.errors import DataError
from apportion.report.levels import levels, spans
from apportion.report.unit_runs import step_values
from apportion.report.verdict import peaks, signed
from apportion.report.visible import one_line, shortened, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

__all__ = ["print_trajectory", "signed", "trajectory_table", "visible"]

HALF = 8
"""Cells of the bar on either side of zero."""
CHOICES = 12
"""Actions of a state that are listed unless everything is asked for."""
TRUST = {"good": ("supported", "green"), "weak": ("weak evidence", "yellow"), "none": ("no evidence", "dim")}


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
        credit: position of the credit in the model; the others stand beside it.
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
    from rich.text import Text

    if not 0 <= credit < len(model["credits"]):
        raise DataError(f"the report has {len(model['credits'])} credits, there is no credit {credit}; count from 0")
    t = _find(model, which, credit)
    trajectory = model["trajectories"][t]
    end = Text()
    if "end" in trajectory:
        ending = model["texts"][trajectory["end"]]
        end.append(visible(ending) if full else one_line(ending), style="dim")
    return Group(
        *_head(model, trajectory, credit),
        Text(),
        _steps(model, trajectory, credit, full),
        end,
        *_choices(model, t, credit, full),
    )


def _head(model: Mapping[str, Any], trajectory: Mapping[str, Any], credit: int) -> list[Text]:
    """Name, outcome, the verdict and what it rests on, and the sums by turn and by agent."""
    from rich.text import Text

    shown, entry = model["credits"][credit], trajectory["credit"][str(credit)]
    head = Text()
    head.append(visible(trajectory["id"]), style="bold")
    head.append(f"  outcome {_brief(trajectory['outcome'])}", style="bold")
    head.append(f"  group {visible(model['groups'][trajectory['group']]['name'])}", style="dim")
    for flag in ("truncated", "failed"):
        if trajectory.get(flag):
            head.append(f"  {flag}", style="yellow")
    by = Text(f"{visible(shown['label'])}, one number per {shown['level']}", style="dim")
    said = entry["verdict"]
    words, style = TRUST[said["trust"]]
    verdict = Text()
    verdict.append(f"[{words}] ", style=style)
    verdict.append(visible(said["head"]), style="bold")
    lines = [head, by, verdict, *(Text("  " + visible(why), style="dim") for why in said["why"])]
    for level in levels(trajectory["steps"]):
        sums = ", ".join(f"{visible(span.name)} {signed(span.value)}" for span in spans(trajectory, str(credit), level))
        lines.append(Text(f"  by {level}: {sums}", style="dim"))
    return lines


def _steps(model: Mapping[str, Any], trajectory: Mapping[str, Any], credit: int, full: bool) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    shown, entry = model["credits"][credit], trajectory["credit"][str(credit)]
    values = step_values(entry)
    scale = max([shown["scale"], *(abs(value) for value in values if value is not None)])
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("step", justify="right", style="dim", no_wrap=True)
    table.add_column("", no_wrap=True, width=2 * HALF + 1)
    table.add_column("credit", justify="right", no_wrap=True)
    columns: dict[str, list[float | None]] = {}
    for name, units in zip(shown["parts"], entry.get("parts", ()), strict=False):
        columns[visible(name)] = step_values({**entry, "units": units})
    for c, other in trajectory["credit"].items():
        if int(c) != credit:
            columns["| " + visible(model["credits"][int(c)]["label"])] = step_values(other)
    for name in columns:
        table.add_column(Text(name), justify="right", style="dim", no_wrap=True)
    table.add_column("what happened", ratio=1, overflow="fold")
    tops = peaks(values)
    for s, (step, value) in enumerate(zip(trajectory["steps"], values, strict=True)):
        colour = "" if not value else "bright_blue" if value > 0 else "dark_orange"
        strong = "bold " if tops and s == tops[0] else ""
        table.add_row(
            str(s),
            Text(_bar(value, scale), style=colour),
            Text(signed(value), style=strong + colour),
            *(Text(signed(column[s])) for column in columns.values()),
            _body(model, step, _tail(step, entry, s), strong.strip() or "none", full),
        )
    return table


def _body(model: Mapping[str, Any], step: Mapping[str, Any], tail: list[str], style: str, full: bool) -> Text:
    from rich.text import Text

    body = Text()
    if "context" in step:
        context = model["texts"][step["context"]]
        body.append((visible(context) if full else one_line(context)) + "\n", style="dim")
    if step.get("agent"):
        body.append(f"{visible(step['agent'])}: ", style="italic")
    body.append(shortened(model["texts"][step["action"]], full) or "(nothing)", style=style)
    if tail:
        body.append("  ● " + ", ".join(tail), style="bold")
    return body


def _tail(step: Mapping[str, Any], entry: Mapping[str, Any], s: int) -> list[str]:
    dropped = set(entry.get("dropped", ()))
    tail = [f"reward {_brief(step['reward'])}"] if step.get("reward") else []
    tail += [flag for flag in step.get("flags", ()) if flag != "terminated"]
    tokens = sum(run[2] for run in entry["runs"][s])
    idle = sum(run[2] for run in entry["runs"][s] if run[0] in dropped or len(run) > 3)
    if idle:
        tail.append("not trained on" if idle == tokens else f"{tokens - idle} of {tokens} tokens trained on")
    return tail


def _choices(model: Mapping[str, Any], t: int, credit: int, full: bool) -> list[RenderableType]:
    """What was done in the state of the decisive step, by whom, and what came of it."""
    from rich.table import Table
    from rich.text import Text

    trajectory = model["trajectories"][t]
    s = trajectory["credit"][str(credit)]["verdict"]["step"]
    at = None if s is None else trajectory["steps"][s].get("state")
    if s is None or at is None:
        return []
    state = model["states"][at]
    who = len({other for other, _ in state["visits"]})
    title = Text(f"\nin the state of step {s}: {len(state['visits'])} visits by {who} rollouts", style="bold")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for name in ("visits", "outcome", "others", "chance"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("did", ratio=1, overflow="fold")
    listed = sorted(state["actions"], key=lambda action: -len(action["visits"]))
    for action in listed if full else listed[:CHOICES]:
        mine = any(state["visits"][place] == [t, s] for place in action["visits"])
        chance = action.get("chance")
        table.add_row(
            str(len(action["visits"])),
            _figure(action.get("mean")),
            _figure(action.get("others_mean")),
            "–" if chance is None else f"{chance:.0%}",
            Text(
                ("▸ " if mine else "  ") + one_line(model["texts"][action["action"]], 100), style="bold" if mine else ""
            ),
        )
    more = len(listed) - CHOICES
    rest = [Text(f"and {more} more; --full lists all", style="dim")] if more > 0 and not full else []
    return [title, table, *rest]


def _find(model: Mapping[str, Any], which: int | str | None, credit: int) -> int:
    trajectories = model["trajectories"]
    able = [t for t, trajectory in enumerate(trajectories) if str(credit) in trajectory["credit"]]
    if which is None:
        return max(able, key=lambda t: _largest(step_values(trajectories[t]["credit"][str(credit)])))
    if isinstance(which, str):
        named = [t for t in able if trajectories[t]["id"] == which]
        if named:
            return named[0]
        which = int(which) if which.isdecimal() and len(which) < 10 else which
    if which not in able:
        raise DataError(f"there is no trajectory {which!r} in this report; give an id, or a position below {len(able)}")
    return int(which)


def _largest(values: Sequence[float | None]) -> float:
    return max((abs(value or 0.0) for value in values), default=0.0)


def _bar(value: float | None, scale: float) -> str:
    """Blame to the left of the middle, credit to the right, in half cells."""
    if value is None:
        return " " * HALF + "?"
    halves = min(2 * HALF, round(abs(value) / scale * 2 * HALF))
    if value < 0:
        return ("▐" * (halves % 2) + "█" * (halves // 2)).rjust(HALF) + "│"
    return " " * HALF + "│" + "█" * (halves // 2) + "▌" * (halves % 2)


def _brief(value: float | None) -> str:
    return "not scored" if value is None else f"{value:g}"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}".replace("-", "−")
