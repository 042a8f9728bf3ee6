"""Clip: cut the credit off at a limit.

    out[s] = min(max(A[s], -limit), limit)

Use       against rare huge credits (small stds, heavy-tailed rewards).
Source    common practice; ROLL clips agentic advantages at 20 or 0.2.
Compared  not, it is one line.
Deviates  nowhere known.
"""

from dataclasses import replace

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.registry import numbered, register


@register(
    "clip",
    unit="step",
    family="transform",
    source="common practice",
    kind="transform",
    example={"limit": 0.5},
    scope="group",
)
def clip(credit: Credit, *, limit: float) -> Credit:
    """Clip every credit to [-limit, limit].

    Args:
        credit: of S units.
        limit: largest magnitude, in the unit of the credit; above 0.

    Returns:
        Credit whose part "clip" is what was cut off, so that the parts still add up.
    """
    if not limit > 0:
        raise ConfigError(f"clip: limit is {limit}; give a number above 0")
    out = np.clip(credit.advantage_S, -limit, limit)
    cut = out - credit.advantage_S
    parts = dict(credit.parts or {"credit": credit.advantage_S})
    parts[numbered("clip", parts)] = cut
    clipped = int(np.count_nonzero(cut))
    notes = {**credit.notes, "clipped_units": clipped} if clipped else credit.notes
    return replace(credit, advantage_S=out, parts=parts, notes=notes)
