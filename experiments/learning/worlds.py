"""The environments: two enumerable games, whose ceiling is known, and texts of which nobody knows the values."""

from __future__ import annotations

from experiments.learning.plan import World

WORLDS = {
    "keydoor": World(
        about="a key paid many steps later, behind apples that pay at random; enumerable",
        settings={"env": "keydoor"},
        clone={"clone_episodes": 12, "clone_epochs": 8, "clone_noise": 0.3},
        tokens=24_000,
        lr=4e-3,
        best=6.5,
        score="return",
        table="keydoor",
    ),
    "crafttree": World(
        about="four goals, one reward at the end, wrong gathers cannot be undone; enumerable",
        settings={"env": "crafttree"},
        clone={"clone_episodes": 24, "clone_epochs": 6, "clone_noise": 0.3},
        tokens=18_000,
        lr=1e-3,
        table="crafttree",
        score="return",
    ),
    "babyai": World(
        about="GoToObjS6: walk up to the object that is named; the view ahead in words, the last step remembered",
        settings={"env": "babyai", "env_options": {"level": "BabyAI-GoToObjS6-v1", "max_steps": 12}, "window": 1},
        clone={"clone_episodes": 60, "clone_epochs": 6},
        tokens=14_000,
        lr=5e-4,
    ),
    "colspec": World(  # settings and rate as in `pooled_environments`, whose grid is in its results
        about="a function is wanted and half told; ask for the rest, then write it; hidden unit tests decide",
        settings={"env": "colspec", "eval_options": {"split": "test"}, "warmup": 5, "tasks": 6},
        clone={"clone_episodes": 40, "clone_epochs": 5},
        tokens=2_000,
        lr=4e-3,
        held_out=64,
    ),
}
