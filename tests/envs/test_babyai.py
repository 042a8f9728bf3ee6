import sys
from types import SimpleNamespace

import pytest

from apportion.envs import make
from apportion.envs.babyai import _progress, _thing
from apportion.envs.episodes import walk
from apportion.errors import ConfigError, UnknownName

pytest.importorskip("minigrid", reason="BabyAI needs the extra 'envs'")


def test_the_wording():
    env = make("babyai", level="BabyAI-GoToLocal-v0")
    text, _ = env.reset(seed=3)
    goal, _, view = text.partition(" . see ")
    assert goal.startswith("goal go to the ")
    for thing in view.split(" ; "):
        words = thing.split()
        assert words[0] in ("red", "green", "blue", "purple", "yellow", "grey", "wall")
        assert words[-1] in ("forward", "left", "right")


def test_a_bot_episode_of_the_default_level():
    env = make("babyai")
    text, _ = env.reset(seed=3)
    assert text == (
        "goal put the red ball next to the yellow ball . see blue box 1 left 1 forward ; "
        "wall 2 forward ; wall 2 left ; wall 2 right"
    )
    plan = env.expert()
    assert plan == ["turn right", "go forward", "turn right", "pick up", "go forward", "turn right", "drop"]
    texts, rewards, ends, cuts, infos = zip(*[env.step(action) for action in plan], strict=True)
    assert texts[3].startswith("goal put the red ball next to the yellow ball . see you carry a red ball ; yellow")
    assert rewards == (0.0,) * 6 + (1.0,)
    assert (ends[-1], cuts[-1], infos[-1]["success"]) == (True, False, True)


def test_the_bot_wins_within_the_default_limit():
    env, lengths = make("babyai"), []
    for seed in range(60):
        env.reset(seed=seed)
        plan = env.expert()
        lengths.append(len(plan))
        assert [env.step(action) for action in plan][-1][4]["success"]
    assert max(lengths) <= 20 < env.spec.max_steps


@pytest.mark.parametrize("carrying", [False, True])
def test_the_bot_helps_from_the_middle(carrying):
    env, won = make("babyai", max_steps=64), 0
    for seed in range(20):
        env.reset(seed=seed)
        plan = env.expert()
        cut = plan.index("pick up") + carrying
        for action in plan[:cut]:
            env.step(action)
        rest = env.expert()
        won += rest is not None and [env.step(action) for action in rest][-1][4]["success"]
    assert won >= 19


def test_a_toggled_box_is_gone():
    env = make("babyai")
    for seed in range(50):
        env.reset(seed=seed)
        plan = env.expert()
        for action in plan[: plan.index("pick up")]:
            text, *_ = env.step(action)
        if " box 1 forward" in text:
            break
    boxes = text.count(" box ")
    key = env.state_key(by="state")
    after, *_ = env.step("toggle")
    assert after.count(" box ") == boxes - 1
    assert env.state_key(by="state") != key


def test_the_graded_reward_falls_with_every_step_also_an_invalid_one():
    env = make("babyai", reward="minigrid", max_steps=40)
    env.reset(seed=3)
    plan = env.expert()
    env.step("dance")
    _, reward, *_ = [env.step(action) for action in plan][-1]
    assert reward == pytest.approx(1 - 0.9 * (len(plan) + 1) / 40)


def test_equal_texts_can_hide_different_states():
    env, states = make("babyai"), {}
    for _ in range(4):
        for moment in walk(env, 0):
            states.setdefault(moment.text, set()).add(moment.key)
    assert max(len(keys) for keys in states.values()) == 1  # one episode, repeated
    for seed in range(20):
        for moment in walk(env, seed):
            states.setdefault(moment.text, set()).add(moment.key)
    assert max(len(keys) for keys in states.values()) > 1
    assert not env.spec.full_state


def test_progress_of_a_sequence_is_in_the_state_key():
    env = make("babyai", level="BabyAI-GoToSeqS5R2-v0", max_steps=200)
    for seed in range(40):
        text, _ = env.reset(seed=seed)
        if ", then go to" in text:
            break
    before = env.state_key(by="state")
    assert "False False" in before
    plan = env.expert()
    progress = set()
    for action in plan[:-1]:
        env.step(action)
        progress.add("success" in env.state_key(by="state"))
    assert progress == {False, True} or progress == {True}


def test_the_state_key_tells_which_of_two_equal_objects_is_held():
    one, other = (SimpleNamespace(type="ball", color="red", contains=None, cur_pos=(1, 1)) for _ in range(2))
    followed = SimpleNamespace(obj_set=[one], obj_poss=[(1, 1)])
    instruction = SimpleNamespace(preCarrying=None, desc=followed)
    assert _thing(one) == _thing(other)
    assert _progress(instruction, one) != _progress(instruction, other)


def test_playing_prints_nothing(capsys):
    env = make("babyai", level="BabyAI-PutNextLocalS6N4-v0")
    for seed in range(30):  # several of these levels are rejected at first, which minigrid announces
        env.reset(seed=seed)
    assert capsys.readouterr() == ("", "")


def test_wrong_options():
    with pytest.raises(UnknownName, match=r"no level named 'BabyAI-GoToLocl-v0'; did you mean 'BabyAI-GoToLocal-v0'"):
        make("babyai", level="BabyAI-GoToLocl-v0")
    with pytest.raises(UnknownName, match="its names start with 'BabyAI-'"):
        make("babyai", level="?")
    with pytest.raises(ConfigError, match="reward is 'dense'; it takes success or minigrid"):
        make("babyai", reward="dense")
    with pytest.raises(ConfigError, match="max_steps is 0; an episode needs at least one step"):
        make("babyai", max_steps=0)


def test_snapshots_do_not_copy_what_no_step_changes():
    env = make("babyai")
    env.reset(seed=0)
    world, _ = env.snapshot().state
    assert world is not env._world
    assert world.observation_space is env._world.observation_space
    assert world.grid is not env._world.grid
    assert sys.getrefcount(world) < 5


def test_every_level_has_its_steps():
    import gymnasium

    from apportion.envs.babyai_levels import OTHERWISE, STEPS

    levels = {name for name in gymnasium.registry if name.startswith("BabyAI-")}
    assert set(STEPS) <= levels
    assert len(levels - set(STEPS)) <= 5
    assert make("babyai").spec.max_steps == 32
    assert make("babyai", level="BabyAI-KeyInBox-v0").spec.max_steps == OTHERWISE == max(STEPS.values())


@pytest.mark.slow
@pytest.mark.parametrize("split", range(4))
def test_the_bot_wins_every_listed_level_within_its_steps(split):
    from apportion.envs.babyai_levels import STEPS

    for level in sorted(STEPS)[split::4]:
        env = make("babyai", level=level)
        for seed in (0, 1):
            env.reset(seed=seed)
            *_, info = [env.step(action) for action in env.expert()][-1]
            assert info["success"], (level, seed)


def test_the_bot_gives_up_instead_of_going_round_in_circles():
    env = make("babyai", level="BabyAI-GoToImpUnlock-v0")
    env.reset(seed=6)
    assert env.expert() is None
