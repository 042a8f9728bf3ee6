"""How `pooled` decides from the data what counts as a state, how far to trust it, and how long to remember it.

**State.** By prediction: the return to go of a unit against the value that the *others* give its state. Another key
than the default is taken where it predicts better beyond twice the standard error over trajectories.

**Shrinkage, λ, decay.** By agreement of two halves. Each group's trajectories are dealt into two halves that share
nothing but earlier batches. Credit by a setting from one half is held against unbiased credit (λ = 1) of the other:

    S = sum over state-action cells of g_half(setting) * g_otherhalf(λ = 1)      N = sum of g_half(setting)^2
    g[cell] = sum of the credit in the cell less its share of the credit of the state

S estimates the inner product with the true gradient without bias, since the halves' noise is independent, and
S / sqrt(N) is what the cosine is, up to one factor for all settings. Each setting is varied alone, the others at their
defaults, and replaces its default where it was better by more than one standard error over `ENOUGH` batches or more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apportion.methods.pooled_estimate import Seen, View, company, lambda_return, values
from apportion.methods.pooled_keys import KINDS
from apportion.methods.pooled_memory import DECAYS
from apportion.numerics import FloatArray, IntArray, labels

ENOUGH = 4.0
GRIDS: dict[str, tuple[float, ...]] = {
    "decay": (0.0, *DECAYS),
    "shrinkage": (0.3, 1.0, 3.0, 10.0),
    "lam": (0.0, 0.25, 0.5, 0.75, 0.9, 1.0),
}
ROWS = [("key", kind) for kind in KINDS] + [(name, value) for name, grid in GRIDS.items() for value in grid]
COLUMNS = 4  # weight, its square, weight * gain, weight * gain^2


@dataclass(frozen=True)
class Settings:
    """One way to estimate. ``decay`` 0 forgets everything."""

    key: str = KINDS[0]
    decay: float = 0.9
    shrinkage: float = 1.0
    lam: float = 0.5


def seen_by(view: View, key_S: IntArray, remembered: tuple[FloatArray, FloatArray], decay: float) -> Seen:
    """Company in the batch and, unless the decay is 0, memory."""
    here = company(view, key_S)
    if decay == 0.0:
        return here
    at = DECAYS.index(decay)
    return here + Seen(remembered[0][:, at], remembered[1][:, at])


def credit_of(
    view: View, key_S: IntArray, remembered: tuple[FloatArray, FloatArray], settings: Settings
) -> tuple[FloatArray, Seen, FloatArray]:
    """Advantage, who was there, and value of each unit."""
    seen = seen_by(view, key_S, remembered, settings.decay)
    value = values(view, seen, settings.shrinkage)
    return lambda_return(view, seen, value, settings.shrinkage, settings.lam), seen, value


def evidence_of(
    view: View,
    keys: Mapping[str, IntArray],
    remembered: Mapping[str, tuple[FloatArray, FloatArray]],
    action_S: IntArray,
    chosen_key: str,
) -> FloatArray:
    """What this batch says: sums per row of `ROWS` and column, additive over batches."""
    out = np.zeros((len(ROWS), COLUMNS))
    for row, (name, value) in enumerate(ROWS):
        if name == "key":
            out[row] = _predicts_better(view, keys, remembered, str(value))
    out[len(KINDS) :] = _halves_agree(view, keys, remembered[chosen_key], action_S, chosen_key)
    return out


def choose(evidence: FloatArray, given: Mapping[str, float | str | None]) -> Settings:
    """The settings given, the others as the evidence says."""
    settings = Settings()
    for name in ("key", *GRIDS):
        asked = given.get(name)
        if asked is None or asked == "auto":
            asked = _best(evidence, name, getattr(settings, name))
        settings = varied(settings, name, asked)
    return settings


def varied(settings: Settings, name: str, value: float | str) -> Settings:
    """The same settings but for one."""
    changed: dict[str, Any] = {name: value}
    return replace(settings, **changed)


def _best(evidence: FloatArray, name: str, default: float | str) -> float | str:
    best, gain_of_best = default, 0.0
    if not evidence.size:
        return best
    for row, (which, value) in enumerate(ROWS):
        weight, squares, gain, gains = evidence[row].tolist()
        if which != name or value == default or weight <= 0:
            continue
        pieces = weight**2 / squares
        if pieces < ENOUGH:
            continue
        mean = gain / weight
        error = (max(gains / weight - mean**2, 0.0) / (pieces - 1)) ** 0.5
        sure = mean - (2.0 if name == "key" else 1.0) * error
        if sure > gain_of_best:
            best, gain_of_best = value, sure
    return best


def _predicts_better(
    view: View,
    keys: Mapping[str, IntArray],
    remembered: Mapping[str, tuple[FloatArray, FloatArray]],
    kind: str,
) -> FloatArray:
    """Per trajectory: by how much the squared error falls against the default key."""
    default = Settings()

    def error(name: str) -> FloatArray:
        seen = seen_by(view, keys[name], remembered[name], default.decay)
        value = values(view, seen, default.shrinkage)
        return np.where(np.isnan(value), np.nan, view.return_S - value) ** 2

    if kind == KINDS[0]:
        return np.zeros(COLUMNS)
    gain_S = error(KINDS[0]) - error(kind)
    told = np.isfinite(gain_S)
    if not told.any():
        return np.zeros(COLUMNS)
    traj = labels(view.traj_S[told])
    gain = np.bincount(traj, weights=gain_S[told]) / np.bincount(traj)
    return np.array([len(gain), len(gain), gain.sum(), (gain**2).sum()], dtype=np.float64)


def _halves_agree(
    view: View,
    keys: Mapping[str, IntArray],
    remembered: tuple[FloatArray, FloatArray],
    action_S: IntArray,
    kind: str,
) -> FloatArray:
    """One gain per setting, S / sqrt(N) less that of the default; nothing where the halves share no cell."""
    rows = [(name, value) for name, value in ROWS if name != "key"]
    nothing = np.zeros((len(rows), COLUMNS))
    half_S = _dealt(view)
    if len(np.unique(half_S)) < 2:
        return nothing
    cell_S, state_S = labels(keys["state"], action_S), keys["state"]
    cells = int(cell_S.max()) + 1
    tried = [Settings(key=kind), *(varied(Settings(key=kind), name, value) for name, value in rows)]
    plain = 1 + rows.index(("lam", 1.0))
    gradients = []
    for side in (0, 1):
        keep = half_S == side
        credit = _credit_of_each(view.part(keep), keys[kind][keep], (remembered[0][keep], remembered[1][keep]), tried)
        gradients.append(_summed(credit, cell_S[keep], state_S[keep], cells))
    first, second = gradients
    unit = float(first[plain] @ first[plain] + second[plain] @ second[plain]) ** 0.5  # so that batches weigh alike
    if unit == 0.0 or not ((first[plain] != 0) & (second[plain] != 0)).any():
        return nothing
    agree = first @ second[plain] + second @ first[plain]
    size = np.sqrt((first**2).sum(axis=1) + (second**2).sum(axis=1))
    score = np.divide(agree, size, out=np.zeros(len(tried)), where=size > 0)
    default = Settings()
    same = np.array([value == getattr(default, name) for name, value in rows])
    gain = np.where(same, 0.0, (score[1:] - score[0]) / unit)
    return np.stack([np.ones(len(rows)), np.ones(len(rows)), gain, gain**2], axis=1)


def _credit_of_each(
    view: View, key_S: IntArray, remembered: tuple[FloatArray, FloatArray], tried: Sequence[Settings]
) -> FloatArray:
    """Advantage of each unit by each of the settings, which share the key, (settings, units)."""
    seen = {decay: seen_by(view, key_S, remembered, decay) for decay in {one.decay for one in tried}}
    both = Seen(
        np.stack([seen[one.decay].count_S for one in tried]), np.stack([seen[one.decay].total_S for one in tried])
    )
    shrinkage, lam = np.array([[one.shrinkage, one.lam] for one in tried]).T[:, :, None]
    return lambda_return(view, both, values(view, both, shrinkage), shrinkage, lam)


def _summed(credit: FloatArray, cell_S: IntArray, state_S: IntArray, cells: int) -> FloatArray:
    """Credit of each cell less its share of the credit of the state, (settings, cells)."""
    visits = np.maximum(np.bincount(state_S), 1)
    out = np.empty((len(credit), cells))
    for row, one in zip(out, credit, strict=True):
        mean = np.bincount(state_S, weights=one) / visits
        row[:] = np.bincount(cell_S, weights=one - mean[state_S], minlength=cells)
    return out


def _dealt(view: View) -> IntArray:
    """0 or 1 for each unit: the trajectories of each group in turn to one half and the other."""
    first = np.flatnonzero(np.append(True, view.traj_S[1:] != view.traj_S[:-1])[: len(view.traj_S)])
    group = view.group_S[first]
    order = np.argsort(group, kind="stable")
    begins = np.searchsorted(group[order], group[order])
    half = np.zeros(len(first), dtype=np.int64)
    half[order] = (np.arange(len(first)) - begins + group[order]) % 2  # lone members do not all go to one side
    return half[np.searchsorted(view.traj_S[first], view.traj_S)]
