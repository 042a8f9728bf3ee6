"""Runs that are killed, repeated, or meet something else than before: finished files stay, nothing is mixed up."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from apportion.adapters.volume import assign_files
from apportion.adapters.volume.journal import NAME, journal
from apportion.bench.speed.steplogs import write_steplog
from apportion.data import write
from apportion.errors import ConfigError, DataError, FormatError
from tests.adapters.volume.folders import contents, folder_of, rollouts

RUN = """
import sys
from apportion.adapters.volume import assign_files
assign_files([sys.argv[1]], sys.argv[2], "gigpo", params={"gamma": 0.9}, told=lambda *told: print(told[0], flush=True))
"""


@pytest.fixture
def big(tmp_path):
    return folder_of(tmp_path / "big", rollouts(2), files=4)


def lines(folder):
    return [json.loads(line) for line in (folder / NAME).read_text().splitlines()]


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_as_if_it_had_not_been(tmp_path):
    big = tmp_path / "big"
    big.mkdir()
    for k in range(6):
        write_steplog(big / f"part-{k}.parquet", 800, seed=k)
    alone = assign_files([big], tmp_path / "alone", "gigpo", params={"gamma": 0.9})
    rng = random.Random(0)
    out = tmp_path / "out"
    kept, killed, left_behind = 0, 0, 0
    for attempt in range(40):
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(big), str(out)], stdout=subprocess.PIPE, text=True, env=os.environ
        )
        first = process.stdout.readline()  # it has begun: what was finished before
        assert int(first or kept) >= kept
        time.sleep(rng.random() * 0.06)
        process.send_signal(signal.SIGKILL)
        rest = process.communicate()[0]
        left_behind += len(list(out.glob(".*.tmp")))
        # What the journal says is kept; a file whose line the run did not live to write is made again.
        kept = max(0, (out / NAME).read_bytes().count(b"\n") - 1) if (out / NAME).exists() else 0
        assert len(list(out.glob("*.parquet"))) >= kept
        for path in out.glob("*.parquet"):  # whatever stands there is whole
            assert path.read_bytes() == (tmp_path / "alone" / path.name).read_bytes()
        killed += process.returncode == -signal.SIGKILL
        if rest.endswith("6\n") or (first.strip() == "6") or attempt == 39:
            break
    again = assign_files([big], out, "gigpo", params={"gamma": 0.9})
    assert contents(out) == contents(tmp_path / "alone")
    assert again.counts == alone.counts
    assert killed > 1
    assert left_behind > 0
    assert not list(out.glob(".*.tmp"))


def test_finished_files_are_not_touched_again(big, tmp_path):
    out = tmp_path / "out"
    first = assign_files([big], out, "gigpo")
    before = {path: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    (out / "part-2.parquet").unlink()
    again = assign_files([big], out, "gigpo")
    after = {path: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert [path.name for path in before if before[path] != after[path]] == ["part-2.parquet"]
    assert (again.fresh, again.kept, again.redone) == (1, 3, 0)
    assert again.counts == first.counts


def test_a_changed_input_is_credited_again_and_a_touched_one_is_not(big, tmp_path):
    out = tmp_path / "out"
    assign_files([big], out, "gigpo")
    os.utime(big / "part-0.parquet")
    write(big / "part-1.parquet", rollouts(2000, groups=3))
    again = assign_files([big], out, "gigpo")
    assert (again.fresh, again.kept, again.redone) == (1, 3, 1)
    assign_files([big], tmp_path / "anew", "gigpo")
    assert contents(out) == contents(tmp_path / "anew")


def test_a_change_is_seen_at_the_same_size_and_at_the_same_time(big, tmp_path):
    out = tmp_path / "out"
    assign_files([big], out, "gigpo")
    one, two = big / "part-0.parquet", big / "part-1.parquet"
    assert b"parquet-cpp-arrow" in one.read_bytes()
    one.write_bytes(one.read_bytes().replace(b"parquet-cpp-arrow", b"parquet-cpp-Arrow"))  # as long as before
    when = two.stat().st_mtime_ns
    write(two, rollouts(2000, groups=3))
    os.utime(two, ns=(when, when))  # no later than before
    assert assign_files([big], out, "gigpo").redone == 2
    assign_files([big], tmp_path / "anew", "gigpo")
    assert contents(out) == contents(tmp_path / "anew")


def test_an_added_input_is_credited_and_a_lost_one_is_told(big, tmp_path):
    out = tmp_path / "out"
    assign_files([big], out, "gigpo")
    write(big / "more.parquet", rollouts(3000, groups=3))
    assert assign_files([big], out, "gigpo").fresh == 1
    (big / "more.parquet").unlink()
    with pytest.raises(DataError, match=r"more.parquet was made of more.parquet, which is not among the files now"):
        assign_files([big], out, "gigpo")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"params": {"gamma": 0.5}}, "was begun with gamma 0.95, now it is 0.5; go on with the former"),
        ({"method": "anchor"}, 'was begun with method "gigpo", now it is "anchor"'),
        ({"unit": "turn"}, 'was begun with level "step", now it is "turn"'),
        ({"options": {"state": "near"}}, 'was begun with state null, now it is "near"'),
        ({"skip_bad": True}, "was begun with skip_bad false, now it is true"),
    ],
)
def test_another_run_is_refused_with_what_is_different(big, tmp_path, change, sentence):
    out = tmp_path / "out"
    assign_files([big], out, "gigpo")
    before = contents(out)
    with pytest.raises(ConfigError, match=sentence):
        assign_files([big], out, **{"method": "gigpo", **change})
    assert contents(out) == before


def test_another_version_is_another_run(big, tmp_path, monkeypatch):
    assign_files([big], tmp_path / "out", "gigpo")
    monkeypatch.setattr("apportion.__version__", "99.0")
    with pytest.raises(ConfigError, match=r'was begun with version "[\d.]+", now it is "99.0"'):
        assign_files([big], tmp_path / "out", "gigpo")


def test_a_line_that_was_cut_short_is_as_if_the_file_had_not_been_finished(big, tmp_path):
    out = tmp_path / "out"
    assign_files([big], out, "gigpo")
    whole = contents(out)
    text = (out / NAME).read_bytes()
    (out / NAME).write_bytes(text[:-40])
    again = assign_files([big], out, "gigpo")
    assert (again.fresh, again.kept) == (1, 3)
    assert contents(out) == whole
    assert (out / NAME).read_bytes() == text


def test_a_credit_file_of_another_size_is_written_again(big, tmp_path):
    out = tmp_path / "out"
    assign_files([big], out, "gigpo")
    whole = contents(out)
    (out / "part-3.parquet").write_bytes(b"PAR1")
    assert assign_files([big], out, "gigpo").fresh == 1
    assert contents(out) == whole


def test_two_runs_at_a_time_are_not_possible(tmp_path):
    pytest.importorskip("fcntl", reason="this system has no locks")
    with journal(tmp_path, {"a": 1}), pytest.raises(ConfigError, match="another run is writing there"):  # noqa: SIM117
        with journal(tmp_path, {"a": 1}):
            pass


@pytest.mark.parametrize("line", [b"[]", b"{", b'{"no": "name"}', b"\xff"])
def test_a_journal_that_is_none_is_told(tmp_path, line):
    (tmp_path / NAME).write_bytes(b'{"a": 1}\n' + line + b"\n")
    with pytest.raises(FormatError, match="line 2: not a line of a journal"), journal(tmp_path, {"a": 1}):
        pass


def test_an_input_that_changes_while_it_is_read_is_refused(big, tmp_path, monkeypatch):
    from apportion.adapters.volume import crediting

    real = crediting.digest

    def grow(path):
        with open(path, "ab") as file:
            file.write(b" ")
        os.utime(path)
        return real(path)

    monkeypatch.setattr(crediting, "digest", grow)
    with pytest.raises((DataError, FormatError), match=r"was changed while it was read|not a Parquet file"):
        assign_files([big], tmp_path / "out", "gigpo")
    assert not list((tmp_path / "out").glob("*.parquet"))


def test_what_a_killed_run_left_is_swept_and_nothing_else(big, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    for name in (".part-0.parquet.0123abcd.tmp", ".mine.tmp", "notes.txt"):
        (out / name).touch()
    assign_files([big], out, "gigpo")
    assert sorted(p.name for p in out.iterdir() if p.suffix != ".parquet") == [".mine.tmp", NAME, "notes.txt"]


def test_the_folder_of_the_rollouts_is_never_written_to(big, tmp_path):
    before = contents(big)
    with pytest.raises(ConfigError, match="holds the rollouts themselves"):
        assign_files([big], big, "gigpo")
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigError, match="is a file; give a folder"):
        assign_files([big], file, "gigpo")
    assert contents(big) == before


def test_the_journal_says_what_was_made_of_what(big, tmp_path):
    from apportion.adapters.volume.sources import digest

    summary = assign_files([big], tmp_path / "out", "gigpo")
    run, *entries = lines(tmp_path / "out")
    assert run["method"] == "gigpo"
    assert run["params"]["gamma"] == 0.95
    for entry in entries:
        assert entry["sha256"] == digest(str(big / entry["name"]))
        assert entry["bytes"] == (big / entry["name"]).stat().st_size
        assert entry["rows"] == entry["rollouts"] + entry["skipped"]
    for name, count in summary.counts.items():
        assert count == sum(entry[name] for entry in entries)
