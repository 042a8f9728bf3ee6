"""The same plan over Ray: a worker that is killed half-way changes nothing in the files.

Needs ray (`make test-ray`); without it only the sentence is tested.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.adapters.volume import assign_files, group_files
from apportion.adapters.volume.engines import engine_of
from apportion.bench.speed.steplogs import write_steplog
from apportion.errors import MissingExtra

RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not RAY, reason="needs ray; run `make test-ray`")

DRIVER = """
import json, os, signal, sys, threading, time
from pathlib import Path
import ray
from apportion.adapters.volume import assign_files, group_files

def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

def ours(pid):
    while pid > 1:
        if pid == os.getpid():
            return True
        pid = parent(pid)
    return False

def busy():
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cmdline").read_bytes().startswith(b"ray::_done") and ours(int(path.name)):
                found.append(int(path.name))
        except (OSError, ValueError):
            pass
    return found

def hunt():
    while not killed:
        at_work = list(Path(out).rglob(".*.tmp"))
        for pid in busy() if len(at_work) > 1 else []:  # both workers are writing
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
            return
        time.sleep(0.002)

what, given, out, kill = sys.argv[1:]
killed = []
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
hunter = threading.Thread(target=hunt, daemon=True)
def told(done, pieces, name):
    if kill == "kill" and done == 1 and not hunter.is_alive():
        hunter.start()
if what == "assign":
    result = assign_files([given], out, "gigpo", params={"gamma": 0.9}, engine="ray", told=told)
else:
    result = group_files([given], out, engine="ray", told=told)
print(json.dumps({"killed": killed, "result": result.to_dict()}))
"""


def over_ray(what, given, out, kill="kill"):
    run = subprocess.run(
        [sys.executable, "-c", DRIVER, what, str(given), str(out), kill],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_DISABLE_IMPORT_WARNING": "1"},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.strip().splitlines()[-1])


def content(folder):
    return {path.name: path.read_bytes() for path in Path(folder).rglob("*.parquet")}


@needs_ray
@pytest.mark.slow
def test_a_worker_killed_half_way_changes_nothing(tmp_path):
    big = tmp_path / "big"
    big.mkdir()
    for k in range(8):
        write_steplog(big / f"part-{k}.parquet", 3000, seed=k)
    alone = assign_files([big], tmp_path / "alone", "gigpo", params={"gamma": 0.9})
    told = over_ray("assign", big, tmp_path / "ray")
    assert len(told["killed"]) == 1
    assert told["result"] == alone.to_dict()
    assert content(tmp_path / "ray") == content(tmp_path / "alone")
    assert not list((tmp_path / "ray").rglob(".*.tmp"))


@needs_ray
@pytest.mark.slow
def test_grouping_over_ray_gives_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setattr("apportion.adapters.volume.grouping.SHARD_BYTES", 1 << 20)
    big = tmp_path / "big"
    big.mkdir()
    for k in range(4):
        write_steplog(big / f"part-{k}.parquet", 500, seed=0)
    alone = group_files([big], tmp_path / "alone", engine=engine_of("ray"))
    assert alone.to_dict() == group_files([big], tmp_path / "one").to_dict()
    assert alone.files > 1
    assert content(tmp_path / "alone") == content(tmp_path / "one")


@pytest.mark.skipif(RAY, reason="ray is installed")
def test_without_ray_there_is_one_sentence():
    with pytest.raises(MissingExtra, match=r"--engine ray needs the package 'ray'.*pip install 'apportion\[ray\]'"):
        engine_of("ray")
