"""A report as one HTML file: opens offline, fetches nothing, runs nothing that it shows.

Three walls stand between a transcript and the reader's browser: the data are compressed and written in base64, an
alphabet without markup; the viewer puts text into the page as text nodes only; and a content security policy admits
one script and one style sheet by their digests and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import os
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from apportion.credit import Credit
from apportion.data.atomic import atomic_write
from apportion.report.charts import learning_pictures
from apportion.report.demo import training_parts
from apportion.report.model import Report
from apportion.report.pages import build_pages, packed
from apportion.report.texts import Decode

EMBEDDED, SERVED = "store_embedded.js", "store_served.js"
SCRIPTS = (
    "dom.js numbers.js table.js data.js lens.js list.js chart.js verdict.js transcript.js detail.js layout.js graph.js "
    "states.js groups.js compare.js histogram.js overview.js learning.js about.js keys.js main.js"
).split()
"""The viewer, in the order in which it is read, after one of the two stores; one function scope around all of it."""
STYLES = ("base.css", "trajectory.css", "pages.css", "graph.css", "media.css")

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
    made = Report(credits, title=title, decode=decode)
    _write(path, *build_pages(made, made.header()))


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
        summary: see `apportion.report.demo.training_parts`.
        credits: credit of some rollouts, one per method.
        path: the HTML file.

    Raises:
        DataError: the summary or the credit cannot be shown.
        MissingExtra: the summary has curves, and matplotlib is not installed.
    """
    parts = training_parts(summary)
    made = Report(credits, title=title, decode=decode)
    pictures = learning_pictures(parts["learning"]) if "learning" in parts else None
    index, pages = build_pages(made, made.header() | parts)
    _write(path, index | {"pictures": pictures} if pictures else index, pages)


def page(index: Mapping[str, Any], pages: Sequence[bytes]) -> str:
    """The HTML of a report with its data in it.

    Args:
        index, pages: what `apportion.report.pages.build_pages` returned.
    """
    blocks = [_block("index", packed(index)), *(_block(f"page-{k}", page) for k, page in enumerate(pages))]
    return _filled(str(index["title"]), EMBEDDED, "\n".join(blocks), "'none'")


def served_page(title: str) -> str:
    """The HTML of a report that asks its own server for the data, and nobody else."""
    return _filled(title, SERVED, "", "'self'")


def policy(script: str, style: str, connect: str) -> str:
    """The content security policy of a page: this script, this style sheet, pictures inside the page, nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_digest(script)}",
            f"style-src {_digest(style)}",
            "img-src data:",
            f"connect-src {connect}",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        )
    )


def _filled(title: str, store: str, blocks: str, connect: str) -> str:
    script = "(() => {\n'use strict';\n" + "\n".join(_asset(name) for name in (store, *SCRIPTS)) + "\n})();\n"
    style = "\n".join(_asset(name) for name in STYLES)
    slots = {
        "csp": policy(script, style, connect),
        "title": html.escape(_LONE_SURROGATE.sub("\ufffd", title)),
        "style": style,
        "blocks": blocks,
        "script": script,
    }
    # one pass, so that a title with {{…}} in it stays a title
    return _SLOT.sub(lambda slot: slots[slot[1]], _asset("page.html"))


def _block(name: str, data: bytes) -> str:
    return f'<script type="application/gzip" id="{name}">{base64.b64encode(data).decode("ascii")}</script>'


def _write(path: str | os.PathLike[str], index: Mapping[str, Any], pages: Sequence[bytes]) -> None:
    text = page(index, pages)
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))


def _asset(name: str) -> str:
    return (resources.files("apportion.report") / "viewer" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode()}'"
