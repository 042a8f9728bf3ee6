"""A report as one HTML file: opens offline, fetches nothing, runs nothing that it shows.

Three walls stand between a transcript and the reader's browser: the data are a JSON block in which no markup can
occur, the viewer puts text into the page as text nodes only, and a content security policy admits one script and one
style sheet by their digests and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from apportion.credit import Credit
from apportion.data.atomic import atomic_write
from apportion.errors import DataError
from apportion.report.charts import learning_pictures
from apportion.report.demo import demo_model
from apportion.report.model import SCHEMA, Decode, report_model

SCRIPTS = ("dom.js", "model.js", "list.js", "trajectory.js", "states.js", "overview.js", "main.js")
"""The viewer, in the order in which it is read; one function scope around all of it."""

_MARKUP = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def report(
    credits: Credit | Sequence[Credit],
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    decode: Decode | None = None,
) -> None:
    """Write credit as a page to look at; the file is whole or absent.

    Args:
        credits: one credit, or several to compare on the same trajectories.
        path: the HTML file.
        title: heading; default the methods.
        decode: text of each token id, for rollouts without text and for cuts inside a step.

    Raises:
        DataError: no credit, or something that is not one.
        ConfigError: the folder of the file is missing.
    """
    _write(path, report_model(credits, title=title, decode=decode))


def demo_report(
    summary: Mapping[str, Any],
    credits: Credit | Sequence[Credit],
    path: str | os.PathLike[str],
    *,
    title: str = "apportion demo",
    decode: Decode | None = None,
) -> None:
    """Write the report of a training run: what was learned, how methods compare with the truth, and the credit.

    Args:
        summary: see `apportion.report.demo.demo_model`.
        credits: credit of some rollouts, one per method.
        path: the HTML file.

    Raises:
        DataError: the summary or the credit cannot be shown.
        MissingExtra: the summary has curves, and matplotlib is not installed.
    """
    _write(path, demo_model(summary, credits, title=title, decode=decode))


def page(model: Mapping[str, Any]) -> str:
    """The HTML of a report model.

    Raises:
        DataError: the dict is not of this schema.
    """
    if model.get("schema") != SCHEMA:
        raise DataError(f"the page shows {SCHEMA!r}, the data are {model.get('schema')!r}; make the model again")
    script = "(() => {\n'use strict';\n" + "\n".join(_asset(name) for name in SCRIPTS) + "\n})();\n"
    style = _asset("style.css")
    pictures = learning_pictures(model["learning"]) if "learning" in model else None
    slots = {
        "csp": "; ".join(
            (
                "default-src 'none'",
                f"script-src {_digest(script)}",
                f"style-src {_digest(style)}",
                "img-src data:",
                "base-uri 'none'",
                "form-action 'none'",
                "require-trusted-types-for 'script'",
            )
        ),
        "title": html.escape(_LONE_SURROGATE.sub("\ufffd", str(model["title"]))),
        "style": style,
        "data": json_block({**model, "pictures": pictures} if pictures else model),
        "script": script,
    }
    # one pass, so that a transcript with {{…}} in it stays a transcript
    return _SLOT.sub(lambda slot: slots[slot[1]], _asset("page.html"))


def json_block(value: Any) -> str:
    """JSON for inside a script element: no character that HTML could take for markup, nothing that UTF-8 lacks."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_MARKUP)
    return _LONE_SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def _write(path: str | os.PathLike[str], model: Mapping[str, Any]) -> None:
    text = page(model)
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))


def _asset(name: str) -> str:
    return (resources.files("apportion.report") / "viewer" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode()}'"
