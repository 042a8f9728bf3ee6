"""Logs without token ids."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, places
from apportion.check.registry import register
from apportion.data import Batch


@register("text-only", on="batch")
def text_only(batch: Batch) -> Yields:
    """Rollouts of text without token ids: good for reports, not for training."""
    bare = np.flatnonzero(~batch.has_ids_N)
    if not len(bare):
        return
    names = batch.names()
    yield Finding(
        "text-only",
        "info",
        f"{len(bare)} of {count(len(batch), 'rollout')} have text and no token ids: words stand in for tokens, "
        "so the credit can be read but not trained on",
        "log the sampled ids (Step.ids) and the prompt ids; text encoded again need not give the ids that were sampled",
        {"rollouts": len(bare), "of": len(batch), "share": len(bare) / len(batch)},
        places(names[n] for n in bare),
    )
