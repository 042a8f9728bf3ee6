"""The Parquet form of a credit file: the rollout in columns of its own, every column checked when it is read."""

import json

import numpy as np
import pytest

import apportion as ap
from apportion.credit import parquet
from apportion.data.record import to_record
from apportion.errors import FormatError
from tests.compatibility.write import rollouts
from tests.credit.test_files import assert_same_credit, awkward_credit
from tests.make import assert_same_trajectories, random_batch

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def written(tmp_path):
    batch = ap.Batch.from_trajectories(rollouts())
    credit = ap.assign("gigpo", ap.by_step(batch))
    ap.write(tmp_path / "c.parquet", credit)
    return tmp_path / "c.parquet", credit


def same(got, want):
    assert_same_trajectories(got.units.batch, want.units.batch)
    assert got.advantage_S.tolist() == want.advantage_S.tolist()
    assert {name: part.tolist() for name, part in got.parts.items()} == {
        name: part.tolist() for name, part in want.parts.items()
    }
    assert got.units.unit_of_T.tolist() == want.units.unit_of_T.tolist()


def edited(path, edit, **types):
    """The file with rows that went through ``edit``, columns of other types if need be."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    edit(rows)
    fields = [pa.field(f.name, types.pop(f.name, f.type)) for f in table.schema if f.name in rows[0]]
    fields += [pa.field(name, kind) for name, kind in types.items()]
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(fields, metadata=table.schema.metadata)), path)


def test_other_tools_see_rollouts_and_credit_side_by_side(tmp_path):
    path, credit = written(tmp_path)
    rows = pq.read_table(path).to_pylist()
    assert [row["id"] for row in rows] == list(credit.units.batch.names())
    assert [step["ids"] for step in rows[0]["steps"]] == [[10, 11], [12]]
    assert [step["columns"][0]["values"] for step in rows[0]["steps"]] == [[0.0, 0.125], [0.5]]
    assert [x for row in rows for x in row["advantage"]] == credit.advantage_S.tolist()
    assert (rows[0]["tokens_unit"], rows[0]["tokens_length"], rows[0]["step"]) == ([-1, 0, -1, 1], [3, 2, 2, 1], [0, 1])
    struct = pq.read_schema(path).field("steps").type.value_type
    assert struct.field("logp").type == pa.list_(pa.float32())  # which holds these


def test_numbers_of_credit_have_a_dictionary(tmp_path):
    path, _ = written(tmp_path)
    group = pq.ParquetFile(path).metadata.row_group(0)
    found = {group.column(i).path_in_schema: group.column(i).encodings for i in range(group.num_columns)}
    for name in ("advantage", "parts.episode", "parts.step", "step", "tokens_unit", "tokens_length"):
        assert "RLE_DICTIONARY" in found[f"{name}.list.element"], name


def test_rows_in_many_groups_are_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROWS", 3)
    credit = awkward_credit(ap.by_token(random_batch(3)))
    ap.write(tmp_path / "c.parquet", credit)
    assert pq.ParquetFile(tmp_path / "c.parquet").num_row_groups > 2
    assert_same_credit(ap.read_credit(tmp_path / "c.parquet"), credit)


def test_a_number_that_32_bits_would_change_makes_its_column_wide(tmp_path):
    steps = [ap.Step(prompt_ids=[1], ids=[2], logp=[-(2.0**-150)])]
    batch = ap.Batch.from_trajectories([ap.Trajectory(steps, outcome=float(n), group="g") for n in range(2)])
    credit = ap.assign("grpo", ap.by_step(batch))
    ap.write(tmp_path / "c.parquet", credit)
    assert_same_credit(ap.read_credit(tmp_path / "c.parquet"), credit)


def test_a_file_with_rollouts_as_text_is_read(tmp_path):
    path, credit = written(tmp_path)
    texts = [json.dumps(to_record(t, "")) for t in credit.units.batch]

    def edit(rows):
        for row, text in zip(rows, texts, strict=True):
            row["trajectory_json"] = text
            del row["steps"], row["exact_json"]

    edited(path, edit, trajectory_json=pa.string())
    same(ap.read_credit(path), credit)
    edited(path, lambda rows: rows[1].update(trajectory_json="{"), trajectory_json=pa.string())
    with pytest.raises(FormatError, match=r"c\.parquet, row 1: trajectory_json: .*breaks off"):
        ap.read_credit(path)
    edited(path, lambda rows: rows[1].update(trajectory_json=None), trajectory_json=pa.string())
    with pytest.raises(FormatError, match=r"c\.parquet, row 1: null where a trajectory was expected"):
        ap.read_credit(path)


INTS, FLOATS = pa.list_(pa.int64()), pa.list_(pa.float64())


def put(**fields):
    return lambda rows: rows[1].update(fields)


def without(name):
    def edit(rows):
        for row in rows:
            del row[name]

    return edit


def of_all(name, value):
    def edit(rows):
        for row in rows:
            row[name] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "types", "sentence"),
    [
        (put(advantage=None), {}, "row 1: advantage must be a list of numbers"),
        (put(advantage=[0.5, None]), {}, "row 1: advantage must be a list of numbers"),
        (put(advantage=[0.5]), {}, "row 1: advantage has 1 entries for 2 units"),
        (of_all("advantage", "x"), {"advantage": pa.string()}, "row 0: advantage must be a list of numbers"),
        (of_all("advantage", [1, 2]), {"advantage": INTS}, "row 0: advantage must be a list of numbers"),
        (put(parts={"episode": [0.0, 0.0], "step": None}), {}, "row 1: part 'step' must be a list of numbers"),
        (of_all("known", [1, 0]), {"known": INTS}, "row 0: known must be 2 booleans, one per unit"),
        (put(train=[True]), {}, "row 1: train must be 2 booleans, one per unit"),
        (put(train=[True, None]), {}, "row 1: train must be 2 booleans, one per unit"),
        (of_all("tokens_unit", [0.0] * 4), {"tokens_unit": FLOATS}, r"row 0: tokens must be \[unit, length\] pairs"),
        (put(tokens_unit=[-1, 0, None, 1]), {}, r"row 1: tokens must be \[unit, length\] pairs"),
        (put(tokens_unit=[-1]), {}, "row 1: tokens_unit and tokens_length must be lists of one length"),
        (put(tokens_length=None), {}, "row 1: tokens_unit and tokens_length must be lists of one length"),
        (put(tokens_length=[3, 2, 2, 2**60]), {}, "trajectory 1: its runs cover another number of tokens than its"),
        (put(tokens_length=[3, 2, 2, 0]), {}, "trajectory 1: its runs cover another number of tokens than its"),
        (put(step=None), {}, "step whole numbers"),
        (put(step=[0, 7]), {}, "trajectory 1: a unit starts in step 7 of 2"),
        (put(columns_json="{"), {}, "row 1: columns_json: "),
        (put(steps=None), {}, "row 1: steps is null; give a list of objects"),
        (put(steps=[{"ids": [1], "logp": [-0.5, -0.5]}]), {}, "row 1, step 0: 2 log-probabilities for 1 sampled"),
        (put(outcome=0.25), {}, r"not those that were credited \(digests differ\)"),
        (without("step"), {}, "there is no column 'step'; write the file again"),
        (without("steps"), {}, "there is no column 'steps'"),
        (of_all("steps", "x"), {"steps": pa.string()}, "the column 'steps' is string; it should be a list of structs"),
        (lambda rows: rows.pop(), {}, "3 of 4 trajectories; the file was cut short"),
    ],
)
def test_a_changed_file_is_refused_with_a_sentence(tmp_path, edit, types, sentence):
    path, _ = written(tmp_path)
    edited(path, edit, **types)
    with pytest.raises(FormatError, match=sentence) as caught:
        ap.read_credit(path)
    assert str(caught.value).startswith(str(path))


def test_lists_of_another_width_are_read(tmp_path):
    path, credit = written(tmp_path)
    large = {
        "step": pa.large_list(pa.int32()),
        "tokens_unit": pa.list_(pa.int32()),
        "advantage": pa.large_list(pa.float64()),
    }
    edited(path, lambda rows: None, **large)
    same(ap.read_credit(path), credit)


def test_rollouts_of_a_credit_file_are_not_taken_for_a_file_of_rollouts(tmp_path):
    path, _ = written(tmp_path)
    with pytest.raises(FormatError, match="not of ours"):
        ap.read(path)


def test_runs_of_nothing_and_of_one_unit():
    from apportion.credit.rebuild import _runs

    assert _runs(np.zeros(0, dtype=np.int64)).shape == (0, 2)
    assert _runs(np.array([-1, -1, 0, 0, 0, 2])).tolist() == [[-1, 2], [0, 3], [2, 1]]
