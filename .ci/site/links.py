"""The repository's links as the site's: pages lie elsewhere there, and files of the code become pages."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

import notebook

ROOT = Path(__file__).resolve().parents[2]
FROM_ROOT = "repo:"
"""Generated pages write links to files as ``](repo:src/…)``."""

LINK = re.compile(r"(?<=\]\()[^)\s]+(?=\))")
PAPER = re.compile(r"(?:arXiv:|(?<=\| ))(\d{4}\.\d{5})(?= \||\b)")
FENCED = re.compile(r"^(?P<fence> *(?:```+|~~~+)).*?^(?P=fence)[`~]* *$", re.M | re.S)
ELSEWHERE = ("http://", "https://", "mailto:", "#")
MOVED = {
    "README.md": "index.md",
    "docs/index.md": "index.md",
    "docs/methods.md": "methods/index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples.md",
}
LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".sh": "sh", ".yml": "yaml", ".md": "markdown"}


def site_path(repo_path: str) -> str:
    """Where a file of the repository is found on the site; what is no page of the docs has one under ``source/``."""
    if repo_path in MOVED:
        return MOVED[repo_path]
    if repo_path.startswith("docs/"):
        return repo_path.removeprefix("docs/")
    return f"source/{repo_path}" if repo_path.endswith(".md") else f"source/{repo_path}.md"


def outside_fences(text: str, change: Callable[[str], str]) -> str:
    """The text with everything changed but its code blocks."""
    out, last = [], 0
    for block in FENCED.finditer(text):
        out += [change(text[last : block.start()]), block[0]]
        last = block.end()
    return "".join([*out, change(text[last:])])


def rewrite(text: str, *, repo_path: str, page: str) -> tuple[str, set[str]]:
    """Links of one page, and the files outside docs/ that it leads to.

    Args:
        text: Markdown. repo_path: the file it is from, which its links start at; for a generated page "".
        page: its path on the site.
    """
    wanted: set[str] = set()

    def moved(match: re.Match[str]) -> str:
        target, mark, anchor = match[0].partition("#")
        if match[0].startswith(ELSEWHERE) or (not repo_path and not target.startswith(FROM_ROOT)):
            return match[0]
        if target.startswith(FROM_ROOT):
            there = target.removeprefix(FROM_ROOT)
        else:
            there = posixpath.normpath(posixpath.join(posixpath.dirname(repo_path), target))
        if (ROOT / there).is_dir():
            there = posixpath.join(there, "README.md")
        if there == "docs/methods.md" and anchor:
            return relative(f"methods/{anchor}.md", page)
        led_to = site_path(there)
        if led_to.startswith("source/"):
            wanted.add(there)
        return relative(led_to, page) + mark + anchor

    return outside_fences(text, lambda part: LINK.sub(moved, part)), wanted


def papers_linked(text: str) -> str:
    """Numbers of arXiv as links, but in code and where they are links already."""
    parts = re.split(r"(`[^`]*`|\[[^\]]*\]\([^)]*\))", text)
    return "".join(
        part if part.startswith(("`", "[")) else PAPER.sub(r"[\g<0>](https://arxiv.org/abs/\1)", part) for part in parts
    )


def from_root(text: str, repo_path: str) -> str:
    """Text of a file with its links as a generated page writes them."""

    def absolute(match: re.Match[str]) -> str:
        there = posixpath.join(posixpath.dirname(repo_path), match[0])
        return match[0] if match[0].startswith(ELSEWHERE) else FROM_ROOT + posixpath.normpath(there)

    return LINK.sub(absolute, text)


def relative(target: str, page: str) -> str:
    """A path of the site as seen from one of its pages."""
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def sources(wanted: set[str]) -> dict[str, str]:
    """A page for each file, and for those that they lead to; what does not exist has none, so a link to it is dead."""
    pages: dict[str, str] = {}
    waiting = sorted(wanted)
    while waiting:
        repo_path = waiting.pop()
        page = site_path(repo_path)
        if page in pages or not (ROOT / repo_path).is_file():
            continue
        text = (ROOT / repo_path).read_text(encoding="utf-8")
        if repo_path.endswith(".md"):
            pages[page], more = rewrite(text, repo_path=repo_path, page=page)
            waiting += sorted(more)
        elif repo_path.endswith(".ipynb"):
            pages[page] = notebook.page(text)
        else:
            language = LANGUAGES.get(Path(repo_path).suffix, "text")
            pages[page] = f"# `{repo_path}`\n\n~~~~~{language}\n{text.rstrip()}\n~~~~~\n"
        pages[page] = "---\nsearch:\n  exclude: true\n---\n\n" + pages[page]
    return pages
