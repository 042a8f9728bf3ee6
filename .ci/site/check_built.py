"""What the generator does not check of the built site: `python .ci/site/check_built.py build/site`.

Nothing is loaded from elsewhere; every link inside leads to a page, and every anchor to a place in it; every registered
method has a page, and every public name an entry in the reference.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}


class Html(HTMLParser):
    """Ids, links and loaded files of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect."""
        given = dict(attrs)
        if given.get("id"):
            self.ids.add(str(given["id"]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        told = given.get(LOADS.get(tag, ""))
        if told and given.get("rel") != "canonical":
            self.loads.append(told)


def problems(site: Path, methods: list[str], names: list[str]) -> Iterator[str]:
    """One sentence for each thing that is wrong."""
    pages = {path.resolve(): Html(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        where = path.relative_to(site.resolve()).as_posix()
        yield from (f"{where} loads {there} from elsewhere" for there in page.loads if _elsewhere(there))
        local = [one for one in page.loads if not _elsewhere(one) and where != "404.html"]
        yield from (f"{where} loads {there}, which is not there" for there in local if _dead(there, path, pages))
        if where != "404.html":  # its links start at the root of a server
            yield from (f"{where}: {wrong}" for link in page.links if (wrong := _dead(link, path, pages)))
    for path in sorted((site / "assets").glob("*.css")):
        if re.search(r"url\(\s*['\"]?(https?:)?//", path.read_text(encoding="utf-8")):
            yield f"{path.name} loads from elsewhere"
    for name in methods:
        if not (site / "methods" / f"{name}.html").is_file():
            yield f"the method {name} has no page"
    entries = {one for path, page in pages.items() if "reference" in path.parts for one in page.ids}
    yield from (f"the reference has no entry for {name}" for name in names if name not in entries)


def _elsewhere(target: str) -> bool:
    return urlsplit(target).scheme in ("http", "https") or target.startswith("//")


def _dead(link: str, path: Path, pages: dict[Path, Html]) -> str:
    parts = urlsplit(link)
    if parts.scheme or link.startswith("//"):
        return ""
    there = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
    there = there / "index.html" if there.is_dir() else there
    if not there.is_file():
        return f"{link} leads nowhere"
    anchor = unquote(parts.fragment)
    if anchor and not anchor.startswith("__") and there in pages and anchor not in pages[there].ids:
        return f"{link} leads to no place in that page"
    return ""


def main(site: Path) -> int:
    """Say what is wrong with a site."""
    import reference

    from apportion.methods import methods

    found = list(problems(site, [spec.name for spec in methods()], reference.anchors()))
    print("\n".join(found) or f"{site}: every link leads somewhere, nothing is loaded from elsewhere")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
