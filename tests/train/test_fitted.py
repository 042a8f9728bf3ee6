"""A fitted credit model in a run: it is read, it stays as it is, and a stopped run ends the same."""

import json

import numpy as np
import pytest

import apportion as ap
from apportion.errors import CheckpointError, ConfigError
from apportion.models import Backbone, StepPRM, ValueHead
from apportion.train import TrainConfig, train
from apportion.train import fitted as module


def good_after_key(batch):
    """Planted labels: steps at even places are good."""
    first = np.searchsorted(batch.traj_of_S, batch.traj_of_S)
    return ((np.arange(len(batch.traj_of_S)) - first) % 2 == 0).astype(float)


@pytest.fixture(scope="module")
def prm(tmp_path_factory):
    """The folder of a model that was fitted to rollouts of the policy that will be trained."""
    folder = tmp_path_factory.mktemp("prm")
    run = train(
        TrainConfig(
            env="keydoor", hidden=16, layers=1, heads=2, vocabulary=300, tasks=2, rollouts=2, iterations=1,
            eval_tasks=0, dump_every=1, tensorboard=False, out=str(folder / "run"),
        )
    )  # fmt: skip
    batch = ap.read(next((run.folder / "rollouts").iterdir()))
    room = 1 + len(json.loads((run.folder / "policy" / "tokenizer.json").read_text())["model"]["vocab"])
    for name, seed in (("model", 0), ("other", 1)):
        StepPRM.fit(
            batch,
            backbone=Backbone("small", vocabulary=room),
            labels=good_after_key(batch),
            epochs=1,
            seed=seed,
            held_out=0.0,
            out=folder / name,
        )
    tight = Backbone("small", vocabulary=int(batch.ids_T.max()) + 1)  # no room for the id that begins a row
    ValueHead.fit(batch, backbone=tight, epochs=1, level="step", held_out=0.0, out=folder / "tight")
    return folder


@pytest.fixture
def settings(config, prm):
    def build(**changes):
        return config(**{"env": "keydoor", "credit": str(prm / "model"), "eval_tasks": 0, **changes})

    return build


def numbers(result):
    """Every line of the log without times."""
    return [{k: v for k, v in line.items() if k not in ("seconds", "time")} for line in result.metrics]


def test_it_is_read_and_stays_as_it_is(settings, prm, monkeypatch):
    seen = []
    told = module.FittedModel.told
    monkeypatch.setattr(module.FittedModel, "told", lambda self, units: seen.append(told(self, units)) or seen[-1])
    before = (prm / "model" / "weights.safetensors").read_bytes()
    heard = []
    result = train(settings(method_params={"form": "sum"}), on_credit=lambda credit, _: heard.append(credit) or {})
    assert result.iterations == 3
    assert all("critic" not in line for line in result.metrics)
    units = seen[-1]
    np.testing.assert_array_equal(units.reward_parts["prm"], ap.models.load(prm / "model").rewards(units.batch))
    want = ap.assign("pure", units, form="sum", process="prm")
    np.testing.assert_array_equal(heard[-1].advantage_S, want.advantage_S)
    assert want.parts["process"].any()
    assert (prm / "model" / "weights.safetensors").read_bytes() == before


def test_a_stopped_run_goes_on_to_the_same_numbers_and_only_with_the_same_model(settings, prm, tmp_path):
    whole = train(settings(iterations=3, out=str(tmp_path / "a")))
    train(settings(iterations=1, out=str(tmp_path / "b")))
    rest = train(settings(iterations=3, out=str(tmp_path / "b")), resume=True)
    assert numbers(rest) == numbers(whole)
    own, other = prm / "model", prm / "other"
    kept = {name: (own / name).read_bytes() for name in ("model.json", "weights.safetensors")}
    try:
        for name in kept:
            (own / name).write_bytes((other / name).read_bytes())
        with pytest.raises(CheckpointError, match=r"holds another model than the run in .* was started with"):
            train(settings(iterations=4, out=str(tmp_path / "b")), resume=True)
    finally:
        for name, data in kept.items():
            (own / name).write_bytes(data)


def test_the_method_is_the_one_that_reads_it(prm):
    given = TrainConfig().with_overrides([f"credit={prm / 'model'}"])
    assert given.method == "pure"
    assert TrainConfig(credit=str(prm / "tight")).method == "step_gae"
    assert TrainConfig(credit=str(prm / "model"), method="pure | whiten").method == "pure | whiten"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"method": "gigpo"}, "method is 'gigpo', which does not read credit=.*; give method=pure, alone"),
        ({"credit_params": {"steps": 1}}, "credit_params are for a model that learns beside the policy"),
        ({"credit": "tight"}, r"knows \d+ token ids and the policy may sample \d+, .* fit it with --vocabulary \d+"),
        ({"credit": "."}, "holds no fitted model; fit one into it"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_is_written(settings, prm, given, says, tmp_path):
    if "credit" in given:
        given = {**given, "credit": str(prm / given["credit"])}
    with pytest.raises(ConfigError, match=says):
        train(settings(**given))
    assert not list(tmp_path.iterdir())
