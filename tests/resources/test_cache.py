"""The cache: nothing paid for is lost, nothing damaged is believed, two runs may share it."""

import contextlib
import functools
import multiprocessing
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import time

import pytest

from apportion.asks import Attended, Continuation, Move, Verdict
from apportion.errors import ConfigError
from apportion.resources import Cache, Reply, Speed
from apportion.resources.codec import Malformed, decode, encode

SAMPLES = {
    "continue": Continuation(
        (
            Move((1, 2), (-0.5, 0.0), "go \ud800 é", 0.0, "", (), None),
            Move((), (), "", -1.5, "obs", (3,), "s", True, True, True),
        ),
        scored=False,
        finished=False,
    ),
    "judge": Verdict((1.0, None), ("good", None), "because", (0.0, 5.0)),
    "attend": Attended(0.25, (0.5, 0.0)),
    "logprob": (-0.25, -1e-300),
    "score": -3.5,
    "value": 0.1 + 0.2,
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_samples_come_back_as_they_were(tmp_path, kind):
    reply = Reply(SAMPLES[kind], 7, 3)
    cache = Cache(tmp_path / "c")
    assert cache.put(kind, "k", reply) == reply
    cache.close()
    assert Cache(tmp_path / "c").get(kind, "k") == reply
    assert Cache(tmp_path / "c").get("other", "k") is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("score", "NaN"),
        ("score", '"1"'),
        ("score", "true"),
        ("score", "[" * 100_000),
        ("logprob", "[1, null]"),
        ("logprob", "3"),
        ("judge", '{"scores": [1], "labels": [2], "text": ""}'),
        ("judge", '{"scores": [1]}'),
        ("attend", '{"score": 1, "weights": ["x"]}'),
        ("continue", '{"moves": [{"ids": [-1]}], "scored": true, "finished": true}'),
        ("continue", '{"moves": [{"extra": 1}], "scored": true, "finished": true}'),
        ("continue", '{"moves": [3], "scored": true, "finished": true}'),
        ("continue", '{"moves": [], "scored": 1, "finished": true}'),
        ("continue", "null"),
    ],
)
def test_what_is_off_the_schema_is_no_answer(kind, text):
    with pytest.raises(Malformed):
        decode(kind, text)


def test_numbers_that_are_none_cannot_be_stored():
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode("score", float("nan"))


def test_the_first_of_two_answers_stays(tmp_path):
    one, two = Cache(tmp_path / "c"), Cache(tmp_path / "c")
    one.put("score", "k", Reply(1.0))
    assert two.put("score", "k", Reply(2.0)) == Reply(1.0)


@pytest.mark.parametrize("column", ["body", "digest", "kind", "prompt_tokens", "generated_tokens"])
def test_a_damaged_row_counts_as_absent_and_is_replaced(tmp_path, column):
    cache = Cache(tmp_path / "c")
    cache.put("score", "k", Reply(1.0, 5, 5))
    db = sqlite3.connect(tmp_path / "c")
    db.execute(f"UPDATE answers SET {column} = ?", ("9.0" if column == "body" else 999 if "tokens" in column else "x",))
    db.commit()
    assert cache.get("score", "k") is None
    assert cache.damaged == 1
    assert cache.put("score", "k", Reply(3.0)) == Reply(3.0)
    assert cache.get("score", "k") == Reply(3.0)


def test_a_damaged_file_is_put_aside(tmp_path):
    path = tmp_path / "c"
    cache = Cache(path)
    for k in range(200):
        cache.put("judge", f"k{k}", Reply(Verdict((1.0,), (), "x" * 500)))
    cache.close()
    data = bytearray(path.read_bytes())
    data[18:4000] = b"\xff" * (4000 - 18)
    path.write_bytes(data)
    with pytest.warns(UserWarning, match=r"is damaged .* put aside as c\.damaged-1"):
        again = Cache(path)
    assert len(again) == 0
    assert (tmp_path / "c.damaged-1").read_bytes() == bytes(data)
    again.put("score", "k", Reply(1.0))
    assert again.get("score", "k") == Reply(1.0)


def test_a_torn_page_costs_the_answers_on_it_and_no_more(tmp_path):
    path = tmp_path / "c"
    cache = Cache(path)
    for k in range(200):
        cache.put("judge", f"k{k}", Reply(Verdict((float(k),), (), "x" * 500)))
    cache.close()
    data = bytearray(path.read_bytes())
    at = len(data) - 5 * 4096
    data[at : at + 4096] = os.urandom(4096)
    path.write_bytes(data)
    cache = Cache(path)
    for k in range(200):
        got = cache.get("judge", f"k{k}")
        assert got is None or got.value.scores == (float(k),)
        assert cache.put("judge", f"k{k}", Reply(Verdict((float(k),), (), ""))).value.scores == (float(k),)


def test_other_peoples_files_are_left_alone(tmp_path):
    other = tmp_path / "runs.jsonl"
    other.write_text('{"a": 1}\n')
    with pytest.raises(ConfigError, match=r"runs\.jsonl is not a cache of apportion's"):
        Cache(other)
    assert other.read_text() == '{"a": 1}\n'
    db = sqlite3.connect(tmp_path / "theirs.db")
    db.execute("CREATE TABLE t (x)")
    db.close()
    with pytest.raises(ConfigError, match="a database of something else"):
        Cache(tmp_path / "theirs.db")
    with pytest.raises(ConfigError, match="the folder 'nowhere' does not exist"):
        Cache(tmp_path / "nowhere" / "c")
    with pytest.raises(ConfigError, match="not a regular file"):
        Cache(tmp_path)


def test_a_later_schema_is_not_touched(tmp_path):
    Cache(tmp_path / "c").close()
    db = sqlite3.connect(tmp_path / "c")
    db.execute("PRAGMA user_version = 2")
    db.close()
    with pytest.raises(ConfigError, match="schema 2 of a newer apportion, and this one reads up to 1"):
        Cache(tmp_path / "c")


def test_only_its_owner_may_read_it(tmp_path):
    cache = Cache(tmp_path / "c")
    cache.put("score", "k", Reply(1.0))
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_without_a_file_it_is_kept_in_memory():
    cache = Cache()
    cache.put("score", "k", Reply(1.0))
    assert cache.get("score", "k") == Reply(1.0)


def test_a_full_disk_loses_nothing_and_says_so(tmp_path):
    cache = Cache(tmp_path / "c")
    pages = cache._db.execute("PRAGMA page_count").fetchone()[0]
    cache._db.execute(f"PRAGMA max_page_count = {pages}")  # SQLite answers as on a full disk
    text = "x" * 10_000
    replies = {f"k{k}": Reply(Verdict((float(k),), (), text)) for k in range(5)}
    for key, reply in replies.items():
        assert cache.put("judge", key, reply) == reply
    assert cache.unsaved == 5
    assert "full" in cache.problem
    assert all(cache.get("judge", key) == reply for key, reply in replies.items())
    cache._db.execute("PRAGMA max_page_count = 1000000")  # somebody made room
    cache.close()
    again = Cache(tmp_path / "c")
    assert all(again.get("judge", key) == reply for key, reply in replies.items())


def test_speeds_are_remembered(tmp_path):
    cache = Cache(tmp_path / "c")
    assert cache.speed() is None
    cache.note_speed("a", Speed(1, 2, 3, 4.0))
    cache.note_speed("b", Speed(5, 6, 7, 8.0))
    cache.note_speed("a", Speed(9, 2, 3, 4.0))
    assert cache.speed("b") == Speed(5, 6, 7, 8.0)
    assert cache.speed() == Speed(9, 2, 3, 4.0)


WRITER = textwrap.dedent(
    """
    import random, sys, time
    from apportion.asks import Place, Value
    from apportion.data import Step, Trajectory
    from apportion.resources import Asker, Table

    def draw(request):
        time.sleep(0.002)
        print(request.seed, flush=True)
        return random.Random(request.seed).random()

    rollouts = [Trajectory([Step(prompt_ids=[n], ids=[n], reward=0.0)], group=str(n)) for n in range(60)]
    with Asker(Table(draw, kinds=["value"], identity="w", workers=3), cache=sys.argv[1]) as ask:
        answers = ask([Value(Place(n)) for n in range(60)], rollouts)
    print("VALUES", [a.one for a in answers], flush=True)
    """
)


def start(path):
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs do not hear it
    arguments = [sys.executable, "-c", WRITER, str(path)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, preexec_fn=heard)


def values_of(output):
    return next((line for line in output.splitlines() if line.startswith("VALUES")), None)


def test_two_runs_share_a_cache(tmp_path):
    runs = [start(tmp_path / "c") for _ in range(2)]
    outputs = [run.communicate(timeout=120)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert values_of(outputs[0]) == values_of(outputs[1]) is not None
    assert len(Cache(tmp_path / "c")) == 60


def kill_at(path, after):
    """Let a run do its work and kill it when so many requests have begun; returns its output up to then."""
    run = start(path)
    lines = []
    for line in run.stdout:
        lines.append(line)
        if len(lines) >= after:
            run.send_signal(signal.SIGKILL)
            break
    lines += run.stdout.readlines()
    run.wait()
    return lines


def check_killed(tmp_path, seeds):
    want = values_of(start(tmp_path / "whole").communicate(timeout=120)[0])
    for seed in seeds:
        path = tmp_path / f"c{seed}"
        after = 1 + seed * 7 % 58
        begun = len(kill_at(path, after))
        # what was answered and taken by the runner is stored: at most the three workers' and their hand-over are not
        stored = len(Cache(path)) if path.exists() else 0
        assert stored >= begun - 2 * 3 - 1
        output, _ = start(path).communicate(timeout=120)
        assert values_of(output) == want
        assert len(output.splitlines()) - 1 <= 60 - stored


def test_a_killed_run_goes_on_and_gives_the_same_numbers(tmp_path):
    check_killed(tmp_path, range(3))


@pytest.mark.slow
def test_a_hundred_killed_runs(tmp_path):
    check_killed(tmp_path, range(100))


def test_interrupted_from_the_keyboard_it_ends_soon(tmp_path):
    run = start(tmp_path / "c")
    for _ in range(5):
        run.stdout.readline()
    began = time.monotonic()
    run.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.communicate(timeout=20)
    assert run.returncode not in (0, None)
    assert time.monotonic() - began < 10
    assert len(Cache(tmp_path / "c")) >= 1


def open_many(folder, barrier, problems):
    for i in range(60):
        barrier.wait(30)
        try:
            Cache(folder / str(i)).close()
        except Exception as problem:
            problems.put(f"{i}: {problem}")
    problems.put("")


def test_processes_that_begin_one_cache_at_the_same_time_do_not_hinder_each_other(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, problems = context.Barrier(3), context.Queue()
    runs = [context.Process(target=open_many, args=(tmp_path, barrier, problems)) for _ in range(3)]
    for run in runs:
        run.start()
    told = [problems.get(timeout=60)]
    while told.count("") < len(runs):
        told.append(problems.get(timeout=60))
    for run in runs:
        run.join()
    assert told == [""] * len(runs)
