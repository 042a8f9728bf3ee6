"""The README's numbers are those of the pages and files that they come from, and it stays a page or two."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def cells(text):
    """Rows of the tables in a text, without their heads' rules."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    return [row for row in rows if not all(set(cell) <= set("-: ") for cell in row)]


def section(text, name):
    return re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]


def test_how_fast_is_what_the_page_of_speed_says():
    measured = {tuple(row[:3]): row[4] for row in cells((ROOT / "docs" / "performance.md").read_text()) if len(row) > 4}
    head, *rows = cells(section(README, "How fast, against whom"))
    assert head == ["kernel", "batch", "against", "measured"]
    assert len(rows) >= 5
    for *what, ratio in rows:
        assert measured[tuple(what)] == ratio
    assert any(float(ratio.split("×")[0]) < 2 for *_, ratio in rows), "show also where it is hardly faster"


def test_the_table_of_truth_is_there_with_its_controls():
    rows = cells(re.search(r"<!-- truth:.*?-->\n(.*?)<!-- /truth -->", README, re.S)[1])
    names = [row[0] for row in rows]
    assert names[:2] == ["credit", "exact advantage"]
    assert {"random", "immediate reward", "`grpo`", "`gigpo`", "`pooled`"} < set(names)


def test_every_picture_is_a_file_and_says_what_is_on_it():
    pictures = re.findall(r"!\[(.*?)\]\((.*?)\)", README)
    assert pictures
    for words, path in pictures:
        assert (ROOT / path).is_file()
        assert len(words) > 40


def test_it_is_a_page_or_two():
    prose = re.sub(r"<!-- methods:.*?<!-- /methods -->", "", README, flags=re.S)
    assert len(prose.splitlines()) < 190
    assert len(prose) < 16_000
