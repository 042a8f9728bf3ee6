"""A fitted credit model in a folder: ``model.json`` says what it is, ``weights.safetensors`` holds what learned.

Weights of a trunk that was not tuned are not copied: the folder names where they came from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes

from apportion.data.atomic import atomic_write
from apportion.errors import CheckpointError, other_version

FORMAT = "apportion.credit-model/1"


def save(folder: str | Path, kind: str, module: torch.nn.Module, facts: Mapping[str, Any]) -> None:
    """Write a model; the description last, so that a folder without it holds no model.

    Args:
        folder: made where it is absent.
        kind: name of the model's class. facts: what is needed to build it again, and what was measured; JSON values.
    """
    folder = Path(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    weights = {name: p.detach().contiguous().cpu() for name, p in module.named_parameters() if p.requires_grad}
    with atomic_write(folder / "weights.safetensors") as file:
        file.write(to_bytes(weights))
    described = {
        "format": FORMAT,
        "kind": kind,
        "sizes": {name: list(p.shape) for name, p in weights.items()},
        "digest": _digest(folder / "weights.safetensors"),
        **facts,
    }
    with atomic_write(folder / "model.json") as file:
        file.write(json.dumps(described, indent=1, allow_nan=False).encode())


def described(folder: str | Path, kind: str | None = None) -> dict[str, Any]:
    """The description of a saved model.

    Raises:
        CheckpointError: none is there, it is damaged, of another version or of another kind.
    """
    folder = Path(folder)
    try:
        facts = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        version, found = facts["format"], facts["kind"]
    except OSError:
        raise CheckpointError(f"{folder}: no credit model is there (model.json is missing); fit one into it") from None
    except (ValueError, KeyError, TypeError) as problem:
        raise CheckpointError(f"{folder}/model.json cannot be read ({problem}); fit the model again") from None
    if version != FORMAT:
        raise CheckpointError(f"{folder}: {other_version(version, FORMAT, 'fit the model again')}")
    if kind is not None and found != kind:
        raise CheckpointError(f"{folder} holds a {found}, not a {kind}; load it with {found}.load")
    return dict(facts)


def fill(folder: str | Path, module: torch.nn.Module, facts: Mapping[str, Any]) -> None:
    """Put saved weights into a module that was built from the description.

    Raises:
        CheckpointError: the weights are damaged, or of another model.
    """
    file = Path(folder) / "weights.safetensors"
    if not file.is_file() or _digest(file) != facts.get("digest"):
        raise CheckpointError(f"{file} is missing or damaged; fit the model again")
    try:
        saved = load_file(str(file))
    except SafetensorError as problem:
        raise CheckpointError(f"{file} cannot be read ({problem}); fit the model again") from None
    mine = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if {n: p.shape for n, p in mine.items()} != {n: p.shape for n, p in saved.items()}:
        raise CheckpointError(f"{folder}: holds weights of another backbone; give the one that it was fitted on")
    with torch.no_grad():
        for name, parameter in mine.items():
            parameter.copy_(saved[name])


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class Saved:
    """Saving and loading, for models that are built from a backbone and named arguments that JSON can hold.

    Attributes:
        BUILT: names of these arguments, kept as attributes.
        BACKBONE: kind of the backbone.
    """

    BUILT: ClassVar[tuple[str, ...]] = ()
    BACKBONE: ClassVar[Any]
    backbone: Any
    fitted: Any

    def save(self, folder: str | Path) -> None:
        """Write the model; see `saving.save`."""
        told = None if self.fitted is None else self.fitted.to_mapping()
        built = {name: getattr(self, name) for name in self.BUILT}
        module = cast(torch.nn.Module, self)
        save(folder, type(self).__name__, module, {**built, "backbone": self.backbone.facts(), "fitted": told})

    @classmethod
    def load(cls, folder: str | Path, *, backbone: Any = None) -> Self:
        """Read a saved model.

        Args:
            folder: where `save` wrote it.
            backbone: the trunk, where it was handed over as an object and has no name to load it by.

        Raises:
            CheckpointError: see `described` and `fill`.
        """
        facts = described(folder, cls.__name__)
        lacking = [name for name in cls.BUILT if name not in facts]
        if lacking:
            raise CheckpointError(f"{folder}/model.json does not tell {lacking[0]!r}; fit the model again")
        model: Any = cls
        model = model(backbone or cls.BACKBONE.of_facts(facts["backbone"]), **{name: facts[name] for name in cls.BUILT})
        fill(folder, model, facts)
        model.eval()
        return cast(Self, model)
