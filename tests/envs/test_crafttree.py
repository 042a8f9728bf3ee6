import pytest

from apportion.envs import make
from apportion.envs.crafttree import CraftTree


def test_a_played_game():
    env = make("crafttree", goal="torch", show_time=True)
    text, _ = env.reset(seed=0)
    assert text == "Goal: craft torch. Gathers left: 4. Inventory: nothing. Steps left: 9."
    assert env.actions() == ("get log", "get coal", "get ore", "wait")
    for action in ("get log", "craft plank", "craft stick", "get coal"):
        text, reward, terminated, _, info = env.step(action)
        assert (reward, terminated, info["invalid"]) == (0.0, False, False)
    assert text == "Goal: craft torch. Gathers left: 2. Inventory: 1 coal, 1 plank, 2 stick. Steps left: 5."
    assert env.actions() == ("get log", "get coal", "get ore", "craft stick", "craft torch", "wait")
    text, reward, terminated, truncated, info = env.step("craft torch")
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
    assert text == "Goal: craft torch. Gathers left: 2. Inventory: 1 plank, 1 stick, 2 torch. Steps left: 4."


def test_an_action_whose_ingredients_are_missing_is_invalid():
    env = make("crafttree")
    before, _ = env.reset(seed=0)
    after, reward, *_, info = env.step("craft chest")
    assert (after, reward, info["invalid"], info["steps_left"]) == (before, 0.0, True, 8)


def test_a_wrong_gather_cannot_be_undone():
    env = make("crafttree", goal="chest", budget=2)
    env.reset(seed=0)
    assert sorted(env.expert()) == ["craft chest", "craft plank", "craft plank", "get log", "get log"]
    env.step("get ore")
    env.restore(env.snapshot())
    *_, info = [env.step(action) for action in env.expert()][-1]
    assert info == {"invalid": False, "steps_left": 0, "success": False}


@pytest.mark.parametrize(("goal", "steps"), [("pickaxe", 6), ("torch", 5), ("chest", 5), ("lamp", 7)])
def test_the_expert_takes_the_shortest_way(goal, steps):
    env = make("crafttree", goal=goal)
    env.reset(seed=0)
    assert len(env.expert()) == steps


def test_the_expert_knows_the_clock():
    env = make("crafttree", goal="torch", horizon=6)
    env.reset(seed=0)
    env.step("wait")
    assert len(env.expert()) == 5  # just in time
    env.step("nonsense")
    assert len(env.expert()) == 4  # too late: nothing left but to sit it out


def test_seeds_cover_the_goals_evenly():
    env, goals = make("crafttree"), []
    for seed in range(400):
        goals.append(env.reset(seed=seed)[0].split(".")[0])
    counts = [goals.count(goal) for goal in sorted(set(goals))]
    assert len(counts) == 4
    assert min(counts) > 70  # 100 +- 4 standard deviations of 8.7


def test_equal_rules_are_equal():
    assert hash(CraftTree(budget=3)) == hash(CraftTree(budget=3))
    assert CraftTree(budget=3) != CraftTree()
