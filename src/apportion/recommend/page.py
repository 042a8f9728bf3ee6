"""The tables of ``docs/recommend.md``, written from the facts and the guide; `make tables` puts them into the page."""

from __future__ import annotations

from apportion.recommend.facts import FACTS
from apportion.recommend.guide import guide

BEGIN, END = "<!-- guide: written by `make tables`, checked by a test -->", "<!-- /guide -->"


def page(text: str) -> str:
    """The page with its tables between the two marks."""
    before, _, rest = text.partition(BEGIN)
    return before + _tables() + rest.partition(END)[2]


def _tables() -> str:
    lines = [BEGIN, "", "## Facts", "", "| fact | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in FACTS.items()]
    lines += ["", "## Rules", "", "| question | rule | fires where | then | source |", "|---|---|---|---|---|"]
    for rule in guide().rules:
        when = " and ".join(f"`{c.fact} {c.comparison} {c.number:g}`" for c in rule.when)
        named = ", ".join([*(f"`{name}`" for name in rule.methods), *rule.elsewhere])
        lines.append(f"| {rule.question} | `{rule.id}` | {when} | {named}: {rule.why} | {rule.source} |")
    lines += ["", "## Cautions", "", "| methods | where | mind |", "|---|---|---|"]
    for caution in guide().cautions:
        when = " and ".join(f"`{c.fact} {c.comparison} {c.number:g}`" for c in caution.when)
        named = ", ".join(f"`{name}`" for name in caution.methods)
        lines.append(f"| {named} | {when} | {caution.text} ({caution.source}) |")
    return "\n".join([*lines, "", END])
