"""A page for each registered method: what its file says, and what the rest of the project says of it."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from links import ROOT, from_root, papers_linked
from method_facts import FAMILIES, LAWS, asked, columns_told, cost_class, source_link
from worked import examples, try_it

from apportion.methods import MethodSpec, describe, methods
from apportion.methods.spec import REQUIRED
from apportion.recommend.guide import guide

FOLDER = "methods"


def nav() -> list[Any]:
    """The methods by kind, in the order of `FAMILIES`."""
    specs = methods()
    return [
        {title: [{spec.name: f"{FOLDER}/{spec.name}.md"} for spec in specs if spec.family == family]}
        for family, (title, _) in FAMILIES.items()
    ]


def pages() -> dict[str, str]:
    """The overview, and one page for each method."""
    return {f"{FOLDER}/index.md": overview(), **{f"{FOLDER}/{spec.name}.md": page(spec) for spec in methods()}}


def linked(text: str, *, folder: str = FOLDER) -> str:
    """Names of methods in the rows of tables, as links to their pages."""
    names = {spec.name for spec in methods()}

    def link(match: re.Match[str]) -> str:
        return f"[{match[0]}]({folder}/{match[1]}.md)" if match[1] in names else match[0]

    rows = (re.sub(r"(?<!\[)`(\w+)`", link, line) if line.startswith("|") else line for line in text.split("\n"))
    return "\n".join(rows)


def overview() -> str:
    """Tables of methods by kind."""
    parts = [
        "---\ntitle: All methods\n---\n\n# Methods\n\nEach is one file and one pure function from units to credit; "
        "its page is made from that file. To choose, see [the decision guide](../recommend.md); to combine, "
        '`ap.assign("grpo + 0.5*anchor | whiten", units)`.\n'
    ]
    for family, (title, about) in FAMILIES.items():
        parts += [f"## {title}\n\n{about}\n", "| method | unit | what it does | cost |\n|---|---|---|---|"]
        for spec in (spec for spec in methods() if spec.family == family):
            told = describe(spec.name)
            cost = cost_class(spec).partition(":")[0]
            parts.append(f"| [`{spec.name}`]({spec.name}.md) | {spec.unit} | {cell(told.summary)} | {cost} |")
        parts.append("")
    return "\n".join(parts)


def page(spec: MethodSpec) -> str:
    """Everything that the project knows about one method."""
    told = describe(spec.name)
    parts = [
        f"# {spec.name}",
        prose(sentence(told.summary)),
        facts(spec),
        "## Formula",
        f"```text\n{textwrap.dedent(told.formula)}\n```",
    ]
    parts += ["## When to use it, and when it is wrong", prose(sentence(told.sections["Use"])), *guidance(spec)]
    parts += ["## Use it", try_it(spec)]
    parts += ["## Parameters", parameters(spec)]
    parts += ["## Worked example", *examples(spec)]
    parts += ["## Deviations", "**From the paper and its code**, by their numbers in the file:"]
    parts += [prose(told.sections["Deviates"]), f"**Compared** {prose(told.sections['Compared'])}"]
    parts += [hosts(spec.name), "## Paper", f"**Source** {prose(told.sections['Source'])}", paper(spec.name)]
    return "\n\n".join(part for part in parts if part) + "\n"


def facts(spec: MethodSpec) -> str:
    """The small table at the top."""
    cuts = ", ".join(f"`by_{level}`" for level in spec.units) or "any cut"
    reads = columns_told(spec) or "the credit that it changes" * (spec.kind == "transform") or "the answers alone"
    laws = "; ".join(LAWS[law] for law in spec.holds) or "none is declared"
    file = f"src/{describe(spec.name).file}"
    rows = {
        "Unit": f"{spec.unit} (accepts {cuts})",
        "Cost": cost_class(spec),
        "Reads": reads,
        "Asks": asked(spec),
        "Laws": laws,
        "Trees": "refuses rollouts that fork" if spec.chain else "takes rollouts that fork",
        "Source": source_link(spec.source),
        "File": f"[`{file}`](repo:{file})",
    }
    return "| | |\n|---|---|\n" + "\n".join(f"| **{name}** | {text} |" for name, text in rows.items())


def guidance(spec: MethodSpec) -> list[str]:
    """What the decision guide says of it."""
    rules = [rule for rule in guide().rules if spec.name in rule.methods]
    cautions = [caution for caution in guide().cautions if spec.name in caution.methods]
    out = []
    for rule in rules:
        when = " and ".join(f"`{c.fact} {c.comparison} {c.number:g}`" for c in rule.when)
        why_not = f"it {rule.why_not}" if rule.why_not.startswith("needs") else rule.why_not
        out.append(f"* [The guide](../recommend.md#rules) names it where {when}: {rule.why}. Otherwise not: {why_not}.")
    for caution in cautions:
        when = " and ".join(f"`{c.fact} {c.comparison} {c.number:g}`" for c in caution.when)
        out.append(f"* Mind, where {when}: {caution.text}.")
    if spec.kind == "transform" and not rules:
        out.append("* A transform: it stands behind a bar and changes the credit of what is before it.")
    return ["\n".join(out)] if out else []


def parameters(spec: MethodSpec) -> str:
    """Names, defaults and meanings, from the docstring of the function."""
    doc = f"{spec.doc}\n"
    body = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", doc, re.M | re.S)
    entries = re.split(r"^ {4}(?=\S)", body[1], flags=re.M)[1:] if body else []
    rows = ["| parameter | default | meaning |", "|---|---|---|"]
    for entry in entries:
        names, _, meaning = " ".join(entry.split()).partition(": ")
        defaults = [spec.defaults[name] for name in names.split(", ") if name in spec.defaults]
        shown = ", ".join("required" if value is REQUIRED else f"`{value!r}`" for value in defaults)
        named = ", ".join(f"`{name}`" for name in names.split(", "))
        rows.append(f"| {named} | {cell(shown)} | {cell(prose(meaning))} |")
    rest = doc[body.end() :].strip() if body else ""
    after = [
        f"**{head}** {prose(' '.join(text.split()))}"
        for head, text in re.findall(r"^(Returns|Raises):\n(.*?)(?=^\S|\Z)", rest, re.M | re.S)
    ]
    lead = doc[: body.start()].strip() if body else doc.strip()
    return "\n\n".join([prose(lead), "\n".join(rows), *after])


def hosts(name: str) -> str:
    """Rows of the parity table about this method."""
    lines = (ROOT / "docs" / "parity.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith(f"| `{name}` |")]
    if not rows:
        return (
            "[Parity](../parity.md) has no row about it: no trainer is known to compute something else under this name."
        )
    cells = [re.split(r"(?<!\\)\|", row)[2:-1] for row in rows]
    table = "\n".join(f"|{'|'.join(row)}|" for row in cells)
    return (
        "**From each host**, with the option that gives its numbers ([parity](../parity.md)):\n\n"
        f"| whose | what is done there | here | test |\n|---|---|---|---|\n{table}"
    )


def paper(name: str) -> str:
    """The paragraph of docs/papers.md."""
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    match = re.search(rf"^## {name}\n\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if not match:
        raise ValueError(f"docs/papers.md has no paragraph about {name}; write one")
    return papers_linked(from_root(match[1].strip(), "docs/papers.md"))


def sentence(text: str) -> str:
    """With a capital."""
    return text[:1].upper() + text[1:]


def prose(text: str) -> str:
    """A docstring's text as Markdown: double backticks are code, a bare sign is no HTML."""
    parts = re.split(r"(``.*?``|`[^`]*`)", text, flags=re.S)
    safe = [part if part.startswith("`") else part.replace("<", "&lt;").replace("*", "\\*") for part in parts]
    return re.sub(r"``(.*?)``", r"`\1`", "".join(safe), flags=re.S)


def cell(text: str) -> str:
    """Text inside a table."""
    return text.replace("|", "\\|").replace("\n", " ")
