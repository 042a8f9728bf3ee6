"""What verl loads in every process: light, harmless, and a sentence where verl is not one that we know."""

import importlib
import subprocess
import sys
import textwrap
import types
import warnings

import numpy as np
import pytest

import apportion as ap
from apportion.adapters.verl import contract, dataproto, estimators, plugin, stage
from apportion.adapters.verl.settings import OWN, method_of, section_of, settings_of
from apportion.errors import ConfigError, UnknownName
from apportion.methods import get, names
from tests.adapters.hosts.verl_hosts import PRESENT, WHY, Config, StandIn, config

HEAVY = ("torch", "ray", "transformers", "tensordict", "omegaconf", "verl", "pandas", "pyarrow", "numba")


def python(code):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_the_plugin_loads_nothing_heavy():
    code = f"import apportion.adapters.verl.plugin, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert python(code) == "[]"


def test_verl_would_find_it():
    import tomllib

    from tests.test_architecture import PACKAGE

    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    (value,) = project["project"]["entry-points"]["verl.plugins"].values()
    assert importlib.import_module(value) is plugin


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with the names of verl, importable, whose modules are what a test writes into them."""

    def write(**files):
        folder = tmp_path / "verl" / "trainer" / "ppo" / "v1"
        folder.mkdir(parents=True)
        for inside in (tmp_path / "verl", tmp_path / "verl/trainer", tmp_path / "verl/trainer/ppo", folder):
            (inside / "__init__.py").write_text("")
        for name, text in files.items():
            (tmp_path / "verl" / "trainer" / "ppo" / (name.replace("__", "/") + ".py")).write_text(
                textwrap.dedent(text)
            )
        return tmp_path

    return write


REGISTRY = """
    ADV_ESTIMATOR_REGISTRY = {}
    def register_adv_est(name_or_enum):
        def decorator(fn):
            ADV_ESTIMATOR_REGISTRY[name_or_enum] = fn
            return fn
        return decorator
"""


def test_a_module_is_changed_after_its_import_and_looks_as_before(package):
    path = package(core_algos=REGISTRY)
    code = f"""
        import sys; sys.path.insert(0, {str(path)!r})
        import apportion.adapters.verl.plugin
        import verl.trainer.ppo.core_algos as core
        import inspect
        assert "apportion/gigpo" in core.ADV_ESTIMATOR_REGISTRY
        assert type(core.__spec__.loader).__module__ == "_frozen_importlib_external", core.__spec__.loader
        assert core.__loader__ is core.__spec__.loader
        assert "register_adv_est" in inspect.getsource(core)
        before = dict(core.ADV_ESTIMATOR_REGISTRY)
        import importlib
        importlib.reload(apportion.adapters.verl.plugin)
        assert core.ADV_ESTIMATOR_REGISTRY == before
        assert sum(type(f).__name__ == "_Waiting" for f in sys.meta_path) == 1
        print(len(before))
    """
    assert int(python(code)) == len(names("method"))


def test_a_module_that_was_there_before_is_changed_at_once(package):
    path = package(core_algos=REGISTRY)
    code = f"""
        import sys; sys.path.insert(0, {str(path)!r})
        import verl.trainer.ppo.core_algos as core
        import apportion.adapters.verl.plugin
        print("apportion/gigpo" in core.ADV_ESTIMATOR_REGISTRY)
    """
    assert python(code) == "True"


def test_it_never_breaks_an_import_of_verl(package):
    broken = "register_adv_est = None\nraise_later = 1\n"
    path = package(core_algos=broken, ray_trainer="x = 1\n", v1__trainer_base="class PPOTrainer: ...\n")
    code = f"""
        import sys; sys.path.insert(0, {str(path)!r})
        import apportion.adapters.verl.plugin
        import verl.trainer.ppo.core_algos, verl.trainer.ppo.ray_trainer, verl.trainer.ppo.v1.trainer_base as base
        assert not hasattr(base, "_apportion")
        try:
            import verl.trainer.ppo.absent
        except ModuleNotFoundError:
            print("ordinary")
    """
    assert python(code) == "ordinary"
    failing = """
        def register_adv_est(name_or_enum):
            raise RuntimeError("not today")
    """
    (path / "verl/trainer/ppo/core_algos.py").write_text(textwrap.dedent(failing))
    code = f"""
        import sys; sys.path.insert(0, {str(path)!r})
        import apportion.adapters.verl.plugin
        import verl.trainer.ppo.core_algos
        print("imported")
    """
    assert python(code) == "imported"


def fake_registry():
    module = types.ModuleType(contract.ESTIMATORS)
    module.held = {}

    def register_adv_est(name_or_enum):
        return lambda fn: module.held.setdefault(name_or_enum, fn)

    module.register_adv_est = register_adv_est
    return module


def test_every_method_of_the_registry_has_a_name_there():
    module = fake_registry()
    estimators.register_names(module)
    assert set(module.held) == {f"apportion/{name}" for name in names("method")}
    assert not any(name.startswith("apportion/") and get(name[10:]).kind == "transform" for name in module.held)
    estimators.register_names(module)


def test_methods_of_whole_rollouts_work_through_the_registry():
    torch = pytest.importorskip("torch")
    module = fake_registry()
    estimators.register_names(module)
    able = [name for name in names("method") if estimators.outcome_only(settings_able(name))]
    assert {"grpo", "rloo", "dr_grpo"} <= set(able)
    assert not {"gigpo", "gae", "tempo", "mt_grpo", "gdpo"} & set(able)
    mask = torch.tensor([[1, 1, 0, 1], [1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    rewards = torch.zeros(4, 4)
    rewards[0, 3], rewards[1, 0], rewards[2, 3], rewards[3, 3] = 1.0, 0.0, 5.0, 9.0  # the last row sampled nothing
    groups = np.array(["a", "a", "b", "a"], dtype=object)
    for name in able:
        advantages, returns = module.held[f"apportion/{name}"](
            token_level_rewards=rewards, response_mask=mask, config=None, index=groups
        )
        units = ap.by_episode(
            ap.Batch.from_trajectories(
                ap.Trajectory([ap.Step(prompt_ids=[], ids=[0] * n, reward=r)], group=g)
                for n, r, g in ((3, 1.0, "a"), (1, 0.0, "a"), (4, 5.0, "b"), (0, 9.0, "a"))
            )
        )
        want = ap.assign(name, units).advantage_S
        np.testing.assert_allclose(advantages.numpy(), mask.numpy() * want[:, None] + 0.0, atol=1e-6)
        assert advantages.dtype == torch.float32
        assert returns is advantages
    with pytest.raises(ConfigError, match=r"apportion/grpo compares rows of one uid, and none came"):
        module.held["apportion/grpo"](token_level_rewards=rewards, response_mask=mask)
    advantages, _ = module.held["apportion/grpo"](
        token_level_rewards=rewards,
        response_mask=mask,
        index=groups,
        config=Config(apportion=Config(scale="none", group_of_one="raw")),
    )
    assert advantages[0].tolist() == [0.5, 0.5, 0.0, 0.5]
    assert advantages[2].tolist() == [5.0] * 4


def settings_able(name):
    """Settings of a method that asks nobody, else of one that is not able."""
    return settings_of(f"apportion/{name if get(name).plan is None else 'gigpo'}", None)


def test_the_others_say_there_that_the_stage_is_missing():
    module = fake_registry()
    estimators.register_names(module)
    with pytest.raises(
        ConfigError, match=r"apportion/gigpo needs more than scores and groups .* use verl 0\.9 to 0\.9"
    ):
        module.held["apportion/gigpo"](token_level_rewards=None, response_mask=None, index=None)


def test_a_verl_that_lacks_a_name_is_told_by_name():
    for home, dotted in contract.RELIED_ON:
        module = types.ModuleType(home)
        sentence = contract.problem(module, home)
        assert " has no " + home in sentence
        assert "tested with verl 0.9 to 0.9" in sentence
        assert dotted
    made = StandIn().module
    assert contract.problem(made, contract.STAGE) == ""
    made.PPOTrainer._compute_advantage = lambda self, rows: None
    assert "PPOTrainer._compute_advantage(self, batch, metrics)" in contract.problem(made, contract.STAGE)
    stage.take_place(made)
    assert not hasattr(made, "_apportion")


def test_the_stage_that_no_longer_compares_is_told():
    host = StandIn()
    host.module.PPOTrainer._compute_advantage = lambda self, batch, metrics: batch
    stage.take_place(host.module)
    trainer = types.SimpleNamespace(
        config=Config(algorithm=Config(adv_estimator="apportion/grpo"), actor_rollout_ref=Config())
    )
    host.stored["p", "a_0_0"] = {}
    with pytest.raises(ConfigError, match="no longer compares rows by compute_advantage_for_multi_trajectories"):
        host.module.PPOTrainer._compute_advantage(trainer, host.meta(["a_0_0"], [{}], "p"), {})


def test_a_verl_that_was_not_tested_is_named_when_the_trainer_is_made(monkeypatch):
    host = StandIn()
    stage.take_place(host.module)
    settings = Config(algorithm=Config(adv_estimator="apportion/grpo"))
    monkeypatch.setattr(contract, "version", lambda: "0.11.2")
    with pytest.warns(UserWarning, match=r"verl 0\.11\.2 is not one that apportion was tested with \(0\.9 to 0\.9\)"):
        host.module.PPOTrainer(settings)
    monkeypatch.setattr(contract, "version", lambda: "0.9.1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert host.module.PPOTrainer(settings).config is settings


def test_settings_come_from_the_section():
    assert method_of("apportion/grpo | whiten") == "grpo | whiten"
    assert method_of("grpo") is None
    assert method_of(None) is None
    assert section_of(None) == {}
    given = Config(apportion=Config(gamma=0.9, unit="turn", states="normalised"))
    made = settings_of("apportion/gigpo", given)
    assert made.crediting.params == {"gamma": 0.9}
    assert made.crediting.cut == ("turn", {})
    assert made.crediting.states == "normalised"
    assert settings_of("apportion/gigpo", given) is made
    assert settings_of("gae", Config(gamma=1.0)) is None
    assert settings_of("gigpo", Config(apportion=Config(method="gigpo"))).crediting.method == "gigpo"
    with pytest.raises(
        ConfigError, match=r"algorithm\.apportion has settings, and adv_estimator is 'grpo', which reads"
    ):
        settings_of("grpo", given)
    with pytest.raises(ConfigError, match=r"algorithm\.apportion is 3; it holds settings"):
        settings_of("apportion/gigpo", Config(apportion=3))
    with pytest.raises(ConfigError, match="'vineppo' asks somebody"):
        settings_of("apportion/vineppo", None)


@pytest.mark.parametrize(
    ("name", "section", "sentence"),
    [
        ("apportion/", {}, "adv_estimator is 'apportion/'; a method stands behind a slash, as in apportion/gigpo"),
        ("apportion", {"method": "gigpo"}, "adv_estimator is 'apportion'; a method stands behind a slash"),
        ("Apportion/gigpo", {}, "a method stands behind a slash"),
        ("apportion:gigpo", {}, "a method stands behind a slash"),
        (
            "apportion/gigpo",
            {"method": "grpo"},
            r"'apportion/gigpo' and algorithm\.apportion\.method is 'grpo'; say one",
        ),
        ("apportion/gigpo", {"unit": "token"}, "gigpo credits steps, and the unit is token; say unit=step or turn"),
        (
            "apportion/grpo",
            {"unit": "segment"},
            "segments by 'newline' need the text of each token, .* use by='fixed', by",
        ),
        ("apportion/llm_critic", {}, r"say whom by \+algorithm\.apportion\.ask=my_package\.my_module:function"),
        ("apportion/llm_crtic", {}, "did you mean 'llm_critic'"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_a_sentence_in_verls_words(name, section, sentence):
    with pytest.raises((ConfigError, UnknownName), match=sentence):
        settings_of(name, Config(apportion=Config(section)))


def test_what_the_method_may_be_said_in_both_places():
    made = settings_of("apportion/grpo + 0.5*anchor", Config(apportion=Config(method="grpo + 0.5*anchor")))
    assert made.crediting.cut == ("step", {})
    assert settings_of("apportionment", None) is None  # somebody else's name


def made_with(name, section=None, critic=None, use_kl_loss=False, **algorithm):
    """What is said when the newer trainer is made with these settings."""
    settings = config(name, section or {}, **algorithm)
    settings["critic"] = Config(enable=critic)
    settings.actor_rollout_ref.actor["use_kl_loss"] = use_kl_loss
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        stage.checked(lambda self, config: None)(None, settings)
    return [str(one.message) for one in said if "was tested with" not in str(one.message)]


def test_what_the_run_will_lack_is_said_before_it():
    with pytest.raises(
        ConfigError, match=r"gae reads a value before every token, and no critic is .* critic\.enable=true"
    ):
        made_with("apportion/gae")
    assert made_with("apportion/gae", critic=True) == []
    (said,) = made_with("apportion/step_gae")
    assert said.startswith("step_gae reads values, and no critic is trained: set critic.enable=true, or let the agent")
    with pytest.raises(
        ConfigError, match=r"implicit_q reads the reference policy's log-probabilities, .*use_kl_loss=true"
    ):
        made_with("apportion/implicit_q")
    assert made_with("apportion/implicit_q", use_kl_loss=True) == []
    assert made_with("apportion/implicit_q", use_kl_in_reward=True) == []


def test_verls_settings_that_are_not_read_are_said():
    (said,) = made_with("apportion/gigpo", gamma=0.9)
    assert (
        said == "algorithm.gamma=0.9 is not read by gigpo, which takes gamma=0.95; say +algorithm.apportion.gamma=0.9"
    )
    assert made_with("apportion/gigpo", {"gamma": 0.8}, gamma=0.9) == []
    assert made_with("apportion/gigpo(gamma=0.8)", gamma=0.9) == []
    assert made_with("apportion/grpo", gamma=0.9) == []  # it has none
    assert made_with("apportion/gigpo") == []  # verl's default
    (said,) = made_with("apportion/gae", critic=True, lam=0.9)
    assert said.startswith("algorithm.lam=0.9 is not read by gae, which takes lam=0.95")
    twice = {"kl_coef": 0.1}
    (said,) = made_with("apportion/reinforce_pp", twice, use_kl_in_reward=True)
    assert said.startswith(
        "algorithm.use_kl_in_reward subtracts a KL from the rewards and reinforce_pp's kl_coef another"
    )
    assert made_with("apportion/reinforce_pp", twice, use_kl_loss=True) == []


def test_a_method_without_the_slash_is_refused_where_verl_has_no_estimator_of_that_name(monkeypatch):
    known = types.ModuleType(contract.ESTIMATORS)
    known.ADV_ESTIMATOR_REGISTRY = {"grpo": None, "mine": None}
    monkeypatch.setitem(sys.modules, contract.ESTIMATORS, known)
    with pytest.raises(ConfigError, match=r"verl has no estimator 'gigpo'; for apportion's, say .*=apportion/gigpo"):
        made_with("gigpo")
    for name in ("grpo", "mine", "registered_later"):
        assert made_with(name) == []
    stage.checked(lambda self, config: None, fork=True)(None, config("gigpo"))  # verl-agent has one of its own


def test_no_method_has_a_parameter_of_the_names_that_are_ours():
    for name in names():
        assert not set(OWN) & set(get(name).defaults), name


def test_who_is_asked_is_named_by_a_function(monkeypatch):
    from apportion.resources import Asker

    made = object.__new__(Asker)
    module = types.ModuleType("some_asking")
    module.asker, module.nobody = (lambda: made), (lambda: 3)
    monkeypatch.setitem(sys.modules, "some_asking", module)
    settings = settings_of("apportion/vineppo", Config(apportion=Config(ask="some_asking:asker", k=2)))
    assert settings.crediting.ask is made
    assert settings.crediting.params == {"k": 2}
    for ask, why in (
        ("some_asking", "name a function as 'package.module:function'"),
        ("some_asking:absent", "which cannot be imported"),
        ("no_such_module:x", "which cannot be imported"),
        ("some_asking:nobody", "some_asking:nobody gave a int; return an apportion.Asker"),
    ):
        with pytest.raises(ConfigError, match=why):
            settings_of("apportion/vineppo", Config(apportion=Config(ask=ask)))


@pytest.mark.skipif(not PRESENT, reason=WHY)
def test_each_name_of_verl_that_is_relied_on_is_there():
    import apportion.adapters.verl.plugin  # noqa: F401

    for home, dotted in contract.RELIED_ON:
        module = importlib.import_module(home)
        assert contract.problem(module, home) == "", dotted
        assert hasattr(module, "_apportion"), f"{home} was not changed"
    assert contract.version().rsplit(".", 1)[0] in contract.TESTED


@pytest.mark.skipif(not PRESENT, reason=WHY)
def test_verl_finds_the_plugin_by_itself():
    code = """
        import verl.trainer.ppo.v1.trainer_base as base
        import verl.trainer.ppo.v1.utils as utils
        from verl.trainer.ppo import core_algos, ray_trainer
        assert hasattr(base, "_apportion"), "is apportion installed with its entry point?"
        assert base.PPOTrainer._compute_advantage.__wrapped__
        assert utils.compute_advantage is ray_trainer.compute_advantage
        assert ray_trainer.compute_advantage.__wrapped__
        assert core_algos.get_adv_estimator_fn("apportion/gigpo").__name__ == "apportion_gigpo"
        print("found")
    """
    assert python(code).splitlines()[-1] == "found"


@pytest.mark.skipif(not PRESENT, reason=WHY)
def test_the_fields_that_are_read_are_those_that_verl_stores():
    import inspect

    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
    from verl.trainer.ppo.v1 import agent_loop_tq, trainer_base

    stored = inspect.getsource(agent_loop_tq) + inspect.getsource(AgentLoopOutput) + inspect.getsource(trainer_base)
    for name in (*contract.FIELDS, *(name for keys in contract.COLUMNS.values() for name in keys)):
        assert f'"{name}"' in stored, name
    assert 'keys.append(f"{uid}_{session_id}_{i}")' in stored
    assert 'tag.get("is_padding", False)' in stored
    assert {"reward_score", "extra_fields", "response_ids", "response_mask"} <= set(AgentLoopOutput.model_fields)


@pytest.mark.skipif(not PRESENT, reason=WHY)
def test_losses_that_average_a_row_are_those_that_are_refused():
    import inspect

    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY

    averaging = {
        name
        for name, loss in POLICY_LOSS_REGISTRY.items()
        if "(advantages * response_mask).sum" in inspect.getsource(loss)
    }
    assert averaging == {"geo_mean"}


def test_rows_of_the_newer_trainer_are_not_taken_for_whole_rollouts():
    data = types.SimpleNamespace(batch={}, non_tensor_batch={}, meta_info={})
    with pytest.raises(ConfigError, match="rows without 'responses' reached compute_advantage"):
        dataproto.credit_data(settings_of("apportion/grpo", None), data)


@pytest.mark.skipif(not PRESENT, reason=WHY)
def test_the_command_lines_of_the_docs_are_read_by_hydra():
    from pathlib import Path

    import hydra
    import verl

    lines = [
        "algorithm.adv_estimator=apportion/gigpo",
        "+algorithm.apportion.gamma=0.95",
        "+algorithm.apportion.unit=step",
        "+algorithm.apportion.states=normalised",
    ]
    with hydra.initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
        config = hydra.compose("ppo_trainer", overrides=lines)
        made = settings_of(config.algorithm.adv_estimator, config.algorithm).crediting
        contract.check_config(config, made)
        assert (made.method, made.cut, made.states, made.params) == (
            "gigpo",
            ("step", {}),
            "normalised",
            {"gamma": 0.95},
        )
        lines = [
            'algorithm.adv_estimator="apportion/grpo + 0.5*anchor | whiten"',
            '+algorithm.apportion.unit="step"',
            "critic.enable=true",
        ]
        config = hydra.compose("ppo_trainer", overrides=lines)
        made = settings_of(config.algorithm.adv_estimator, config.algorithm).crediting
        assert made.method == "grpo + 0.5*anchor | whiten"
        with pytest.raises(ConfigError, match="a critic is trained, and 0 methods"):
            contract.check_config(config, made)
        lines = ["algorithm.adv_estimator=apportion/grpo", "+algorithm.apportion.unit='segment(by=\"fixed\", size=16)'"]
        config = hydra.compose("ppo_trainer", overrides=lines)
        made = settings_of(config.algorithm.adv_estimator, config.algorithm).crediting
        assert made.cut == ("segment", {"by": "fixed", "size": 16})
        lists = ['algorithm.adv_estimator="apportion/grpo | hicra"', "+algorithm.apportion.grams=[[3,4],[5]]"]
        config = hydra.compose("ppo_trainer", overrides=lists)
        assert settings_of(config.algorithm.adv_estimator, config.algorithm).crediting.params == {
            "grams": [[3, 4], [5]]
        }
