"""Start-up in fresh processes: the import of the package, and the first call of a kernel that lies in numba's cache.

There is no peer; the goals are 0.3 and 1.0 seconds of CPU time, the interpreter's own among them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from apportion.bench.speed.compare import Comparison, Contender
from apportion.bench.speed.registry import Setting, case

IMPORT = "import apportion"
KERNEL = """
import os
os.environ["APPORTION_NUMBA"] = "1"
import numpy as np
from apportion.numerics import gram_table, mark_grams
mark_grams(np.zeros(100, np.int32), np.array([0, 100]), gram_table([(1, 2)]))
"""


@case("startup")
def startup_cases(setting: Setting) -> Iterator[Comparison]:
    """CPU seconds of whole processes, beside the import of what each stands on."""
    yield _process("import apportion", IMPORT, "import numpy", 0.3)
    if find_spec("numba"):
        _run(KERNEL)()  # compiles, unless the cache has it
        yield _process("first call of a cached kernel", KERNEL, "import numba", 1.0)


def _process(kernel: str, program: str, beside: str, seconds: float) -> Comparison:
    return Comparison(
        kernel="start-up",
        batch="fresh process",
        items=1,
        item="process",
        peers={},
        contenders={
            kernel: Contender(run=_run(program), value=lambda _: np.zeros(0), slowest=seconds, compiled=False),
            beside: Contender(run=_run(beside), value=lambda _: np.zeros(0), compiled=False),
        },
    )


def _run(program: str) -> Callable[[], Any]:
    def run() -> None:
        subprocess.run([sys.executable, "-c", program], check=True, env=dict(os.environ))

    return run
