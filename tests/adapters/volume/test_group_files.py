"""Files of whole groups out of any files: no rollout lost, changed or doubled; every group in one place."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

import apportion as ap
from apportion.adapters.volume import assign_files, group_files, grouping, merge, spool
from apportion.bench.speed.steplogs import write_steplog
from apportion.data import Batch, Step, Trajectory, write
from apportion.data.record import to_record
from apportion.errors import ConfigError, DataError
from tests.adapters.volume.folders import contents, flat, in_order, rollouts

RUN = """
import sys
from apportion.adapters.volume import group_files, grouping
grouping.SHARD_BYTES = 1 << 20
group_files([sys.argv[1]], sys.argv[2], told=lambda *told: print(told[0], flush=True))
"""


@pytest.fixture
def small(monkeypatch):
    """Many runs and shards of a few rollouts."""
    monkeypatch.setattr(spool, "RUN_BYTES", 1 << 14)
    monkeypatch.setattr(grouping, "SHARD_BYTES", 1 << 17)
    monkeypatch.setattr(merge, "SLICE_BYTES", 1 << 12)


def scattered(folder, seed=1, forms=(".parquet", ".jsonl", ".parquet", ".jsonl.gz")):
    given = rollouts(seed)
    given += [Trajectory([Step(action="alone")], outcome=1.0, id=f"alone {k}", meta={"x": [k]}) for k in range(9)]
    given.append(Trajectory([Step(action="half \ud800", state="é")], outcome=0.5, id="half", group="g\udfff"))
    random.Random(seed).shuffle(given)
    folder.mkdir()
    for k, form in enumerate(forms):
        write(folder / f"w{k}{form}", given[k :: len(forms)])
    return [t for k in range(len(forms)) for t in given[k :: len(forms)]]


def records(trajectories):
    return sorted(json.dumps(to_record(t, "")) for t in trajectories)


def test_every_rollout_is_there_once_and_every_group_in_one_place(tmp_path, small):
    given = scattered(tmp_path / "big")
    done = group_files([tmp_path / "big"], tmp_path / "out")
    found = in_order(tmp_path / "out")
    assert records(found) == records(given)
    assert done.files > 2
    names = [t.group or t.id for t in found]
    starts = [k for k in range(len(names)) if k == 0 or names[k] != names[k - 1]]
    assert len(starts) == len(set(names)) == done.groups
    for name in set(names):  # members in the order of the inputs
        assert [t.id for t in found if (t.group or t.id) == name] == [t.id for t in given if (t.group or t.id) == name]
    assert (done.inputs, done.rollouts, done.skipped) == (4, len(given), 0)
    first = {}
    for k, t in enumerate(given):
        first.setdefault(t.group or t.id, k)
    for path in (tmp_path / "out").glob("*.parquet"):  # groups in order of first appearance
        places = [first[t.group or t.id] for t in ap.read(path)]
        assert places == sorted(places)
    assert sorted(p.name for p in (tmp_path / "out").iterdir() if p.suffix != ".parquet") == ["_apportion.jsonl"]


def test_what_comes_out_can_be_credited_and_equals_everything_at_once(tmp_path, small):
    given = scattered(tmp_path / "big")
    group_files([tmp_path / "big"], tmp_path / "out")
    assign_files([tmp_path / "out"], tmp_path / "credit", "grpo", unit="step")
    whole = ap.assign("grpo", ap.by_step(Batch.from_trajectories(given)))
    want = {t.id: whole.advantage_S[whole.units.traj_of_S == n].tolist() for n, t in enumerate(given)}
    ids = [t.id for t in in_order(tmp_path / "out")]
    assert flat(tmp_path / "credit", "advantage") == [x for one in ids for x in want[one]]


def test_it_does_not_depend_on_the_size_of_runs(tmp_path, small, monkeypatch):
    scattered(tmp_path / "big")
    group_files([tmp_path / "big"], tmp_path / "small")
    monkeypatch.setattr(spool, "RUN_BYTES", 1 << 30)
    group_files([tmp_path / "big"], tmp_path / "large")
    assert contents(tmp_path / "small") == contents(tmp_path / "large")


def test_columns_that_a_file_lacks_are_null(tmp_path):
    given = rollouts(3)
    write(tmp_path / "whole.parquet", given)
    table = pq.read_table(tmp_path / "whole.parquet")
    steps = table.column("steps").combine_chunks()
    kept = ["state", "reward", "action"]
    import pyarrow as pa

    few = pa.ListArray.from_arrays(
        steps.offsets, pa.StructArray.from_arrays([steps.values.field(n) for n in kept], kept)
    )
    thin = pa.table({"steps": few, "group": table.column("group")}).replace_schema_metadata(table.schema.metadata)
    (tmp_path / "big").mkdir()
    pq.write_table(thin, tmp_path / "big" / "thin.parquet")
    group_files([tmp_path / "big"], tmp_path / "out")
    found = in_order(tmp_path / "out")
    assert [[(s.state, s.reward, s.action, s.ids) for s in t.steps] for t in found] == [
        [(s.state, s.reward, s.action, None) for s in t.steps] for t in given
    ]


def test_a_foreign_log_is_read_and_its_report_told(tmp_path):
    (tmp_path / "big").mkdir()
    rows = [
        {"messages": [{"role": "user", "content": f"q{k % 2}"}, {"role": "assistant", "content": "a"}], "reward": 1.0}
        for k in range(6)
    ]
    (tmp_path / "big" / "chat.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = group_files([tmp_path / "big"], tmp_path / "out", group_by="first_user_message")
    assert (done.rollouts, done.groups) == (6, 2)
    assert any("chat.jsonl" in sentence for sentence in done.remarks)


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_as_if_it_had_not_been(tmp_path, monkeypatch):
    monkeypatch.setattr(grouping, "SHARD_BYTES", 1 << 20)
    big = tmp_path / "big"
    big.mkdir()
    for k in range(4):
        write_steplog(big / f"part-{k}.parquet", 400, seed=0)
    alone = group_files([big], tmp_path / "alone")
    rng, out, killed = random.Random(1), tmp_path / "out", 0
    for _ in range(12):
        process = subprocess.Popen([sys.executable, "-c", RUN, str(big), str(out)], stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        time.sleep(rng.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        for path in out.glob("*.parquet"):
            assert path.read_bytes() == (tmp_path / "alone" / path.name).read_bytes()
    assert group_files([big], out).to_dict() == alone.to_dict()
    assert contents(out) == contents(tmp_path / "alone")
    assert killed > 1


def test_a_finished_run_is_left_and_a_lost_file_made_again(tmp_path, small):
    scattered(tmp_path / "big")
    first = group_files([tmp_path / "big"], tmp_path / "out")
    whole = contents(tmp_path / "out")
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "out").glob("*.parquet")}
    lost = next(iter(before))
    (tmp_path / "out" / lost).unlink()
    assert group_files([tmp_path / "big"], tmp_path / "out") == first
    assert contents(tmp_path / "out") == whole
    after = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "out").glob("*.parquet")}
    assert {name for name in before if before[name] != after[name]} == {lost}


def test_other_inputs_or_settings_are_refused(tmp_path, small):
    scattered(tmp_path / "big")
    group_files([tmp_path / "big"], tmp_path / "out")
    with pytest.raises(ConfigError, match="was begun with skip_bad false, now it is true"):
        group_files([tmp_path / "big"], tmp_path / "out", skip_bad=True)
    os.utime(tmp_path / "big" / "w0.parquet")
    with pytest.raises(ConfigError, match=r"was begun with mtime_ns \d+, now it is \d+"):
        group_files([tmp_path / "big"], tmp_path / "out")
    with pytest.raises(ConfigError, match="holds rollouts that are read"):
        group_files([tmp_path / "big"], tmp_path / "big")
    with pytest.raises(DataError, match="no rollouts are there"):
        group_files([tmp_path / "nowhere"], tmp_path / "out2")


def test_an_input_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    scattered(tmp_path / "big")
    real = grouping.spool_file

    def touching(path, *how):
        entry = real(path, *how)
        os.utime(path)
        return entry

    monkeypatch.setattr(grouping, "spool_file", touching)
    with pytest.raises(DataError, match="was changed while it was read; remove the folder and convert again"):
        group_files([tmp_path / "big"], tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.parquet"))


def test_a_rollout_that_is_lost_on_the_way_is_noticed(tmp_path, small, monkeypatch):
    """A planted fault: one run is forgotten by one shard."""
    scattered(tmp_path / "big")
    real = merge.run_batch
    monkeypatch.setattr(
        merge, "run_batch", lambda pa, run, shard: None if run.name == "000001-00000" else real(pa, run, shard)
    )
    with pytest.raises(DataError, match=r"\d+ rollouts were read and \d+ written"):
        group_files([tmp_path / "big"], tmp_path / "out")


def test_rows_without_a_group_are_spread_over_all_files(tmp_path, monkeypatch):
    monkeypatch.setattr(grouping, "SHARD_BYTES", 1 << 13)
    given = [Trajectory([Step(action="a")], outcome=float(k), id=str(k)) for k in range(200)]
    (tmp_path / "big").mkdir()
    write(tmp_path / "big" / "a.jsonl", given)
    done = group_files([tmp_path / "big"], tmp_path / "out")
    assert done.files > 2
    assert done.groups == 200
    sizes = [pq.read_metadata(p).num_rows for p in (tmp_path / "out").glob("*.parquet")]
    assert max(sizes) - min(sizes) <= 1
    assert np.sum(sizes) == 200
