"""Write the generated tables into README.md, docs/methods.md and docs/recommend.md; --check only says what is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from apportion.methods import describe, markdown_table, methods
from apportion.recommend.page import page as guide_page

ROOT = Path(__file__).resolve().parent.parent
OPEN, CLOSE = "<!-- methods:", "<!-- /methods -->"


def readme(text: str) -> str:
    """README with the table between its markers."""
    begin = text.index("\n", text.index(OPEN)) + 1
    return text[:begin] + markdown_table(link="src/") + text[text.index(CLOSE) :]


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
