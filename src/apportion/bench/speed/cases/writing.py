"""Writing rollouts with token ids and log-probabilities, against pyarrow given Python lists, and NumPy's own file.

Credit files have no peer: their time is held to what grows with the tokens.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from apportion.assign import assign
from apportion.bench.speed.compare import Comparison, Contender, Peer
from apportion.bench.speed.registry import Setting, case
from apportion.credit import Credit, read_credit, write_credit
from apportion.data import Batch, Step, Trajectory, read, write
from apportion.numerics import Array
from apportion.units import by_step, by_token

LISTS = "pyarrow from lists"
TOKENS = 2_000_000
CREDITED = 500_000
STEEPEST = 2.4
"""Growth when the input doubles: 2 is linear, the rest is noise."""


@case("writing")
def writing_cases(setting: Setting) -> Iterator[Comparison]:
    """Parquet; Arrow IPC. Both flush to the disk, which costs wall time and hardly any CPU time."""
    batch = _rollouts(TOKENS // (8 if setting.quick else 1))
    half = _rollouts(TOKENS // (16 if setting.quick else 2))
    with tempfile.TemporaryDirectory() as folder:
        for name, ending, floor, ceiling in (
            ("Parquet", ".parquet", 4.0, None),
            ("Arrow IPC", ".arrow", 20.0, 2.5),
        ):
            yield _written(name, Path(folder), ending, batch, half, floor, ceiling)
        tokens = CREDITED // (8 if setting.quick else 1)
        for level in (by_step, by_token):
            yield from _credit(
                Path(folder), *(assign("reinforce_pp", level(_rollouts(n))) for n in (tokens, tokens // 2))
            )


def _written(
    name: str, folder: Path, ending: str, batch: Batch, half: Batch, floor: float, ceiling: float | None
) -> Comparison:
    ours, theirs = folder / f"ours{ending}", folder / "theirs.parquet"
    return Comparison(
        kernel=f"writing {name}",
        batch=f"{len(batch)} rollouts",
        items=len(batch.ids_T),
        item="token",
        peers={LISTS: _from_lists(batch, theirs)},
        contenders={
            "write": Contender(
                run=lambda: write(ours, batch),
                value=lambda _: _columns(read(ours)),
                floor={LISTS: floor},
                limit=_saved(batch, folder) if ceiling else None,
                ceiling=ceiling,
                half=lambda: write(folder / f"half{ending}", half),
                compiled=False,
            )
        },
        tolerance=0.0,
    )


def _credit(folder: Path, credit: Credit, half: Credit) -> Iterator[Comparison]:
    path, small = folder / "credit.parquet", folder / "half.parquet"
    write_credit(path, credit)
    write_credit(small, half)
    jobs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "writing credit": (lambda: write_credit(path, credit), lambda: write_credit(small, half)),
        "reading credit": (lambda: read_credit(path), lambda: read_credit(small)),
    }
    for kernel, (run, run_half) in jobs.items():
        yield Comparison(
            kernel=f"{kernel}, Parquet",
            batch=f"{len(credit.units.batch)} rollouts, by {credit.units.level}",
            items=len(credit.units.batch.ids_T),
            item="token",
            peers={},
            contenders={
                "file": Contender(run=run, value=lambda x: x, half=run_half, steepest=STEEPEST, compiled=False)
            },
        )


def _from_lists(batch: Batch, path: Path) -> Peer | str:
    """``pq.write_table`` with its defaults, given one Python list of each column for each step."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return "pyarrow is not installed; pip install 'apportion[parquet]'"
    rows = [
        {
            "id": t.id,
            "group": t.group,
            "outcome": t.outcome,
            "steps": [{name: _list(getattr(step, name)) for name in ("prompt_ids", "ids", "logp")} for step in t.steps],
        }
        for t in batch
    ]

    def run() -> None:
        pq.write_table(pa.Table.from_pylist(rows), path)

    def value(_: Any) -> Array:
        steps = [step for row in pq.read_table(path).to_pylist() for step in row["steps"]]
        ids = [x for step in steps for x in (step["prompt_ids"], step["ids"])]
        logp = [x for step in steps for x in ([0.0] * len(step["prompt_ids"]), step["logp"])]
        return np.concatenate([*ids, *logp])

    return Peer(run, value)


def _columns(batch: Batch) -> Array:
    assert batch.logp_T is not None
    return np.concatenate([batch.ids_T, batch.logp_T])


def _saved(batch: Batch, folder: Path) -> Callable[[], None]:
    """The same numbers as two flat arrays."""
    logp_T = batch.logp_T

    def run() -> None:
        assert logp_T is not None
        np.save(folder / "ids.npy", batch.ids_T)
        np.save(folder / "logp.npy", logp_T)

    return run


def _list(values: Any) -> list[Any]:
    return list(values.tolist())


def _rollouts(tokens: int) -> Batch:
    rng = np.random.default_rng(0)
    out: list[Trajectory] = []
    while tokens > 0:
        size = int(rng.integers(1000, 8193))
        step = Step(
            prompt_ids=rng.integers(0, 151_000, size=200),
            ids=rng.integers(0, 151_000, size=size),
            logp=-rng.exponential(0.4, size=size).astype(np.float32).astype(np.float64),
        )
        out.append(Trajectory([step], id=f"rollout-{len(out)}", group=f"task-{len(out) // 8}", outcome=1.0))
        tokens -= size + 200
    return Batch.from_trajectories(out)
