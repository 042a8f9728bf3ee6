"""Per-token columns by name in Parquet and Arrow files: numbers as numbers, exact, and the old JSON text still read."""

import json

import numpy as np
import pytest

from apportion.adapters.volume import group_files
from apportion.data import Batch, Step, Trajectory, read, write
from apportion.errors import FormatError
from tests.make import assert_same_trajectories

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ENDINGS = ("arrow", "parquet")


def step(n, **columns):
    return Step(prompt_ids=[1], ids=range(n), columns=columns)


def ragged():
    """Steps with two, with one, with other and with no named columns, one of them of no tokens."""
    rng = np.random.default_rng(0)
    return [
        Trajectory([step(3, prm=rng.random(3), mask=[0.0, 1.0, 1.0]), step(2)], id="a"),
        Trajectory([step(2)], id="b"),
        Trajectory([step(0, prm=[]), step(4, ratio=rng.normal(size=4)), step(1, mask=[1.0])], id="c"),
    ]


def table_of(path):
    return pa.ipc.open_file(path).read_all() if path.endswith("arrow") else pq.read_table(path)


def held_in(table):
    return [[s["columns"] for s in row["steps"]] for row in table.to_pylist()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("shape", [list, Batch.from_trajectories, iter])
def test_every_number_comes_back_to_the_last_bit(folder, ending, shape):
    write(f"a.{ending}", shape(ragged()))
    assert_same_trajectories(read(f"a.{ending}"), ragged())


@pytest.mark.parametrize("ending", ENDINGS)
def test_other_tools_see_names_and_lists_of_numbers(folder, ending):
    write(f"a.{ending}", [Trajectory([step(2, prm=[0.5, 1.0], mask=[0.0, 1.0]), step(1)], id="a")])
    named = [{"name": "prm", "values": [0.5, 1.0]}, {"name": "mask", "values": [0.0, 1.0]}]
    assert held_in(table_of(f"a.{ending}")) == [[named, None]]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(("last", "bits"), [(0.25, 32), (0.1, 64), (1e39, 64), (2.0**-150, 64)])
def test_they_have_32_bits_if_all_of_them_fit(folder, ending, last, bits):
    rollouts = [Trajectory([step(1, prm=[0.5]), step(2, mask=[0.0, last])], id="a")]
    for given in (rollouts, Batch.from_trajectories(rollouts)):
        write(f"a.{ending}", given)
        steps = table_of(f"a.{ending}").schema.field("steps").type.value_type
        assert steps.field("columns").type.value_type.field("values").type.value_type.bit_width == bits
        assert_same_trajectories(read(f"a.{ending}"), rollouts)


def test_parquet_keeps_their_bytes_apart_and_has_a_dictionary_of_names(folder):
    write("a.parquet", [Trajectory([step(100, prm=np.random.default_rng(0).random(100))])])
    group = pq.ParquetFile("a.parquet").metadata.row_group(0)
    found = {group.column(i).path_in_schema.partition("columns.")[2]: group.column(i) for i in range(group.num_columns)}
    assert "BYTE_STREAM_SPLIT" in found["list.element.values.list.element"].encodings
    assert any("DICTIONARY" in encoding for encoding in found["list.element.name"].encodings)


def with_columns(table, kind, held, name="columns"):
    """The table with another column of named columns: its type, and one value for each step."""
    rows = table.to_pylist()
    values = iter(held)
    for row in rows:
        for one in row["steps"]:
            one.pop("columns")
            one[name] = next(values)
    struct = table.schema.field("steps").type.value_type
    fields = [pa.field(name, kind) if field.name == "columns" else field for field in struct]
    at = table.schema.get_field_index("steps")
    schema = table.schema.set(at, pa.field("steps", pa.list_(pa.struct(fields))))
    return pa.Table.from_pylist(rows, schema=schema)


NAMED = pa.list_(pa.struct([("name", pa.string()), ("values", pa.list_(pa.float64()))]))


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ([("prm", [0.5, 1.0]), ("prm", [0.5, 1.0])], "row 1, step 0: columns holds a name twice; give each"),
        ([("prm", [0.5])], r"1 columns\['prm'\] for 2 sampled tokens"),
        ([("prm", None)], r"columns\['prm'\] is None"),
        ([("prm", [0.5, None])], "prm"),
        ([(None, [0.5, 1.0])], "has the name None; names are identifiers"),
        ([("a b", [0.5, 1.0])], "has the name 'a b'; names are identifiers"),
        ([("logp", [0.5, 1.0])], "holds 'logp', which is a field of its own"),
    ],
)
def test_a_bad_row_of_another_writer_is_named(folder, held, sentence):
    write("a.parquet", [Trajectory([step(2)], id=name) for name in "abc"])
    bad = [{"name": name, "values": values} for name, values in held]
    pq.write_table(with_columns(pq.read_table("a.parquet"), NAMED, [None, bad, []]), "b.parquet")
    with pytest.raises(FormatError, match=sentence):
        read("b.parquet")
    with pytest.warns(UserWarning, match="row 1"):
        assert [t.id for t in read("b.parquet", skip_bad=True)] == ["a", "c"]


def test_a_column_of_another_kind_is_refused(folder):
    write("a.parquet", [Trajectory([step(2)], id="a")])
    pq.write_table(with_columns(pq.read_table("a.parquet"), pa.int64(), [3]), "b.parquet")
    with pytest.raises(FormatError, match=r"b\.parquet"):
        read("b.parquet")


def old(path, held=None):
    """The file as the first versions wrote it: JSON text in `columns_json`."""
    table = pq.read_table(path)
    texts = held or [
        None if named is None else json.dumps({one["name"]: one["values"] for one in named})
        for row in held_in(table)
        for named in row
    ]
    pq.write_table(with_columns(table, pa.string(), texts, "columns_json"), path)


def test_an_old_file_is_read_and_made_new_by_grouping(folder):
    write("a.parquet", ragged())
    old("a.parquet")
    assert_same_trajectories(read("a.parquet"), ragged())
    group_files(["a.parquet"], "out")
    (made,) = (folder / "out").glob("*.parquet")
    steps = pq.read_schema(made).field("steps").type.value_type
    assert "columns_json" not in [field.name for field in steps]
    assert_same_trajectories(sorted(read(made), key=lambda t: t.id), ragged())


@pytest.mark.parametrize("text", ['{"prm": [0.5, "x"]}', '{"prm": 3}', "[1]", '{"prm"', '{"prm": [1], "prm": [2]}'])
def test_an_old_file_with_something_else_is_refused(folder, text):
    write("a.parquet", [Trajectory([step(2)], id="a")])
    old("a.parquet", [text])
    with pytest.raises(FormatError, match=r"a\.parquet.*columns"):
        read("a.parquet")
    with pytest.raises(FormatError, match=r"a\.parquet.*columns_json"):
        group_files(["a.parquet"], "out")


def test_old_and_new_in_one_file_are_refused(folder):
    write("a.parquet", [Trajectory([step(2)], id="a")])
    table = pq.read_table("a.parquet")
    struct = table.schema.field("steps").type.value_type
    rows = table.to_pylist()
    schema = pa.schema(
        [*list(table.schema)[:-1], pa.field("steps", pa.list_(pa.struct([*struct, ("columns_json", pa.string())])))],
        metadata=table.schema.metadata,
    )
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), "b.parquet")
    with pytest.raises(FormatError, match="both 'columns' and 'columns_json'; keep one of them"):
        read("b.parquet")


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", ["mask", "prm"])
@pytest.mark.parametrize("place", range(3))
def test_one_number_that_32_bits_do_not_hold_is_found_in_any_column_of_any_step(folder, ending, name, place):
    steps = [{"mask": np.zeros(4), "prm": np.ones(4)} for _ in range(3)]
    steps[place][name][place] = 0.1
    rollouts = [Trajectory([step(4, **columns) for columns in steps], id="a")]
    write(f"a.{ending}", rollouts)
    assert_same_trajectories(read(f"a.{ending}"), rollouts)
