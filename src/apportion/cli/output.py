"""Where a command's words go: results to stdout, progress and errors to stderr; JSON is one document."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

PIPED_WIDTH = 140


def console() -> Console:
    """Standard output; the width follows the terminal, and is a readable fixed one when piped."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


def error(sentence: str) -> None:
    """One sentence on stderr; text from outside is shown, not interpreted."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[red]error:[/red] {escape(sentence)}")


def remark(sentence: str) -> None:
    """Something the user should know that is not the result."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(escape(sentence))


def emit_json(document: Any) -> None:
    """One JSON document on stdout; NaN and infinities become null, NumPy becomes plain."""
    sys.stdout.write(json.dumps(_plain(document), ensure_ascii=True, allow_nan=False, indent=2) + "\n")


def emit_text(text: str) -> None:
    """Text as it is."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table on stdout; every cell is escaped."""
    out = Table(title=escape(title) if title else None, title_justify="left", show_header=any(columns))
    for name in columns:
        out.add_column(escape(name), overflow="fold")
    for row in rows:
        out.add_row(*(escape(cell) for cell in row))
    console().print(out)


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Any]:
    """A bar on stderr while something long runs; yields ``advance(n=1, note="")``."""
    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    ]
    quiet = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet) as bar:
        task = bar.add_task(escape(label), total=total, note="")

        def advance(n: int = 1, note: str = "", *, total: int | None = None) -> None:
            bar.update(task, total=total, advance=n, note=escape(note))

        yield advance


@contextmanager
def shares() -> Iterator[Callable[[str, float], None]]:
    """One bar per piece of work, from 0 to 1; without a terminal a line at every quarter."""
    stderr = Console(stderr=True, highlight=False, soft_wrap=True)
    columns = [TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()]
    with Progress(*columns, console=stderr, disable=not sys.stderr.isatty()) as bar:
        tasks: dict[str, TaskID] = {}
        quarter: dict[str, int] = {}

        def told(label: str, share: float) -> None:
            if label not in tasks:
                tasks[label] = bar.add_task(escape(label), total=1.0)
            bar.update(tasks[label], completed=share)
            if bar.disable and int(share * 4) > quarter.get(label, -1):
                quarter[label] = int(share * 4)
                stderr.print(escape(f"{label}: {share:.0%}"))

        yield told


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
