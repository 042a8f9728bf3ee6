"""How asking goes on, while it does: one bar on a terminal, nothing where output is piped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from apportion.cli.output import remark

if TYPE_CHECKING:
    from apportion.cli.asking import Asking
    from apportion.data import Batch
    from apportion.resources import Asker, Progress, Summary


@contextmanager
def asking_bar() -> Iterator[Callable[[Progress], None]]:
    """Yields what an `Asker` calls with its progress."""
    columns = [
        SpinnerColumn(),
        TextColumn("asking"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
    ]
    with Bar(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task: list[TaskID] = []

        def told(progress: Progress) -> None:
            if not task:
                task.append(bar.add_task("asking", total=progress.total, told=""))
            bar.update(task[0], total=progress.total, completed=progress.done, told=words_of(progress))

        yield told


@contextmanager
def asked_by(asking: Asking, batch: Batch) -> Iterator[Asker]:
    """Whom the options name, behind a bar; a stop says what was kept."""
    with asking_bar() as told, asking.asker(batch, told) as ask:
        try:
            yield ask
        except KeyboardInterrupt:
            tell(ask.summary)
            kept = f"{len(ask.cache)} answers are in {asking.cache}; the same command goes on from there"
            remark(kept if asking.cache is not None else "answers are lost without --cache")
            raise


def words_of(progress: Progress) -> str:
    """What the bar says beside itself."""
    parts = [f"{progress.cached} cached"] if progress.cached else []
    parts += [f"{progress.failed} failed"] if progress.failed else []
    parts += [f"{progress.tokens} tokens"]
    if progress.seconds_left is not None and progress.done < progress.total:
        minutes, seconds = divmod(round(progress.seconds_left), 60)
        hours, minutes = divmod(minutes, 60)
        parts.append(f"{hours}:{minutes:02}:{seconds:02} left")
    return ", ".join(parts)


def tell(summary: Summary) -> None:
    """What a run of asking did, on stderr."""
    for line in summary.lines():
        remark(line)
