"""What a rollout starts from, as a key that equal starts share."""

from __future__ import annotations

import hashlib

import numpy as np

from apportion.data import Trajectory


def start_of(trajectory: Trajectory) -> str | None:
    """A key for the first observation, text where it was logged; None where nothing was."""
    step = trajectory.steps[0]
    if step.observation is not None:
        return "text:" + step.observation
    if step.prompt_ids is not None and len(step.prompt_ids):
        return "ids:" + hashlib.blake2b(np.asarray(step.prompt_ids).tobytes(), digest_size=16).hexdigest()
    return None
