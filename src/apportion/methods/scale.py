"""Scale: multiply the credit by a number, or divide it by its own size.

    out[s] = by * A[s]                      by a number
    out[s] = A[s] / rms A                   by="rms" (or "std", "max")

Use       to bring methods of different units to one step size before they are compared or added.
Source    common practice.
Compared  not, it is one line.
Deviates  nowhere known.
"""

from dataclasses import replace

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.registry import register

SIZES = {
    "rms": lambda a: float(np.sqrt(np.mean(a**2))),
    "std": lambda a: float(np.std(a, ddof=1)) if len(a) > 1 else 0.0,
    "max": lambda a: float(np.abs(a).max()),
}


@register(
    "scale",
    unit="step",
    family="transform",
    source="common practice",
    kind="transform",
    example={"by": "rms"},
    scope="group",
    wide={"by": tuple(SIZES)},
)
def scale(credit: Credit, *, by: float | str) -> Credit:
    """Scale every credit by one number.

    Args:
        credit: of S units.
        by: a factor; or "rms", "std" (sample), "max" (magnitude) to divide by that size, taken over the units that
            the loss counts. A credit that is 0 everywhere stays 0.

    Returns:
        Credit with its parts scaled alike.
    """
    if isinstance(by, str):
        if by not in SIZES:
            raise ConfigError(f"scale: by is {by!r}; give a number or one of {', '.join(map(repr, SIZES))}")
        used = credit.advantage_S[credit.weight_S]
        size = SIZES[by](used) if len(used) else 0.0
        notes = {**credit.notes, "normalised_by": by}
        return replace(credit.scaled(1.0 / size if size > 0 else 1.0), notes=notes)
    if not np.isfinite(by):
        raise ConfigError(f"scale: by is {by}; give a finite number")
    return credit.scaled(float(by))
