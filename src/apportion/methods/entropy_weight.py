"""Entropy weight: louder updates where the agent was sure, and a bonus for a step after which it is (EMPG).

    A'[s] = A[s] g[s] + zeta f[s+1]        g = exp(-k H') / mean exp(-k H')        f = exp(-k_future H')
    out   = A' - mean A'                   H' = (H - min H) / (max H - min H) over the batch

Use       for long agent episodes, where gradients are small exactly where the policy is confident. The opposite of
          `entropy_mask`: never combine the two.
Source    arXiv:2509.09265 (EMPG), from the pseudo-code on the authors' project page.
Compared  not: the authors' code was not read; on numbers that follow their pseudo-code.
Deviates  1. Whether the last step gets a bonus and whether the result is centred was read in part only: there is none
             after the last step, and ``centre=False`` leaves the last operation out.
          2. Without spread of the entropies all H' are 0; the pseudo-code adds 1e-8 to the range (``epsilon``).
"""

from dataclasses import replace

import numpy as np

from apportion.credit import Credit
from apportion.methods.registry import numbered, register
from apportion.numerics import BoolArray, FloatArray, IntArray
from apportion.numerics.segments import SPREAD_TOLERANCE
from apportion.units import Units


@register(
    "entropy_weight",
    unit="step",
    family="transform",
    reads=("entropy_S",),
    source="arXiv:2509.09265",
    kind="transform",
)
def entropy_weight(
    credit: Credit,
    *,
    k: float = 1.0,
    k_future: float = 1.0,
    zeta: float = 0.1,
    centre: bool = True,
    epsilon: float = 0.0,
) -> Credit:
    """Weigh every unit by its certainty, and reward it for the certainty of the next.

    Args:
        credit: of S units, steps as a rule. Reads entropy_S, the mean entropy per token, nats.
        k: how fast the weight falls with entropy; 0 leaves all weights 1.
        k_future: the same for the bonus.
        zeta: size of the bonus, in the unit of the credit; 0 leaves it out.
        centre: subtract the mean over the counted units.
        epsilon: added to the range of the entropies.

    Returns:
        Credit whose parts are weighted alike; "future" is the bonus and "centre" the shift. Units that the loss does
        not count neither vote nor change.
    """
    units, use = credit.units, credit.counted_S > 0
    assert units.entropy_S is not None
    level_S = _level(units.entropy_S, use, epsilon)
    weight_S = np.exp(-k * level_S)
    weight_S = np.where(use, weight_S / weight_S[use].mean() if use.any() else 1.0, 1.0)
    after_S = _next(units)
    told = use & (after_S >= 0) & use[after_S]
    future_S = np.where(told, zeta * np.exp(-k_future * level_S[after_S]), 0.0)
    parts = {name: part * weight_S for name, part in (credit.parts or {"credit": credit.advantage_S}).items()}
    parts[numbered("future", parts)] = future_S
    out = credit.advantage_S * weight_S + future_S
    if centre and use.any():
        shift = np.where(use, -out[use].mean(), 0.0)
        parts[numbered("centre", parts)] = shift
        out = out + shift
    return replace(credit, advantage_S=out, parts=parts)


def _level(entropy_S: FloatArray, use: BoolArray, epsilon: float) -> FloatArray:
    """Entropies between 0 and 1 over the counted units."""
    if not use.any():
        return np.zeros(len(entropy_S))
    low, high = float(entropy_S[use].min()), float(entropy_S[use].max())
    if high - low <= SPREAD_TOLERANCE * max(abs(low), abs(high)):
        return np.zeros(len(entropy_S))
    return np.where(use, (entropy_S - low) / (high - low + epsilon), 0.0)


def _next(units: Units) -> IntArray:
    """The (first) unit that continues each one, -1 after the last."""
    after = np.full(len(units), -1, dtype=np.int64)
    child = np.flatnonzero(units.parent_S >= 0)[::-1]
    after[units.parent_S[child]] = child
    return after
