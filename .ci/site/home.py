"""Pages that lie outside docs/: the README is the front, with the table of docs/index.md; others are as they are."""

from __future__ import annotations

import re

from links import MOVED, ROOT

TABLE = re.compile(r"<!-- methods:.*?<!-- /methods -->\n", re.S)
INSTEAD = (
    "[Every method has a page](docs/methods.md): formula, when it is wrong, what it reads, what it costs, an example.\n"
)


def pages() -> list[tuple[str, str, str]]:
    """For each: its path in the repository, its path on the site, its text."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    text, count = TABLE.subn(INSTEAD, readme)
    if count != 1:
        raise ValueError(f"README.md has {count} tables of methods between their marks; the front page replaces one")
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    table = re.sub(r"\]\((?!\.\./)", "](docs/", "\n".join(line for line in index.splitlines() if line.startswith("|")))
    front = f"---\ntitle: Home\nhide:\n  - navigation\n---\n\n{text}\n## Every page\n\n{table}\n"
    out = [("README.md", "index.md", front)]
    for name, page in MOVED.items():
        if not name.startswith(("README", "docs/")):
            out.append((name, page, (ROOT / name).read_text(encoding="utf-8")))
    return out
