"""Settings: typed, checked, suggested, read and written."""

import pytest

import apportion as ap
from apportion.errors import ConfigError, FormatError, UnknownName
from apportion.train import TrainConfig


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rolouts": 4}, "config: unknown key 'rolouts'; did you mean 'rollouts'?"),
        ({"xyzzy": 4}, "config: unknown key 'xyzzy'; there are env, env_options, "),
        ({"tasks": "8"}, "tasks is '8'; it takes an integer"),
        ({"tasks": True}, "tasks is True; it takes an integer"),
        ({"tasks": 8.0}, "tasks is 8.0; it takes an integer"),
        ({"tasks": 0}, "tasks is 0; it must be at least 1"),
        ({"lr": 0}, "lr is 0.0; it must be above 0"),
        ({"lr": float("nan")}, "lr is nan; it must be above 0"),
        ({"tensorboard": 1}, "tensorboard is 1; it takes true or false"),
        ({"model": 3}, "model is 3; it takes text or nothing"),
        ({"env_options": []}, "env_options is []; it takes a table"),
        ({"prompt": "chat"}, "prompt is 'chat'; give one of 'window', 'history'"),
        ({"clone_noise": 1.5}, "clone_noise is 1.5; it is a probability"),
        ({"heads": 3}, "hidden is 64 and heads 3; hidden must be a multiple of heads"),
        ({"aggregation": "mean"}, "aggregation is 'mean'; give one of token-mean, "),
        ({"aggregation": "seq-mean-token-sum-norm"}, "needs aggregation_length, a constant number of tokens"),
        ({"start": "a", "model": "b"}, "give start (a policy of another run) or model, not both"),
        ({"method": "gigpo("}, "cannot read 'gigpo('"),
        ({"loss_params": {"eps": 1}}, "ppo: unknown option 'eps'; it takes eps_low, eps_high, dual_clip"),
    ],
)
def test_a_wrong_setting_gets_a_sentence(given, sentence):
    with pytest.raises(ConfigError) as error:
        TrainConfig.from_mapping(given)
    assert sentence in str(error.value)


def test_an_unknown_loss_is_named():
    with pytest.raises(UnknownName, match="no loss named 'pp'; did you mean 'ppo'"):
        TrainConfig(loss="pp")


def test_an_integer_serves_as_a_number():
    assert TrainConfig(kl_coef=1).kl_coef == 1.0
    assert isinstance(TrainConfig(kl_coef=1).kl_coef, float)


def test_the_cut_is_the_one_the_method_is_made_for():
    assert TrainConfig(method="gigpo").cut == "step"
    assert TrainConfig(method="grpo").cut == "episode"
    assert TrainConfig(method="grpo", unit="step").cut == "step"


FILES = {
    "run.toml": 'env = "crafttree"\nlr = 1e-4\n[env_options]\nbudget = 3\n',
    "run.yaml": "env: crafttree\nlr: 1.0e-4\nenv_options:\n  budget: 3\n",
    "run.json": '{"env": "crafttree", "lr": 1e-4, "env_options": {"budget": 3}}',
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_read(tmp_path, name):
    (tmp_path / name).write_text(FILES[name])
    read = TrainConfig.from_file(tmp_path / name)
    assert read == TrainConfig(env="crafttree", lr=1e-4, env_options={"budget": 3})


@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_is_named(tmp_path, name):
    (tmp_path / name).write_text("{[: ")
    with pytest.raises(FormatError, match=f"{name}: cannot be read"):
        TrainConfig.from_file(tmp_path / name)


def test_a_file_of_something_else_is_named(tmp_path):
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(FormatError, match=r"a\.json: holds a list; give a table of settings"):
        TrainConfig.from_file(tmp_path / "a.json")
    with pytest.raises(ConfigError, match=r"b\.toml: no such file"):
        TrainConfig.from_file(tmp_path / "b.toml")
    (tmp_path / "c.toml").write_text("rollout = 3")
    with pytest.raises(ConfigError, match=r"c\.toml: unknown key 'rollout'; did you mean 'rollouts'"):
        TrainConfig.from_file(tmp_path / "c.toml")


def test_yaml_cannot_make_objects(tmp_path):
    (tmp_path / "a.yaml").write_text("env: !!python/object/apply:os.getcwd []")
    with pytest.raises(FormatError, match="cannot be read"):
        TrainConfig.from_file(tmp_path / "a.yaml")


def test_the_echo_is_read_back(tmp_path):
    config = TrainConfig(env="crafttree", env_options={"budget": 3}, unit="turn", method="grpo | whiten")
    (tmp_path / "config.json").write_text(config.to_json())
    assert TrainConfig.from_file(tmp_path / "config.json") == config


def test_flags_override():
    config = TrainConfig(env_options={"level": "a"}).with_overrides(
        ["lr=1e-5", "env=crafttree", "env_options.budget=3", "env_options.goal=lamp", "tensorboard=false", "tasks = 2"]
    )
    assert (config.lr, config.env, config.tensorboard, config.tasks) == (1e-5, "crafttree", False, 2)
    assert config.env_options == {"level": "a", "budget": 3, "goal": "lamp"}


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("lr", "cannot read 'lr'; write key=value"),
        ("learning_rate=1", "unknown key 'learning_rate'; there are"),
        ("lr.x=1", "lr is no table, so lr.x cannot be set; write lr=value"),
        ("lr=high", "lr is 'high'; it takes a number"),
    ],
)
def test_a_wrong_flag_gets_a_sentence(flag, sentence):
    with pytest.raises(ConfigError) as error:
        TrainConfig().with_overrides([flag])
    assert sentence in str(error.value)


def test_the_cut_may_say_what_counts_as_one_state():
    steps = [
        ap.Step(observation=f"12:0{k}:00 hall, request 5f0c{k}aa1-9b1d-4a7e-8c3d-0123456789ab", action="go")
        for k in range(2)
    ]
    batch = ap.Batch.from_trajectories([ap.Trajectory([step], group="g", outcome=1.0) for step in steps])
    plain = TrainConfig(method="pooled").units(batch)
    named = TrainConfig(method="pooled", unit="step(state='normalised')")
    assert named.cut == "step"
    assert len(set(plain.state_S)) == 2
    assert len(set(named.units(batch).state_S)) == 1
    for unit, says in (
        ("step(stat='near')", "by_step takes no stat; it takes state"),
        ("step | turn", "give one level"),
    ):
        with pytest.raises(ConfigError, match=says):
            TrainConfig(method="pooled", unit=unit)
