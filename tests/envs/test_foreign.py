import random
import sys

import numpy as np
import pytest

from apportion.envs import make
from apportion.envs.conformance import CHECKS
from apportion.envs.foreign.world import ForeignEnv
from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import resolve
from apportion.errors import ConfigError, MissingExtra


class Dice(ForeignEnv):
    """Somebody else's game that draws from the process's random state; ``stuck`` cannot be copied."""

    def __init__(self, *, stuck: bool = False) -> None:
        super().__init__(
            EnvSpec(
                "dice", (("stuck", stuck),), False, False, DETERMINISTIC, 12, False, "1 for a six", (0.0, 12.0), True
            )
        )
        self.stuck = stuck

    def commands(self):
        return ("roll", "roll the other")

    def _open(self, seed):
        self._world = {"seen": [random.randrange(6)]}

    def _play(self, action):
        roll = random.randrange(6) if action == "roll" else int(np.random.randint(6))  # noqa: NPY002
        self._world["seen"].append(roll)
        return float(roll == 5), len(self._world["seen"]) > 10, roll == 5

    def _observe(self):
        return f"rolled {self._world['seen'][-1]}"

    def _copy(self, world):
        if self.stuck:
            raise TypeError("cannot be copied")
        return super()._copy(world)


@pytest.mark.parametrize("stuck", [False, True])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_draws_from_the_process_is_walled_in(check, stuck):
    check(lambda: Dice(stuck=stuck))


def test_snapshots_fall_back_to_replay():
    env = Dice(stuck=True)
    env.reset(seed=1)
    env.step("roll")
    here = env.snapshot()
    assert here.state is None
    then = [env.step("roll")[0] for _ in range(3)]
    env.restore(here)
    assert [env.step("roll")[0] for _ in range(3)] == then


def test_the_stream_goes_on_from_step_to_step():
    env = Dice()
    env.reset(seed=1)
    assert len({env.step("roll")[0] for _ in range(9)}) > 2
    env.reset(seed=1)
    assert len({env.step("roll the other")[0] for _ in range(9)}) > 2


@pytest.mark.parametrize(
    ("name", "module", "extra"), [("gym", "gymnasium", "envs"), ("textarena", "textarena", "textarena"),
                                  ("textworld", "textworld", "textworld")],
)  # fmt: skip
def test_the_extra_is_named(name, module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"apportion\[{extra}\]"):
        make(name)


@pytest.fixture
def gymnasium():
    return pytest.importorskip("gymnasium", reason="needs the extra 'envs'")


def register_story(gymnasium):
    """An environment with texts both ways, and one with a dictionary around the text."""

    class Story(gymnasium.Env):
        observation_space = gymnasium.spaces.Text(100)
        action_space = gymnasium.spaces.Text(100)

        def __init__(self, wrapped=False):
            self.wrapped = wrapped

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.word = str(self.np_random.choice(["red", "blue"]))
            return self.see(f"say {self.word}"), {}

        def see(self, text):
            return {"text": text} if self.wrapped else text

        def step(self, action):
            right = action == self.word
            return self.see("yes" if right else "no"), float(right), right, False, {"success": right}

    for name, wrapped in (("Story-v0", False), ("WrappedStory-v0", True)):
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=lambda wrapped=wrapped, **_: Story(wrapped))


def test_texts_both_ways(gymnasium):
    register_story(gymnasium)
    for given in ({"id": "Story-v0"}, {"id": "WrappedStory-v0", "key": "text"}):
        env = make("gym", **given)
        text, _ = env.reset(seed=1)
        assert env.actions() is None
        here = env.snapshot()
        assert env.step("green")[:3] == ("no", 0.0, False)
        env.restore(here)
        text, reward, done, _, info = env.step(text.removeprefix("say "))
        assert (text, reward, done, info["success"]) == ("yes", 1.0, True, True)


def test_named_actions_and_numbered_states(gymnasium):
    env = make("gym", actions="left, down, right, up", kwargs={"is_slippery": False})
    assert env.reset(seed=0)[0] == "state 0"
    assert env.actions() == ("left", "down", "right", "up")
    for action in "down down right right down".split():
        text, *_ = env.step(action)
    assert text == "state 14"
    assert env.step("right")[1:3] == (1.0, True)


def test_what_gymnasium_cannot_make_is_told(gymnasium):
    for given, says in (
        ({"id": "Nowhere-v9"}, "'Nowhere-v9' cannot be made"),
        ({"actions": "a, b"}, r"has actions of Discrete\(4\), and actions names 2"),
        ({"id": "Blackjack-v1", "actions": "x,x"}, "actions names 2: x, x"),
    ):
        with pytest.raises(ConfigError, match=f"gym: .*{says}"):
            make("gym", **given)


GAMES = ["GuessTheNumber-v0", "TowerOfHanoi-v0", "Mastermind-v0", "FrozenLake-v0"]


@pytest.mark.parametrize("game", GAMES)
def test_textarena(game):
    pytest.importorskip("textarena", reason="needs the extra 'textarena'")
    for check in CHECKS:
        check(resolve("textarena", {"game": game, "max_steps": 12}))


def test_a_textarena_game_is_won():
    pytest.importorskip("textarena", reason="needs the extra 'textarena'")
    for show in ("all", "news"):
        env = make("textarena", show=show)
        first, _ = env.reset(seed=1)
        low, high, done = 1, 20, False
        while not done:
            guess = (low + high) // 2
            text, reward, done, _, info = env.step(f"[{guess}]")
            news = text[len(first) :] if show == "all" else text
            if not done:
                low, high = (guess + 1, high) if "higher" in news.lower() else (low, guess - 1)
                first = text
        assert (reward, info["success"]) == (1.0, True)


@pytest.mark.slow
def test_textworld():
    pytest.importorskip("textworld", reason="needs the extra 'textworld'")
    for mode in ("choice", "text"):
        for check in CHECKS:
            check(resolve("textworld", {"max_steps": 10, "mode": mode}))
    env = make("textworld")
    env.reset(seed=0)
    total = 0.0
    for action in env.expert():
        _, reward, _, _, info = env.step(action)
        total += reward
    assert info["success"]
    assert total == 1.0


def test_textworlds_files(tmp_path):
    pytest.importorskip("textworld", reason="needs the extra 'textworld'")
    with pytest.raises(ConfigError, match="no game; give a file or a folder"):
        make("textworld", games=str(tmp_path))
