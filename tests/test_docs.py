"""What the docs say is what the registry and the tree say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.methods import describe, methods
from apportion.methods.describe import LABELS
from tests.blocks import blocks, problem

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("e*/README.md")])  # examples, experiments
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


def test_the_generated_tables_are_up_to_date():
    done = subprocess.run([sys.executable, ".ci/tables.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_method_has_a_paragraph():
    heads = set(re.findall(r"^## (\S+)$", (ROOT / "docs" / "papers.md").read_text(), re.M))
    names = {spec.name for spec in methods()}
    assert names - heads == set(), "write a paragraph in docs/papers.md"
    assert heads - names == set(), "docs/papers.md tells of methods that do not exist"


@pytest.mark.parametrize("name", [spec.name for spec in methods()])
def test_every_method_file_opens_with_its_labels(name):
    told = describe(name)
    assert told.summary
    assert told.formula
    assert set(told.sections) == set(LABELS), f"the docstring needs {', '.join(LABELS)}"
    assert "Args:" in told.arguments
    assert "Returns:" in told.arguments


def broken_links(page, text):
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)  # subscripts and calls of code look like links
    targets = [m[0] for m in LINK.findall(prose) if not m[0].startswith(("http://", "https://", "mailto:"))]
    return [t for t in targets if not (page.parent / t).exists()]


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_links_lead_somewhere(page):
    assert broken_links(page, page.read_text()) == []


def test_the_link_test_can_fail():
    assert broken_links(ROOT / "README.md", "see [x](docs/nowhere.md) and [y](LICENSE)") == ["docs/nowhere.md"]


RUN = [page for page in PAGES if any(block.language in ("python", "sh") for block in blocks(page.read_text()))]
LONG = re.compile(r"import torch|from trl|apportion (train|models fit|convert|assign|check)|ap\.models")
"""What takes more than a moment: other processes, and packages that are slow to load."""


def runs(page):
    """The page as a parameter; one that takes more than a moment is for the full tests and `make docs`."""
    code = "".join(block.code for block in blocks(page.read_text()) if block.reason is None)
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=[pytest.mark.slow] if LONG.search(code) else [])


def run(page, cwd=ROOT):
    command = [sys.executable, "-m", "tests.blocks", str(page)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


@pytest.mark.parametrize("page", [runs(page) for page in RUN])
def test_the_code_of_a_page_runs(page):
    done = run(page.relative_to(ROOT))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_code_that_is_not_run_says_why_and_could_be(page):
    found = [f"{page.name}:{block.line}: {wrong}" for block in blocks(page.read_text()) if (wrong := problem(block))]
    assert found == []


def test_every_fence_of_every_page_is_found():
    for page in PAGES:
        fences = len(re.findall(r"^ *```", page.read_text(), re.M))
        assert fences == 2 * len(list(blocks(page.read_text()))), page


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("```python\nx = 1\n```\n\n```python\nassert x == 2\n```", "page.md:6: the block fails"),
        ("```sh\nls nowhere\n```", "page.md:2: the block ends with 2"),
        ("```sh\nls nowhere | cat\n```", "page.md:2: the block ends with 2"),
        ("```sh\napportion describe nothing\n```", "page.md:2: the block ends with 2"),
    ],
)
def test_a_failing_block_is_found(tmp_path, code, says):
    page = tmp_path / "page.md"
    page.write_text(code)
    done = run(page)
    assert done.returncode == 1
    assert says in done.stdout.replace(f"{tmp_path}/", "")


NOT_RUN = "<!-- not run: needs a server -->\n"


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("<!-- not run: -->\n```sh\nls\n```", "it is not run, and the mark gives no reason"),
        ("```perl\nprint 1\n```", "nobody knows how to run 'perl'"),
        (NOT_RUN + "```python\nx = (\n```", "line 1: '(' was never closed"),
        (NOT_RUN + "```sh\nif true\n```", "syntax error"),
        (NOT_RUN + "```sh\napportion asign x.jsonl\n```", "No such command 'asign'"),
        (NOT_RUN + "```sh\napportion check x.jsonl --jsn\n```", "No such option: --jsn"),
        (NOT_RUN + "```sh\nls ; apportion cost vineppo x.jsonl --kk 9\n```", "vineppo takes no 'kk'"),
        (NOT_RUN + "```sh\napportion cost vineppo x.jsonl --k 9 --judge http://x --model y\n```", ""),
        (NOT_RUN + "```python\nf(...)\n```", ""),
    ],
)
def test_what_is_not_run_is_read(page, says):
    (block,) = blocks(page)
    assert says in problem(block)
    assert bool(says) == bool(problem(block))


def test_the_table_of_losses_is_what_is_measured():
    from apportion.losses import AGGREGATIONS, LOSSES
    from apportion.losses.pairing import ONE_CREDIT_PER_ROW

    page = (ROOT / "docs" / "losses.md").read_text()
    said = dict(re.findall(r"^\| `(\w+)` \|.*\| (survives|lost).*\|$", page, re.M))
    assert said == {name: "lost" if name in ONE_CREDIT_PER_ROW else "survives" for name in LOSSES}
    assert all(f"| `{name}` |" in page for name in AGGREGATIONS)


def survey_problems(text):
    """One sentence for each thing that is wrong with the table of the survey's methods."""
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if re.match(r"\| \d+ \|", line)
    ]
    found = [] if [row[0] for row in rows] == [str(n) for n in range(1, 48)] else ["the rows are not 1 to 47"]
    specs = {spec.name: spec for spec in methods()}
    here = [row for row in rows if not row[4].startswith("not here: ")]
    for _, method, _, _, told in here:
        if not set(re.findall(r"`(\w+)`", told)) & set(specs):
            found.append(f"{method} names no method and does not say why it is not here")
    for name, spec in specs.items():
        papers = re.findall(r"arXiv:([\d.]+)", spec.source)
        found += [
            f"{name} is missing in the row of {row[1]}" for row in rows if row[2] in papers and name not in row[4]
        ]
    if f"**{len(here)} of 47 are here**" not in text:
        found.append(f"the page does not say that {len(here)} of 47 are here")
    return found


SURVEY = (ROOT / "docs" / "survey.md").read_text()


def test_the_survey_is_told_row_by_row():
    assert survey_problems(SURVEY) == []


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("| 7 |", "| 8 |", "the rows are not 1 to 47"),
        ("not here: known from its abstract; it stages", "it stages", "PRS, VSPO names no method"),
        ("`gigpo`, `anchor`", "`gigpo`", "anchor is missing in the row of GiGPO"),
        ("**30 of", "**31 of", "the page does not say that 30 of 47 are here"),
    ],
)
def test_a_wrong_row_of_the_survey_is_found(before, after, sentence):
    assert before in SURVEY
    assert any(sentence in one for one in survey_problems(SURVEY.replace(before, after, 1)))


def python_of(name, folder, monkeypatch):
    """What a page of docs/ leaves behind when its Python has run."""
    monkeypatch.chdir(folder)
    space = {"__name__": "page"}
    for block in blocks((ROOT / "docs" / name).read_text()):
        if block.language == "python":
            exec(compile(block.code, name, "exec"), space)  # noqa: S102 - our own docs
    return space


def test_the_numbers_of_the_first_page_are_what_its_code_gives(tmp_path, monkeypatch):
    credit = python_of("start.md", tmp_path, monkeypatch)["credit"]
    said = re.findall(r"^\|.*\| ([+−]\d\.\d\d) \|$", (ROOT / "docs" / "start.md").read_text(), re.M)
    given = [f"{x:+.2f}".replace("-", "−") for x in credit.advantage_S]
    assert len(said) == 6
    assert said == given[:6]
    assert given[6:] == given[:3]  # the second success, which the table leaves out


def test_what_the_page_of_ideas_says_is_so(tmp_path, monkeypatch):
    space = python_of("ideas.md", tmp_path, monkeypatch)
    cut = [len(space[name]) for name in ("steps", "episodes")]
    assert [*cut, int(space["batch"].sampled_T.sum())] == [4, 3, 12]
    assert space["credit"].advantage_S.tolist() == [0.5, 0.5, -0.5, 0]
    assert space["credit"].known_S.tolist() == [True, True, True, False]
    assert space["credit"].notes["unknown_trajectories"] == 1
    assert space["sure"].train_S is None or space["sure"].train_S.all()
    assert list(space["both"].parts) == ["grpo", "anchor"]
