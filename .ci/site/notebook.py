"""A notebook as a page: its text, its code, and what its run showed."""

from __future__ import annotations

import json
from typing import Any


def page(text: str) -> str:
    """Markdown of a notebook's JSON; pictures travel inside the page."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source:
            parts.append(f"~~~~~python\n{source}\n~~~~~")
            parts += [shown for output in cell["outputs"] if (shown := _output(output))]
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="what the cell shows" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    told = "".join(output.get("text") or data.get("text/plain") or "").rstrip()
    return f"~~~~~text\n{told}\n~~~~~" if told else ""
