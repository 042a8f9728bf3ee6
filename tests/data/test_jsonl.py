import gzip
import json
import os
import signal
import stat
import subprocess
import sys
import tracemalloc
import warnings

import pytest

from apportion.data import JsonlWriter, Skipped, Step, Trajectory, jsonl, read_jsonl, stream_jsonl, write_jsonl
from apportion.data.record import STEP_FIELDS, TRAJECTORY_FIELDS
from apportion.errors import ConfigError, DataError, FormatError
from tests.make import assert_same_trajectories, random_trajectories

GOOD = '{"id": "a", "steps": [{"action": "go", "reward": 1.0}]}'
HEADER = '{"schema": "apportion.rollouts/1"}'


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Writes lines to runs.jsonl in the current folder, so that messages name it shortly."""
    monkeypatch.chdir(tmp_path)

    def make(*lines, end="\n"):
        raw = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines) + end.encode()
        (tmp_path / "runs.jsonl").write_bytes(raw)
        return "runs.jsonl"

    return make


class TestTheFormat:
    def test_as_it_stands_in_the_file(self, file, tmp_path):
        rollouts = [
            Trajectory(
                [
                    Step(
                        observation="Größe?", prompt_ids=[1, 2], ids=[3], logp=[-0.1], reward=0.0, extra={"k": [None]}
                    ),
                    Step(ids=[], prompt_ids=[], terminated=True, reward=1, actions=["a"]),
                ],
                id="r1",
                group="task 1",
            ),
            Trajectory([Step(action="go")]),
        ]
        assert write_jsonl("out.jsonl", rollouts) == 2 if file() else None
        assert (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines() == [
            '{"schema": "apportion.rollouts/1"}',
            '{"group": "task 1", "id": "r1", "steps": [{"observation": "Größe?", "prompt_ids": [1, 2], "ids": [3], '
            '"logp": [-0.1], "reward": 0.0, "extra": {"k": [null]}}, '
            '{"prompt_ids": [], "ids": [], "reward": 1.0, "terminated": true, "actions": ["a"]}]}',
            '{"steps": [{"action": "go"}]}',
        ]

    @pytest.mark.parametrize(
        "lines",
        [
            [HEADER, GOOD],
            [GOOD],
            ["\ufeff" + HEADER, GOOD],
            ["\ufeff" + GOOD],
            [HEADER + "\r", GOOD + "\r"],
            ["", HEADER, "  ", GOOD, ""],
            [HEADER.replace("}", ', "made_by": "me", "apportion": 3}'), GOOD],
            ['{"schema": "apportion.rollouts/1.4"}', GOOD],
            ['{"schema": "apportion.rollouts/0"}', GOOD],
            [HEADER, GOOD, HEADER],
            [HEADER, GOOD.replace("}]}", ', "ids": null}], "outcome": null, "group": null}')],
        ],
    )
    @pytest.mark.parametrize("end", ["\n", ""])
    def test_what_is_accepted(self, file, lines, end):
        expected = [Trajectory([Step(action="go", reward=1.0)], id="a")]
        assert_same_trajectories(read_jsonl(file(*lines, end=end)), expected)

    def test_concatenated_files_are_one_file(self, file):
        assert [t.id for t in read_jsonl(file(HEADER, GOOD, HEADER, GOOD.replace('"a"', '"b"')))] == ["a", "b"]

    def test_a_header_alone_is_an_empty_file(self, file):
        assert read_jsonl(file(HEADER)) == []

    def test_every_field_is_in_the_format(self):
        # a new field of Step or Trajectory is written and read without a line of code
        assert "ids" in STEP_FIELDS
        assert "steps" in TRAJECTORY_FIELDS
        assert len(STEP_FIELDS) + len(TRAJECTORY_FIELDS) == 31


BROKEN = [
    ("{", r"the line breaks off after column 1; a trajectory must stand on one line$"),
    ("{]", r"not JSON \(Expecting property name enclosed in double quotes at column 2\); give one object per line$"),
    ('{"steps": [1, }', r"not JSON \(.* at column \d+\); give one object per line$"),
    ("[1, 2]", r"a list where a trajectory was expected; give one object per line$"),
    ("17", r"a number where a trajectory was expected; give one object per line$"),
    ("null]", r"not JSON \(Extra data at column 5\)"),
    (b'{"steps": "\xff"}', r"byte 12 \(0xff\) is not UTF-8; save the file as UTF-8$"),
    (b'{"a": "\xed\xa0\x80"}', r"byte 8 \(0xed\) is not UTF-8"),
    ('{"steps": [{"action": "a\tb"}]}', r"not JSON \(Invalid control character at at column 25\)"),
    (
        '{"steps": [{"action": "go", "reward": NaN}]}',
        r"steps\[0\].reward is no number: NaN is not JSON; leave out what was not measured$",
    ),
    (
        '{"steps": [{"ids": [1, 2], "logp": [-1, 0], "columns": {"a": [0, NaN]}}], "outcome": NaN}',
        r"steps\[0\].columns.a\[1\] is no number: NaN is not",
    ),
    (
        '{"steps": [{"action": "go", "reward": -Infinity}]}',
        r"steps\[0\].reward is no number: -Infinity is not JSON; leave out what was not measured$",
    ),
    ('{"steps": [{"action": "go", "reward": 1e999}]}', r"step 0: reward is inf; give a finite number, or None"),
    ('{"steps": [{"action": "go", "extra": {"x": [1e999]}}]}', r"step 0: extra holds inf, which JSON has no sign for"),
    ('{"steps": [{"action": "go", "action": "stay"}]}', r"the key 'action' stands twice in one object; keep one$"),
    ('{"steps": [{"action": "go", "extra": {"k": 1, "k": 2}}]}', r"the key 'k' stands twice in one object; keep one$"),
    ('{"steps": ' + "[" * 100_000 + "]" * 100_000 + "}", r"nested too deep to be read; flatten it$"),
    ('{"steps": [{"action": "go", "extra": {"x": ' + "[" * 300 + "]" * 300 + "}}]}", r"extra is nested more than 200"),
    (
        '{"steps": [{"action": "go", "reward": ' + "9" * 5000 + "}]}",
        r"an integer of thousands of digits; give it as a string$",
    ),
    ('{"steps": [{"action": "go", "reward": ' + "9" * 500 + "}]}", r"step 0: reward is an integer beyond 2\*\*63"),
    ('{"steps": {}}', r"steps is an object; give a list of objects$"),
    ('{"steps": null}', r"steps is null; give a list of objects$"),
    ('{"steps": []}', r"no steps; a rollout that did nothing is one step with an empty action$"),
    ('{"steps": ["go"]}', r"step 0: a string where a step was expected; give an object$"),
    ('{"steps": [{"action": "go", "rewrad": 1}]}', r"step 0: there is no field 'rewrad'; did you mean 'reward'\?"),
    (
        '{"steps": [{"action": "go", "zzz": 1}]}',
        r"step 0: there is no field 'zzz'; the fields are observation, action,",
    ),
    (
        '{"steps": [{"action": "go"}], "goup": "g"}',
        r"there is no field 'goup'; did you mean 'group'\? .*into 'meta'\)$",
    ),
    ('{"steps": [{"action": "go", "reward": "1"}]}', r"step 0: reward is '1'; give a number, or None"),
    ('{"steps": [{"action": "go", "reward": true}]}', r"step 0: reward is True; give a number, or None"),
    ('{"steps": [{"action": 3}]}', r"step 0: action is a int; give a string$"),
    ('{"steps": [{"action": "go", "fresh": null}]}', r"step 0: fresh is None; give True or False$"),
    ('{"steps": [{"action": "go", "extra": null}]}', r"step 0: extra is a NoneType; give a dict$"),
    ('{"steps": [{"action": "go", "actions": 3}]}', r"step 0: actions is a number; give a list of strings$"),
    ('{"steps": [{"action": "go", "actions": "up"}]}', r"step 0: actions is 'up'; give a list of strings$"),
    ('{"steps": [{"ids": "ab"}]}', r"step 0: ids has 0 dimensions; give one flat list of token ids"),
    ('{"steps": [{"ids": [1.5]}]}', r"step 0: ids must be integers, got float64; give token ids"),
    ('{"steps": [{"ids": [[1]]}]}', r"step 0: ids has 2 dimensions; give one flat list"),
    ('{"steps": [{"ids": [1], "logp": ["x"]}]}', r"step 0: logp must be numbers, got 'x'; give one per sampled token$"),
    ('{"steps": [{"ids": [1], "logp": [1, 2]}]}', r"step 0: 2 log-probabilities for 1 sampled tokens; give one per"),
    ('{"messages": [], "reward": 1}', r"no 'steps', .*\(it looks like chat messages\); .*`apportion convert`$"),
    ('{"prompt_ids": [], "response_ids": [1]}', r"\(it looks like one model call a line; fold such rows with"),
    (
        '{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7}',
        r"an object with 'a', 'b', 'c', 'd', 'e', 'f' and 1 more",
    ),
    ("{}", r"\(it looks like an empty object\)"),
]


class TestBrokenLines:
    @pytest.mark.parametrize(("line", "why"), BROKEN, ids=[str(n) for n in range(len(BROKEN))])
    def test_file_line_and_reason(self, file, line, why):
        path = file(HEADER, GOOD, "", line, GOOD)
        good = []
        with pytest.raises(FormatError, match=r"^runs\.jsonl, line 4[,:] .*" + why) as caught:
            good.extend(stream_jsonl(path))
        assert isinstance(caught.value, DataError | ValueError)
        # never silently: the same line skipped is counted under the same sentence, and both neighbours are kept
        skipped = Skipped()
        assert len(list(stream_jsonl(path, skip_bad=skipped))) == 2
        assert (skipped.count, skipped.reasons) == (1, [str(caught.value)])

    @pytest.mark.parametrize("cut", [1, 10, 25, 40, len(GOOD) - 1])
    def test_a_file_that_was_cut_short(self, file, cut):
        path = file(HEADER, GOOD, GOOD[:cut], end="")
        with pytest.raises(
            FormatError, match=r"^runs\.jsonl, line 3: the line breaks off after column \d+; the file was"
        ):
            read_jsonl(path)

    def test_lines_before_the_broken_one_were_given(self, file):
        stream = stream_jsonl(file(HEADER, GOOD, "{"))
        assert next(stream).id == "a"
        with pytest.raises(FormatError, match="line 3"):
            next(stream)

    def test_a_line_without_end_does_not_fill_the_memory(self, file, monkeypatch):
        monkeypatch.setattr(jsonl, "LONGEST_LINE", 1 << 20)
        path = file(GOOD, "x" * (3 << 20), GOOD)
        tracemalloc.start()
        with pytest.raises(
            FormatError, match=r"^runs\.jsonl, line 2: longer than 1 MiB; give one trajectory per line$"
        ):
            read_jsonl(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3 << 20


class TestSkipping:
    def test_true_warns_with_number_and_reasons(self, file):
        path = file(HEADER, GOOD, "{", "17]", GOOD)
        with pytest.warns(
            UserWarning, match=r"(?s)^2 records skipped:\n  runs\.jsonl, line 3: .*\n  runs\.jsonl, line 4"
        ):
            assert len(read_jsonl(path, skip_bad=True)) == 2

    def test_nothing_skipped_nothing_said(self, file):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read_jsonl(file(HEADER, GOOD), skip_bad=True)
        assert str(Skipped()) == "no record skipped"

    def test_the_first_reasons_are_kept_and_all_are_counted(self, file):
        skipped = Skipped()
        read_jsonl(file(GOOD, *["{}"] * 50), skip_bad=skipped)
        assert skipped.count == 50
        assert len(skipped.reasons) == 20
        assert str(skipped).endswith("\n  and 30 more")

    def test_a_file_in_which_nothing_is_good_is_an_error(self, file):
        with pytest.raises(
            FormatError, match=r"^runs\.jsonl: none of 3 records could be read; the first: runs\.jsonl, line"
        ):
            read_jsonl(file(HEADER, "{}", "{}", "{}"), skip_bad=True)

    def test_one_collector_for_several_files(self, file):
        skipped = Skipped()
        path = file(GOOD, "{}")
        for _ in range(2):
            read_jsonl(path, skip_bad=skipped)
        assert skipped.count == 2


class TestTheHeader:
    @pytest.mark.parametrize(
        ("header", "why"),
        [
            (
                '{"schema": "apportion.rollouts/2"}',
                r"the file has schema version 2 and this apportion reads up to 1; update",
            ),
            (
                '{"schema": "apportion.rollouts/10.1"}',
                r"the file has schema version 10\.1 and this apportion reads up to 1;",
            ),
            (
                '{"schema": "apportion.credit/1"}',
                r"the file holds 'apportion\.credit/1', not 'apportion\.rollouts/1'; other",
            ),
            (
                '{"schema": "theirs"}',
                r"the file holds 'theirs', not 'apportion\.rollouts/1'; other formats: `apportion conv",
            ),
            ('{"schema": 1}', r"the file holds 1, not 'apportion\.rollouts/1'"),
            (
                '{"schema": "apportion.rollouts"}',
                r"the schema 'apportion\.rollouts' has no version number; it should be",
            ),
            ('{"schema": "apportion.rollouts/x"}', r"the schema .* has no version number"),
        ],
    )
    @pytest.mark.parametrize("skip_bad", [False, True])
    def test_refused_and_never_skipped(self, file, header, why, skip_bad):
        with pytest.raises(FormatError, match=r"^runs\.jsonl, line 1: " + why):
            read_jsonl(file(header, GOOD), skip_bad=skip_bad)


class TestCompressed:
    @pytest.mark.parametrize("name", ["runs.jsonl.gz", "runs.jsonl.zst", "runs.jsonl"])
    def test_the_bytes_decide_not_the_name(self, tmp_path, name):
        rollouts = random_trajectories(2)
        write_jsonl(tmp_path / name, rollouts)
        (tmp_path / name).rename(tmp_path / "renamed.txt")
        assert_same_trajectories(read_jsonl(tmp_path / "renamed.txt"), rollouts)

    def test_gzip_tools_read_it(self, tmp_path):
        write_jsonl(tmp_path / "runs.jsonl.gz", random_trajectories(2))
        raw = (tmp_path / "runs.jsonl.gz").read_bytes()
        assert gzip.decompress(raw).startswith(HEADER.encode())
        assert raw[3] == 0  # no name inside
        assert raw[4:8] == bytes(4)  # no time

    @pytest.mark.parametrize("ending", ["gz", "zst"])
    @pytest.mark.parametrize("damage", ["cut", "flip"])
    def test_damaged(self, tmp_path, monkeypatch, ending, damage):
        monkeypatch.chdir(tmp_path)
        path = tmp_path / f"runs.jsonl.{ending}"
        write_jsonl(path, random_trajectories(1) * 20)
        raw = bytearray(path.read_bytes())
        if damage == "flip":
            raw[len(raw) // 2] ^= 0xFF
        path.write_bytes(raw[: len(raw) // 2] if damage == "cut" else raw)
        with pytest.raises(FormatError, match=rf"^runs\.jsonl\.{ending}, line \d+: "):
            read_jsonl(f"runs.jsonl.{ending}")


class TestOpening:
    def test_no_such_file(self):
        with pytest.raises(FormatError, match=r"^absent\.jsonl: no such file; check the path$"):
            read_jsonl("absent.jsonl")

    def test_a_folder(self, tmp_path):
        with pytest.raises(FormatError, match=r": a folder, and one file is read here; name a file in it$"):
            read_jsonl(tmp_path)
        for name in ("step-000001.parquet", "step-000002.parquet", "_apportion.jsonl"):
            (tmp_path / name).touch()
        with pytest.raises(FormatError, match=r"name a file in it, e\.g\. .*step-000002\.parquet$"):
            read_jsonl(tmp_path)

    def test_the_file_is_closed_when_the_reader_stops_early(self, file):
        stream = stream_jsonl(file(GOOD, GOOD))
        next(stream)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            stream.close()


def test_reading_is_streaming(tmp_path):
    rollouts = [Trajectory([Step(ids=range(200), logp=[0.5] * 200)], id=str(n)) for n in range(1600)]
    path = tmp_path / "runs.jsonl"
    write_jsonl(path, rollouts)
    tracemalloc.start()
    count = sum(1 for _ in stream_jsonl(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1600
    assert peak < path.stat().st_size / 3


class TestWriting:
    @pytest.mark.parametrize(
        ("bad", "why"),
        [
            (Trajectory([]), r"^trajectory 1: no steps; "),
            (
                Trajectory([Step(ids=[1], logp=[float("nan")])]),
                r"^trajectory 1, step 0: logp is nan at sampled token 0",
            ),
            (
                Trajectory([Step(action="a", extra={"x": float("nan")})]),
                r"^trajectory 1, step 0: extra holds nan, which",
            ),
            (
                Trajectory([Step(action="a", extra={"x": {1: 2}})]),
                r"^trajectory 1, step 0: extra has the key 1; JSON keys",
            ),
            (
                Trajectory([Step(action="a")], id="i", meta={"x": {1, 2}}),
                r"^trajectory 1 \('i'\): meta holds a set; give JSON",
            ),
            (
                Trajectory([Step(action="a")], meta={"x": 1 << 2000}),
                r"^trajectory 1: meta holds an integer of 2001 bits;",
            ),
            (
                Trajectory([Step(action="\ud83d\ude00")]),
                r"^trajectory 1: a text holds the two halves of a surrogate pair",
            ),
        ],
    )
    def test_what_cannot_come_back_is_not_written(self, tmp_path, bad, why):
        path = tmp_path / "runs.jsonl"
        path.write_text("old")
        with pytest.raises(DataError, match=why):
            write_jsonl(path, [Trajectory([Step(action="a")]), bad])
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["runs.jsonl"]

    def test_a_circle(self, tmp_path):
        circle = {}
        circle["self"] = circle
        with pytest.raises(DataError, match="meta is nested more than 200 levels deep; flatten it"):
            write_jsonl(tmp_path / "runs.jsonl", [Trajectory([Step(action="a")], meta=circle)])

    def test_nothing_is_seen_before_the_end(self, tmp_path):
        path = tmp_path / "runs.jsonl"
        path.write_text("old")
        with JsonlWriter(path) as out:
            for rollout in random_trajectories(0):
                out.write(rollout)
                assert path.read_text() == "old"
        assert out.count == len(read_jsonl(path)) == len(random_trajectories(0))

    def test_an_error_in_the_block_leaves_the_old_file(self, tmp_path):
        path = tmp_path / "runs.jsonl"
        path.write_text("old")

        def interrupted():
            yield random_trajectories(0)[0]
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            write_jsonl(path, interrupted())
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["runs.jsonl"]

    def test_killed_in_the_middle_leaves_the_old_file(self, tmp_path):
        path = tmp_path / "runs.jsonl"
        write_jsonl(path, random_trajectories(0))
        before = path.read_bytes()
        code = (
            "import os, signal, sys\n"
            "from apportion.data import JsonlWriter, Step, Trajectory\n"
            "with JsonlWriter(sys.argv[1]) as out:\n"
            "    for n in range(1_000):\n"
            "        out.write(Trajectory([Step(action='a')], id=str(n)))\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(path)], env={**os.environ, "PYTHONPATH": "src"})
        assert done.returncode == -signal.SIGKILL
        assert path.read_bytes() == before

    def test_outside_the_block(self, tmp_path):
        out = JsonlWriter(tmp_path / "runs.jsonl")
        with pytest.raises(DataError, match=r"runs\.jsonl: the writer is not open; write inside its `with` block$"):
            out.write(random_trajectories(0)[0])
        assert os.listdir(tmp_path) == []

    def test_the_folder_must_exist(self, tmp_path):
        with pytest.raises(ConfigError, match=r"the folder 'absent' does not exist; create it first$"):
            write_jsonl(tmp_path / "absent" / "runs.jsonl", [])

    def test_only_files_are_replaced(self, tmp_path):
        pipe = tmp_path / "pipe"  # never a real device: a broken guard would replace it for the whole machine
        os.mkfifo(pipe)
        for target in (tmp_path, pipe):
            with pytest.raises(ConfigError, match=r"is not a regular file; give the name of a file to write$"):
                write_jsonl(target, [])

    def test_a_link_keeps_pointing_and_the_mode_stays(self, tmp_path):
        path, link = tmp_path / "runs.jsonl", tmp_path / "latest.jsonl"
        path.write_text("old")
        path.chmod(0o640)
        link.symlink_to(path)
        write_jsonl(link, random_trajectories(0))
        assert link.is_symlink()
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert len(read_jsonl(path)) == len(random_trajectories(0))

    def test_an_iterator_is_written_as_it_comes(self, tmp_path):
        seen = []

        def rollouts():
            for n in range(3):
                seen.append(n)
                yield Trajectory([Step(action="a")], id=str(n))

        assert write_jsonl(tmp_path / "runs.jsonl", rollouts()) == 3
        assert seen == [0, 1, 2]


def test_json_of_other_tools_is_read(file):
    # escapes, exponents, integers for floats, keys in any order
    line = json.dumps({"steps": [{"reward": 1, "action": "größe 🦊", "value": 1e-7}], "outcome": 2}, ensure_ascii=True)
    (trajectory,) = read_jsonl(file(line))
    expected = [Trajectory([Step(action="größe 🦊", reward=1.0, value=1e-7)], outcome=2.0)]
    assert_same_trajectories([trajectory], expected)
