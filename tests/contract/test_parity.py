"""The table of other people's numbers in the docs: expressions that work, tests that exist, and nothing left out."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from apportion.assign import check_expression
from apportion.assign.expression import leaves
from apportion.errors import ConfigError
from apportion.methods import get, names
from tests.contract.test_parameters import options

REPOSITORY = Path(__file__).parents[2]
TABLE = (REPOSITORY / "docs" / "parity.md").read_text(encoding="utf-8")
TESTS = REPOSITORY / "tests" / "methods"


def rows(text):
    """Method, expression and test of each row."""
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| `")]
    plain = [[cell.strip().strip("`").replace("\\|", "|") for cell in row] for row in cells]
    return [(method, expression, test) for method, _, _, expression, test in plain]


@cache
def functions(path):
    """Source of each test function of a file, its parametrisation included, and of what stands around them."""
    text = path.read_text(encoding="utf-8")
    tests = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name[:4] == "test"]
    around = text
    for node in tests:
        around = around.replace(ast.get_source_segment(text, node), "")
    return {node.name: ast.unparse(node) for node in tests}, around


def problems(text):
    """One sentence for each thing that is wrong with a table."""
    found, given = [], {}
    for method, expression, test in rows(text):
        try:
            used = {leaf.name: leaf.params for leaf in leaves(check_expression(expression))}
        except ConfigError as problem:
            found.append(f"{expression}: {problem}")
            continue
        if method not in used:
            found.append(f"{expression} does not use {method}")
        for name, params in used.items():
            given.setdefault(name, set()).update(params)
            found += [
                f"{expression}: {key} cannot be {value!r}" for key, value in params.items() if odd(name, key, value)
            ]
        path, _, function = test.partition("::")
        known, around = functions(TESTS / path) if (TESTS / path).is_file() else ({}, "")
        if function not in known:
            found.append(f"{expression} names {test}, which does not exist")
            continue
        tested = known[function] + (around if "slow_reference" in function or "**" in known[function] else "")
        for key in used.get(path[5:-3], {}):
            if not re.search(rf"\b{key}\b", tested):
                found.append(f"{test} does not set {key}")
    return found + [f"{name}: {key} is told in Deviates and has no row" for name, key in told() - flat(given)]


def odd(name, key, value):
    """A text that the method does not know."""
    if not isinstance(value, str) or get(name).needs or key == "undiscounted":  # whose texts are names in the data
        return False
    return value not in (*options(name, key)[0], get(name).defaults[key])


def flat(given):
    return {(name, key) for name, keys in given.items() for key in keys}


@cache
def told():
    """Options that *Deviates* of a method that asks nobody gives as somebody's way: ``key="x"``, or (``key``)."""
    out = set()
    for name in names():
        doc = get(name).module_doc
        deviates = doc[doc.find("Deviates") :] if "Deviates" in doc else ""
        valued = re.findall(r"(?<![\w.(])(\w+)=", " ".join(re.findall(r"``([^`]*)``", deviates)))
        bare = re.findall(r"``(\w+)``", " ".join(re.findall(r"\(([^()]*``[^()]*)\)", deviates)))
        if not get(name).needs:
            out |= {(name, key) for key in get(name).defaults if key in (*valued, *bare)}
    return out


def test_the_table_is_complete_and_true():
    assert len(rows(TABLE)) >= 75
    assert problems(TABLE) == []


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("`grpo(votes='row')`", "`grpo(votse='row')`", "unknown parameter 'votse'"),
        ("`grpo(votes='row')`", "`grpo(votes='rows')`", "votes cannot be 'rows'"),
        ("`grpo(votes='row')`", "`rloo`", "rloo does not use grpo"),
        ("::test_rows_or_rollouts_vote", "::test_rows", "which does not exist"),
        ("::test_the_least_variance_of_an_earlier_verl", "::test_unknown_choices_are_refused", "does not set floor"),
        ("`pure(form='grid_min')`", "`pure(form='strict')`", ""),
        ("`pure(baseline='pooled')`", "`pure`", ""),
        ("`hgpo(scale='std', ddof=0, epsilon=1e-6, skip_zeros=True)`", "`hgpo(ddof=0)`", "hgpo: skip_zeros is told in"),
    ],
)
def test_a_wrong_table_is_found(before, after, sentence):
    assert before in TABLE
    found = problems(TABLE.replace(before, after, 1))
    assert any(sentence in problem for problem in found) if sentence else found == []
