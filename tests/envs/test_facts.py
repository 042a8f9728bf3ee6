from pathlib import Path

import pytest

from apportion.cli import main
from apportion.envs import registry
from apportion.envs.facts import COLUMNS, all_facts, cells, facts, markdown_table
from apportion.errors import MissingExtra, UnknownName

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"


def built_in():
    return tuple(row for row in all_facts() if "/" not in row.name)


def rows_of(markdown):
    return [line for line in markdown.splitlines() if line.startswith("| `")]


def test_the_docs_have_the_table():
    start, end = "<!-- table: `apportion envs --markdown`, compared by a test -->\n", "<!-- end of table -->"
    printed = rows_of(PAGE.read_text().split(start)[1].split(end)[0])
    due = rows_of(markdown_table(built_in()))
    assert [line.split("|")[1] for line in printed] == [line.split("|")[1] for line in due]
    for row, line, wanted in zip(built_in(), printed, due, strict=True):
        if row.spec is not None:
            assert line == wanted, "put the output of `apportion envs --markdown` into docs/environments.md"


@pytest.mark.parametrize("row", built_in(), ids=lambda row: row.name)
def test_every_environment_is_told(row):
    assert row.about
    assert f"\n**{row.name}" in PAGE.read_text(), "write a paragraph about it in docs/environments.md"
    assert len(cells(row)) == len(COLUMNS)
    if row.spec is None:
        assert row.extra, "only an environment with an extra may lack its package"


def test_both_modes_are_listed_where_there_is_an_option():
    row = facts("textcraft")
    assert (row.modes, row.splits, row.spec.full_state) == (("choice", "text"), True, True)
    assert facts("crafttree").modes == ("choice",)


def test_what_is_not_installed_is_listed_all_the_same(monkeypatch, capsys):
    def absent(*, level: int = 1):
        raise MissingExtra("x needs y")

    registry.register("absent", extra="moon")(absent)
    try:
        row = facts("absent")
        assert (row.spec, row.extra, row.options) == (None, "moon", {"level": 1})
        assert cells(row)[2:5] == ["?", "?", "choice"]
        monkeypatch.setattr("sys.argv", ["apportion", "envs", "absent"])
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code
        assert "pip install 'apportion[moon]'" in capsys.readouterr().err
    finally:
        del registry._FACTORIES["absent"], registry._EXTRAS["absent"]


def test_the_command_shows_one(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["apportion", "envs", "keydoor"])
    with pytest.raises(SystemExit):
        main()
    out = capsys.readouterr().out
    assert "apples" in out
    assert "seed 0:" in out
    assert "the expert's next: " in out
    with pytest.raises(UnknownName, match="did you mean 'keydoor'"):
        facts("keydor")
