"""`Credit`: one number per unit, and everything needed to trust, mix and re-make it.

Two results travel together. ``advantage_S`` says how much; ``known_S`` and ``train_S`` say whether at all:
an *unknown* unit (unscored, failed, never asked) and a *dropped* one (a method trains only on critical units)
leave numerator and denominator of the loss, while a known zero stays in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from apportion.credit.kept import kept
from apportion.credit.tokens import TokenAdvantages, write_tokens
from apportion.errors import DataError
from apportion.numerics import Array, BoolArray, FloatArray, IntArray, seg_count
from apportion.units import Units


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
        train_T: the same token by token, for methods that train only some tokens of a unit; None = all of them.
        parts: named summands, each (S,), that add up to ``advantage_S``.
        notes: counts that a reader should know (groups of one, constant groups, units without company, …).
        cost: what was asked for it.
        method: expression that made it. params: its parameters, defaults included.
        cut: level and options of the units that the expression began with, where these are finer ones (`refine`).
    """

    advantage_S: FloatArray
    units: Units
    known_S: BoolArray | None = None
    train_S: BoolArray | None = None
    train_T: BoolArray | None = None
    parts: Mapping[str, FloatArray] = field(default_factory=dict)
    notes: Mapping[str, int | float | str] = field(default_factory=dict)
    cost: Cost = Cost()
    method: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    cut: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.units)
        known = self.units.valid_S if self.known_S is None else np.array(self.known_S, dtype=bool)
        train = np.ones(n, dtype=bool) if self.train_S is None else np.array(self.train_S, dtype=bool)
        advantage = np.asarray(self.advantage_S, dtype=np.float64)
        for name, array in (("advantage_S", advantage), ("known_S", known), ("train_S", train)):
            if array.shape != (n,):
                raise DataError(f"credit.{name} has shape {array.shape} for {n} units; give one entry per unit")
        advantage, parts = kept(advantage, self.parts, known)
        object.__setattr__(self, "advantage_S", advantage)
        object.__setattr__(self, "known_S", _frozen(known))
        object.__setattr__(self, "train_S", _frozen(train))
        if self.train_T is not None:
            tokens = np.array(self.train_T, dtype=bool)
            if tokens.shape != self.units.unit_of_T.shape:
                raise DataError(
                    f"credit.train_T has shape {tokens.shape} for {len(self.units.unit_of_T)} tokens; one per token"
                )
            tokens &= self.units.unit_of_T >= 0
            object.__setattr__(self, "train_T", _frozen(tokens))
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
        return write_tokens(self.units, self.advantage_S, self.weight_S, self.train_T, spread)

    @property
    def counted_S(self) -> IntArray:
        """Tokens of each unit that the loss counts."""
        tokens_S = self.units.tokens_S
        if self.train_T is not None:
            tokens_S = seg_count(self.units.unit_of_T[self.train_T], n=len(self.units))
        return np.where(self.weight_S, tokens_S, 0)

    def refine(self, units: Units) -> Credit:
        """The same credit on finer units of the same rollouts, for transforms that work on tokens or segments.

        Each unit gets the credit, the parts and the masks of the unit that contains its tokens; one without tokens
        those of the unit that its step is in. `to_tokens` gives the same numbers before and after.

        Raises:
            DataError: other rollouts, a unit that reaches over two of the old ones, or other tokens.
        """
        mine, finer = self.units, units
        if finer.batch is not mine.batch and finer.batch.fingerprint() != mine.batch.fingerprint():
            raise DataError("refine: the units are of other rollouts than the credit; cut credit.units.batch")
        own_T = finer.unit_of_T >= 0
        if not np.array_equal(own_T, mine.unit_of_T >= 0):
            bad = int(np.flatnonzero(own_T != (mine.unit_of_T >= 0))[0])
            raise DataError(f"refine: token {bad} is in a unit of one cut only; refine to a cut of the same tokens")
        # a unit without tokens: the last one that began with its step or before, in its own trajectory
        inside_S = np.maximum(np.searchsorted(mine.step_of_S, finer.step_of_S, side="right") - 1, 0)
        unit, outer = finer.unit_of_T[own_T], mine.unit_of_T[own_T]
        inside_S[unit] = outer
        if (astray := inside_S[unit] != outer).any():
            bad = int(unit[np.argmax(astray)])
            raise DataError(
                f"refine: unit {bad} ({finer.level}) has tokens of two {mine.level}s; refine to a finer cut"
            )
        assert self.known_S is not None
        assert self.train_S is not None
        found_S = mine.traj_of_S[inside_S] == finer.traj_of_S
        return replace(
            self,
            advantage_S=self.advantage_S[inside_S],
            units=finer,
            known_S=self.known_S[inside_S] & found_S,
            train_S=self.train_S[inside_S],
            parts={name: part[inside_S] for name, part in self.parts.items()},
            cut=self.cut or {"level": mine.level, **mine.options},
        )

    def record(self) -> dict[str, Any]:
        """What `apportion.remake` needs: method, parameters, cut, version and a digest of the rollouts."""
        from apportion import __version__

        return {
            "method": self.method,
            "params": dict(self.params),
            "cut": dict(self.cut) or {"level": self.units.level, **self.units.options},
            "version": __version__,
            "rollouts": self.units.batch.fingerprint(),
        }

    def stamped(self, method: str, params: Mapping[str, Any]) -> Credit:
        """The same credit under the expression that made it. Nothing is copied, and nothing is checked again."""
        out: Credit = object.__new__(type(self))
        for each in fields(self):
            object.__setattr__(out, each.name, getattr(self, each.name))
        object.__setattr__(out, "method", method)
        object.__setattr__(out, "params", params)
        return out

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
