"""docs/results.md and its figures are what the stored results of the experiments say."""

import pytest

pytest.importorskip("scipy")
pytest.importorskip("torch")

from experiments.page import __main__ as page


@pytest.fixture(scope="module")
def have():
    return page.found()


def test_the_page_is_what_the_stored_results_say(have):
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.page(text, have) == text, "run `make results`"


def test_the_figures_show_the_stored_results(have):
    for name, (_, data) in page.drawings(have).items():
        assert page.figures.digest_in(page.IMAGES / name) == page.figures.digest(data), f"{name}: run `make results`"


def test_another_number_makes_the_page_stale(have):
    name, records = next(iter(have.learning.items()))
    key = next(k for k in records if k[0] == "gigpo")
    changed = {**records[key], "curve": {**records[key]["curve"]}}
    for column in ("success", "return"):
        changed["curve"][column] = [x + 0.01 for x in changed["curve"][column]]
    other = page.Found(have.json, {**have.learning, name: {**records, key: changed}})
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.page(text, other) != text
    assert page.drawings(other)["learning.svg"][1] != page.drawings(have)["learning.svg"][1]


def test_stored_results_of_learning_name_a_commit_without_changes(have):
    commits = {record["commit"] for records in have.learning.values() for record in records.values()}
    assert commits
    assert not any(commit.endswith("+") for commit in commits)


def test_stored_results_are_small_enough_to_be_kept(have):
    for path in page.RESULTS.rglob("*.json"):
        assert path.stat().st_size < 200_000, f"{path.name} is too large for the repository"
