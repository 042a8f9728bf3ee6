"""Memory that the caller keeps for results: what must hold of it, checked before anything is written.

Fresh results of tens of megabytes cost as much as the arithmetic, because every page is cleared and mapped first. A
trainer that calls once per step can hand in the same memory each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from apportion.errors import DataError
from apportion.numerics.typing import Array


def check_buffers(name: str, out: Mapping[str, Array], inputs: Mapping[str, Array], like: Array) -> None:
    """Refuse buffers that results like ``like`` cannot be written into, or that overlap an input or each other.

    Args:
        name: of the calling function, for the sentence.
        out, inputs: arrays by the name that the caller knows them by; the inputs C-contiguous.

    Raises:
        DataError: another shape or dtype, a buffer with gaps or read-only, or shared memory.
    """
    for key, x in out.items():
        if not isinstance(x, np.ndarray) or x.shape != like.shape or x.dtype != like.dtype:
            got = f"{x.dtype} {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
            raise DataError(
                f"{name}: {key} is {got}, but the results are {like.dtype} {like.shape}; make both with "
                f"np.empty({like.shape}, np.{like.dtype})"
            )
        if not (x.flags.c_contiguous and x.flags.writeable):
            raise DataError(f"{name}: {key} is read-only or has gaps; give a whole array, not a view of a wider one")
    pairs = [*combinations(out, 2), *((key, other) for key in out for other in inputs)]
    for key, other in pairs:
        if np.may_share_memory(out[key], out[other] if other in out else inputs[other]):
            raise DataError(f"{name}: {key} shares memory with {other}, which would be overwritten; give memory apart")
