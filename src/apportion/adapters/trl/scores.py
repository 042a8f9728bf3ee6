"""Log-probabilities and entropies of the completions, where a method reads them and TRL did not need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from apportion.adapters.crediting import Crediting
from apportion.numerics import FloatArray

FORWARD = (
    "pixel_values",
    "image_grid_thw",
    "num_images",
    "pixel_attention_mask",
    "spatial_shapes",
    "num_tiles",
    "image_sizes",
    "token_type_ids",
    "mm_token_type_ids",
    "image_position_ids",
)
"""What a model with images needs beside the tokens; TRL keeps them under these names."""


def scores_of(trainer: Any, crediting: Crediting, out: Mapping[str, Any]) -> dict[str, FloatArray]:
    """What the method reads and nobody computed yet, each (B, T): one pass of the policy without gradients, or none."""
    told = any(out.get(key) is not None for key in ("sampling_per_token_logps", "old_per_token_logps"))
    wanted = {"logp": crediting.reads("logp_S") and not told, "entropy": crediting.reads("entropy_S")}
    if not any(wanted.values()):
        return {}
    import torch

    args = trainer.args
    size = args.per_device_train_batch_size if trainer.model.training else args.per_device_eval_batch_size
    with torch.no_grad():
        logp, entropy, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model,
            torch.cat([out["prompt_ids"], out["completion_ids"]], dim=1),
            torch.cat([out["prompt_mask"], out["completion_mask"]], dim=1),
            out["completion_ids"].size(1),
            batch_size=size,
            compute_entropy=wanted["entropy"],
            **{name: out[name] for name in FORWARD if out.get(name) is not None},
        )
    found = {"logp": logp, "entropy": entropy}
    return {name: found[name].float().cpu().numpy().astype(np.float64) for name, want in wanted.items() if want}
