"""Worked examples of a method's page: numbers that its tests follow by hand, and lines that run."""

from __future__ import annotations

import ast
import re
from typing import Any

from links import ROOT

from apportion.methods import MethodSpec
from apportion.methods.spec import REQUIRED

BY_HAND = re.compile(r"test_\w*(worked|by_hand)")


def examples(spec: MethodSpec) -> list[str]:
    """The code of the tests whose numbers can be followed by hand."""
    path = f"tests/methods/test_{spec.name}.py"
    text = (ROOT / path).read_text(encoding="utf-8")
    found = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and BY_HAND.match(n.name)]
    if not found:
        raise ValueError(f"{path} has no test_worked_example…; write one whose numbers can be followed by hand")
    lines = text.splitlines()
    out = [f"Numbers that can be followed by hand, as [`{path}`](repo:{path}) checks them in every test run:"]
    for node in found[:2]:
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        out.append("```{.python .test}\n" + "\n".join(lines[first - 1 : node.end_lineno]) + "\n```")
    return out


def try_it(spec: MethodSpec) -> str:
    """Lines that run as they stand (`tests/test_docs_site.py`), and the same on the command line."""
    params = {**spec.example} if any(v is REQUIRED for v in spec.defaults.values()) or spec.example else {}
    given = ", ".join(f"{key}={short(value)}" for key, value in params.items())
    columns = [column.removeprefix("column:") for column in spec.reads if column.startswith("column:")]
    extra = f", columns={columns}" if columns else ""
    lines = ["import apportion as ap", "from apportion.testing import random_units", ""]
    lines.append(f'units = random_units(1, "{spec.unit}"{extra})   # a made-up batch that has every column')
    options = f", {given}" if given else ""
    shell = f"apportion assign runs.jsonl --method {spec.name} --out credit.parquet"
    if spec.kind == "transform":
        call = f"{spec.name}({given})" if given else spec.name
        lines.append(f'credit = ap.assign("grpo | {call}", units)')
        shell = f"apportion assign runs.jsonl --method 'grpo | {call}' --unit {spec.unit} --out credit.parquet"
    elif spec.plan is not None:
        lines.append(f'print(ap.cost("{spec.name}", units{options}))   # what it would ask for; nothing is asked')
        return (
            fence(lines) + "\n\nTo credit with it, say whom it may ask and what that may cost: [asking](../asking.md)."
        )
    else:
        lines.append(f'credit = ap.assign("{spec.name}", units{options})')
        flags = "".join(f" --{key.replace('_', '-')} {value}" for key, value in params.items())
        shell = f"apportion assign runs.jsonl --method {spec.name}{flags} --out credit.parquet"
    lines.append("credit.advantage_S, credit.parts, credit.notes   # a number per unit, its summands, what to know")
    return fence(lines) + f"\n\n```sh\n{shell}\n```"


def fence(lines: list[str]) -> str:
    """A block of Python."""
    return "```python\n" + "\n".join(lines) + "\n```"


def short(value: Any) -> str:
    """A value as code; of a long list its beginning."""
    if isinstance(value, list | tuple) and len(value) > 3:
        value = list(value)[:3]
    return repr(value).replace('"', "'")
