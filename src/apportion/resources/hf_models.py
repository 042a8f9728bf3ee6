"""Models of transformers in this process: loading, and telling one state of their weights from another."""

from __future__ import annotations

import hashlib
from typing import Any

from apportion.errors import ConfigError, missing_extra


def torch_() -> Any:
    """The package torch.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise missing_extra("asking a model in this process", "torch", "train") from None
    return torch


def loaded(model: Any, kind: str, device: str | None, **options: Any) -> Any:
    """A model as it is, or from a folder or hub name by a class ``AutoModelFor…`` of transformers; in evaluation mode.

    Raises:
        ConfigError: none can be loaded. MissingExtra: torch or transformers is not installed.
    """
    torch = torch_()
    if isinstance(model, str) or hasattr(model, "__fspath__"):
        try:
            import transformers
        except ModuleNotFoundError:
            raise missing_extra("asking a model in this process", "transformers", "train") from None
        try:
            found = getattr(transformers, kind).from_pretrained(
                str(model), use_safetensors=True, trust_remote_code=False, **options
            )
        except (OSError, ValueError) as problem:
            first = str(problem).strip().partition("\n")[0]
            raise ConfigError(
                f"no model can be loaded from {str(model)!r} ({first}); give a folder or hub name"
            ) from None
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        return found.to(device).eval()
    if not isinstance(model, torch.nn.Module):
        raise ConfigError(f"the model is a {type(model).__name__}; give one of transformers, a folder or a hub name")
    return model if device is None else model.to(device)


class Weights:
    """A name for the weights of a model as they are now; training changes it.

    Sums of every tensor go into it, so two states that differ by an update have different names. It is computed again
    when a tensor was written to in place, or replaced; call `forget` after writing through ``.data``.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._seen: tuple[int, int] | None = None
        self._name = ""

    def name(self) -> str:
        """Twelve bytes in hexadecimal."""
        tensors = [*self._model.parameters(), *self._model.buffers()]
        seen = (sum(t._version for t in tensors), hash(tuple(t.data_ptr() for t in tensors)))
        if seen != self._seen:
            self._name, self._seen = _digest(self._model), seen
        return self._name

    def forget(self) -> None:
        """Compute the name again next time."""
        self._seen = None


def _digest(model: Any) -> str:
    torch = torch_()
    digest = hashlib.blake2b(type(model).__name__.encode(), digest_size=12)
    with torch.no_grad():
        for name, tensor in sorted(model.state_dict().items()):
            flat = tensor.detach().reshape(-1).double()
            ramp = torch.arange(1, len(flat) + 1, device=flat.device, dtype=torch.float64).rsqrt()
            told = (float(flat.sum()), float((flat * flat).sum()), float((flat * ramp).sum()))
            digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}{told}".encode())
    return digest.hexdigest()


def positions_of(mask: Any) -> Any:
    """Position of each token, counted from the first that is shown."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


def ends_of(model: Any) -> list[int]:
    """Ids with which a causal language model ends a text by its configuration."""
    config = getattr(model, "generation_config", None) or model.config
    own = config.eos_token_id if config.eos_token_id is not None else model.config.eos_token_id
    return list(own) if isinstance(own, list | tuple) else [own] if own is not None else []


def room_of(model: Any) -> int | None:
    """Positions that the model has; None where its configuration does not say."""
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    for name in ("n_positions", "max_position_embeddings"):
        size = getattr(config, name, None)
        if isinstance(size, int) and size > 0:
            return size
    return None
