"""The command line's own help, command by command, as one page of the reference."""

from __future__ import annotations

import os

PAGE = "reference/command-line.md"


def pages() -> dict[str, str]:
    """One page."""
    os.environ.update(COLUMNS="100", NO_COLOR="1", TERM="dumb")
    from typer.main import get_command
    from typer.testing import CliRunner

    from apportion.cli.app import app

    command = get_command(app)
    parts = [
        "# The command line\n\nEvery command takes `--json` and `--help`, exits 0 on success, 1 on findings or bad "
        "data, 2 on wrong usage.\n"
    ]
    words = [[name] for name in getattr(command, "commands", {})]
    words += [
        [name, inner]
        for [name] in list(words)
        for inner in getattr(command.commands[name], "commands", {})  # type: ignore[attr-defined]
    ]
    for path in sorted(words):
        done = CliRunner().invoke(app, [*path, "--help"], prog_name="apportion")
        if done.exit_code:
            raise ValueError(f"apportion {' '.join(path)} --help ends with {done.exit_code}")
        text = "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())
        parts.append(f"{'#' * (len(path) + 1)} apportion {' '.join(path)}\n\n```text\n{text}\n```\n")
    return {PAGE: "\n".join(parts)}
