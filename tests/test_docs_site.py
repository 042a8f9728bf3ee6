"""The documentation as a site: what is generated for it, and that its build and its checks can fail."""

import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import apportion as ap
from apportion.methods import get, methods
from tests.blocks import blocks, problem

ROOT = Path(__file__).resolve().parents[1]
NAMES = [spec.name for spec in methods() if "/" not in spec.name]


@pytest.fixture(scope="module")
def site():
    """The modules that make the pages, by name."""
    sys.path.insert(0, str(ROOT / ".ci" / "site"))
    try:
        names = ("links", "home", "method_facts", "method_page", "worked", "questions", "reference", "check_built")
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(ROOT / ".ci" / "site"))


HEADS = (
    "Formula",
    "When to use it, and when it is wrong",
    "Use it",
    "Parameters",
    "Worked example",
    "Deviations",
    "Paper",
)


@pytest.mark.parametrize("name", NAMES)
def test_every_method_has_a_page_with_everything(site, name):
    page = site["method_page"].page(get(name))
    assert page.startswith(f"# {name}\n")
    assert tuple(re.findall(r"^## (.*)$", page, re.M)) == HEADS
    assert all(f"`{parameter}`" in page for parameter in get(name).defaults)
    assert "assert" in page.split("## Worked example")[1]
    assert not [problem(block) for block in blocks(page) if block.language in ("python", "sh") and problem(block)]


@pytest.mark.parametrize("name", NAMES)
def test_the_lines_of_a_page_run(site, name):
    (code,) = [block.code for block in blocks(site["worked"].try_it(get(name))) if block.language == "python"]
    space = {"__name__": "page"}
    exec(compile(code, f"methods/{name}.md", "exec"), space)  # noqa: S102 - generated from our own registry
    if get(name).plan is None:
        assert len(space["credit"].advantage_S)


def test_what_a_page_needs_and_is_missing_is_said(site, monkeypatch):
    spec = get("grpo")
    with pytest.raises(ValueError, match=r"docs/papers.md has no paragraph about nobody; write one"):
        site["method_page"].paper("nobody")
    monkeypatch.setattr(site["worked"], "BY_HAND", re.compile("nothing"))
    with pytest.raises(ValueError, match=r"test_grpo.py has no test_worked_example"):
        site["worked"].examples(spec)


def test_every_kind_column_law_and_resource_is_told_in_words(site):
    facts = site["method_facts"]
    for spec in (get(name) for name in NAMES):
        assert spec.family in facts.FAMILIES
        assert set(spec.reads) <= set(facts.COLUMNS)
        assert set(spec.holds) <= set(facts.LAWS)
        assert set(spec.needs) <= set(facts.RESOURCES)
        assert facts.cost_class(spec)


def test_costs_follow_from_what_is_asked_and_read(site):
    cost = {name: site["method_facts"].cost_class(get(name)).partition(":")[0] for name in NAMES}
    assert [cost[n] for n in ("gigpo", "whiten", "gae", "prime")] == [
        "free",
        "free",
        "a trained model",
        "a trained model",
    ]
    assert [cost[n] for n in ("vineppo", "capo", "scar", "igpo")] == [
        "extra rollouts",
        "judge calls",
        *["extra passes"] * 2,
    ]


def test_every_question_has_its_why_its_answer_and_its_test(site):
    (page,) = site["questions"].pages().values()
    assert page.count("??? question") == page.count("**apportion:**") == page.count("**Tested by**") == 56
    assert "**Tested by** \n" not in page


def test_links_of_the_repository_become_links_of_the_site(site):
    rewrite = site["links"].rewrite
    text, wanted = rewrite(
        "[a](../CONTRIBUTING.md#tests) [b](methods.md#gigpo) [c](../src/apportion/errors.py) [d](https://x.org) "
        "![e](images/a.svg)\n```text\n[f](../LICENSE)\n```\n",
        repo_path="docs/logs.md",
        page="logs.md",
    )
    assert text.startswith(
        "[a](contributing.md#tests) [b](methods/gigpo.md) [c](source/src/apportion/errors.py.md) [d](https://x.org) "
        "![e](images/a.svg)\n```text\n[f](../LICENSE)"
    )
    assert wanted == {"src/apportion/errors.py"}
    assert rewrite("[a](repo:LICENSE)", repo_path="", page="methods/x.md")[0] == "[a](../source/LICENSE.md)"
    assert site["links"].sources({"src/nowhere.py"}) == {}
    text = "[a](hosts.md#trl) [b](../experiments/pooled.py) [c](https://x.org)"
    moved = site["links"].from_root(text, "docs/papers.md")
    assert moved == "[a](repo:docs/hosts.md#trl) [b](repo:experiments/pooled.py) [c](https://x.org)"


def test_every_public_name_has_an_entry(site):
    anchors = site["reference"].anchors()
    assert len(anchors) == len(set(anchors)), "a name that is rendered twice"
    assert {site["reference"].path(ap, name) for name in ap.__all__} <= set(anchors)


GOOD = '<p id="top"><a href="methods/grpo.html#here">x</a><a href="https://x.org">y</a><script src="a.js"></script>'


def small_site(folder, index=GOOD, method='<p id="here">'):
    """Two pages, a script and a reference."""
    for name, text in {
        "index.html": index,
        "methods/grpo.html": method,
        "reference/a.html": '<h2 id="apportion.x">',
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "a.js").touch()
    return folder


def test_a_good_site_has_no_problems(site, tmp_path):
    assert list(site["check_built"].problems(small_site(tmp_path), ["grpo"], ["apportion.x"])) == []


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("grpo.html#here", "grpo.html#there", "index.html: methods/grpo.html#there leads to no place in that page"),
        ("methods/grpo.html", "methods/rloo.html", "index.html: methods/rloo.html#here leads nowhere"),
        ('src="a.js"', 'src="https://cdn.org/a.js"', "index.html loads https://cdn.org/a.js from elsewhere"),
        ('src="a.js"', 'src="//cdn.org/a.js"', "index.html loads //cdn.org/a.js from elsewhere"),
        ('src="a.js"', 'src="b.js"', "index.html loads b.js, which is not there"),
    ],
)
def test_a_dead_link_or_a_foreign_file_is_found(site, tmp_path, before, after, sentence):
    assert before in GOOD
    folder = small_site(tmp_path, GOOD.replace(before, after))
    assert list(site["check_built"].problems(folder, ["grpo"], ["apportion.x"])) == [sentence]


def test_a_method_without_a_page_or_a_name_without_an_entry_is_found(site, tmp_path):
    found = list(site["check_built"].problems(small_site(tmp_path), ["grpo", "gigpo"], ["apportion.x", "apportion.y"]))
    assert found == ["the method gigpo has no page", "the reference has no entry for apportion.y"]


def test_entries_that_share_a_line_are_told_apart():
    pytest.importorskip("griffe", reason="the generator is in the extra docs; `make docs` brings it")
    sys.path.insert(0, str(ROOT / ".ci" / "site"))
    try:
        apart = importlib.import_module("entries").apart
    finally:
        sys.path.remove(str(ROOT / ".ci" / "site"))
    before = "    lam, gamma: in\n        [0, 1]. on: a. b: not: c\n    k: x. y: z\n"
    after = "    lam: in\n        [0, 1].\n    gamma: in\n        [0, 1].\n    on: a. b: not: c\n    k: x. y: z\n"
    frame = "What.\n\nArgs:\n{}\nReturns:\n    a, b: c"
    assert apart(frame.format(before), {"on", "k"}) == frame.format(after)
    assert apart("Nothing to do.", set()) == "Nothing to do."


@pytest.mark.slow
def test_the_build_fails_on_dead_links_and_pages_that_nobody_leads_to(tmp_path):
    pytest.importorskip("mkdocs", reason="the generator is in the extra docs; `make docs` brings it")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    data = tmp_path / "docs" / "data.md"
    faults = "[x](nowhere.md) [y](logs.md#no-such-place) [z](../src/apportion/nowhere.py)\n"
    data.write_text(f"{data.read_text(encoding='utf-8')}\n{faults}", encoding="utf-8")
    (tmp_path / "docs" / "lost.md").write_text("# Lost\n", encoding="utf-8")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    config = config.replace(".ci/site", f"{ROOT}/.ci/site").replace("[src]", f"[{ROOT}/src]")
    (tmp_path / "mkdocs.yml").write_text(config, encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode
    for fault in ("'nowhere.md'", "'#no-such-place'", "'source/src/apportion/nowhere.py.md'", "lost.md"):
        assert fault in done.stderr, done.stderr


def test_a_notebook_becomes_its_text_its_code_and_what_it_showed(site):
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": ["1 + 1"], "outputs": [{"data": {"text/plain": ["2"]}}]},
        {"cell_type": "code", "source": ["print(3)"], "outputs": [{"text": ["3\n"]}]},
        {
            "cell_type": "code",
            "source": ["plot()"],
            "outputs": [{"data": {"image/png": "QUJD\n", "text/plain": ["<Figure>"]}}],
        },
    ]
    page = importlib.import_module("notebook").page(json.dumps({"cells": cells}))
    blocks_of_it = ["python\n1 + 1", "text\n2", "python\nprint(3)", "text\n3", "python\nplot()"]
    picture = '<img alt="what the cell shows" src="data:image/png;base64,QUJD">'
    assert page == "\n\n".join(["# Title\ntext", *(f"~~~~~{one}\n~~~~~" for one in blocks_of_it), picture]) + "\n"


def test_reports_are_links_and_few_numbers_are_shown(site):
    questions = site["questions"]
    assert questions.reported("a/b#1, #2 (c/d#3)") == (
        "[a/b#1](https://github.com/a/b/issues/1), [#2](https://github.com/a/b/issues/2) "
        "([c/d#3](https://github.com/c/d/issues/3))"
    )
    assert '"x": 1' in questions.numbers({"input": {"x": 1}, "right": 2})
    assert questions.numbers({"input": [0] * 500, "right": 2}) == ""


def homeless(config, pages):
    """Pages that the navigation does not name."""
    named = set(re.findall(r"(?<=[ :])([\w/-]+\.md)$", config, re.M))
    return sorted(set(pages) - named - {"index.md", "methods.md"})  # the site has its own front and list of methods


def test_every_page_has_a_place_on_the_site():
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [path.name for path in (ROOT / "docs").glob("*.md")]
    assert homeless(config, pages) == [], "give it a place in mkdocs.yml"
    assert homeless(config, [*pages, "lost.md"]) == ["lost.md"]
