"""Write the generated tables into README.md, docs/methods.md and docs/recommend.md; --check only says what is stale.

The README's table of truth is what `experiments/demo_truth.py` stored.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from apportion.methods import describe, markdown_table, methods
from apportion.recommend.page import page as guide_page

ROOT = Path(__file__).resolve().parent.parent
OPEN, CLOSE = "<!-- methods:", "<!-- /methods -->"
TRUTH = ROOT / "experiments" / "results" / "demo_truth.json"
SHOWN = "exact advantage|gae|pooled|gigpo|hgpo|reinforce_pp|rloo|grpo|immediate reward|random".split("|")


def between(text: str, opens: str, closes: str, table: str) -> str:
    """The text with a table between two marks, each on a line of its own."""
    begin = text.index("\n", text.index(opens)) + 1
    return text[:begin] + table + text[text.index(closes) :]


def kinds() -> str:
    """Every method by kind, each with a link to what it says of itself."""
    rows: dict[str, list[str]] = {}
    for spec in sorted(methods(), key=lambda spec: (spec.kind, spec.family, spec.name)):
        kind = "transform" if spec.kind == "transform" else spec.family
        rows.setdefault(kind, []).append(f"[`{spec.name}`](docs/methods.md#{spec.name})")
    lines = [f"| {kind} | {len(names)} | {' '.join(names)} |" for kind, names in rows.items()]
    return "\n".join(["| credit by | | methods |", "| --- | ---: | --- |", *lines]) + "\n"


def truth() -> str:
    """The demo's credit against truth: the cosine of each gradient with the exact one, with its interval."""
    told: dict[str, Any] = json.loads(TRUTH.read_text(encoding="utf-8"))["tasks"]
    first, *others = told
    order = sorted(told[first]["rows"], key=lambda name: -told[first]["rows"][name]["grad_cos"][0])
    shown = [name for name in order if name in SHOWN and all(name in told[o]["rows"] for o in others)]
    lines = ["| credit | " + " | ".join(told) + " |", "| --- |" + " ---: |" * len(told)]
    for name in shown:
        cells = [told[one]["rows"][name]["grad_cos"] for one in told]
        words = " | ".join(f"{value:z.2f} [{low:z.2f}, {high:z.2f}]".replace("-", "−") for value, low, high in cells)
        label = name if " " in name or name == "random" else f"`{name}`"
        lines.append(f"| {label} | {words} |")
    return "\n".join(lines) + "\n"


def readme(text: str) -> str:
    """README with its tables between their marks."""
    text = between(text, OPEN, CLOSE, kinds())
    return between(text, "<!-- truth:", "<!-- /truth -->", truth()) if TRUTH.exists() else text  # an sdist has none


def page() -> str:
    """docs/methods.md: the table, then what every method says about itself."""
    parts = ["# Methods\n\nGenerated from the registry by `make tables`.\n\n" + markdown_table(link="../src/")]
    for spec in sorted(methods(), key=lambda spec: (spec.kind, spec.family, spec.name)):
        parts.append(f"## {spec.name}\n\n```text\n{describe(spec.name).text()}```\n")
    return "\n".join(parts)


def main() -> int:
    """Write, or check."""
    docs = ROOT / "docs"
    wanted = {
        ROOT / "README.md": readme((ROOT / "README.md").read_text()),
        docs / "methods.md": page(),
        docs / "recommend.md": guide_page((docs / "recommend.md").read_text()),
    }
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what the registry says; run `make tables`")
        return int(bool(stale))
    for path in stale:
        path.write_text(wanted[path])
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
