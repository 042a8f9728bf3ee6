"""What an OpenAI-compatible server says about itself in its list of models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apportion.errors import ResourceError
from apportion.resources.dialects import DIALECTS, Dialect, dialect_of


@dataclass(frozen=True, slots=True)
class Server:
    """What a server says about itself.

    Attributes:
        model: name of the model that is asked. dialect: what it takes and tells.
        room: tokens of context and answer together; None = not told.
    """

    model: str
    dialect: Dialect
    room: int | None


def met(url: str, told: dict[str, Any], model: str | None, dialect: str) -> Server:
    """What a list of models says.

    Args:
        url: for messages. told: the answer to ``/models``.
        model: the one that is wanted; None = the only one. dialect: "auto", or a name of `DIALECTS`.

    Raises:
        ResourceError: the server has not the model, or several and none was named.
    """
    listed = [m for m in told.get("data") or () if isinstance(m, dict) and isinstance(m.get("id"), str)]
    names = [m["id"] for m in listed]
    if model is None and len(names) != 1:
        have = f"lists {', '.join(names[:8])}" if names else "lists no model"
        raise ResourceError(f"{url} {have}; name the one to ask")
    found = next((m for m in listed if m["id"] == model), None)
    if model is not None and names and found is None and not _hidden(names):
        raise ResourceError(f"{url} has no model {model!r}; it lists {', '.join(names[:8])}")
    first = found or (listed[0] if listed else {})
    room = first.get("max_model_len")
    return Server(
        model if model is not None else names[0],
        dialect_of(first.get("owned_by")) if dialect == "auto" else DIALECTS[dialect],
        room if type(room) is int and room > 0 else None,
    )


def _hidden(names: list[str]) -> bool:
    """Some servers list one model under a file name and take any name."""
    return len(names) == 1 and names[0].endswith(".gguf")
