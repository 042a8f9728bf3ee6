"""What follows the last unit, and values elsewhere than at a unit's beginning: shared by the methods with a critic."""

from __future__ import annotations

import numpy as np

from apportion.errors import DataError
from apportion.numerics import FloatArray, gae
from apportion.units import Units


def final_values(units: Units) -> tuple[FloatArray, dict[str, int]]:
    """Value after each present trajectory's last unit, in their order, and how many should have one and do not.

    A truncated trajectory bootstraps with its final value; one without is treated as terminal, and counted.
    """
    boot_N = units.truncated_N & np.isfinite(units.final_value_N)
    value_N = np.where(boot_N, np.where(boot_N, units.final_value_N, 0.0), 0.0)
    blind = int(np.count_nonzero(units.truncated_N & ~boot_N & units.valid_N))
    return value_N[np.unique(units.traj_of_S)], {"truncated_without_value": blind} if blind else {}


def advantages(units: Units, value_S: FloatArray, *, gamma: float, lam: float) -> tuple[FloatArray, dict[str, int]]:
    """Generalised advantages of units that act in states of these values, and the notes of `final_values`."""
    last, notes = final_values(units)
    return gae(units.reward_S, value_S, units.traj_of_S, gamma=gamma, lam=lam, last_value=last), notes


def last_token_values(units: Units, who: str) -> FloatArray:
    """Value before each unit's last sampled token; that of the unit where it has no token.

    Raises:
        DataError: the rollouts have no values of tokens.
    """
    assert units.value_S is not None
    value_T = units.batch.token_value_T
    if value_T is None:
        raise DataError(f"{who} reads the value before each unit's last token, which is absent; give Step.token_values")
    out = units.value_S.copy()
    own_T = units.unit_of_T >= 0
    out[units.unit_of_T[own_T]] = value_T[own_T]  # later tokens overwrite earlier ones
    return out
