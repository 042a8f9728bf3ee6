"""What a method says about itself, as data and as text: one source for the command line and the docs."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

from apportion.methods.registry import get, names
from apportion.methods.spec import REQUIRED, MethodSpec

LABELS = ("Use", "Source", "Compared", "Deviates")
"""Labels that open the docstring of every method file, in this order."""

HANG = 10
"""Columns in front of what a label says."""


@dataclass(frozen=True, slots=True)
class Description:
    """A method's own account: see `describe`."""

    name: str
    kind: str
    family: str
    unit: str
    units: tuple[str, ...]
    summary: str
    formula: str
    sections: dict[str, str]
    reads: tuple[str, ...]
    needs: tuple[str, ...]
    holds: tuple[str, ...]
    defaults: dict[str, Any]
    arguments: str
    file: str

    def to_dict(self) -> dict[str, Any]:
        """JSON values; a required parameter is null."""
        out = {name: getattr(self, name) for name in self.__slots__}
        out["defaults"] = {k: None if v is REQUIRED else v for k, v in self.defaults.items()}
        out["required"] = [k for k, v in self.defaults.items() if v is REQUIRED]
        return out

    def text(self) -> str:
        """For a terminal."""
        signature = ", ".join(f"{k}" if v is REQUIRED else f"{k}={v!r}" for k, v in self.defaults.items())
        lines = [f"{self.name}({signature})", "", self.summary, "", self.formula, ""]
        for label in LABELS:
            if label in self.sections:
                lines += [f"{label:<{HANG}}{_hang(self.sections[label], HANG)}"]
        cuts = ", ".join(f"by_{level}" for level in self.units) or "any cut"
        lines += [
            f"{'Unit':<10}{self.unit} (accepts {cuts})",
            f"{'Reads':<10}{', '.join(self.reads) or 'the credit only'}",
            f"{'Needs':<10}{', '.join(self.needs) or 'no resource'}",
            f"{'Obeys':<10}{', '.join(self.holds) or 'no declared law'}",
            f"{'File':<10}{self.file}",
            "",
            self.arguments,
        ]
        return "\n".join(lines).rstrip() + "\n"


def describe(name: str) -> Description:
    """Formula, source, what it reads, defaults and deviations of a method or transform.

    Raises:
        UnknownName: with the nearest names.
    """
    spec = get(name)
    summary, formula, sections = parse_docstring(spec.module_doc)
    return Description(
        name=spec.name,
        kind=spec.kind,
        family=spec.family,
        unit=spec.unit,
        units=spec.units,
        summary=summary,
        formula=formula,
        sections=sections,
        reads=spec.reads,
        needs=spec.needs,
        holds=spec.holds,
        defaults=dict(spec.defaults),
        arguments=spec.doc,
        file=spec.module.replace(".", "/") + ".py",
    )


def methods(*, plugins: bool = False) -> tuple[MethodSpec, ...]:
    """Every registered method and transform; ``plugins`` also loads what other packages offer."""
    return tuple(get(name) for name in names(plugins=plugins))


def parse_docstring(doc: str) -> tuple[str, str, dict[str, str]]:
    """Summary, formula and labelled sections of a method file's docstring."""
    text = inspect.cleandoc(doc)
    first, _, rest = text.partition("\n\n")
    summary = first.split(":", 1)[-1].strip().replace("\n", " ")
    formula: list[str] = []
    sections: dict[str, list[str]] = {}
    label = ""
    for line in rest.splitlines():
        match = re.match(r"([A-Z][a-z]+)\s{2,}(\S.*)", line)
        if match and match[1] in LABELS:
            label = match[1]
            sections[label] = [match[2]]
        elif label:
            inside = line.startswith(" " * HANG)  # a numbered list keeps the indent of its own
            sections[label].append(line[HANG:].rstrip() if inside else line.strip())
        else:
            formula.append(line.rstrip())
    joined = {name: "\n".join(lines).strip() for name, lines in sections.items()}
    return summary, "\n".join(formula).strip("\n"), joined


def markdown_table(*, link: str = "../src/") -> str:
    """The table of methods for README and docs, generated from the registry."""
    rows = ["| method | kind | unit | reads | what it does | source |", "| --- | --- | --- | --- | --- | --- |"]
    for spec in sorted(methods(), key=lambda spec: (spec.kind, spec.family, spec.name)):
        told = describe(spec.name)
        reads = ", ".join(f"`{column}`" for column in spec.reads) or ("answers" if spec.needs else "credit")
        path = f"{link}{told.file}"
        rows.append(
            f"| [`{spec.name}`]({path}) | {spec.family} | {spec.unit} | {reads} | "
            f"{_cell(told.summary)} | {_cell(spec.source)} |"
        )
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _hang(text: str, width: int) -> str:
    return text.replace("\n", "\n" + " " * width)
