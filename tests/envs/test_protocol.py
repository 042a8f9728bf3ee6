"""Order of calls, options, snapshots and the registry: the sentences and the arithmetic."""

import builtins
import pickle

import pytest

from apportion.envs import DETERMINISTIC, TextEnv, make, names, register
from apportion.errors import ConfigError, EnvError, MissingExtra, UnknownName


@pytest.mark.parametrize("name", ["crafttree", "keydoor"])
def test_is_a_text_environment(name):
    assert isinstance(make(name), TextEnv)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownName, match=r"^no environment named 'craftree'; did you mean 'crafttree'\?$"):
        make("craftree")
    with pytest.raises(KeyError, match=r"there are .*babyai, .*crafttree, .*keydoor"):
        make("???")


def test_an_unknown_option_lists_the_known_ones():
    with pytest.raises(
        ConfigError, match=r"^crafttree: unknown option 'buget'; it takes budget, goal, horizon, show_time$"
    ):
        make("crafttree", buget=4)


def test_a_taken_name_is_refused():
    with pytest.raises(ConfigError, match=r"'keydoor' is already taken by apportion\.envs\.keydoor.*'yourpackage"):
        register("keydoor")(lambda: make("crafttree"))


def test_a_plug_in_is_found_by_its_entry_point(monkeypatch):
    class Point:
        name = "mine/tree"

        def load(self):
            return lambda *, budget=2: make("crafttree", budget=budget)

    monkeypatch.setattr("apportion.envs.registry.entry_points", lambda group: [Point()])
    assert dict(make("mine/tree", budget=3).spec.options)["budget"] == 3
    assert "mine/tree" in names()
    monkeypatch.delitem(__import__("apportion.envs.registry").envs.registry._FACTORIES, "mine/tree")


def test_babyai_without_minigrid_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] in ("minigrid", "gymnasium"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"^BabyAI needs the package 'minigrid'.*'apportion\[envs\]'"):
        make("babyai")


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("crafttree", {"goal": "plank"}, "goal is 'plank'; it takes any, pickaxe, torch, chest, lamp"),
        ("crafttree", {"horizon": 0}, "horizon 0 and budget 4 must be 1 or more"),
        ("keydoor", {"n": 0}, "horizon 14, n 0, apples 3 must be at least 1, 1, 0"),
        ("keydoor", {"noise": ()}, "noise is empty"),
    ],
)
def test_options_that_make_no_game_are_refused(name, given, says):
    with pytest.raises(ConfigError, match=says):
        make(name, **given)


def test_steps_out_of_order_are_refused_with_a_sentence():
    env = make("crafttree", horizon=1)
    with pytest.raises(EnvError, match=r"^crafttree\.step: the environment has no episode yet; call reset first$"):
        env.step("wait")
    env.reset(seed=0)
    env.step("wait")
    with pytest.raises(EnvError, match=r"^crafttree\.step: the episode is over after 1 steps; call reset first$"):
        env.step("wait")
    env.reset(seed=0)
    with pytest.raises(EnvError, match="the action is a int; give its text"):
        env.step(3)


@pytest.mark.parametrize("seed", [-1, None, 1.0, True])
def test_a_seed_is_a_count(seed):
    with pytest.raises(ConfigError, match=r"crafttree\.reset: seed is .*; give an integer from 0 on"):
        make("crafttree").reset(seed=seed)


def test_reset_options():
    env = make("keydoor")
    _, info = env.reset(seed=3, options={"noise_seed": 8})
    assert info == {"seed": 3, "noise_seed": 8, "steps_left": 14}
    with pytest.raises(ConfigError, match=r"keydoor\.reset: unknown option 'level'; it takes noise_seed"):
        env.reset(seed=3, options={"level": 1})


def test_an_unknown_key_source_is_refused():
    env = make("keydoor")
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="by is 'hash'; it takes 'observation' or 'state'"):
        env.state_key(by="hash")


def test_a_snapshot_of_other_options_is_refused():
    env = make("crafttree", budget=3)
    env.reset(seed=0)
    with pytest.raises(EnvError, match=r"the snapshot is of crafttree with options .*'budget': 3.*; make the env"):
        make("crafttree").restore(env.snapshot())


def test_a_portable_snapshot_is_plain_data():
    env = make("keydoor")
    env.reset(seed=0)
    env.step("forward")
    snapshot = env.snapshot()
    portable = pickle.loads(pickle.dumps(snapshot.portable()))  # noqa: S301  (made two lines above)
    assert portable.state is None
    assert portable == snapshot
    assert make("keydoor").restore(portable) == env.restore(snapshot)


def test_a_snapshot_of_the_end_is_the_end():
    env = make("crafttree", horizon=1)
    env.reset(seed=0)
    env.step("wait")
    for snapshot in (env.snapshot(), env.snapshot().portable()):
        other = make("crafttree", horizon=1)
        other.restore(snapshot)
        with pytest.raises(EnvError, match="the episode is over"):
            other.step("wait")


def test_fresh_noise_survives_a_replay():
    env = make("keydoor", n=1, noise=tuple(float(i) for i in range(50)), apples=10)
    env.reset(seed=0)
    env.step("leave room")
    start, rewards = env.snapshot(), set()
    for noise_seed in range(20):
        env.restore(start, noise_seed=noise_seed)
        first = env.step("eat apple")[1]
        here = env.snapshot()
        second = env.step("eat apple")[1]
        for again in (here, here.portable()):
            env.restore(again)
            assert env.step("eat apple")[1] == second
        rewards.add((first, second))
    assert len(rewards) > 15


def test_groups_share_the_task_and_not_the_noise():
    env, seen = make("keydoor", n=1), set()
    for noise_seed in range(32):
        env.reset(seed=0, options={"noise_seed": noise_seed})
        env.step("leave room")
        seen.add(tuple(env.step("eat apple")[1] for _ in range(3)))
    assert len(seen) == 8  # all outcomes of three fair coins


def test_what_is_markov_is_declared():
    assert not make("crafttree").spec.markov
    assert make("crafttree").spec.full_state
    assert make("crafttree", show_time=True).spec.markov
    assert make("keydoor").spec.noise == "eating an apple pays 0 or 1, each equally likely"
    assert make("keydoor", noise=(2.0,)).spec.noise == DETERMINISTIC
    assert make("keydoor", apples=0).spec.noise == DETERMINISTIC


def test_an_environment_that_saves_and_cannot_load_says_so(monkeypatch):
    from apportion.envs.base import BaseEnv

    env = make("crafttree")
    env.reset(seed=0)
    moment = env.snapshot()
    monkeypatch.setattr(type(env), "_load", BaseEnv._load)
    with pytest.raises(EnvError, match=r"^crafttree: _save keeps a state that nothing loads; write _load beside it$"):
        env.restore(moment)
