"""Runs the application and turns every error into a sentence and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from apportion.cli.app import app
from apportion.cli.output import error
from apportion.errors import ApportionError, ConfigError, MissingExtra


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code instead of leaving the process."""
    try:
        result = app(args=list(arguments), standalone_mode=False, prog_name="apportion")
    except (ConfigError, MissingExtra) as problem:
        error(str(problem))
        return 2
    except (ApportionError, FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError) as problem:
        error(_sentence(problem))
        return 1
    except click.exceptions.Abort:
        error("stopped before the end; nothing half-written was left behind")
        return 130
    except KeyboardInterrupt:
        error("stopped before the end; nothing half-written was left behind")
        return 130
    except click.ClickException as problem:
        problem.show()
        return 2
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except BrokenPipeError:
        # the reader of our output went away (`apportion methods | head`)
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - lives until the process ends
        return 0
    return result if isinstance(result, int) else 0


def _sentence(problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.filename is not None and not isinstance(problem, ApportionError):
        return f"{problem.filename}: {(problem.strerror or str(problem)).lower()}; check the path"
    return str(problem)
