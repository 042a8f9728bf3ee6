"""The view computed here is the simulator's own, number by number."""

import random

import pytest

gymnasium = pytest.importorskip("gymnasium")
minigrid = pytest.importorskip("minigrid")

from apportion.envs.babyai_view import look  # noqa: E402

LEVELS = (
    "BabyAI-PutNextLocalS5N3-v0",  # open rooms, things to carry
    "BabyAI-GoToObjMaze-v0",  # doors, corners, the edge of the grid
    "BabyAI-UnlockPickup-v0",  # locked doors that open and shut
    "BabyAI-KeyInBox-v0",
)


@pytest.mark.parametrize("level", LEVELS)
def test_the_view_is_the_simulators(level, capsys):
    world = gymnasium.make(level, disable_env_checker=True).unwrapped
    rng = random.Random(0)
    seen = set()
    for seed in range(4):
        world.reset(seed=seed)
        for _ in range(60):
            want = world.gen_obs()["image"].tolist()
            assert [[list(square) for square in column] for column in look(world)] == want
            seen |= {square[0] for column in want for square in column}
            world.step(rng.choices(range(6), [2, 2, 6, 2, 1, 2])[0])
    assert {0, 1, 2} < seen  # something hidden, something empty, walls, and things


def test_what_is_carried_is_in_the_view():
    world = gymnasium.make("BabyAI-PickupLoc-v0", disable_env_checker=True).unwrapped
    world.reset(seed=0)
    for cell in world.grid.grid:
        if cell is not None and cell.can_pickup():
            world.carrying = cell
    assert world.carrying is not None
    assert [[list(s) for s in c] for c in look(world)] == world.gen_obs()["image"].tolist()
