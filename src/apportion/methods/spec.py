"""What a registered method declares: what it is called and takes, reads and asks, and which laws it obeys."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from apportion.asks import Ask
from apportion.credit import Credit
from apportion.errors import ApportionError, ConfigError, DataError
from apportion.methods.values import RANGES, annotations_of, check_value, plain
from apportion.units import CUTS, Units

LEVELS = tuple(CUTS)
LAWS = (
    "scale_equivariant",
    "shift_invariant",
    "local_to_group",
    "local_to_trajectory",
    "relabel_invariant",
    "zero_mean_per_group",
    "sums_to_outcome",
)


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """One registered method or transform.

    Attributes:
        name: registry name.
        call: the function, checked and stamped: ``(units, **params) → Credit`` or ``(credit, **params) → Credit``.
        kind: "method" or "transform".
        units: levels it accepts; empty = any.
        unit: the level it is made for, the default of the command line.
        family: row of the table in the docs.
        reads: columns of `Units` it reads. needs: resources it asks.
        reads_with: parameter → columns that it reads besides, where that parameter is not at its default.
        source: paper or report. holds: laws of `LAWS` that it obeys at its defaults, each one a contract test.
        chain: it runs along time and therefore refuses trajectories that fork.
        plan: for a method that asks, what it asks: ``(units, **params) → asks``, or ``(units, answers, **params) →
            further asks`` where what to ask depends on what came back. The method itself is then the fold,
            ``(units, answers, **params) → Credit``. None for methods that ask nothing.
        most: for a plan that takes the answers so far and is called until it asks nothing more, the most it could ask:
            ``(units, **params) → asks``; the budget is checked against it before the first call.
        defaults: its parameters; the signature is the only place they exist.
        module: where it is defined.
        example: parameters for the contract tests, where a required parameter has no default.
        scope: "group" where a group gets the same numbers without the other groups, else "batch".
        wide: values of parameters with which a method of scope "group" looks at the whole batch.
        carry: for a method that remembers earlier batches, ``(units, memory, **params) → (credit, news)``; see
            `apportion.assign.assign_carrying`. The method itself is the same without memory.
    """

    name: str
    call: Callable[..., Credit]
    kind: Literal["method", "transform"]
    unit: str
    units: tuple[str, ...]
    family: str
    reads: tuple[str, ...]
    needs: tuple[str, ...]
    source: str
    holds: tuple[str, ...]
    chain: bool
    defaults: Mapping[str, Any]
    module: str
    doc: str
    module_doc: str
    example: Mapping[str, Any] = field(default_factory=dict)
    plan: Callable[..., Sequence[Ask]] | None = None
    most: Callable[..., Sequence[Ask]] | None = None
    scope: Literal["group", "batch"] = "batch"
    wide: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    carry: Callable[..., tuple[Credit, Any]] | None = None
    reads_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def all_reads(self, params: Mapping[str, Any]) -> tuple[str, ...]:
        """The columns that it reads at these parameters."""
        set_ = (key for key in self.reads_with if key in params and params[key] != self.defaults[key])
        return (*self.reads, *(column for key in set_ for column in self.reads_with[key]))

    def beyond_group(self, params: Mapping[str, Any]) -> str:
        """What makes the numbers of a group depend on the other groups, ``"grpo(scale='batch')"``; "" if nothing."""
        if self.scope == "batch":
            return self.name
        values = ((key, {**self.defaults, **params}[key]) for key in self.wide)
        return next((f"{self.name}({key}={value!r})" for key, value in values if value in self.wide[key]), "")

    def bind(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters with defaults filled in; an unknown or missing one, or a value of another kind than the
        signature's, is a ConfigError.
        """
        for key in params:
            if key not in self.defaults:
                takes = ", ".join(self.defaults) or "no parameters"
                near = difflib.get_close_matches(key, self.defaults, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ConfigError(f"{self.name}: unknown parameter {key!r}; it takes {takes}{hint}")
        bound = {**self.defaults, **{key: plain(value) for key, value in params.items()}}
        for key, value in bound.items():
            if value is REQUIRED:
                raise ConfigError(f"{self.name} needs the parameter {key!r}; see `apportion describe {self.name}`")
            if key in params:
                ranges = RANGES if "/" not in self.name else {}  # names in other packages mean what they say there
                check_value(self.name, key, value, self.kinds.get(key), ranges=ranges)
        return bound

    @property
    def kinds(self) -> Mapping[str, Any]:
        """Annotation of each parameter that has one; worked out when a value is to be checked."""
        return annotations_of(inspect.unwrap(self.call))

    def check(self, data: Any) -> None:
        """Raise one sentence where these units (this credit, for a transform) are not what it takes."""
        _check_input(self, data)

    def check_units(self, units: Units) -> None:
        """The same of units, also for a transform of their credit."""
        _check_units(self, units)

    def check_level(self, level: str, error: type[ApportionError] = DataError) -> None:
        """Raise one sentence where it does not credit units of this level."""
        if self.units and level not in self.units:
            wanted = " or ".join(f"by_{one}" for one in self.units)
            raise error(f"{self.name} credits {self.unit}s, the units are {level}s; cut the batch with {wanted}")

    @property
    def adaptive(self) -> bool:
        """What it asks depends on what came back."""
        return self.most is not None

    @property
    def summary(self) -> str:
        """First sentence of the module docstring, without the name."""
        first = self.module_doc.strip().splitlines()[0] if self.module_doc.strip() else ""
        return first.split(":", 1)[-1].strip()


def _check_input(spec: MethodSpec, data: Any) -> None:
    want = Credit if spec.kind == "transform" else Units
    if not isinstance(data, want):
        raise DataError(
            f"{spec.name} is a {spec.kind} and takes apportion.{want.__name__}, got {type(data).__name__}"
            + ("; write it after a bar: 'grpo | " + spec.name + "'" if spec.kind == "transform" else "")
        )
    _check_units(spec, data.units if isinstance(data, Credit) else data)


def _check_units(spec: MethodSpec, units: Units) -> None:
    spec.check_level(units.level)
    units.require(spec.name, *spec.reads)
    if spec.chain and (back := units.first_interrupted()) >= 0:
        raise DataError(
            f"{spec.name} runs along time, and unit {back} (trajectory {int(units.traj_of_S[back])}) goes on after "
            f"another has begun; cut finer, e.g. with by_step"
        )
    if spec.chain and (fork := units.first_fork()) >= 0:
        raise DataError(
            f"{spec.name} runs along time, and unit {fork} (trajectory {int(units.traj_of_S[fork])}) forks; "
            "split the branches into trajectories or use a tree method"
        )
