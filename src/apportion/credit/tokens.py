"""From units to tokens. This file is the only one in the library that writes credit onto tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from apportion.errors import ConfigError
from apportion.numerics import Array, BoolArray, FloatArray, IntArray
from apportion.units import Units


class Padded(NamedTuple):
    """What a trainer with rectangular tensors needs. All (N, L); padding holds ``pad_id``, zeros and False."""

    ids: IntArray
    sampled: BoolArray
    advantage: FloatArray
    weight: FloatArray
    real: BoolArray


class TokenSlice(NamedTuple):
    """The tokens of one trajectory, in order; context tokens included, with advantage and weight 0."""

    ids: IntArray
    sampled: BoolArray
    advantage: FloatArray
    weight: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class TokenAdvantages:
    """Credit on tokens.

    Attributes:
        advantage_T: credit of each token, exactly 0 where the policy did not sample it.
        weight_T: 1 where the loss counts the token, 0 where it does not (context, unknown, dropped). Written when
            first asked for: it is as large as the credit, and who has a mask already never needs it.
        units: where it came from.
    """

    advantage_T: FloatArray
    weight_T: FloatArray
    units: Units
    counted: tuple[BoolArray, BoolArray | None] | None = field(default=None, repr=False)
    """What the weights are made of: units, and tokens, that the loss counts."""

    def __getattr__(self, name: str) -> Any:
        """Reached for `weight_T` alone, while its slot is empty."""
        if name != "weight_T" or self.counted is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        weight_S, train_T = self.counted
        weight_T = _on_tokens(weight_S.astype(np.float64), self.units)
        if train_T is not None:
            weight_T[~train_T] = 0.0
        object.__setattr__(self, "weight_T", _frozen(weight_T))
        return weight_T

    def split(self) -> Iterator[TokenSlice]:
        """The tokens of each trajectory, in order of the batch."""
        batch = self.units.batch
        end_N = np.cumsum(np.bincount(batch.traj_of_T, minlength=len(batch)))
        for stop, size in zip(end_N.tolist(), np.diff(end_N, prepend=0).tolist(), strict=True):
            t = slice(stop - size, stop)
            yield TokenSlice(batch.ids_T[t], batch.sampled_T[t], self.advantage_T[t], self.weight_T[t])

    def padded(self, *, side: str = "right", pad_id: int = 0, length: int | None = None) -> Padded:
        """Rectangular arrays, one row per trajectory.

        Args:
            side: where the padding goes, "right" or "left".
            pad_id: id written into the padding. Masks come from lengths, never from this id.
            length: L; default the longest trajectory. A trajectory longer than this is an error, not cut.
        """
        if side not in ("right", "left"):
            raise ConfigError(f"padded: side is {side!r}; give 'right' or 'left'")
        batch = self.units.batch
        size_N = np.bincount(batch.traj_of_T, minlength=len(batch))
        longest = int(size_N.max())
        width = longest if length is None else length
        if width < longest:
            raise ConfigError(
                f"padded: length {width} is shorter than the longest trajectory ({longest} tokens); "
                f"give at least {longest}, or filter the rollouts first"
            )
        real = np.arange(width) < size_N[:, None]
        if side == "left":
            real = real[:, ::-1]
        ids = np.full(real.shape, pad_id, dtype=np.int64)
        sampled = np.zeros(real.shape, dtype=bool)
        advantage, weight = np.zeros(real.shape), np.zeros(real.shape)
        ids[real], sampled[real] = batch.ids_T, batch.sampled_T
        advantage[real], weight[real] = self.advantage_T, self.weight_T
        return Padded(ids, sampled, advantage, weight, np.ascontiguousarray(real))


def write_tokens(
    units: Units, advantage_S: FloatArray, weight_S: BoolArray, train_T: BoolArray | None, spread: str
) -> TokenAdvantages:
    """Spread one number per unit over the tokens of that unit."""
    unit_of_T = units.unit_of_T
    if spread == "copy":
        advantage_T = _on_tokens(advantage_S, units)
    elif spread == "divide":
        advantage_T = _on_tokens(advantage_S / np.maximum(units.tokens_S, 1), units)
    elif spread == "last":
        advantage_T = np.zeros(len(unit_of_T))
        last = np.full(len(units) + 1, -1, dtype=np.int64)
        last[unit_of_T] = np.arange(len(unit_of_T))  # in time order, so the last one stays
        held = last[:-1] >= 0
        advantage_T[last[:-1][held]] = advantage_S[held]
    else:
        raise ConfigError(f"to_tokens: spread is {spread!r}; give 'copy', 'divide' or 'last'")
    out: TokenAdvantages = object.__new__(TokenAdvantages)
    for name, value in (("advantage_T", _frozen(advantage_T)), ("units", units), ("counted", (weight_S, train_T))):
        object.__setattr__(out, name, value)
    return out


def _on_tokens(x_S: FloatArray, units: Units) -> FloatArray:
    """The number of its unit on each token, 0 where there is none."""
    x = np.append(x_S, 0.0)  # unit -1 picks the appended 0: a context token has no credit and no weight
    if units.runs is None:
        return x[units.unit_of_T]
    return np.repeat(x[units.runs.unit_R], units.runs.size_R)


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array
