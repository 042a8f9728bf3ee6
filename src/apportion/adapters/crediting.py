"""What a host adapter is told once, and does for every batch: cut, assign, and the checks that can be done before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apportion.assign import assign, check_expression, parse, required_cut
from apportion.assign.checked import meets
from apportion.assign.cutting import check_cut, options_of, read_cut
from apportion.assign.expression import leaves
from apportion.credit import Credit
from apportion.data import Batch
from apportion.errors import ConfigError
from apportion.methods import get
from apportion.resources import Asker
from apportion.units import CUTS, STATES, Units
from apportion.units.segments import TAKES, Decode

WHOLE_ROLLOUT = ("episode",)
"""Levels whose credit is one number for a whole rollout."""


@dataclass(frozen=True, slots=True)
class Crediting:
    """A method with its cut, checked before any rollout is made.

    Attributes:
        method: name or expression. params: its parameters, as for `apportion.assign`.
        unit: level with options in brackets, ``"segment(by='newline')"``; "" = the method's own.
        states: what counts as one state, see `apportion.units.STATES`.
        ask: who is asked, for methods that ask.
        decode: text of each token, for segments by text, where the host has the policy's tokenizer.
    """

    method: str
    unit: str = ""
    states: str = "exact"
    params: Mapping[str, Any] = field(default_factory=dict)
    ask: Asker | None = None
    decode: Decode | None = None

    def __post_init__(self) -> None:
        check_expression(self.method, self.params)
        level, options = self.cut
        check_cut(level, options)
        self._check_level(level)
        if self.states not in STATES:
            raise ConfigError(f"no state rule named {self.states!r}; there are {', '.join(STATES)}")
        if self.states != "exact" and "state" not in options_of(level):
            raise ConfigError(f"states={self.states!r} needs units with states, and by_{level} has none")
        if self.asks and self.ask is None:
            raise ConfigError(f"{self.method!r} asks somebody for more than the rollouts; give ask=Asker(...)")

    @property
    def cut(self) -> tuple[str, dict[str, Any]]:
        """Level and options."""
        return read_cut(self.unit or required_cut(self.method))

    def _check_level(self, level: str) -> None:
        """As `check_level`, in the words of a host's setting."""
        for spec in meets(parse(self.method)):
            if spec.units and level not in spec.units:
                wanted = " or ".join(spec.units)
                raise ConfigError(f"{spec.name} credits {spec.unit}s, and the unit is {level}; say unit={wanted}")

    @property
    def asks(self) -> bool:
        """Some method of the expression asks."""
        return any(get(leaf.name).plan is not None for leaf in leaves(parse(self.method)))

    @property
    def varies_inside(self) -> bool:
        """Credit may differ between the tokens of one rollout."""
        names = [leaf.name for leaf in leaves(parse(self.method))]
        return self.cut[0] not in WHOLE_ROLLOUT or any(get(name).kind == "transform" for name in names)

    def reads(self, column: str) -> bool:
        """Some method of the expression reads this column, at the parameters that it has."""
        return column in self.all_reads()

    def all_reads(self) -> tuple[str, ...]:
        """The columns that the methods of the expression read, at the parameters that they have."""
        bound = leaves(check_expression(self.method, self.params))
        return tuple(dict.fromkeys(column for leaf in bound for column in get(leaf.name).all_reads(leaf.params)))

    def units(self, batch: Batch) -> Units:
        """The batch, cut."""
        level, options = self.cut
        if self.states != "exact":
            options["state"] = self.states
        if level == "segment" and self.decode is not None and "decode" in TAKES.get(options.get("by", "newline"), ()):
            options.setdefault("decode", self.decode)
        units: Units = CUTS[level](batch, **options)
        return units

    def credit(self, batch: Batch) -> Credit:
        """Credit of a batch that holds whole groups; all of it unknown where nobody scored any rollout."""
        if self.reads("reward_S") and not batch.scored_N.any():  # a judge that is down is no reason to stop a run
            units = self.units(batch)
            notes = {"unknown_trajectories": len(batch)}
            return Credit(np.zeros(len(units)), units, notes=notes, method=self.method, params=self.params)
        return assign(self.method, self.units(batch), ask=self.ask, **self.params)
