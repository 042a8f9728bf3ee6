import contextlib
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from apportion.data import (
    SCHEMA,
    Skipped,
    Step,
    Trajectory,
    parquet,
    read_parquet,
    stream_parquet,
    write_jsonl,
    write_parquet,
)
from apportion.errors import DataError, FormatError, MissingExtra
from tests.make import assert_same_trajectories, random_trajectories

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Writes two rollouts, lets a function change the pyarrow table, and gives the name of the file."""
    monkeypatch.chdir(tmp_path)

    def make(change=lambda table: table):
        rollouts = [Trajectory([Step(ids=[1, 2], prompt_ids=[0], logp=[0.5, 1.5], reward=1)], id=n) for n in "ab"]
        write_parquet("runs.parquet", rollouts)
        pq.write_table(change(pq.read_table("runs.parquet")), "runs.parquet")
        return "runs.parquet"

    return make


def renamed(old, new):
    def change(t):
        names = [new if name == old else name for name in t.column_names]
        return t.rename_columns(names).replace_schema_metadata(t.schema.metadata)

    return change


def with_steps(make):
    """Replaces the steps of every row by ``make(steps)``, keeping our metadata."""

    def change(t):
        steps = pa.array([make(row) for row in t.column("steps").to_pylist()])
        return t.set_column(t.column_names.index("steps"), "steps", steps)

    return change


class TestOtherToolsReadIt:
    def test_columns(self, table):
        t = pq.read_table(table())
        assert {"id", "group", "outcome", "final_value", "reference", "meta_json", "steps"} < set(t.column_names)
        assert t.schema.metadata[b"apportion.schema"] == SCHEMA.encode()
        struct = t.schema.field("steps").type.value_type
        assert struct.field("logp").type == pa.list_(pa.float32())  # which holds these
        assert struct.field("entropy").type == pa.list_(pa.float64())
        assert struct.field("ids").type == pa.list_(pa.int32())
        assert struct.field("reward").type == pa.float64()

    def test_values(self, table):
        rows = pq.read_table(table()).to_pylist()
        assert [row["id"] for row in rows] == ["a", "b"]
        assert rows[0]["steps"][0]["logp"] == [0.5, 1.5]
        assert rows[0]["group"] is None
        assert rows[0]["steps"][0]["extra_json"] is None

    def test_a_file_rewritten_by_pyarrow_is_still_ours(self, table):
        expected = [Trajectory([Step(ids=[1, 2], prompt_ids=[0], logp=[0.5, 1.5], reward=1)], id=n) for n in "ab"]
        assert_same_trajectories(read_parquet(table()), expected)
        assert_same_trajectories(read_parquet(table(lambda t: t.drop_columns(["group", "exact_json"]))), expected)

        def narrow(t):  # int32 and float32, large lists, as other writers have them
            step = pa.struct(
                [("ids", pa.large_list(pa.int32())), ("logp", pa.list_(pa.float32())), ("reward", pa.float32())]
            )
            rows = [[{"ids": [1, 2], "logp": [0.5, 1.5], "reward": 1}]] * 2
            return t.set_column(t.column_names.index("steps"), "steps", pa.array(rows, pa.large_list(step)))

        expected = [Trajectory([Step(ids=[1, 2], logp=[0.5, 1.5], reward=1)], id=n) for n in "ab"]
        assert_same_trajectories(read_parquet(table(narrow)), expected)

    def test_text_that_utf8_cannot_hold(self, tmp_path):
        rollouts = [
            Trajectory([Step(action="cut \ud83d", actions=["\udc00"], extra={"\ud800": "\ud801"})], id="\udfff"),
            Trajectory([Step(action="fine")], meta={"k": "\ud83d"}),
            Trajectory([Step(action="?")], group="\ud83d"),
        ]
        path = tmp_path / "runs.parquet"
        write_parquet(path, rollouts)
        assert_same_trajectories(read_parquet(path), rollouts)
        rows = pq.read_table(path).to_pylist()
        assert rows[0]["steps"][0]["action"] == "cut ?"
        assert [row["exact_json"] is None for row in rows] == [False, True, False]

    def test_dictionaries_only_where_values_recur(self, tmp_path):
        write_parquet(tmp_path / "runs.parquet", random_trajectories(1))
        group = pq.ParquetFile(tmp_path / "runs.parquet").metadata.row_group(0)
        columns = [group.column(i) for i in range(group.num_columns)]
        dictionary = {c.path_in_schema for c in columns if any("DICTIONARY" in e for e in c.encodings)}
        assert dictionary == {"group"} | {f"steps.list.element.{name}" for name in parquet.REPETITIVE}


class TestRowGroups:
    def test_they_end_by_rows_or_by_weight(self, tmp_path, monkeypatch):
        path = tmp_path / "runs.parquet"
        monkeypatch.setattr(parquet, "ROWS", 4)
        rollouts = [Trajectory([Step(action="a")], id=str(n)) for n in range(10)]
        write_parquet(path, rollouts)
        meta = pq.ParquetFile(path).metadata
        assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [4, 4, 2]
        monkeypatch.setattr(parquet, "WEIGHT", 100)
        write_parquet(path, [Trajectory([Step(ids=range(60))], id=str(n)) for n in range(5)])
        meta = pq.ParquetFile(path).metadata
        assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [2, 2, 1]

    @pytest.mark.parametrize("batch_size", [1, 3, 7, 1000])
    def test_any_batch_size_gives_the_same(self, tmp_path, monkeypatch, batch_size):
        monkeypatch.setattr(parquet, "ROWS", 5)
        rollouts = random_trajectories(4) + random_trajectories(5, ids=False)
        write_parquet(tmp_path / "runs.parquet", rollouts)
        assert_same_trajectories(stream_parquet(tmp_path / "runs.parquet", batch_size=batch_size), rollouts)

    def test_writing_takes_them_as_they_come(self, tmp_path, monkeypatch):
        monkeypatch.setattr(parquet, "ROWS", 8)
        big = np.random.default_rng(0).normal(size=4000)

        def rollouts():
            for n in range(160):
                yield Trajectory([Step(ids=np.arange(4000), logp=big)], id=str(n))

        tracemalloc.start()
        write_parquet(tmp_path / "runs.parquet", rollouts())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 160 * big.nbytes / 2

    def test_an_empty_file(self, tmp_path):
        assert write_parquet(tmp_path / "runs.parquet", []) == 0
        assert read_parquet(tmp_path / "runs.parquet") == []


FOREIGN = [
    (
        lambda t: t.replace_schema_metadata({}),
        r"^runs\.parquet: a Parquet file, but not of ours \(it looks like an object",
    ),
    (
        lambda t: t.replace_schema_metadata({"apportion.schema": "apportion.rollouts/2"}),
        r"^runs\.parquet: the file has schema version 2 and this apportion reads up to 1; update apportion$",
    ),
    (
        lambda t: t.replace_schema_metadata({"apportion.schema": "apportion.credit/1"}),
        r"^runs\.parquet: the file holds 'apportion\.credit/1', not 'apportion\.rollouts/1'",
    ),
    (renamed("outcome", "reward"), r"^runs\.parquet: there is no column 'reward'; the columns are id, group, outcome,"),
    (lambda t: t.drop_columns(["steps"]), r"^runs\.parquet: there is no column 'steps'; a trajectory needs its steps$"),
    (with_steps(lambda steps: "go"), r"^runs\.parquet: the column 'steps' is string; it should be a list of structs$"),
    (with_steps(lambda steps: [1]), r"^runs\.parquet: the column 'steps' is list<.*>; it should be a list of structs$"),
    (
        with_steps(lambda steps: [{"act": "a"}]),
        r"^runs\.parquet, steps: there is no column 'act'; the columns are observ",
    ),
    (with_steps(lambda steps: [{"ids": ["a"]}]), r"^runs\.parquet, from row 0 on: damaged \(Failed to parse string"),
]


class TestForeign:
    @pytest.mark.parametrize(("change", "why"), FOREIGN, ids=[str(n) for n in range(len(FOREIGN))])
    def test_refused(self, table, change, why):
        path = table(change)
        for skip_bad in (False, True):
            with pytest.raises(FormatError, match=why):
                read_parquet(path, skip_bad=skip_bad)

    def test_no_such_file(self):
        with pytest.raises(FormatError, match=r"^absent\.parquet: no such file; check the path$"):
            read_parquet("absent.parquet")

    @pytest.mark.parametrize("kept", [4, 100, 1000, -1])
    def test_damaged(self, table, kept):
        path = table()
        with open(path, "rb") as file:
            raw = file.read()
        with open(path, "wb") as file:
            file.write(raw[:kept])
        with pytest.raises(FormatError, match=r"^runs\.parquet: not a Parquet file that can be read \(.+\)$"):
            read_parquet(path)

    def test_flipped_bytes_never_escape_as_another_error(self, table):
        path = table()
        with open(path, "rb") as file:
            raw = file.read()
        rng = np.random.default_rng(0)
        for _ in range(150):
            broken = bytearray(raw)
            broken[int(rng.integers(len(raw)))] ^= 1 << int(rng.integers(8))
            with open(path, "wb") as file:
                file.write(broken)
            with contextlib.suppress(FormatError):
                read_parquet(path)


BAD_ROWS = [
    ([{"ids": [1], "logp": [0.5, 1.0]}], r"step 0: 2 log-probabilities for 1 sampled tokens; give one per"),
    ([{"ids": [1], "logp": [None]}], r"step 0: logp must be numbers, got 'None'; give one per"),
    ([{"ids": [1, None]}], r"step 0: ids must be integers, got object; give token ids"),
    ([{"ids": [1], "reward": float("nan")}], r"step 0: reward is nan; give a finite number, or None"),
    ([{"ids": [1], "extra_json": "{"}], r"step 0: extra_json: the line breaks off after column 1"),
    ([{"ids": [1], "extra_json": "[1]"}], r"step 0: extra is a list; give a dict$"),
    ([{"ids": [1], "extra_json": '{"a": NaN}'}], r"step 0: extra_json: a is no number: NaN is not JSON"),
    ([{"logp": [1.0]}], r"step 0: neither ids nor action; give what the policy sampled"),
    ([], r"no steps; a rollout that did nothing is one step with an empty action$"),
    (None, r"steps is null; give a list of objects$"),
]


@pytest.mark.parametrize(("bad", "why"), BAD_ROWS, ids=[str(n) for n in range(len(BAD_ROWS))])
def test_bad_rows_are_named_or_counted(table, bad, why):
    rows = iter([[{"ids": [1], "logp": [0.5], "extra_json": "{}", "reward": 0.5}], bad])
    path = table(with_steps(lambda steps: next(rows)))
    with pytest.raises(FormatError, match=r"^runs\.parquet, row 1[:,] " + why):
        read_parquet(path)
    skipped = Skipped()
    assert [t.id for t in read_parquet(path, skip_bad=skipped)] == ["a"]
    assert skipped.count == 1
    with pytest.warns(UserWarning, match="^1 record skipped"):
        read_parquet(path, skip_bad=True)


def test_a_null_step_is_not_a_step(table):
    with pytest.raises(FormatError, match=r"row 0, step 0: neither ids nor action"):
        read_parquet(table(with_steps(lambda steps: [None, {"ids": [1]}])))


def test_the_writer_leaves_the_old_file_when_a_rollout_is_bad(tmp_path):
    path = tmp_path / "runs.parquet"
    path.write_text("old")
    good = Trajectory([Step(action="a")])
    for bad, why in (
        (Trajectory([]), "^trajectory 1: no steps"),
        (
            Trajectory([Step(action="a", extra={"x": object()})]),
            "^trajectory 1, step 0: extra holds a object; give JSON",
        ),
        (Trajectory([Step(action="\ud83d\ude00")]), "^trajectory 1: a text holds the two halves of a surrogate pair"),
    ):
        with pytest.raises(DataError, match=why):
            write_parquet(path, [good, bad])
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["runs.parquet"]


@pytest.mark.parametrize(("rows", "bad"), [(1, 2), (2, 3), (9, 3)])
def test_a_bad_step_is_named_by_its_place_in_the_file(tmp_path, monkeypatch, rows, bad):
    monkeypatch.setattr("apportion.data.parquet.ROWS", rows)
    steps = [[Step(action="a"), Step(action="b")] for _ in range(4)]
    steps[bad][1] = Step(action="c", extra={"x": object()})
    with pytest.raises(DataError, match=f"^trajectory {bad}, step 1: extra holds a object; give JSON"):
        write_parquet(tmp_path / "a.parquet", [Trajectory(some) for some in steps])


def test_without_pyarrow_the_sentence_names_the_extra(tmp_path):
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import apportion.data as data\n"
        "from apportion.errors import MissingExtra\n"
        "step = data.Trajectory([data.Step(action='a')])\n"
        "data.write(sys.argv[1] + '/a.jsonl', [step])\n"  # works without
        "for job in (lambda: data.write_parquet(sys.argv[1] + '/a.parquet', [step]),\n"
        "            lambda: data.read_parquet(sys.argv[1] + '/a.jsonl'),\n"
        "            lambda: data.write(sys.argv[1] + '/a.jsonl.zst', [step])):\n"
        "    try: job()\n"
        "    except MissingExtra as error: print(error)\n"
    )
    env = {**os.environ, "PYTHONPATH": "src"}
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, env=env)
    install = "needs the package 'pyarrow', which is not installed; run `pip install 'apportion[parquet]'`"
    what = ("writing Parquet", "reading Parquet", "writing a .zst file")
    assert out.stdout.splitlines() == [f"{w} {install}" for w in what], out.stderr
    assert issubclass(MissingExtra, ImportError)


def test_it_is_smaller_than_jsonl(tmp_path):
    rollouts = [t for seed in range(20) for t in random_trajectories(seed)]
    write_parquet(tmp_path / "runs.parquet", rollouts)
    write_jsonl(tmp_path / "runs.jsonl", rollouts)
    assert (tmp_path / "runs.parquet").stat().st_size < (tmp_path / "runs.jsonl").stat().st_size / 3
