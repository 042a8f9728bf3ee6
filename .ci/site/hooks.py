"""What mkdocs calls: puts generated pages beside those of docs/, and turns the repository's links into the site's."""

from __future__ import annotations

from typing import Any

import command_line
import home
import links
import method_page
import questions
import reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

LINKED = ("recommend.md", "survey.md", "losses.md")
"""Pages in whose tables the name of a method leads to its page."""

REPLACED = ("index.md", "methods.md")
"""Pages for readers of the repository: the site's front is the README, and each method has a page."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The parts of the navigation that follow from the code."""
    nav: list[Any] = config.nav or []
    for section in nav:
        for title, entries in section.items():
            if title == "Methods":
                entries += method_page.nav()
            elif title == "Reference":
                entries += reference.nav()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is generated, and a page for every file of the code that a page leads to."""
    for name in REPLACED:
        if file := files.get_file_from_path(name):
            files.remove(file)
    pages = {**method_page.pages(), **reference.pages(), **questions.pages(), **command_line.pages()}
    wanted: set[str] = set()
    for page, text in pages.items():
        pages[page], found = links.rewrite(text, repo_path="", page=page)
        wanted |= found
    for repo_path, page, text in home.pages():
        pages[page], found = links.rewrite(text, repo_path=repo_path, page=page)
        wanted |= found
    for file in files.documentation_pages():
        wanted |= links.rewrite(file.content_string, repo_path=f"docs/{file.src_uri}", page=file.src_uri)[1]
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    for page, text in links.sources(wanted).items():
        files.append(File.generated(config, page, content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links of a page of docs/; generated pages have theirs."""
    path = page.file.src_uri
    if page.file.generated_by:
        return markdown
    text, _ = links.rewrite(markdown, repo_path=f"docs/{path}", page=path)
    text = links.outside_fences(text, links.papers_linked)
    return method_page.linked(text) if path in LINKED else text
