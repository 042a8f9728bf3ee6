import os

import pytest

from apportion.data import Batch, Skipped, Step, Trajectory, read, stream, write
from apportion.data.read import SUFFIXES, kind_of
from apportion.errors import ConfigError, DataError, FormatError
from tests.make import assert_same_trajectories, random_trajectories, traj

GOOD = '{"id": "%s", "steps": [{"action": "go", "reward": 1.0}]}\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestReading:
    def test_one_file(self, folder):
        rollouts = random_trajectories(3)
        write("runs.jsonl", rollouts)
        batch = read("runs.jsonl")
        assert isinstance(batch, Batch)
        assert_same_trajectories(batch, rollouts)
        assert_same_trajectories(read(folder / "runs.jsonl"), rollouts)

    def test_several_files_of_both_formats_in_the_given_order(self, folder):
        write("b.parquet", [traj(("A", 1), id="b")])
        write("a.jsonl.gz", [traj(("A", 1), id="a")])
        assert read(["b.parquet", "a.jsonl.gz"]).names() == ("b", "a")
        assert [t.id for t in stream(iter(["a.jsonl.gz", "b.parquet"]))] == ["a", "b"]

    def test_a_folder_by_name(self, folder):
        (folder / "dump").mkdir()
        for n, ending in enumerate(SUFFIXES):
            write(folder / "dump" / f"part-{3 - n}{ending}", [traj(("A", 1), id=ending)])
        (folder / "dump" / "notes.txt").write_text("not ours")
        (folder / "dump" / ".part-9.jsonl.1234.tmp").write_text("{")
        (folder / "dump" / ".hidden.jsonl").write_text("{")
        (folder / "dump" / "sub.jsonl").mkdir()
        assert read("dump").names() == tuple(reversed(SUFFIXES))

    def test_an_empty_folder(self, folder):
        (folder / "dump").mkdir()
        with pytest.raises(
            FormatError, match=r"^dump: no rollout files in this folder; they end in \.jsonl, \.jsonl\.gz"
        ):
            read("dump")

    def test_streaming_opens_nothing_before_it_is_asked(self, folder):
        stream("absent.jsonl")
        with pytest.raises(FormatError, match="no such file"):
            next(stream("absent.jsonl"))

    def test_an_id_twice(self, folder):
        write("a.jsonl", [traj(("A", 1), id="x")])
        with pytest.raises(DataError, match=r"^trajectory 1: id 'x' is taken by trajectory 0; "):
            read(["a.jsonl", "a.jsonl"])

    def test_no_trajectories(self, folder):
        write("a.jsonl", [])
        with pytest.raises(DataError, match="the batch has no trajectories"):
            read("a.jsonl")

    def test_skipping_over_all_files(self, folder):
        for name in "ab":
            (folder / f"{name}.jsonl").write_text(GOOD % name + "{\n")
        with pytest.raises(FormatError, match=r"^a\.jsonl, line 2: "):
            read(["a.jsonl", "b.jsonl"])
        skipped = Skipped()
        assert read(["a.jsonl", "b.jsonl"], skip_bad=skipped).names() == ("a", "b")
        assert [reason[:15] for reason in skipped.reasons] == ["a.jsonl, line 2", "b.jsonl, line 2"]
        with pytest.warns(UserWarning, match="1 record skipped") as caught:
            read(["a.jsonl", "b.jsonl"], skip_bad=True)
        assert len(caught) == 2


FOREIGN = [
    (b'[{"messages": []}]', "a JSON array"),
    (b"\n\n [", "a JSON array"),
    (b"<!doctype html>", "HTML or XML"),
    (b"\x80\x04\x95", "a Python pickle, which is never opened"),
    (b"PK\x03\x04", r"a zip archive \(npz, xlsx, a torch file\)"),
    (b"\x89HDF\r\n", "HDF5"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x93NUMPY\x01", "a NumPy array"),
    (b"BZh91AY", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    ("{}".encode("utf-16"), "UTF-16 text"),
    (b"id,group,reward\n", "neither JSONL, Parquet nor Arrow"),
]


class TestKind:
    @pytest.mark.parametrize(("content", "what"), FOREIGN, ids=[what for _, what in FOREIGN])
    def test_a_foreign_file_says_what_it_looks_like(self, folder, content, what):
        (folder / "log.bin").write_bytes(content)
        sentence = (
            rf"^log\.bin: not a rollout file of ours \(it looks like {what}\); other formats: `apportion convert`$"
        )
        with pytest.raises(FormatError, match=sentence):
            read("log.bin")

    @pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf\n"])
    def test_an_empty_file(self, folder, content):
        (folder / "log.jsonl").write_bytes(content)
        with pytest.raises(
            FormatError, match=r"^log\.jsonl: the file is empty; a rollout file has at least a header line$"
        ):
            read("log.jsonl")

    def test_a_foreign_jsonl(self, folder):
        (folder / "log.jsonl").write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
        sentence = r"^log\.jsonl, line 1: no 'steps', .*looks like chat messages.*`apportion convert`$"
        with pytest.raises(FormatError, match=sentence):
            read("log.jsonl")

    def test_a_json_document_over_several_lines(self, folder):
        (folder / "log.json").write_text('{\n "steps": []\n}\n')
        with pytest.raises(
            FormatError, match=r"^log\.json, line 1: the line breaks off after column 1; a trajectory must"
        ):
            read("log.json")

    def test_the_bytes_decide_not_the_name(self, folder):
        write("a.jsonl", [traj(("A", 1), id="a")])
        os.rename("a.jsonl", "a.parquet")
        write("b.parquet", [traj(("A", 1), id="b")])
        os.rename("b.parquet", "b.jsonl")
        assert (kind_of("a.parquet"), kind_of("b.jsonl")) == ("jsonl", "parquet")
        assert read(["a.parquet", "b.jsonl"]).names() == ("a", "b")

    def test_damaged_compression(self, folder):
        (folder / "a.jsonl.gz").write_bytes(b"\x1f\x8b\x00\x00")
        with pytest.raises(FormatError, match=r"^a\.jsonl\.gz: the compressed data are damaged \("):
            read("a.jsonl.gz")


class TestWriting:
    @pytest.mark.parametrize("ending", SUFFIXES)
    def test_a_batch_or_any_trajectories(self, folder, ending):
        rollouts = random_trajectories(1)
        assert write(f"a{ending}", Batch.from_trajectories(rollouts)) == len(rollouts)
        assert write(f"b{ending}", iter(rollouts)) == len(rollouts)
        assert (folder / f"a{ending}").read_bytes() == (folder / f"b{ending}").read_bytes()
        assert_same_trajectories(read(f"a{ending}"), rollouts)

    @pytest.mark.parametrize("name", ["a.txt", "a.json", "a", "a.gz", "a.parquet.gz"])
    def test_an_ending_without_a_format(self, folder, name):
        with pytest.raises(ConfigError, match=rf"^{name}: no format for this ending; use one of \.jsonl, .*\.arrow$"):
            write(name, [Trajectory([Step(action="a")])])
        assert os.listdir(folder) == []
