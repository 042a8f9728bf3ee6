"""`Credit`: one number per unit, and everything needed to trust, mix and re-make it.

Two results travel together. ``advantage_S`` says how much; ``known_S`` and ``train_S`` say whether at all:
an *unknown* unit (unscored, failed, never asked) and a *dropped* one (a method trains only on critical units)
leave numerator and denominator of the loss, while a known zero stays in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from apportion.credit.tokens import TokenAdvantages, write_tokens
from apportion.errors import DataError
from apportion.numerics import Array, BoolArray, FloatArray
from apportion.units import Units

PARTS_TOLERANCE = 1e-9
"""Rounding allowed between the parts' sum and the credit, as a share of the largest of them."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a credit cost beyond the rollouts. Zero for methods that ask nothing."""

    requests: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.requests + other.requests,
            self.prompt_tokens + other.prompt_tokens,
            self.generated_tokens + other.generated_tokens,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Credit:
    """Credit of S units.

    Attributes:
        advantage_S: credit of each unit; exactly 0 where unknown. Unit: see the method.
        units: what was credited.
        known_S: False where nothing can be said. Default: the units of valid trajectories.
        train_S: False where the method says not to train. Default: everywhere True.
        parts: named summands, each (S,), that add up to ``advantage_S``.
        notes: counts that a reader should know (groups of one, constant groups, units without company, …).
        cost: what was asked for it.
        method: expression that made it. params: its parameters, defaults included.
    """

    advantage_S: FloatArray
    units: Units
    known_S: BoolArray | None = None
    train_S: BoolArray | None = None
    parts: Mapping[str, FloatArray] = field(default_factory=dict)
    notes: Mapping[str, int | float | str] = field(default_factory=dict)
    cost: Cost = Cost()
    method: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.units)
        known = self.units.valid_S if self.known_S is None else np.array(self.known_S, dtype=bool)
        train = np.ones(n, dtype=bool) if self.train_S is None else np.array(self.train_S, dtype=bool)
        advantage = np.asarray(self.advantage_S, dtype=np.float64)
        for name, array in (("advantage_S", advantage), ("known_S", known), ("train_S", train)):
            if array.shape != (n,):
                raise DataError(f"credit.{name} has shape {array.shape} for {n} units; give one entry per unit")
        if not np.isfinite(advantage[known]).all():
            bad = int(np.flatnonzero(known & ~np.isfinite(advantage))[0])
            raise DataError(
                f"credit of unit {bad} is {advantage[bad]}; give a finite number, or mark it unknown in known_S"
            )
        advantage = np.where(known, advantage, 0.0)
        parts = {}
        for name, part in self.parts.items():
            array = np.asarray(part, dtype=np.float64)
            if array.shape != (n,):
                raise DataError(f"part {name!r} has shape {array.shape} for {n} units; give one entry per unit")
            if not np.isfinite(array[known]).all():
                bad = int(np.flatnonzero(known & ~np.isfinite(array))[0])
                raise DataError(f"part {name!r} of unit {bad} is {array[bad]}; give a finite number")
            parts[name] = _frozen(np.where(known, array, 0.0))
        if parts and n:
            gap = np.abs(sum(parts.values()) - advantage)
            # parts may be large and cancel, so their rounding is measured against them, not against the sum
            largest = max(float(np.abs(array).max()) for array in (advantage, *parts.values()))
            if gap.max() > PARTS_TOLERANCE * largest:
                raise DataError(
                    f"parts {', '.join(parts)} miss the advantage by {gap.max():.3g} at unit {int(gap.argmax())}; "
                    "parts must add up to it"
                )
        object.__setattr__(self, "advantage_S", _frozen(advantage))
        object.__setattr__(self, "known_S", _frozen(known))
        object.__setattr__(self, "train_S", _frozen(train))
        object.__setattr__(self, "parts", parts)

    @property
    def weight_S(self) -> BoolArray:
        """Units that the loss counts: known and to be trained on."""
        assert self.known_S is not None  # filled in by __post_init__
        assert self.train_S is not None
        return self.known_S & self.train_S

    def to_tokens(self, spread: str = "copy") -> TokenAdvantages:
        """Write the credit onto the sampled tokens; the only writer there is.

        Args:
            spread: "copy" gives every token of a unit its credit (what policy gradients need), "divide" shares it
                equally, "last" puts it on the unit's last token (rewards for a critic).
        """
        return write_tokens(self.units, self.advantage_S, self.weight_S, spread)

    def record(self) -> dict[str, Any]:
        """What `apportion.remake` needs: method, parameters, cut, version and a digest of the rollouts."""
        from apportion import __version__

        return {
            "method": self.method,
            "params": dict(self.params),
            "cut": {"level": self.units.level, **self.units.options},
            "version": __version__,
            "rollouts": self.units.batch.fingerprint(),
        }

    def scaled(self, factor: float) -> Credit:
        """The same credit times a number, parts included."""
        return replace(
            self,
            advantage_S=self.advantage_S * factor,
            parts={name: part * factor for name, part in self.parts.items()},
        )

    def __repr__(self) -> str:
        assert self.known_S is not None
        unknown = len(self.units) - int(np.count_nonzero(self.known_S))
        extra = f", {unknown} unknown" if unknown else ""
        return f"Credit({self.method or 'unnamed'}: {len(self.units)} {self.units.level}s{extra})"


def _frozen(array: Array) -> Array:
    if array.flags.writeable:
        array = array.copy() if array.base is not None else array
        array.flags.writeable = False
    return array
