"""Workers end with the process that started them, however that one ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import os, sys, time
from pathlib import Path
from apportion.bench.workers import workers

if __name__ == "__main__":
    with workers(1) as pool:
        worker = pool.submit(os.getpid).result()
        pool.submit(time.sleep, 600)
        Path(sys.argv[1]).write_text(str(worker))
        time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    told = Path(f"/proc/{pid}/stat")  # one that ended and that nobody asked about is a zombie
    try:
        os.kill(pid, 0)
        return not told.is_file() or told.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def until(true, seconds=60.0):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    return true()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_in_the_middle_of_its_work_ends_with_a_killed_parent(ending, tmp_path):
    told, script = tmp_path / "worker.pid", tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(script), str(told)])
    try:
        assert until(lambda: told.is_file() and told.read_text() != "")
        worker = int(told.read_text())
        assert is_alive(worker)
        parent.send_signal(ending)
        parent.wait()
        assert until(lambda: not is_alive(worker), 20), "the worker goes on without its parent"
    finally:
        parent.kill()
        parent.wait()
