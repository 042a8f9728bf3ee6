"""Large logs of steps, file in and file out: ours beside Polars and DuckDB, on one, two and four times the data."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from apportion.bench.speed.compare import Comparison, Contender, Peer
from apportion.bench.speed.engines import METHODS, credit_in, flatten
from apportion.bench.speed.registry import Setting, case
from apportion.bench.speed.steplogs import write_steplog

GROUPS = 6_000
"""Groups of the smallest log, about 0.6 million steps."""
TIMES = (1, 2, 4)
PEERS = {"polars": "polars", "duckdb": "duckdb", "polars_flat": "polars", "duckdb_flat": "duckdb"}
"""Engine, and the package that it needs."""
STEEPEST = 2.3
ONE = dict.fromkeys(("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"), "1")


@case("volume")
def volume_cases(setting: Setting) -> Iterator[Comparison]:
    """GRPO and GiGPO on stored state keys; each engine in a process of its own, start-up included."""
    groups = GROUPS // (8 if setting.quick else 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        steps = {0.5: _log(folder, 0.5, groups // 2)}
        for times in TIMES:
            steps[times] = _log(folder, times, groups * times)
            for method in METHODS:
                yield _comparison(folder, method, times, steps[times])


def _log(folder: Path, times: float, groups: int) -> int:
    (folder / f"{times}").mkdir()
    steps = write_steplog(folder / f"{times}" / "log.parquet", groups)
    flatten(folder / f"{times}" / "log.parquet", folder / f"{times}.parquet")
    return steps


def _comparison(folder: Path, method: str, times: int, steps: int) -> Comparison:
    half = {1: 0.5, 2: 1, 4: 2}[times]
    here = [engine for engine, package in PEERS.items() if importlib.util.find_spec(package) is not None]
    peaks = {engine: _run(folder, engine, method, times) for engine in ("ours", *here)}
    told = ", ".join(f"{engine} {peak / 1e6:,.0f} MB" for engine, peak in peaks.items())
    peers: dict[str, Peer | str] = {
        engine: _peer(folder, engine, method, times)
        if engine in here
        else f"{package} is not installed; pip install 'apportion[bench]'"
        for engine, package in PEERS.items()
    }
    return Comparison(
        kernel=f"volume, {method}",
        batch=f"{steps:,} steps; peak memory {told}",
        items=steps,
        item="step",
        peers=peers,
        contenders={
            "assign FOLDER": Contender(
                run=lambda: _run(folder, "ours", method, times),
                value=lambda _: credit_in(folder / f"ours-{method}-{times}"),
                half=lambda: _run(folder, "ours", method, half),
                steepest=STEEPEST,
                compiled=False,
            )
        },
        tolerance=1e-9,
    )


def _peer(folder: Path, engine: str, method: str, times: float) -> Peer:
    return Peer(
        lambda: _run(folder, engine, method, times), lambda _: credit_in(folder / f"{engine}-{method}-{times}.parquet")
    )


def _run(folder: Path, engine: str, method: str, times: float) -> int:
    """Credit one log anew; the peak of the process's memory in bytes."""
    ours = engine == "ours"
    out = folder / f"{engine}-{method}-{times}{'' if ours else '.parquet'}"
    shutil.rmtree(out, ignore_errors=True)
    log = folder / f"{times}"
    source = log if ours else log / "log.parquet" if not engine.endswith("_flat") else folder / f"{times}.parquet"
    command = [sys.executable, "-m", "apportion.bench.speed.engines", engine, method, str(source), str(out)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **ONE})
    return int(run.stdout)
