"""What a case declares (`Comparison`), what comes out (`Row`), and the loop from one to the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apportion.bench.speed.timing import medians
from apportion.numerics import Array
from apportion.numerics.kernels import VARIABLE

Run = Callable[[], Any]


@dataclass(frozen=True)
class Peer:
    """Somebody else's code for the same job. ``value`` turns its result into what is compared."""

    run: Run
    value: Callable[[Any], Array]


@dataclass(frozen=True)
class Contender:
    """One way of ours to do the job.

    Attributes:
        run: the call that is timed.
        value: turns its result into the array that every peer's must equal.
        floor: smallest ratio to reach, by peer name.
        slowest: most CPU seconds allowed for an item.
        limit: the same bytes read and written without arithmetic; None where memory is not what limits.
        ceiling: largest multiple of the limit allowed.
        half: the same call on half the input, for the growth.
        steepest: largest growth allowed when the input doubles; 2 is linear.
        compiled: whether numba can run it, so that the time of NumPy alone is worth a column.
    """

    run: Run
    value: Callable[[Any], Array]
    floor: Mapping[str, float] = field(default_factory=dict)
    slowest: float | None = None
    limit: Run | None = None
    ceiling: float | None = None
    half: Run | None = None
    steepest: float | None = None
    compiled: bool = True


@dataclass(frozen=True)
class Comparison:
    """One job on one batch.

    Attributes:
        kernel, batch: names for the table.
        items: how many of ``item`` the batch has; times are also given per item.
        peers: by name; absent ones map to the reason.
        contenders: ours, by name.
        tolerance: largest difference of values, relative to max(1, |peer's largest value|).
    """

    kernel: str
    batch: str
    items: int
    item: str
    peers: Mapping[str, Peer | str]
    contenders: Mapping[str, Contender]
    tolerance: float = 1e-5


@dataclass(frozen=True)
class Row:
    """One line of the table; times in CPU seconds. ``absent`` holds the peers that are not here, and why."""

    kernel: str
    contender: str
    batch: str
    items: int
    item: str
    seconds: float
    peer: str
    peer_seconds: float | None
    ratio: float | None
    floor: float | None
    slowest: float | None
    numpy_ratio: float | None
    limit_seconds: float | None
    times_limit: float | None
    ceiling: float | None
    growth: float | None
    steepest: float | None
    difference: float | None
    tolerance: float
    absent: Mapping[str, str]

    @property
    def mismatch(self) -> bool:
        """The values differ, so the times say nothing. NaN is a difference."""
        return self.difference is not None and not self.difference <= self.tolerance

    @property
    def below_floor(self) -> bool:
        """The ratio is smaller than promised."""
        return self.floor is not None and self.ratio is not None and self.ratio < self.floor

    @property
    def too_slow(self) -> bool:
        """An item takes longer than promised."""
        return self.slowest is not None and self.seconds / self.items > self.slowest

    @property
    def above_ceiling(self) -> bool:
        """The distance from the limit is larger than promised."""
        return self.ceiling is not None and self.times_limit is not None and self.times_limit > self.ceiling

    @property
    def too_steep(self) -> bool:
        """Twice the input costs more than promised."""
        return self.steepest is not None and self.growth is not None and self.growth > self.steepest


def measure(comparison: Comparison, rounds: int, *, goals: bool = True) -> Iterator[Row]:
    """Compare values, then time everything of one comparison side by side: a row for each of ours and each peer that is
    here, or one row for each of ours where no peer is.

    Args:
        comparison: what to measure.
        rounds: timings of each call.
        goals: judge floors and ceilings; they are meant for the full batches.
    """
    peers = {name: peer for name, peer in comparison.peers.items() if isinstance(peer, Peer)}
    absent = {name: peer for name, peer in comparison.peers.items() if isinstance(peer, str)}
    theirs = {name: peer.value(peer.run()) for name, peer in peers.items()}
    differences = {
        (ours, name): difference(contender.value(contender.run()), value)
        for ours, contender in comparison.contenders.items()
        for name, value in theirs.items()
    }
    del theirs
    runs: dict[tuple[str, str], Run] = {("peer", name): peer.run for name, peer in peers.items()}
    for name, contender in comparison.contenders.items():
        runs["ours", name] = contender.run
        if contender.compiled:
            runs["numpy", name] = without_numba(contender.run)
        if contender.limit is not None:
            runs["limit", name] = contender.limit
        if contender.half is not None:
            runs["half", name] = contender.half
    seconds = medians(runs, rounds)
    for name, contender in comparison.contenders.items():
        ours, limit, half = (seconds.get((kind, name)) for kind in ("ours", "limit", "half"))
        numpy_alone = seconds.get(("numpy", name))
        assert ours is not None
        for peer_name in peers or ("",):
            other = seconds.get(("peer", peer_name))
            yield Row(
                kernel=comparison.kernel,
                contender=name,
                batch=comparison.batch,
                items=comparison.items,
                item=comparison.item,
                seconds=ours,
                peer=peer_name,
                peer_seconds=other,
                ratio=None if other is None else other / ours,
                floor=contender.floor.get(peer_name) if goals else None,
                slowest=contender.slowest if goals else None,
                numpy_ratio=None if numpy_alone is None else numpy_alone / ours,
                limit_seconds=limit,
                times_limit=None if limit is None else ours / limit,
                ceiling=contender.ceiling if goals else None,
                growth=None if half is None else ours / half,
                steepest=contender.steepest if goals else None,
                difference=differences.get((name, peer_name)),
                tolerance=comparison.tolerance,
                absent=absent,
            )


def difference(ours: Array, theirs: Array) -> float:
    """Largest absolute difference, relative to max(1, |their largest value|); inf for another shape."""
    ours, theirs = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if ours.shape != theirs.shape:
        return float("inf")
    if ours.size == 0:
        return 0.0
    with np.errstate(invalid="ignore"):  # inf − inf is NaN, which counts as a difference
        return float(np.abs(ours - theirs).max() / max(1.0, float(np.abs(theirs).max())))


def under(variable: str, value: str, run: Run) -> Run:
    """The same call with an environment variable of this value, which is as before afterwards."""

    def call() -> Any:
        before = os.environ.get(variable)
        os.environ[variable] = value
        try:
            return run()
        finally:
            if before is None:
                del os.environ[variable]
            else:
                os.environ[variable] = before

    return call


def without_numba(run: Run) -> Run:
    """The same call on the NumPy kernels."""
    return under(VARIABLE, "0", run)
