"""The table of cases in the docs: every case, in order, with tests that exist."""

import ast
import re
from pathlib import Path

import pytest

from tests.cases.test_cases import CASES

REPOSITORY = Path(__file__).parents[2]


def rows(text):
    """Cells of each row below the head of the table."""
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in cells[2:]]


def named_in(path):
    """Names of the test functions in a file."""
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test")}


def problems(text):
    """One sentence for each thing that is wrong with a table."""
    found = []
    ids = [row[0] for row in rows(text)]
    found += [f"{name} is not in the table" for name in CASES if name not in ids]
    found += [f"{name} is no case" for name in ids if name not in CASES]
    found += [f"{name} stands twice" for name in {name for name in ids if ids.count(name) > 1}]
    for name, _, _, reported, here in rows(text):
        named = re.findall(r"`(tests/[^`]+)`", here)
        if not named and not here.startswith(("waits: ", "measured: ")):
            found.append(f"{name} names no test and does not say what it waits for")
        if name in CASES and reported != CASES[name]["reference"]:
            found.append(f"{name} was reported in {CASES[name]['reference']}")
        for test in named:
            path, _, function = test.partition("::")
            if not (REPOSITORY / path).is_file() or function not in named_in(path):
                found.append(f"{name} names {test}, which does not exist")
    return found


TABLE = (REPOSITORY / "docs" / "cases.md").read_text(encoding="utf-8")


def test_the_table_is_complete_and_true():
    assert len(rows(TABLE)) == len(CASES) == 56
    assert problems(TABLE) == []


def test_every_case_tested_here_says_so():
    told = set(re.findall(r"tests/cases/test_cases.py::(test_\w+)", TABLE))
    cases = {name for name in named_in("tests/cases/test_cases.py") if re.match(r"test_[a-z]+\d+_", name)}
    assert told == cases


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("| G1 |", "| G99 |", "G1 is not in the table"),
        ("| G1 |", "| G99 |", "G99 is no case"),
        ("| G2 |", "| G1 |", "G1 stands twice"),
        ("::test_g1_", "::test_g0_", "which does not exist"),
        ("measured: `make bench`", "later", "F1 names no test and does not say what it waits for"),
        ("rllm-org/rllm#605, #776", "rllm-org/rllm#605", "G2 was reported in"),
    ],
)
def test_a_wrong_table_is_found(before, after, sentence):
    assert before in TABLE
    assert any(sentence in problem for problem in problems(TABLE.replace(before, after, 1)))
