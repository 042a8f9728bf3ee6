"""The page about data names every field, and its example is a file that can be read."""

import dataclasses
import re
import runpy
from pathlib import Path

import pytest

from apportion.data import Batch, Step, Trajectory, read_jsonl

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", [Step, Trajectory])
def test_every_field_has_a_row(kind):
    section = PAGE.split(f"\n## {kind.__name__}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|", section, re.M)
    assert rows == [field.name for field in dataclasses.fields(kind)]


def test_the_file_in_it_can_be_read(tmp_path):
    path = tmp_path / "example.jsonl"
    path.write_text(re.search(r"```jsonl\n(.*?)```", PAGE, re.S)[1], encoding="utf-8")
    batch = Batch.from_trajectories(read_jsonl(path))
    assert batch.group_names == ("door/7",)
    assert batch.outcome_N.tolist() == [1.0, 0.0]
    assert sorted(batch.outcome_parts) == ["key", "short"]


def test_the_code_in_it_runs(tmp_path):
    path = tmp_path / "example.py"
    path.write_text(re.search(r"```python\n(.*?)```", PAGE, re.S)[1], encoding="utf-8")
    space = runpy.run_path(str(path))
    assert len(space["batch"]) == 1
