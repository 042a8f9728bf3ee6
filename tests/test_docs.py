"""What the docs say is what the registry and the tree say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.methods import describe, methods
from apportion.methods.describe import LABELS

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
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
    targets = [m[0] for m in LINK.findall(text) if not m[0].startswith(("http://", "https://", "mailto:"))]
    return [t for t in targets if not (page.parent / t).exists()]


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_links_lead_somewhere(page):
    assert broken_links(page, page.read_text()) == []


def test_the_link_test_can_fail():
    assert broken_links(ROOT / "README.md", "see [x](docs/nowhere.md) and [y](LICENSE)") == ["docs/nowhere.md"]


def test_the_readmes_ten_lines_run(tmp_path, monkeypatch):
    import apportion as ap
    from tests.make import random_trajectories

    code = re.search(r"## Ten lines\n\n```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    ap.write(tmp_path / "rollouts.jsonl", random_trajectories(1, forks=False))
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - our own README
    assert (tmp_path / "credit.html").stat().st_size > 0
    assert names["advantage"].shape == names["weight"].shape
