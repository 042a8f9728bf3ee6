"""KeyDoor as a task: a late reward behind noisy ones that have nothing to do with it."""

from __future__ import annotations

from apportion.bench.tasks.registry import register_task
from apportion.envs.keydoor import KeyDoor

register_task(
    "keydoor",
    about="the decisive step is paid many steps later, behind noisy rewards it has no influence on",
    strengths=(1.0, 3.0),
    small={"n": 1, "horizon": 5, "apples": 1},
)(KeyDoor)
