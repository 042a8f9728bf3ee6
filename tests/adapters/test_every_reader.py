"""What holds for every reader: recognised in every layout, counted, and no bad input gets more than a sentence."""

import gzip
import json

import pytest

import apportion as ap
from apportion.adapters.readers import detect, known, read_any
from apportion.errors import FormatError
from tests.adapters.foreign import lines
from tests.adapters.written import WRITTEN
from tests.make import assert_same_trajectories

NAMES = [entry.name for entry in known() if entry.name != "apportion"]


def read(path, form=None, **options):
    trajectories, report = read_any(path, form, **options)
    found = list(trajectories)
    assert report.records == report.trajectories + report.skipped.count == len(found) + report.skipped.count
    return found, report


def test_every_format_has_a_file_that_these_tests_run_on():
    assert set(WRITTEN) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_layout_is_recognised_and_read_alike(name, tmp_path):
    values, size, _ = WRITTEN[name]
    want, report = read(lines(tmp_path / "lines.jsonl", values))
    assert (len(want), report.formats, report.skipped.count) == (size, (name,), 0)
    ap.Batch.from_trajectories(want)
    whole = (tmp_path / "lines.jsonl").read_bytes()
    layouts = {
        "crlf.jsonl": whole.replace(b"\n", b"\r\n"),
        "bom.jsonl": b"\xef\xbb\xbf" + whole,
        "joined.json": b"".join(json.dumps(value, indent=2).encode() for value in values),
        "list.json": json.dumps(values).encode(),
        "indented.json": json.dumps(values, indent=1, ensure_ascii=False).encode(),
        "packed": gzip.compress(whole),
    }
    for file, data in layouts.items():
        path = tmp_path / file
        path.write_bytes(data)
        found = detect(path)
        assert (found.format, bool(found.why)) == (name, True), file
        if name in ("swe-agent",):  # its rollouts name themselves, so the name of the file does not matter
            assert [t.group for t in read(path)[0]] == [t.group for t in want]
        assert_same_trajectories(read(path)[0], want)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_read_is_written_and_read_again(name, tmp_path):
    want, _ = read(lines(tmp_path / "in.jsonl", WRITTEN[name].values))
    ap.write(tmp_path / "out.jsonl", want)
    assert_same_trajectories(list(ap.read(tmp_path / "out.jsonl").trajectories), want)


@pytest.mark.parametrize("name", NAMES)
def test_a_parquet_file_of_the_rows_is_read_as_the_lines_are(name, tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    values, size, _ = WRITTEN[name]
    if name in ("swe-agent", "otel-genai"):
        pytest.skip("these programs write no tables")
    try:
        pq.write_table(pa.Table.from_pylist(values), tmp_path / "rows.parquet")
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        pytest.skip("values of this format have no one type of column, or an empty one")
    found, report = read(tmp_path / "rows.parquet")
    assert (report.formats, len(found)) == ((name,), size)


@pytest.mark.parametrize("name", NAMES)
def test_reward_and_ids_are_told_where_they_are_missing(name, tmp_path):
    found, report = read(lines(tmp_path / "in.jsonl", WRITTEN[name].values))
    unscored = sum(trajectory.outcome is None for trajectory in found)
    told = sum(times for note, times in report.notes.items() if "not scored" in note or "unscored" in note)
    assert told >= unscored
    assert report.notes["ids unknown: text only, words stand in for tokens"] == sum(
        trajectory.steps[0].ids is None for trajectory in found
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_group_can_be_asked_for(name, tmp_path):
    if name == "solutions":
        values = [{**value, "mine": "g"} for value in WRITTEN[name].values]
    else:
        values = [{**value, "mine": "g"} if isinstance(value, dict) else value for value in WRITTEN[name].values]
    found, report = read(lines(tmp_path / "in.jsonl", values), group_by="first_user_message")
    notes = [
        note for note in report.notes if "guessed from the first user message" in note or "no user message" in note
    ]
    assert notes
    assert all(t.group is None or "#" in t.group for t in found)


def test_groups_that_files_share_are_told(tmp_path):
    for name in ("airline", "retail"):
        lines(tmp_path / f"{name}.jsonl", WRITTEN["tau-bench"].values)
    _, report = read(tmp_path)
    note = "in a group of an earlier file: right if both ran the same tasks, else convert apart"
    assert report.notes[note] == 3
    assert read(tmp_path / "retail.jsonl")[1].notes[note] == 0


def test_of_a_folder_the_files_of_one_format_can_be_asked_for(tmp_path):
    lines(tmp_path / "a.jsonl", WRITTEN["openai-chat"].values)
    lines(tmp_path / "b.jsonl", WRITTEN["atif"].values)
    (tmp_path / "c.txt").write_text("notes")
    found, report = read(tmp_path)
    assert len(found) == 5
    told = "files of several formats: openai-chat (1), atif (1); if they log the same runs, read one of them"
    assert any(remark.startswith(told) for remark in report.remarks())
    found, report = read(tmp_path, "atif")
    assert (len(found), report.formats) == (2, ("atif",))
    assert [why for _, why in report.passed_over] == ["not atif", "not atif"]
    with pytest.raises(FormatError, match="no file of this folder holds rollouts of the format verl"):
        read(tmp_path, "verl")


def test_a_broken_file_among_others_is_counted_or_raised(tmp_path):
    lines(tmp_path / "a.jsonl", WRITTEN["atif"].values)
    lines(tmp_path / "b.jsonl", [{"schema_version": "ATIF-v1.4", "steps": 5}] * 2)
    data = gzip.compress(lines(tmp_path / "c.jsonl", WRITTEN["atif"].values * 2000).read_bytes())
    (tmp_path / "c.jsonl").write_bytes(data[: len(data) // 2])
    lines(tmp_path / "d.jsonl", WRITTEN["tau-bench"].values)
    (tmp_path / "e.gz").write_bytes(b"\x1f\x8bnonsense")
    with pytest.raises(FormatError, match=r"b\.jsonl, line 1: no 'steps'"):
        read(tmp_path)
    found, report = read(tmp_path, skip_bad=True)
    assert (len([t for t in found if t.group is None]) > 2, found[-1].group) == (True, "49")
    assert report.skipped.count == 3
    ((path, why),) = report.passed_over
    assert path.endswith("e.gz")
    assert why.startswith("the compressed data are damaged")
    assert any("c.jsonl: the compressed data are damaged" in reason for reason in report.skipped.reasons)
    (tmp_path / "a.jsonl").unlink()
    (tmp_path / "c.jsonl").unlink()
    (tmp_path / "d.jsonl").write_bytes((tmp_path / "b.jsonl").read_bytes())
    with pytest.raises(FormatError, match=r"none of 4 records could be read; the first: .*b\.jsonl, line 1"):
        read(tmp_path, skip_bad=True)


def test_many_files_get_a_line_together(tmp_path):
    for k in range(25):
        lines(tmp_path / f"{k:02}.jsonl", WRITTEN["atif"].values)
        (tmp_path / f"{k:02}.txt").write_text("notes")
    found, report = read(tmp_path)
    remarks = report.remarks()
    assert remarks[0] == f"25 files, {tmp_path / '00.jsonl'} first: read as atif (a schema version 'ATIF-v1.4')"
    assert remarks[1].startswith(f"25 files, {tmp_path / '00.txt'} first: passed over (the file is not JSON")
    assert len(report.to_dict()["files"]) == 25
    assert len(found) == 50
