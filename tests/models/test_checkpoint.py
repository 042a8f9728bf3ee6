"""Checkpoints come back bit by bit, are whole or absent, and damage is noticed."""

import json
import random

import numpy as np
import pytest
import torch

from apportion.errors import CheckpointError
from apportion.models.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from tests.train.make import small_policy


def trained(seed=0, steps=2):
    torch.manual_seed(seed)
    model = small_policy(seed=seed).model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    for _ in range(steps):
        loss = model(torch.randint(0, 300, (2, 5))).logits.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, optimizer


def bits(model, optimizer):
    state = optimizer.state_dict()
    tensors = {(i, name): tensor for i, entry in state["state"].items() for name, tensor in entry.items()}
    tensors |= model.state_dict()
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}, state["param_groups"]


def test_everything_comes_back_bit_by_bit(tmp_path):
    model, optimizer = trained()
    random.seed(3), np.random.seed(3), torch.manual_seed(3)  # noqa: NPY002
    random.gauss(0, 1), np.random.normal()  # noqa: NPY002  (both keep a spare)
    counters = {"generated_tokens": 12, "before": {"success": 0.1 + 0.2}}
    save_checkpoint(tmp_path, 7, model, optimizer, counters)

    def draws():
        return random.gauss(0, 1), random.random(), np.random.normal(), np.random.rand(), torch.rand(3).tolist()  # noqa: NPY002

    want = draws()
    other, its_optimizer = trained(seed=1, steps=0)
    assert load_checkpoint(tmp_path, other, its_optimizer) == (7, counters)
    assert bits(other, its_optimizer) == bits(model, optimizer)
    assert draws() == want
    step = [trained_further(m, o) for m, o in ((model, optimizer), (other, its_optimizer))]
    assert step[0] == step[1]


def trained_further(model, optimizer):
    optimizer.zero_grad()
    model(torch.arange(10).reshape(2, 5)).logits.square().mean().backward()
    optimizer.step()
    return bits(model, optimizer)


def test_only_the_newest_are_kept(tmp_path):
    model, optimizer = trained()
    for iteration in (1, 2, 10, 100):
        save_checkpoint(tmp_path, iteration, model, optimizer, {}, keep=2)
    assert [p.name for p in checkpoints(tmp_path)] == ["000010", "000100"]


def test_a_checkpoint_that_was_cut_short_does_not_count(tmp_path, monkeypatch):
    model, optimizer = trained()
    save_checkpoint(tmp_path, 1, model, optimizer, {})
    from apportion.models import checkpoint

    def killed(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path, 2, model, optimizer, {})
    monkeypatch.undo()
    assert [p.name for p in checkpoints(tmp_path)] == ["000001"]
    assert load_checkpoint(tmp_path, model, optimizer)[0] == 1
    save_checkpoint(tmp_path, 2, model, optimizer, {})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000001", "000002"]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "random.safetensors", "state.json"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path, name):
    model, optimizer = trained()
    for iteration in (1, 2):
        save_checkpoint(tmp_path, iteration, model, optimizer, {})
    file = tmp_path / "000002" / name
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.warns(UserWarning, match=rf"000002: {name.replace('.', '.')} .*; resuming from 000001 instead"):
        assert load_checkpoint(tmp_path, model, optimizer)[0] == 1
    (tmp_path / "000001" / "state.json").unlink()
    with pytest.raises(CheckpointError, match="000002: "):
        load_checkpoint(tmp_path, model, optimizer)


def test_a_changed_byte_is_noticed(tmp_path):
    model, optimizer = trained()
    save_checkpoint(tmp_path, 1, model, optimizer, {})
    file = tmp_path / "000001" / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"000001: model\.safetensors is missing or damaged"):
        load_checkpoint(tmp_path, model, optimizer)


def test_what_is_of_another_run_is_refused(tmp_path):
    model, optimizer = trained()
    with pytest.raises(CheckpointError, match="no checkpoint to resume from; start without resuming"):
        load_checkpoint(tmp_path / "none", model, optimizer)
    save_checkpoint(tmp_path, 1, model, optimizer, {})
    wide = small_policy(hidden=32).model
    with pytest.raises(CheckpointError, match="holds a model of other names or sizes than the configured one"):
        load_checkpoint(tmp_path, wide, torch.optim.AdamW(wide.parameters()))
    state = tmp_path / "000001" / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "format": "apportion.checkpoint/9"}))
    with pytest.raises(CheckpointError, match=r"written as 'apportion\.checkpoint/9' by a newer apportion"):
        load_checkpoint(tmp_path, model, optimizer)


def test_nothing_is_pickled(tmp_path):
    model, optimizer = trained()
    folder = save_checkpoint(tmp_path, 1, model, optimizer, {})
    assert {p.suffix for p in folder.iterdir()} == {".safetensors", ".json"}
