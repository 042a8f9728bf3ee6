import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from apportion.train import TrainConfig
from tests.train.make import SMALL


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def config(tmp_path):
    """Settings of a run of seconds, with changes as keywords."""

    def build(**changes):
        fields = {
            **SMALL, "tasks": 2, "rollouts": 3, "iterations": 3, "eval_tasks": 4, "eval_every": 2,
            "checkpoint_every": 1, "tensorboard": False, "out": str(tmp_path / "run"), "lr": 1e-3,
        }  # fmt: skip
        return TrainConfig(**{**fields, **changes})

    return build
