"""A page in a real headless Chromium: what its document looks like after its script ran."""

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
QUIET = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --disable-extensions --disable-default-apps --mute-audio --window-size=1280,900"
).split()
VOID = {"meta", "link", "input", "img", "br", "hr"}
WAIT = 120


class Element(NamedTuple):
    tag: str
    attributes: dict[str, str | None]
    text: list[str]  # text nodes anywhere below, filled while parsing


class Document(HTMLParser):
    """Elements with their attributes and texts, and every text node of the body outside scripts."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.texts: list[str] = []
        self._open: list[Element] = []
        self.source = source
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs), [])
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag):
        while self._open and self._open.pop().tag != tag:
            pass

    def handle_data(self, data):
        for element in self._open:
            element.text.append(data)
        if not any(element.tag in ("script", "style") for element in self._open):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def all(self, tag: str | None = None, **attributes: str) -> list[Element]:
        """Elements of that tag whose attributes have these values; class_ is one of the classes."""
        wanted = attributes.pop("class_", None)
        named = {name.replace("_", "-"): value for name, value in attributes.items()}
        return [
            element
            for element in self.elements
            if tag in (None, element.tag)
            and (wanted is None or wanted in (element.attributes.get("class") or "").split())
            and all(element.attributes.get(name) == value for name, value in named.items())
        ]

    def data(self, name: str) -> str | None:
        """What the page noted on its root element."""
        return self.all("html")[0].attributes.get(f"data-{name}")


def find_browser() -> str:
    """The program, or a skipped test."""
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    pytest.skip(f"no browser to look at the page with; install one of {', '.join(NAMES)}")


def load(path: Path, profile: Path, fragment: str = "") -> Document:
    """Open a page from disk in a fresh profile and return its document once it is still."""
    command = [find_browser(), *QUIET, f"--user-data-dir={profile}", "--dump-dom", path.as_uri() + fragment]
    done = subprocess.run(command, capture_output=True, check=True, timeout=WAIT)
    return Document(done.stdout.decode("utf-8", "replace"))
