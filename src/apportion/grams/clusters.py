"""k-means in NumPy: seeded, deterministic, every cluster inhabited."""

from __future__ import annotations

import numpy as np

from apportion.numerics import Array, FloatArray, IntArray

ROUNDS = 50


def cluster(points_PD: Array, k: int, *, seed: int = 0) -> IntArray:
    """Cluster of each point, 0 .. k-1: Lloyd's rounds from k-means++ starts, until nothing changes.

    Args:
        points_PD: (points, dimensions), finite.
        k: clusters, at most as many as there are different points.
        seed: of the starts.
    """
    points = np.asarray(points_PD, dtype=np.float64)
    centres = _starts(points, k, np.random.default_rng(seed))
    label = np.full(len(points), -1, dtype=np.int64)
    for _ in range(ROUNDS):
        distance = _distances(points, centres)
        nearest = distance.argmin(axis=1)
        for empty in np.setdiff1d(np.arange(len(centres)), nearest):
            # the point that its centre describes worst moves out, unless it would leave an empty cluster behind
            size = np.bincount(nearest, minlength=len(centres))
            own = np.where(size[nearest] > 1, distance[np.arange(len(points)), nearest], -1.0)
            nearest[int(own.argmax())] = empty
        if (nearest == label).all():
            break
        label = nearest.astype(np.int64)
        total = np.zeros_like(centres)
        np.add.at(total, label, points)
        centres = total / np.bincount(label, minlength=len(centres))[:, None]
    return label


def _starts(points: FloatArray, k: int, rng: np.random.Generator) -> FloatArray:
    """Each start drawn in proportion to its squared distance from those before it; fewer when points run out."""
    chosen = [int(rng.integers(len(points)))]
    left = _distances(points, points[chosen])[:, 0]
    while len(chosen) < k and left.max() > 1e-12:
        chosen.append(int(rng.choice(len(points), p=left / left.sum())))
        left = np.minimum(left, _distances(points, points[chosen[-1:]])[:, 0])
    return points[chosen].copy()


def _distances(points: FloatArray, centres: FloatArray) -> FloatArray:
    """Squared, (points, centres), never below 0."""
    out: FloatArray = (points**2).sum(1)[:, None] - 2 * points @ centres.T + (centres**2).sum(1)
    return np.maximum(out, 0.0)
