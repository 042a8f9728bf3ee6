"""What a run leaves on the disk is its owner's, whatever the system's default would be."""

import os
import stat

import pytest

import apportion as ap
from apportion.adapters.log import TokenLog
from apportion.resources.cache import Cache, Speed
from tests.make import random_trajectories

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")


@pytest.fixture(autouse=True)
def open_to_all():
    """The most careless default there is."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_cache_and_what_lies_beside_it(tmp_path):
    cache = Cache(tmp_path / "answers.cache")
    cache.note_speed("somebody", Speed(1, 1, 1, 1.0))
    beside = [path for path in tmp_path.iterdir() if path.name.startswith("answers.cache")]
    assert len(beside) >= 2  # its log too
    assert {mode(path) for path in beside} == {0o600}
    cache.close()


def test_a_log_of_a_training_run(tmp_path):
    TokenLog(tmp_path / "log")
    assert mode(tmp_path / "log") == 0o700


def test_a_folder_of_credit(tmp_path):
    pytest.importorskip("pyarrow")
    from apportion.adapters.volume import assign_files

    (tmp_path / "in").mkdir()
    ap.write(tmp_path / "in" / "a.parquet", sorted(random_trajectories(1, forks=False), key=lambda t: str(t.group)))
    assign_files([tmp_path / "in"], tmp_path / "out", method="grpo")
    assert mode(tmp_path / "out") == 0o700


@pytest.mark.parametrize("credit", [None, pytest.param("archer", marks=pytest.mark.slow)])
def test_a_training_run(tmp_path, credit, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from apportion.train import TrainConfig, train

    planted = {name: f"sk-planted-{name.lower()}" for name in ("OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY")}
    for name, secret in planted.items():
        monkeypatch.setenv(name, secret)
    out = tmp_path / "run"
    train(
        TrainConfig(
            env="crafttree", env_options={"horizon": 4}, credit=credit, out=str(out), iterations=1, tasks=1,
            rollouts=2, eval_tasks=0, dump_every=1, tensorboard=False, hidden=16, layers=1, heads=2, vocabulary=300,
        )
    )  # fmt: skip
    assert mode(out) == 0o700  # nobody else gets any further
    assert mode(out / "checkpoints") == mode(out / "rollouts") == 0o700
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert not any(b"sk-planted" in path.read_bytes() for path in files)  # nobody's environment is written down


def test_a_fitted_model(tmp_path):
    torch = pytest.importorskip("torch")
    from apportion.models.saving import save

    save(tmp_path / "model", "Any", torch.nn.Linear(2, 2), {})
    assert mode(tmp_path / "model") == 0o700


def test_a_folder_that_is_there_keeps_its_mode(tmp_path):
    (tmp_path / "log").mkdir(mode=0o750)
    TokenLog(tmp_path / "log")
    assert mode(tmp_path / "log") == 0o750
