"""The command line: thin, one file per command, each calls the public API.

Exit codes: 0 success, 1 findings or bad data, 2 wrong usage. Errors are one sentence, never a traceback.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the console script ``apportion``."""
    from apportion.cli.run import run

    sys.exit(run(sys.argv[1:]))
