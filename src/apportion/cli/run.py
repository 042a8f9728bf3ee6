"""Runs the application and turns every error into a sentence and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Sequence

from apportion.cli.app import app
from apportion.cli.interrupt import Stopped
from apportion.cli.output import error, remark
from apportion.errors import ApportionError, ConfigError, MissingExtra

FILE_PROBLEMS = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError)

DISK_PROBLEMS = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code instead of leaving the process.

    0 success, 1 findings or bad data, 2 wrong usage, 130 stopped by Ctrl-C.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: remark(f"warning: {message}")
            app(args=list(arguments), prog_name="apportion")
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except (ConfigError, MissingExtra) as problem:
        error(str(problem))
        return 2
    except ApportionError as problem:
        error(str(problem))
        return 1
    except FILE_PROBLEMS as problem:
        error(f"{problem.filename}: {(problem.strerror or str(problem)).lower()}; check the path")
        return 1
    except BrokenPipeError:
        # the reader of our output went away (`apportion methods | head`)
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - lives until the process ends
        return 0
    except OSError as problem:
        if problem.errno not in DISK_PROBLEMS:
            raise
        where = f"{problem.filename}: " if problem.filename else ""
        error(f"{where}{os.strerror(problem.errno).lower()}; make room, then run the same command again")
        return 1
    except (Stopped, KeyboardInterrupt) as stop:
        error(f"stopped before the end; {str(stop) or 'nothing half-written was left behind'}")
        return 130
    return 0
