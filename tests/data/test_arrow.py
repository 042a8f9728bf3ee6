"""Arrow IPC files: what is refused, and that no more than a record batch is held."""

import sys

import numpy as np
import pytest

from apportion.data import (
    Batch,
    Skipped,
    Step,
    Trajectory,
    arrow,
    columnar_write,
    narrow,
    read,
    read_arrow,
    stream_arrow,
    write,
    write_arrow,
)
from apportion.errors import DataError, FormatError, MissingExtra
from tests.make import assert_same_trajectories, random_trajectories

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_other_tools_see_the_columns(folder):
    write("a.arrow", [Trajectory([Step(prompt_ids=[1], ids=[2, 3], logp=[-0.5, 0.0])], id="x")])
    table = pa.ipc.open_file("a.arrow").read_all()
    (row,) = table.to_pylist()
    assert (row["id"], row["steps"][0]["ids"], row["steps"][0]["logp"]) == ("x", [2, 3], [-0.5, 0.0])
    assert (row["steps"][0]["prompt_ids"], row["steps"][0]["entropy"]) == ([1], None)
    assert table.schema.metadata == {b"apportion.schema": b"apportion.rollouts/1"}


def test_many_record_batches_in_order(folder, monkeypatch):
    monkeypatch.setattr(arrow, "ROWS", 3)
    rollouts = random_trajectories(4, groups=6)
    assert write_arrow("a.arrow", iter(rollouts)) == len(rollouts)
    assert pa.ipc.open_file("a.arrow").num_record_batches == -(-len(rollouts) // 3)
    assert_same_trajectories(read_arrow("a.arrow"), rollouts)
    monkeypatch.setattr(arrow, "WEIGHT", 1)
    write_arrow("b.arrow", rollouts)
    assert pa.ipc.open_file("b.arrow").num_record_batches == len(rollouts)
    assert_same_trajectories(read("b.arrow"), rollouts)


def test_a_batch_is_not_checked_twice_and_gives_the_same_file(folder, monkeypatch):
    batch = Batch.from_trajectories(random_trajectories(3, groups=4))
    write("list.arrow", list(batch))
    monkeypatch.setattr(columnar_write, "check_trajectory", lambda *_: pytest.fail("checked again"))
    write("batch.arrow", batch)
    assert (folder / "batch.arrow").read_bytes() == (folder / "list.arrow").read_bytes()


def test_half_a_surrogate_pair_in_one_row_of_many(folder):
    rollouts = [
        Trajectory([Step(action="plain", actions=("é", "b"))], id="x"),
        Trajectory([Step(observation="cut \ud83d", action="é", actions=("\udc00", "b"))], id="y", meta={"k": 1}),
    ]
    write("a.arrow", rollouts)
    first, second = pa.ipc.open_file("a.arrow").read_all().to_pylist()
    assert first["exact_json"] is None
    assert second["exact_json"] is not None
    assert (second["steps"][0]["observation"], second["steps"][0]["actions"]) == ("cut ?", ["?", "b"])
    assert (first["steps"][0]["actions"], first["meta_json"], second["meta_json"]) == (["é", "b"], None, '{"k": 1}')
    assert_same_trajectories(read_arrow("a.arrow"), rollouts)


def test_foreign_and_damaged_files(folder):
    with pa.ipc.new_file("a.arrow", pa.schema([("messages", pa.string())])):
        pass
    with pytest.raises(FormatError, match=r"^a\.arrow: an Arrow IPC file, but not of ours \(it looks like chat mess"):
        read("a.arrow")
    write("b.arrow", random_trajectories(1))
    whole = (folder / "b.arrow").read_bytes()
    (folder / "b.arrow").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match=r"^b\.arrow: not an Arrow IPC file that can be read \("):
        read("b.arrow")


def test_offsets_that_lie_do_not_reach_memory(folder):
    rollout = Trajectory([Step(prompt_ids=[], ids=[70001, 70002, 70003], logp=[-1.0] * 3)], id="x")
    write("a.arrow", [rollout])
    raw = bytearray((folder / "a.arrow").read_bytes())
    good = np.array([0, 3], dtype="<i4").tobytes()
    at = raw.find(good)
    assert at > 0
    while at >= 0:
        broken = bytearray(raw)
        broken[at : at + 8] = np.array([0, 3_000_000], dtype="<i4").tobytes()
        (folder / "a.arrow").write_bytes(broken)
        try:
            assert_same_trajectories(read_arrow("a.arrow"), [rollout])  # padding, or a column that nobody wrote
        except FormatError as error:
            assert "a.arrow" in str(error)  # noqa: PT017 -- either is right, and neither is a crash
        at = raw.find(good, at + 8)


def test_bad_rows_are_named_or_left_out(folder):
    write("a.arrow", [Trajectory([Step(action="a")], id="x"), Trajectory([Step(action="b")], id="y")])
    table = pa.ipc.open_file("a.arrow").read_all()
    column = pa.array([1.0, float("nan")])
    table = table.set_column(table.schema.get_field_index("outcome"), table.schema.field("outcome"), column)
    with pa.ipc.new_file("a.arrow", table.schema) as out:
        out.write_table(table)
    with pytest.raises(FormatError, match=r"^a\.arrow, row 1: outcome is nan; give a finite number"):
        read("a.arrow")
    skipped = Skipped()
    assert [t.id for t in stream_arrow("a.arrow", skip_bad=skipped)] == ["x"]
    assert skipped.count == 1


def test_a_bad_trajectory_leaves_no_file(folder, capfd):
    with pytest.raises(DataError, match=r"^trajectory 1: no steps"):
        write("a.arrow", [Trajectory([Step(action="a")]), Trajectory([])])
    assert list(folder.iterdir()) == []
    assert capfd.readouterr().err == ""  # of what Arrow had not yet given to the file


def test_without_pyarrow(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"writing Arrow IPC needs the package 'pyarrow'"):
        write("a.arrow", [Trajectory([Step(action="a")])])


def test_columns_large_and_small_end_up_in_order(folder):
    rng = np.random.default_rng(0)
    large = Step(prompt_ids=[5], ids=rng.integers(0, 2**31, 300_000), logp=-rng.exponential(size=300_000))
    rollouts = [Trajectory([large], id="large"), Trajectory([Step(prompt_ids=[1], ids=[2, 3])], id="small")]
    write("a.arrow", rollouts)
    assert_same_trajectories(read("a.arrow"), rollouts)


def test_ids_in_64_bits_are_read_and_one_beyond_32_is_refused(folder):
    write("a.arrow", [Trajectory([Step(prompt_ids=[1], ids=[2, 3])], id="x")])
    table = pa.ipc.open_file("a.arrow").read_all()
    for ids, good in (([2, 3], True), ([2, 2**31], False)):
        rows = table.to_pylist()
        rows[0]["steps"][0]["ids"] = ids
        struct = table.schema.field("steps").type.value_type
        wide = [f.with_type(pa.list_(pa.int64())) if f.name in ("ids", "prompt_ids") else f for f in struct]
        at = table.schema.get_field_index("steps")
        schema = table.schema.set(at, pa.field("steps", pa.list_(pa.struct(wide))))
        with pa.ipc.new_file("b.arrow", schema) as writer:
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
        if good:
            (again,) = read("b.arrow")
            assert again.steps[0].ids.tolist() == ids
        else:
            with pytest.raises(FormatError, match=r"b\.arrow"):
                read("b.arrow")


def bits_of(file, name="logp"):
    steps = pa.ipc.open_file(file).schema.field("steps").type.value_type
    return steps.field(name).type.value_type.bit_width


HELD = {
    "halves": [-0.5, 0.0],
    "a float32": [float(np.float32(-0.1))],
    "its last digit": [-(1 + 2.0**-23)],
    "a small one": [-(2.0**-149)],
    "-0": [-0.0],
}
LOST = {
    "a tenth": [-0.1],
    "one digit more": [-(1 + 2.0**-24)],
    "too large": [-1e39],
    "too large, and round": [-(2.0**128)],
    "too small": [-(2.0**-150)],
    "last of many": [0.0] * 100_000 + [-0.1],
}


@pytest.mark.parametrize("kind", [*HELD, *LOST])
@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_floats_have_32_bits_where_those_hold_them_exactly(folder, kind, ending):
    logp = {**HELD, **LOST}[kind]
    rollouts = [
        Trajectory([Step(prompt_ids=[1], ids=[2], logp=[-0.25])], id="a"),
        Trajectory([Step(prompt_ids=[1], ids=list(range(len(logp))), logp=logp, entropy=[0.3] * len(logp))], id="b"),
    ]
    for given in (rollouts, Batch.from_trajectories(rollouts)):
        write(f"a.{ending}", given)
        assert_same_trajectories(read(f"a.{ending}"), rollouts)  # bit by bit
        if ending == "arrow":
            assert (bits_of("a.arrow"), bits_of("a.arrow", "entropy")) == (32 if kind in HELD else 64, 64)


def test_a_float_that_does_not_fit_is_found_wherever_it_stands(folder, monkeypatch):
    monkeypatch.setattr(narrow, "PIECE", 2)
    for place in range(5):
        logp = [-0.1 if k == place else -0.5 for k in range(5)]
        write("a.arrow", [Trajectory([Step(prompt_ids=[1], ids=[2] * 5, logp=logp)], id="a")])
        assert bits_of("a.arrow") == 64


def test_a_stream_may_bring_any_float_later(folder):
    first = [Trajectory([Step(prompt_ids=[1], ids=[2], logp=[-0.5])], id="a")]
    later = [Trajectory([Step(prompt_ids=[1], ids=[2], logp=[-0.1])], id="b")]
    write("a.arrow", iter(first + later))
    assert bits_of("a.arrow") == 64
    assert_same_trajectories(read("a.arrow"), first + later)
