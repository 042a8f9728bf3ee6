"""Whiten: shift and scale the credit of the whole batch to mean 0 and std 1.

    out[s] = (A[s] - mean A) / std A                            std plus ``epsilon``, or sqrt(variance + epsilon)

Use       after a method, as a step of its own, never hidden inside one; over the *global* batch, never a shard.
Source    common practice; verl `masked_whiten`, TRL `scale_rewards`.
Compared  on recorded numbers, with verl `masked_whiten` (ddof 1 over tokens).
Deviates  1. No epsilon: without spread the result is 0. verl adds 1e-8 to the variance (``epsilon=1e-8,
             inside=True``), StepPO 1e-8 and TRL 1e-4 to the std (``epsilon``).
"""

from dataclasses import replace

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.registry import numbered, register
from apportion.numerics.segments import SPREAD_TOLERANCE


@register("whiten", unit="step", family="transform", source="common practice", kind="transform")
def whiten(
    credit: Credit,
    *,
    over: str = "token",
    shift: bool = True,
    ddof: int = 1,
    epsilon: float = 0.0,
    inside: bool = False,
) -> Credit:
    """Normalise over every unit that the loss counts.

    Args:
        credit: of S units; unknown and dropped units neither count nor change.
        over: "token" weighs a unit by its tokens, as losses do; "unit" weighs all units alike.
        shift: False only scales, so that the sign of a credit survives.
        ddof: 1 divides the variance by the number of tokens (units) minus one.
        epsilon: added to the std, for parity.
        inside: True adds epsilon to the variance instead, under the root.

    Returns:
        Credit without unit; the parts are scaled alike and the shift is a part of its own.
    """
    if over not in ("token", "unit"):
        raise ConfigError(f"whiten: over is {over!r}; give 'token' or 'unit'")
    use = credit.weight_S
    weight = np.where(use, credit.counted_S if over == "token" else 1, 0).astype(np.float64)
    total = weight.sum()
    a = credit.advantage_S
    mean = float(weight @ a / total) if total else 0.0
    variance = float(weight @ (a - mean) ** 2 / (total - ddof)) if total > ddof else 0.0
    std = variance**0.5
    notes = dict(credit.notes)
    if any(name.startswith("normalised") for name in notes):
        notes["normalised_twice"] = 1
    notes["normalised_over"] = over
    if std <= SPREAD_TOLERANCE * float(np.abs(a[use]).max(initial=0.0)):
        zero = np.where(use, 0.0, a)
        parts = {name: np.where(use, 0.0, part) for name, part in credit.parts.items()}
        return replace(credit, advantage_S=zero, parts=parts, notes={**notes, "no_spread": 1})
    std = (variance + epsilon) ** 0.5 if inside else std + epsilon
    moved = mean if shift else 0.0
    out = np.where(use, (a - moved) / std, a)
    parts = {name: np.where(use, part / std, part) for name, part in (credit.parts or {"credit": a}).items()}
    if moved:
        parts[numbered("whiten", parts)] = np.where(use, -moved / std, 0.0)
    return replace(credit, advantage_S=out, parts=parts, notes=notes)
