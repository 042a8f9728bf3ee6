"""Memory does not grow with the input, and a disk that is full leaves nothing half-written."""

import resource
import subprocess
import sys

import pytest

from apportion.adapters.volume import assign_files
from apportion.bench.speed.steplogs import write_steplog
from tests.adapters.volume.folders import contents, folder_of, rollouts

MEASURED = """
import sys
from apportion.adapters.volume import assign_files, group_files
from apportion.bench.speed.engines import peak
what, given, out = sys.argv[1:]
if what == "assign":
    n = assign_files([given], out, "gigpo").counts["units"]
else:
    n = group_files([given], out).rollouts
print(n, peak() >> 20)
"""

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
from apportion.cli.run import run
sys.exit(run(sys.argv[2:]))
"""


def peak(what, given, out):
    run = subprocess.run(
        [sys.executable, "-c", MEASURED, what, str(given), str(out)], capture_output=True, text=True, check=True
    )
    count, megabytes = run.stdout.split()
    return int(count), int(megabytes)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["assign", "convert"])
def test_memory_does_not_grow_with_the_input(tmp_path, record_property, what):
    seen = []
    for k, groups in enumerate((6000, 24000)):
        folder = tmp_path / str(k)
        folder.mkdir()
        write_steplog(folder / "a.parquet", groups)
        seen.append(peak(what, folder, tmp_path / f"out-{k}"))
    (few, small), (many, large) = seen
    assert many > 3.9 * few
    assert large < 1024
    assert large < 1.25 * small, f"{small} MB for {few}, {large} MB for {many}"
    record_property("reported", f"{what}: {small} MB for {few}, {large} MB for {many}")


def limited(size, *arguments):
    return subprocess.run(
        [sys.executable, "-c", LIMITED, str(size), *map(str, arguments)], capture_output=True, text=True
    )


@pytest.mark.parametrize("size", [1 << 10, 1 << 12])
def test_a_full_disk_is_a_sentence_and_the_run_goes_on_afterwards(tmp_path, size):
    big = folder_of(tmp_path / "big", rollouts(2, groups=40), files=3)
    out = tmp_path / "out"
    run = limited(size, "assign", big, "--method", "gigpo", "--out", out)
    assert run.returncode == 1
    assert "file too large; make room, then run the same command again" in run.stderr
    assert "Traceback" not in run.stderr
    assert not list(out.glob(".*.tmp"))
    done = contents(out)
    assign_files([big], out, "gigpo")
    assign_files([big], tmp_path / "alone", "gigpo")
    assert contents(out) == contents(tmp_path / "alone")
    assert done.items() <= contents(out).items()


def test_a_full_disk_while_grouping(tmp_path):
    big = folder_of(tmp_path / "big", rollouts(2), files=2)
    run = limited(1 << 12, "convert", big, "--out", tmp_path / "out")
    assert run.returncode == 1
    assert "make room, then run the same command again" in run.stderr
    assert not list((tmp_path / "out").glob("*.parquet"))
    again = limited(resource.RLIM_INFINITY, "convert", big, "--out", tmp_path / "out")
    assert again.returncode == 0, again.stderr


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    big = folder_of(tmp_path / "big", rollouts(2, groups=3), files=1)
    (tmp_path / "file").touch()
    run = limited(resource.RLIM_INFINITY, "assign", big, "--out", tmp_path / "file" / "out")
    assert run.returncode == 1
    assert "not a directory" in run.stderr
    assert "Traceback" not in run.stderr
