"""Notebooks are stored as they ran: every cell in order, no error, small; and a run prints what is stored."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LARGEST = 400 * 1024


def cells_of(path):
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def printed(cell):
    streams = [o["text"] for o in cell["outputs"] if o["output_type"] == "stream" and o["name"] == "stdout"]
    return "".join("".join(text) for text in streams)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_as_it_ran(path):
    cells = cells_of(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert kinds <= {"stream", "display_data"}, "a cell ended in an error, or shows a value; run `make notebook`"
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell["outputs"])
    assert path.stat().st_size < LARGEST
    assert "/home/" not in path.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_stores(path, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    plt = pytest.importorskip("matplotlib.pyplot")
    from apportion.methods import registry

    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))  # a method of the notebook stays in it
    names = {"__name__": "__main__"}
    for cell in cells_of(path):
        with redirect_stdout(io.StringIO()) as out:
            exec(compile("".join(cell["source"]), path.name, "exec"), names)  # noqa: S102 - our own notebook
        assert out.getvalue() == printed(cell)


def test_there_is_one():
    assert NOTEBOOKS
