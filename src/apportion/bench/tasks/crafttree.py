"""CraftTree as a task: one terminal reward, decisions that cannot be undone."""

from __future__ import annotations

from apportion.bench.tasks.registry import register_task
from apportion.envs.crafttree import CraftTree

register_task(
    "crafttree",
    about="one terminal reward; a wrong gather cannot be undone; idle steps are harmless",
    strengths=(1.0, 8.0),
    small={"budget": 2, "horizon": 5, "goal": "torch"},
)(CraftTree)
