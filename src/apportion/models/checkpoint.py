"""Checkpoints that survive kill -9: written beside, flushed, renamed; read back bit by bit.

    checkpoints/000010/model.safetensors       parameters and buffers
    checkpoints/000010/optimizer.safetensors   moments and steps
    checkpoints/000010/random.safetensors      generators of torch, NumPy and Python
    checkpoints/000010/state.json              counters, the optimizer's settings, digests of the other files

Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from apportion.errors import CheckpointError, other_version

FORMAT = "apportion.checkpoint/1"
FILES = ("model.safetensors", "optimizer.safetensors", "random.safetensors")


def save_checkpoint(
    folder: Path,
    iteration: int,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    counters: Mapping[str, Any],
    *,
    keep: int = 2,
) -> Path:
    """Write the state after ``iteration`` iterations; the ``keep`` newest checkpoints stay.

    A checkpoint appears whole or not at all.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in folder.glob(".*.tmp"):  # of a run that was killed here
        shutil.rmtree(left)
    target, temporary = folder / f"{iteration:06d}", folder / f".{iteration:06d}.tmp"
    temporary.mkdir(mode=0o700)
    moments, settings = _of_optimizer(optimizer)
    save_file(_of_model(model), str(temporary / FILES[0]))
    save_file(moments, str(temporary / FILES[1]))
    save_file(_of_generators(model), str(temporary / FILES[2]))
    state = {
        "format": FORMAT,
        "iteration": iteration,
        "counters": dict(counters),
        "optimizer": settings,
        "digests": {name: _digest(temporary / name) for name in FILES},
    }
    (temporary / "state.json").write_text(json.dumps(state, indent=1), encoding="utf-8")
    for name in (*FILES, "state.json"):
        _sync(temporary / name)
    _sync(temporary)
    if target.exists():
        shutil.rmtree(target)
    os.replace(temporary, target)
    _sync(folder)
    for old in checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return target


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints of a run, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if p.is_dir() and p.name.isdecimal())


def load_checkpoint(
    folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, at: int | None = None
) -> tuple[int, dict[str, Any]]:
    """Put the newest intact checkpoint, or that after ``at`` iterations, into model, optimizer and generators.

    Returns:
        Iterations done, and the counters that were saved.

    Raises:
        CheckpointError: there is none, all are damaged, or it is of another model.
    """
    found = [path for path in checkpoints(folder) if at is None or int(path.name) == at]
    if not found:
        raise CheckpointError(f"{folder}: no checkpoint to resume from; start without resuming")
    reasons = []
    for path in reversed(found):
        try:
            state = _checked_state(path)
        except CheckpointError as error:
            reasons.append(str(error))
            continue
        if reasons:
            warnings.warn(f"{reasons[0]}; resuming from {path.name} instead", stacklevel=2)
        _into_model(model, load_file(str(path / FILES[0])), path)
        _into_optimizer(optimizer, load_file(str(path / FILES[1])), state["optimizer"], path)
        _into_generators(load_file(str(path / FILES[2])))
        return int(state["iteration"]), dict(state["counters"])
    raise CheckpointError(reasons[0])


@contextmanager
def undisturbed() -> Iterator[None]:
    """Generators of the process are afterwards as they were: nothing here draws from them."""
    kept: Any = np.random.get_state(), random.getstate()  # noqa: NPY002
    with torch.random.fork_rng(enabled=True):
        try:
            yield
        finally:
            np.random.set_state(kept[0])  # noqa: NPY002
            random.setstate(kept[1])


def _checked_state(path: Path) -> dict[str, Any]:
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        digests = state["digests"]
        written_by = state["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: state.json cannot be read ({error})") from None
    if written_by != FORMAT:
        raise CheckpointError(f"{path}: {other_version(written_by, FORMAT, 'begin the run again')}")
    for name in FILES:
        file = path / name
        if not file.is_file() or _digest(file) != digests.get(name):
            raise CheckpointError(f"{path}: {name} is missing or damaged")
    return dict(state)


def _of_model(model: torch.nn.Module) -> dict[str, Tensor]:
    """Every tensor once; tied weights are one parameter."""
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


def _into_model(model: torch.nn.Module, saved: Mapping[str, Tensor], path: Path) -> None:
    mine = dict(model.named_parameters()) | dict(model.named_buffers())
    if {n: t.shape for n, t in mine.items()} != {n: t.shape for n, t in saved.items()}:
        raise CheckpointError(f"{path}: holds a model of other names or sizes than the configured one")
    with torch.no_grad():
        for name, tensor in mine.items():
            tensor.copy_(saved[name])


def _of_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    state = optimizer.state_dict()
    moments = {
        f"{index}.{name}": torch.as_tensor(value).detach().contiguous()
        for index, entry in state["state"].items()
        for name, value in entry.items()
    }
    return moments, state["param_groups"]


def _into_optimizer(
    optimizer: torch.optim.Optimizer, saved: Mapping[str, Tensor], groups: list[dict[str, Any]], path: Path
) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in saved.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = tensor
    for group in groups:
        group["betas"] = tuple(group["betas"])
    try:
        optimizer.load_state_dict({"state": state, "param_groups": groups})
    except ValueError as error:
        raise CheckpointError(f"{path}: holds another optimizer's state ({error})") from None


def _of_generators(model: torch.nn.Module) -> dict[str, Tensor]:
    _, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)  # noqa: NPY002  (somebody may draw from it)
    version, words, spare = random.getstate()
    out = {
        "torch": torch.get_rng_state(),
        "numpy.keys": torch.from_numpy(np.asarray(keys).astype(np.int64)),
        "numpy.rest": torch.tensor([position, has_gauss, gauss], dtype=torch.float64),
        "python.words": torch.tensor(words, dtype=torch.int64),
        "python.rest": torch.tensor([version, spare is not None, 0.0 if spare is None else spare], dtype=torch.float64),
    }
    if any(p.is_cuda for p in model.parameters()):
        out["cuda"] = torch.cuda.get_rng_state()
    return out


def _into_generators(saved: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(saved["torch"])
    position, has_gauss, gauss = saved["numpy.rest"].tolist()
    keys = saved["numpy.keys"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, int(position), int(has_gauss), gauss))  # noqa: NPY002
    version, has_spare, spare = saved["python.rest"].tolist()
    random.setstate((int(version), tuple(saved["python.words"].tolist()), spare if has_spare else None))
    if "cuda" in saved and torch.cuda.is_available():
        torch.cuda.set_rng_state(saved["cuda"])


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
