"""Bad input of every kind, for every reader: a sentence with file and place, no traceback, no silent loss."""

import gzip
import json
import random
import tracemalloc

import pytest

import apportion as ap
from apportion.data.record import to_json, to_record
from apportion.errors import FormatError
from tests.adapters.foreign import lines, listed, said
from tests.adapters.test_every_reader import NAMES, read
from tests.adapters.written import WRITTEN

WRONG = (
    None,
    True,
    0,
    -1.5,
    10**30,
    "",
    "x" * 1000,
    [],
    {},
    [[]],
    [None],
    {"a": []},
    float("nan"),
    float("inf"),
    "\ud800",
)


def places(record):
    """The way to every value inside, one of each shape: what stands in the same fields of two items is tried once."""
    out = {}

    def walk(value, path):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            shape = tuple("*" if isinstance(k, int) else k for k in (*path, key))
            out.setdefault((shape, type(inner)), [*path, key])
            walk(inner, [*path, key])

    walk(record, [])
    return list(out.values())


def changed(record, path, change):
    """The record with what stands at one place deleted, doubled, or another value."""
    copy = json.loads(json.dumps(record))
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    if change == "delete":
        del holder[path[-1]]
    elif change == "double":
        holder.extend([holder[path[-1]]] * 2)
    else:
        holder[path[-1]] = change[0]
    return copy


def mutations(record):
    """Every value of a record left out, doubled where it is in a list, and replaced by values of other kinds."""
    for k, path in enumerate(places(record)):
        yield changed(record, path, "delete")
        if isinstance(path[-1], int):
            yield changed(record, path, "double")
        for j in range(4):
            yield changed(record, path, (WRONG[(k + 4 * j) % len(WRONG)],))


def outcome_of(path, form):
    """Read leniently: what came out must be sound, what did not must be counted, and only our errors are raised."""
    told = ""
    try:
        found, report = read(path, form, skip_bad=True)
    except FormatError as error:
        told, found = str(error), []
    if told:
        assert str(path) in told
        return 0
    assert all(str(path) in reason for reason in report.skipped.reasons)
    for trajectory in found:
        ap.Batch.from_trajectories([trajectory])
        to_json(to_record(trajectory, "t"), "t")
    return len(found)


@pytest.mark.parametrize("name", NAMES)
def test_fuzz_wrong_types(name, tmp_path):
    values = WRITTEN[name].values
    others = outcome_of(lines(tmp_path / "f.jsonl", values[1:2]), name)
    for k, broken in enumerate(mutations(values[0])):
        path = lines(tmp_path / "f.jsonl", [broken, *values[1:2]])
        assert outcome_of(path, name) >= others  # the neighbour of a broken record is read
        if k % 5 == 0:
            outcome_of(path, None)


@pytest.mark.parametrize("layout", [lines, listed])
@pytest.mark.parametrize("name", NAMES)
def test_fuzz_truncation(name, layout, tmp_path):
    whole = layout(tmp_path / "whole", WRITTEN[name].values).read_bytes()
    counts = []
    for cut in [*range(0, len(whole), max(1, len(whole) // 60)), len(whole) - 1]:
        path = tmp_path / "cut"
        path.write_bytes(whole[:cut])
        counts.append(outcome_of(path, name))
    assert counts == sorted(counts)  # more of the file, no fewer rollouts


def test_a_cut_at_every_byte_is_told(tmp_path):
    """Inside a string, an escape, a number, a word, a character of two bytes, and between values."""
    record = {
        "messages": [{"role": "user", "content": "é\\\u20ac\n"}, said("ok")],
        "reward": -1.5e-3,
        "kept": [True, None],
    }
    text = json.dumps(record, ensure_ascii=False) + "\n"
    data = (text + json.dumps(record) + "\n").encode()
    assert {b"{", b"[", b'"', b"\\", b"\xc3", b"-", b".", b":", b",", b"t", b"n"} <= {bytes([b]) for b in data}
    ends = (len(text.encode()) - 1, len(data) - 1)
    for cut in range(1, len(data)):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(data[:cut])
        whole = sum(cut >= end for end in ends)
        if not whole:
            with pytest.raises(FormatError, match="line 1"):
                read(path, "openai-chat", skip_bad=True)
            continue
        found, report = read(path, "openai-chat", skip_bad=True)
        assert len(found) == whole, cut
        assert report.skipped.count == (0 if cut in (*ends, ends[0] + 1) else 1), cut


@pytest.mark.parametrize("name", NAMES)
def test_fuzz_bytes(name, tmp_path):
    rng = random.Random(11)
    whole = lines(tmp_path / "whole", WRITTEN[name].values).read_bytes()
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.choice(b'\x00\xff\xc3"{}[]\\,:\n\r0-e')
        path = tmp_path / "bad"
        path.write_bytes(bytes(data))
        for form in (None, name):
            outcome_of(path, form)


@pytest.mark.parametrize("name", NAMES)
def test_fuzz_depth(name, tmp_path):
    value = WRITTEN[name].values[0]
    for depth in (150, 300, 3000, 50_000):
        for key in [*value, "metadata", "reward", "group_id"]:
            rest = json.dumps({k: v for k, v in value.items() if k != key})[1:]
            for nest in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
                path = tmp_path / "deep"
                path.write_text(f'{{"{key}": {nest}, {rest}')
                outcome_of(path, name)


@pytest.mark.parametrize("name", NAMES)
def test_fuzz_the_files_of_all_the_others(name, tmp_path):
    for other, written in WRITTEN.items():
        outcome_of(lines(tmp_path / f"{other}.jsonl", written.values), name)
        if written.text:
            path = tmp_path / f"{other}.txt"
            path.write_text(written.text)
            outcome_of(path, name)
    for data in (
        b"",
        b"null",
        b"[]",
        b"{}",
        b"3",
        b'"x"',
        b"[[]]",
        b"[{}]",
        b"\xff\xfe{",
        b"a,b\n1,2",
        b"PAR1xx",
        b"\x1f\x8bxx",
    ):
        path = tmp_path / "odd"
        path.write_bytes(data)
        outcome_of(path, name)


@pytest.mark.parametrize("name", NAMES)
def test_a_key_that_stands_twice_is_refused(name, tmp_path):
    value = WRITTEN[name].values[0]
    key = next(iter(value))
    path = tmp_path / "twice.jsonl"
    path.write_text(f'{{"{key}": 0, {json.dumps(value)[1:]}\n{json.dumps(value)}\n')
    with pytest.raises(FormatError, match=f"line 1: the key {key!r} stands twice in one object; keep one"):
        read(path, name)


@pytest.mark.parametrize("name", NAMES)
def test_huge_texts_are_read_in_memory_of_their_size(name, tmp_path):
    huge = "y" * 2_000_000
    text = json.dumps(WRITTEN[name].values[0])
    longest = max(
        (part for part in text.split('"') if part.isascii() and " " in part and "\\" not in part), key=len, default=""
    )
    path = tmp_path / "huge.jsonl"
    path.write_text(text.replace(longest, longest + huge) if longest else text)
    size = path.stat().st_size
    tracemalloc.start()
    try:
        outcome_of(path, name)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60 * size + 20_000_000


def test_thousands_of_answers_in_a_row_do_not_square_the_memory(tmp_path):
    chat = [{"role": "assistant", "content": f"word {k} " * 20} for k in range(3000)]
    path = lines(tmp_path / "row.jsonl", [{"messages": chat, "reward": 1}])
    tracemalloc.start()
    try:
        (trajectory,), _ = read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(trajectory.steps) == 3000
    assert len({step.state for step in trajectory.steps}) == 3000
    assert peak < 100_000_000  # the histories of all steps would be 800 MB


def test_a_million_names_do_not_fill_the_report(tmp_path):
    chat = [{"role": "user", "content": "a", **{f"field{k}": 1 for k in range(5000)}}]
    _, report = read(lines(tmp_path / "names.jsonl", [{"messages": chat, "reward": 1}]))
    assert len(report.notes) < 300
    assert sum(report.notes.values()) >= 5000


def test_names_that_look_like_paths_or_formulas_stay_texts(tmp_path):
    evil = "../../../../etc/passwd"
    record = WRITTEN["atif"].values[0] | {"session_id": evil, "continued_trajectory_ref": evil}
    record["agent"] = {"name": '=HYPERLINK("http://a")', "version": "1"}
    record["steps"][2]["observation"]["results"][0]["subagent_trajectory_ref"] = [{"trajectory_path": evil}]
    found, report = read(lines(tmp_path / "a.jsonl", [record]))
    assert found[0].id == evil
    assert found[0].steps[0].agent == '=HYPERLINK("http://a")'
    assert report.notes["trajectories that go on in another file: not followed"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    outside = lines(tmp_path / "outside.jsonl", WRITTEN["openai-chat"].values)
    folder = tmp_path / "runs"
    folder.mkdir()
    lines(folder / "mine.jsonl", WRITTEN["openai-chat"].values)
    (folder / "link.jsonl").symlink_to(outside)
    found, report = read(folder)
    assert len(found) == 3
    assert [why for _, why in report.passed_over] == ["a link that leads out of the folder"]


def test_folders_inside_folders_are_read(tmp_path):
    for k in range(2):
        inner = tmp_path / "runs" / f"instance_{k}"
        inner.mkdir(parents=True)
        listed(inner / f"instance_{k}.traj", WRITTEN["swe-agent"].values[0] | {"replay_config": {}})
        (inner / "run.log").write_text("INFO started\n")
    found, report = read(tmp_path / "runs")
    assert [t.id for t in found] == ["instance_0", "instance_1"]
    assert len(report.passed_over) == 2


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_file_that_unpacks_out_of_proportion_is_refused(ending, tmp_path, monkeypatch):
    from apportion.data import compress

    monkeypatch.setattr(compress, "FREE", 1 << 20)
    path = tmp_path / f"bomb.jsonl.{ending}"
    with path.open("wb") as file, compress.compressed(file, path.name) as packed:
        for _ in range(40):
            packed.write(b'{"messages": [], "pad": "' + b"0" * (1 << 17) + b'"}\n')
    for form in (None, "openai-chat"):
        with pytest.raises(
            FormatError, match="unpacks to more than 200 times its size, as no log does; unpack it yourself"
        ):
            read(path, form, skip_bad=True)


def test_a_log_that_packs_well_is_read(tmp_path):
    path = tmp_path / "good.jsonl.gz"
    data = lines(tmp_path / "t", WRITTEN["openai-chat"].values * 2000).read_bytes()
    path.write_bytes(gzip.compress(data))
    assert path.stat().st_size * 50 < len(data)
    assert len(read(path)[0]) == 6000


# --- Parquet ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")

    def write(rows, name="rows.parquet", **options):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name, **options)
        return tmp_path / name

    return write


def test_fuzz_parquet(table, tmp_path):
    rng = random.Random(3)
    whole = table(WRITTEN["trl"].values).read_bytes()
    counts = set()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(4, len(data))] = rng.randrange(256)
        path = tmp_path / "bad.parquet"
        path.write_bytes(bytes(data[: rng.choice([len(data), rng.randrange(len(data))])]))
        for form in (None, "trl"):
            counts.add(outcome_of(path, form))
    assert counts >= {0, 4}


def test_a_row_group_that_unpacks_to_too_much_is_refused(table, monkeypatch):
    from apportion.adapters.readers import rows

    path = table([{"step": 1, "prompt": "p", "completion": "x" * 100_000, "advantage": 0.0}])
    assert path.stat().st_size < 20_000
    assert outcome_of(path, None) == 1
    monkeypatch.setattr(rows, "LONGEST", 1 << 10)
    with pytest.raises(FormatError, match=r"row group 0 unpacks to 0 MiB; write smaller row groups"):
        read(path, "trl")


def test_what_arrow_has_and_json_has_not_becomes_text(table):
    import datetime

    row = WRITTEN["trl"].values[0]
    stamp = datetime.datetime(2025, 1, 2, 3, 4, 5)
    (trajectory,), _ = read(table([{**row, "when": stamp, "raw": b"\xffab", "none": None, "nested": {"at": [stamp]}}]))
    text = "2025-01-02 03:04:05"
    assert trajectory.meta == {
        "step": 3,
        "advantage": 0.5,
        "when": text,
        "raw": "\ufffdab",
        "nested": {"at": [text]},
    }


def test_places_in_a_table_are_rows(table):
    rows = [*WRITTEN["trl"].values, {**WRITTEN["trl"].values[0], "completion": None}]
    path = table(rows)
    with pytest.raises(FormatError, match=r"rows\.parquet, row 5: no 'completion'"):
        read(path)
    found, report = read(path, skip_bad=True)
    assert (len(found), report.skipped.count) == (4, 1)


def test_many_rows_are_streamed_in_order(table):
    rows = [{**WRITTEN["trl"].values[0], "completion": f"a{k}"} for k in range(500)]
    found, _ = read(table(rows, row_group_size=130))
    assert [t.steps[0].action for t in found] == [f"a{k}" for k in range(500)]
