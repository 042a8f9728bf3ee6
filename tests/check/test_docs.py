"""The page of the checks and the page of the guide say what the registry says."""

import re
from pathlib import Path

import pytest

from apportion.bench.check.catalogue import BEGIN, END, catalogue
from apportion.check import registered, registered_measures
from apportion.recommend.page import page

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "checks.md").read_text(encoding="utf-8")


def test_the_catalogue_is_up_to_date():
    written = BEGIN + PAGE.partition(BEGIN)[2].partition(END)[0] + END
    assert written == catalogue(), "run `python -m apportion.bench.check --catalogue docs/checks.md`"


def test_every_check_and_measure_is_on_the_page():
    heads = set(re.findall(r"^### (\S+)$", PAGE, re.M))
    assert {entry.name for entry in registered()} <= heads
    for entry in registered_measures():
        assert f"| `{entry.name}` |" in PAGE


def test_the_guide_is_up_to_date():
    text = (DOCS / "recommend.md").read_text(encoding="utf-8")
    assert page(text) == text, "run `make tables`"


@pytest.mark.parametrize("entry", registered(), ids=lambda entry: entry.name)
def test_what_is_said_to_be_cheap_is(entry):
    said = PAGE.partition(f"### {entry.name}\n")[2].partition("###")[0]
    assert ("every batch of a live run" in said) == entry.cheap
