"""A report in pieces: an index that says enough to list, sort and open, and pages with the transcripts, compressed.

    index   the report's header; of each trajectory its id, group, outcome, flags, steps, page, the credit of each
            step to four digits, and the verdict's step and trust; of each group its page and number of states
    page    {"texts": […], "states": […], "trajectories": {"7": …}}, whole groups each

A browser reads the index at once and a page when somebody looks at one of its trajectories.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any

from apportion.report.model import Report
from apportion.report.texts import Texts
from apportion.report.unit_runs import step_values

WEIGHT = 1500
"""Steps after which a page ends; a group is never divided."""
TRUST = ("none", "weak", "good")
FLAGS = ("truncated", "failed")


def build_pages(report: Report, header: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """The index of a report, and its pages as gzip of JSON.

    Args:
        report: where the trajectories come from.
        header: `Report.header`, with whatever else the index should hold.
    """
    groups = [{**group, "page": 0, "states": 0} for group in header["groups"]]
    index: dict[str, Any] = {key: value for key, value in header.items() if key not in ("trajectories", "states")}
    index["groups"] = groups
    listed: dict[int, dict[str, Any]] = {}
    pages: list[bytes] = []
    texts, states, held, weight = Texts(), list[dict[str, Any]](), dict[str, Any](), 0

    def close() -> None:
        nonlocal texts, states, held, weight
        pages.append(packed({"texts": texts.all, "states": states, "trajectories": held}))
        texts, states, held, weight = Texts(), [], {}, 0

    for g, group in enumerate(groups):
        before = len(states)
        for t, trajectory in report.group(g, texts, states):
            held[str(t)] = trajectory
            weight += len(trajectory["steps"])
            listed[t] = _listed(trajectory, len(pages))
        group |= {"page": len(pages), "states": len(states) - before}
        if weight >= WEIGHT:
            close()
    if held:
        close()
    index["pages"] = len(pages)
    index["trajectories"] = [listed[t] for t in range(len(listed))]
    return index, pages


def _listed(trajectory: Mapping[str, Any], page: int) -> dict[str, Any]:
    entry = {key: trajectory[key] for key in ("id", "group", "outcome")} | {"page": page}
    if not trajectory["valid"]:
        entry["valid"] = False
    entry |= {flag: True for flag in FLAGS if trajectory.get(flag)}
    entry["values"], entry["verdict"] = {}, {}
    for c, credit in trajectory["credit"].items():
        values = step_values(credit)
        entry["values"][c] = [None if value is None else _four(value) for value in values]
        entry["verdict"][c] = [credit["verdict"]["step"], TRUST.index(credit["verdict"]["trust"])]
    return entry


def search(pages: list[bytes], query: str) -> Iterator[int]:
    """Trajectories in whose steps a text occurs, capitals or not."""
    wanted = query.casefold()
    for packed_page in pages:
        page = json.loads(gzip.decompress(packed_page))
        hits = {i for i, text in enumerate(page["texts"]) if wanted in text.casefold()}
        for t, trajectory in page["trajectories"].items():
            if any(step["action"] in hits or step.get("context") in hits for step in trajectory["steps"]):
                yield int(t)


def packed(value: Any) -> bytes:
    """JSON, compressed; equal values give equal bytes."""
    return gzip.compress(to_json(value).encode("ascii"), compresslevel=6, mtime=0)


def to_json(value: Any) -> str:
    """JSON in ASCII, so that halves of surrogate pairs survive, without numbers that JSON lacks."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _four(value: float) -> float:
    return float(f"{value:.4g}")
