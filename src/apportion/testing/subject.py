"""What is under test: a registered method, a registered transform (over a plain credit), or any callable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from apportion.credit import Credit
from apportion.errors import DataError
from apportion.methods import MethodSpec, get, names
from apportion.numerics import FloatArray
from apportion.testing.pretend import credit_of
from apportion.units import COLUMNS, Units

Method = str | MethodSpec | Callable[..., Credit]
"""A registry name, a spec, or a function from `Units` to `Credit`."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A method as the checks call it. ``spec`` is None for a function that is not registered."""

    name: str
    function: Callable[[Units], Credit]
    spec: MethodSpec | None
    reads: tuple[str, ...]

    @property
    def needs_score(self) -> bool:
        """Nothing can be said about a trajectory that nobody scored."""
        return "reward_S" in self.reads or (self.spec is not None and self.spec.kind == "transform")

    def __call__(self, units: Units) -> Credit:
        """Credit, or an AssertionError that says how the method failed."""
        try:
            credit = self.function(units)
        except AssertionError:
            raise
        except Exception as problem:
            raise AssertionError(f"raised {type(problem).__name__}: {problem}") from problem
        assert isinstance(credit, Credit), f"returned a {type(credit).__name__}; a method returns apportion.Credit"
        return credit


def subject_of(method: Method | Subject) -> Subject:
    """Whatever a check was given, as a `Subject`."""
    if isinstance(method, Subject):
        return method
    spec = get(method) if isinstance(method, str) else method if isinstance(method, MethodSpec) else _spec_of(method)
    if spec is None:
        assert callable(method)
        return Subject(getattr(method, "__name__", repr(method)), method, None, tuple(COLUMNS))
    if spec.kind == "transform":
        return Subject(spec.name, lambda units: spec.call(plain_credit(units), **spec.example), spec, spec.reads)
    return Subject(spec.name, lambda units: credit_of(spec, units, spec.example), spec, spec.reads)


def plain_credit(units: Units) -> Credit:
    """What transforms are checked on: a credit in two parts, with dropped units, that depends on rewards only."""
    outcome_S = units.outcome_N[units.traj_of_S]
    parts: dict[str, FloatArray] = {"outcome": outcome_S, "reward": units.reward_S}
    train_S = np.asarray(units.reward_S > -1.0)
    return Credit(outcome_S + units.reward_S, units, train_S=train_S, parts=parts, method="plain")


def expect_data_error(subject: Subject, units: Units, why: str, *words: str) -> None:
    """The method must refuse these units with a DataError whose sentence holds the words."""
    try:
        subject.function(units)
    except DataError as problem:
        sentence = str(problem)
    except Exception as problem:
        raise AssertionError(f"{why}: raised {type(problem).__name__}: {problem}; raise a DataError") from problem
    else:
        raise AssertionError(f"{why}: no error; raise a DataError that names {' and '.join(words)}")
    missing = [word for word in words if word not in sentence]
    assert not missing, f"{why}: the DataError {sentence!r} does not name {' and '.join(missing)}"


def _spec_of(function: Callable[..., Credit]) -> MethodSpec | None:
    return next((spec for spec in map(get, names()) if spec.call is function), None)
