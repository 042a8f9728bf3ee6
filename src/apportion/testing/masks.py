"""What a transform must not bring back: units that are unknown, tokens that an earlier method dropped."""

from __future__ import annotations

import dataclasses

import numpy as np

from apportion.testing.subject import Method, plain_credit, subject_of
from apportion.units import Units


def check_left_out_stays_out(method: Method, units: Units) -> None:
    """A transform leaves unknown what was unknown, and out of the loss what was dropped before it."""
    spec = subject_of(method).spec
    if spec is None or spec.kind != "transform":
        return
    plain = plain_credit(units)
    known_S = np.asarray(plain.known_S) & (np.arange(len(units)) % 3 != 1)
    given = dataclasses.replace(plain, known_S=known_S, train_T=np.arange(len(units.unit_of_T)) % 5 != 2)
    try:
        credit = spec.call(given, **spec.example)
    except Exception as problem:
        raise AssertionError(f"raised {type(problem).__name__}: {problem}") from problem
    before = given if credit.units is units else given.refine(credit.units)
    again = int(np.count_nonzero(np.asarray(credit.known_S) & ~np.asarray(before.known_S)))
    how = "begin with dataclasses.replace(credit, advantage_S=…, parts={})"
    assert not again, f"{again} units are known after it that were unknown before; {how}"
    counted_T = credit.to_tokens().weight_T > 0
    back = int(np.count_nonzero(counted_T & ~(given.to_tokens().weight_T > 0)))
    assert not back, f"{back} tokens count in the loss after it that were dropped before; {how}"
