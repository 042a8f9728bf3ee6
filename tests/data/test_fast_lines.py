"""The parser of the extra ``fast`` and the standard library: the same rollouts, and the same words about bad lines."""

import json
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.data import Batch, Skipped, Step, Trajectory, read, stream, write
from apportion.data.record import to_json, to_record
from apportion.data.simd import VARIABLE, FastLines, fast_lines
from apportion.errors import FormatError
from tests.data.strategies import trajectories
from tests.data.test_jsonl import BROKEN
from tests.make import assert_same_trajectories, random_trajectories

simdjson = pytest.importorskip("simdjson")
quick = settings(max_examples=settings.default.max_examples, suppress_health_check=list(HealthCheck), deadline=None)


def outcome(path):
    """Trajectories and reasons."""
    skipped = Skipped()
    try:
        return list(stream(path, skip_bad=skipped)), skipped.reasons
    except FormatError as error:
        return [], [*skipped.reasons, str(error)]


def both(path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert fast_lines() is not None
    fast = outcome(path)
    monkeypatch.setenv(VARIABLE, "0")
    assert fast_lines() is None
    slow = outcome(path)
    monkeypatch.delenv(VARIABLE)
    return fast, slow


def assert_equal_outcomes(path, monkeypatch):
    (fast, why), (slow, why_slowly) = both(path, monkeypatch)
    assert why == why_slowly
    assert_same_trajectories(fast, slow)
    return fast, why


BREAKS = [
    '"',
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "\\",
    "0",
    "-",
    ".",
    "e",
    "NaN",
    "null",
    "true",
    " ",
    "\t",
    "\\u005b",
    "1e400",
]
BREAKS += [
    "18446744073709551616",
    "9223372036854775808",
    '"ids": [1], ',
    '"action": "b", ',
    "[[1], [2]]",
    "é",
    "\\ud800",
]


@quick
@given(rollouts=st.lists(trajectories(), min_size=1, max_size=2), seed=st.integers(0, 2**32), data=st.data())
def test_good_and_broken_lines(tmp_path_factory, rollouts, seed, data):
    """A break is put in, taken out or exchanged somewhere in the line."""
    rng = random.Random(seed)
    lines = []
    for rollout in rollouts:
        line = to_json(to_record(rollout, ""), "")
        lines.append(line)
        for _ in range(3):
            at, cut = rng.randrange(len(line) + 1), rng.choice([0, 0, 1, 3])
            lines.append(line[:at] + rng.choice(BREAKS) + line[at + cut :])
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    with pytest.MonkeyPatch.context() as patch:
        assert_equal_outcomes(path, patch)


@pytest.mark.parametrize("line", [line for line, _ in BROKEN], ids=[str(n) for n in range(len(BROKEN))])
def test_every_refusal_reads_the_same(tmp_path, monkeypatch, line):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"steps": [{"action": "go"}]}\n' + (line if isinstance(line, bytes) else line.encode()))
    _, why = assert_equal_outcomes(path, monkeypatch)
    assert len(why) == 1


STEP = '{"steps": [{"prompt_ids": [1], "ids": [2, 3], %s}]}'
ODD = [
    STEP % '"logp": [[-1.0], [-2.0]]',
    STEP % '"logp": [[-1.0, -2.0]]',
    STEP % '"logp": [-1.0, [-2.0]]',
    STEP % '"logp": [-1, -2]',
    STEP % '"logp": [-1, 18446744073709551615]',
    STEP % '"logp": [-1, 9223372036854775808.0]',
    STEP % '"logp": [-1, true]',
    STEP % '"logp": [-1, null]',
    STEP % '"logp": [-0.0, 5e-324]',
    STEP % '"logp": null',
    STEP % '"logp": {"a": 1}',
    STEP % '"observation": "[[", "logp": [-1.0, -2.0]',
    STEP % '"observation": "\\u005b", "logp": [[-1.0], -2.0]',
    STEP % '"observation": "\\u005b\\u005b", "logp": [[-1.0], [-2.0]]',
    STEP % '"columns": {"a": [1, 2], "b": [0.5, 1]}',
    STEP % '"columns": {"a": [1, 2], "a": [0.5, 1]}',
    STEP % '"columns": {"a": [[1], [2]]}',
    STEP % '"extra": {"k": {"x": 1, "x": 2}}',
    STEP % '"extra": {"k": [{"x": 1}, 18446744073709551615, -0, -0.0, 1E5]}',
    STEP % '"extra": {"k": 18446744073709551616}',
    STEP % '"rewards": {"a": 1, "a": 2}',
    STEP % '"logp": [-1, -2], "logp": [-1, -3]',
    STEP % '"turn": 3, "parent": -1, "actions": ["a", "b"]',
    '{"steps": [{"action": "a", "rewards": {"x": 1, "x": 2}}]}',
    '{"steps": [{"action": "a", "extra": {"x": {"y": 1, "y": 1}}}]}',
    '{"steps": [{"action": "a"}, {"action": "b", "action": "c"}]}',
    '{"steps": [{"action": "a", "reward": 1}, {"action": "b", "reward": null}]}',
    '{"steps": [{"action": "a", "reward": 9223372036854775807}]}',
    '{"steps": [{"action": "a", "reward": 9223372036854775806}]}',
    '{"steps": [{"action": "a", "reward": -9223372036854775808}]}',
    '{"steps": [{"action": "a", "reward": 1e308}, {"action": "a", "reward": 1e308}]}',
    '{"steps": [{"action": "a", "terminated": true}, {"action": "b"}]}',
    '{"steps": [{"action": "a", "truncated": true}, {"action": "b"}]}',
    '{"steps": [{"action": "a", "fresh": 1}]}',
    '{"steps": [{"action": null}]}',
    '{"steps": [{"observation": "a"}]}',
    '{"steps": [{"action": "a", "state": 3}]}',
    '{"steps": [{"action": "a"}, 3]}',
    '{"steps": [{"action": "a"}], "steps": [{"action": "b"}]}',
    '{"steps": [{"action": "a"}], "id": "x", "id": "y"}',
    '{"steps": [{"action": "a"}], "meta": {"a": 1, "a": 2}}',
    '{"steps": [{"action": "a"}], "outcome": true}',
    '{"steps": [{"action": "a", "extra": {"": null, "\\u0000": [], "a\\u0000b": 1, "a": 2}}]}',
    STEP % '"extra": {"": null, "\\u0000": []}',
    '\ufeff{"steps": [{"action": "a"}]}',
    '{"steps": [{"ids": [], "logp": []}]}',
    '{"steps": [{"ids": [18446744073709551615]}]}',
    '{"steps": [{"ids": [-1]}]}',
    '{"steps": [{"ids": [1, 2.0]}]}',
    '{"steps": [{"ids": [1]}, {"action": "a"}]}',
    '{"steps": [{"action": "a"}, {"ids": [1]}]}',
    '{"steps": [{"ids": [1], "observation": "text only"}]}',
]


@pytest.mark.parametrize("line", ODD, ids=[str(n) for n in range(len(ODD))])
def test_where_parsers_may_part(tmp_path, monkeypatch, line):
    path = tmp_path / "a.jsonl"
    path.write_text('{"steps": [{"action": "go"}]}\n' + line, encoding="utf-8")
    assert_equal_outcomes(path, monkeypatch)


@pytest.mark.parametrize("ids", [True, False])
def test_the_same_batch(tmp_path, monkeypatch, ids):
    path = tmp_path / "a.jsonl"
    write(path, random_trajectories(5, ids=ids, columns=["prm_reward"] if ids else []))
    fast = read(path).fingerprint()
    monkeypatch.setenv(VARIABLE, "0")
    assert read(path).fingerprint() == fast


def test_plain_lines_do_go_the_fast_way():
    """Or all of the above would compare the standard library with itself."""
    lines = fast_lines()
    assert isinstance(lines, FastLines)
    for rollout in random_trajectories(3) + random_trajectories(3, ids=False):
        record = json.loads(json.dumps(to_record(rollout, "")))
        record["steps"] = [{k: v for k, v in step.items() if k != "columns"} for step in record["steps"]]
        got = lines.record(json.dumps(record).encode())
        assert got is not None
        assert got.keys() == record.keys()
        for step, wanted in zip(got["steps"], record["steps"], strict=True):
            for name, value in wanted.items():
                same = step[name].tolist() if isinstance(step[name], np.ndarray) else step[name]
                assert same == value
                assert isinstance(step[name], np.ndarray) == (
                    name in ("ids", "prompt_ids", "logp", "ref_logp", "entropy", "token_values")
                )


def test_two_readers_do_not_meet(tmp_path):
    path = tmp_path / "a.jsonl"
    write(path, random_trajectories(2))
    pairs = list(zip(stream(path), stream(path), strict=True))
    assert_same_trajectories([a for a, _ in pairs], [b for _, b in pairs])


def test_steps_are_made_when_somebody_looks(tmp_path):
    rollout = Trajectory([Step(action="a", reward=1), Step(action="b", observation="c", terminated=True)], id="x")
    write(tmp_path / "a.jsonl", [rollout])
    batch = read(tmp_path / "a.jsonl")
    steps = batch.trajectories[0].steps
    assert not isinstance(steps, tuple)
    assert (len(steps), steps[-1].terminated, steps[0].reward, [s.action for s in steps]) == (2, True, 1.0, ["a", "b"])
    assert steps[0] is steps[0]
    assert isinstance(steps[:1], tuple)
    assert batch.fingerprint() == Batch.from_trajectories([rollout]).fingerprint()
    assert Batch.from_trajectories(batch.trajectories).fingerprint() == batch.fingerprint()
