"""Where numbers lie: finished parts of a run that was stopped, and results with the commit that made them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from apportion.data.atomic import atomic_write

HERE = Path(__file__).parent
RESULTS = HERE / "results"
"""What the project keeps."""
PLACES = re.compile(r" --(?:work|out)[ =](?:'[^']*'|\S+)")


def commit() -> str:
    """The commit of the code, with a mark where the library differs from it."""
    asked = ["git", "-C", str(HERE), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def read(path: Path) -> Any:
    """What a JSON file holds."""
    return json.loads(path.read_text(encoding="utf-8"))


def write(path: Path, found: Any, *, indent: int | None = None) -> None:
    """A JSON file, whole or not at all; its folder is made."""
    write_text(path, json.dumps(found, indent=indent) + "\n")


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(text.encode())


def kept(path: Path, measure: Callable[[], Any]) -> Any:
    """A part of a run: from its file where a stopped run left it, else measured now and left there.

    It is read back in both cases, so that a run that was stopped gives what one without a stop gives.
    """
    if not path.is_file():
        write(path, measure())
    return read(path)


def write_results(folder: Path, name: str, found: Mapping[str, Any], page: str | None = None) -> None:
    """``NAME.json``, with the commit and the command at its head, and ``NAME.md`` for people.

    The commit is of the code that put the parts together; parts that an earlier run left may be of an earlier one. The
    command leaves out where parts and results lie: that changes no number, and is of one machine.
    """
    module = sys.modules["__main__"].__spec__
    asked = ["python", "-m", module.name.removesuffix(".__main__")] if module else ["python", Path(sys.argv[0]).name]
    command = PLACES.sub("", shlex.join([*asked, *sys.argv[1:]]))
    write(folder / f"{name}.json", {"commit": commit(), "command": command, **found}, indent=1)
    if page is not None:
        write_text(folder / f"{name}.md", page)
