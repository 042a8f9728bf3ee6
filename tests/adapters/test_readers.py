"""Foreign files end to end: recognised, read, counted; ids, groups, rewards; credit on what comes out."""

import gzip
import json
import random
from collections import Counter

import numpy as np
import pytest

import apportion as ap
from apportion.adapters import readers
from apportion.adapters.readers import detect, known, read_any
from apportion.data.jsonl import write_jsonl
from apportion.data.skipped import Skipped
from apportion.errors import ConfigError, FormatError, UnknownName
from tests.adapters.foreign import (
    REWARDS,
    chat_records,
    lines,
    listed,
    said,
    tau_records,
    user,
    wordle_records,
)
from tests.make import assert_same_trajectories, random_trajectories


def read(path, format=None, **options):
    trajectories, report = read_any(path, format, **options)
    return list(trajectories), report


def adds_up(report):
    return report.records == report.trajectories + report.skipped.count


# --- recognising ------------------------------------------------------------------------------------------------


def test_every_format_has_a_name_and_a_line():
    assert {entry.name for entry in known()} >= {"apportion", "openai-chat", "tau-bench", "verifiers"}
    assert all(entry.about for entry in known())


def twins(tmp_path):
    """A file of every format and layout, with what it is and how many rollouts it has."""
    tau, wordle, chats = tau_records(), wordle_records(), chat_records()
    bare = [record["messages"] for record in chats]
    write_jsonl(tmp_path / "own.jsonl", random_trajectories(0))
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(json.dumps(tau).encode()))
    (tmp_path / "bom.jsonl").write_bytes(b"\xef\xbb\xbf" + lines(tmp_path / "t", chats, "\r\n").read_bytes())
    (tmp_path / "joined.json").write_text("".join(json.dumps(record, indent=2) for record in chats))
    (tmp_path / "around.json").write_text(json.dumps({"run": 7, "rollouts": chats}, indent=2))
    yield tmp_path / "own.jsonl", "apportion", len(random_trajectories(0))
    yield listed(tmp_path / "a", tau), "tau-bench", 12
    yield listed(tmp_path / "b", tau, indent=2), "tau-bench", 12
    yield lines(tmp_path / "c", tau), "tau-bench", 12
    yield tmp_path / "packed.json.gz", "tau-bench", 12
    yield lines(tmp_path / "d", wordle), "verifiers", 6
    yield lines(tmp_path / "e", chats), "openai-chat", 3
    yield tmp_path / "bom.jsonl", "openai-chat", 3
    yield tmp_path / "joined.json", "openai-chat", 3
    yield tmp_path / "around.json", "openai-chat", 3
    yield listed(tmp_path / "f", chats), "openai-chat", 3
    yield listed(tmp_path / "g", bare), "openai-chat", 3
    yield lines(tmp_path / "h", bare), "openai-chat", 3
    yield listed(tmp_path / "i", bare[0]), "openai-chat", 1
    yield lines(tmp_path / "j", bare[0]), "openai-chat", 1


def test_every_layout_is_recognised_and_read_to_the_last_rollout(tmp_path):
    for path, name, size in twins(tmp_path):
        found = detect(path)
        assert (found.format, found.score > 0, bool(found.why)) == (name, True, True), path
        trajectories, report = read(path)
        assert len(trajectories) == size, path
        assert report.formats == (name,)
        assert (report.trajectories, report.skipped.count) == (size, 0)
        assert adds_up(report)
        assert report.steps == sum(len(t.steps) for t in trajectories)
        ap.Batch.from_trajectories(trajectories)


def test_the_layout_does_not_change_what_is_read(tmp_path):
    chats = chat_records()
    want, _ = read(lines(tmp_path / "a", chats))
    for path in (listed(tmp_path / "b", chats), lines(tmp_path / "c", chats, "\r\n"), listed(tmp_path / "d", chats, 1)):
        assert_same_trajectories(read(path)[0], want)


def test_our_own_files_come_through_unchanged(tmp_path):
    want = random_trajectories(3)
    write_jsonl(tmp_path / "own.jsonl", want)
    got, report = read(tmp_path / "own.jsonl")
    assert_same_trajectories(got, want)
    assert not report.notes


def test_our_records_in_one_list(tmp_path):
    want = random_trajectories(5)
    write_jsonl(tmp_path / "own.jsonl", want)
    records = [json.loads(line) for line in (tmp_path / "own.jsonl").read_bytes().splitlines()[1:]]
    got, report = read(listed(tmp_path / "own.json", [*records, {"steps": 5}], indent=1), skip_bad=True)
    assert_same_trajectories(got, want)
    assert (report.formats, report.records, report.skipped.count) == (("apportion",), len(want) + 1, 1)


def test_our_parquet_files_too(tmp_path):
    pytest.importorskip("pyarrow")
    from apportion.data.parquet import write_parquet

    want = random_trajectories(4)
    write_parquet(tmp_path / "own.parquet", want)
    assert detect(tmp_path / "own.parquet").format == "apportion"
    assert_same_trajectories(read(tmp_path / "own.parquet")[0], want)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "the file is empty; give one with rollouts$"),  # no list of formats that could be forced on it
        (b" \n\t", "the file is empty; give one with rollouts$"),
        (b"a,b\n1,2\n", r"the file is not JSON \(it starts with b'a,b"),
        (b'{"a": 1}\n{"b": 2}\n', r"no format fits \(its records have 'a'\); known are agentbench, apportion"),
        (b"{}", "its records have no fields"),
        (b"[1, 2]", "its first record is int"),
        (b'{"a": 1', "line 1: the value breaks off"),
        ("\ufeff{}".encode("utf-16"), "UTF-16; save it as UTF-8$"),
    ],
)
def test_a_file_of_no_known_format_gets_its_sentence(tmp_path, data, sentence):
    path = tmp_path / "what.json"
    path.write_bytes(data)
    for look in (detect, read_any):
        with pytest.raises(FormatError, match=sentence) as error:
            look(path)
        assert str(error.value).startswith(f"{path}: ")


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_credit_in_the_place_of_rollouts_is_named(tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"credit.{suffix}"
    ap.write(path, ap.assign("grpo", ap.by_step(ap.Batch.from_trajectories(random_trajectories(2, forks=False)))))
    for look in (detect, read_any):
        with pytest.raises(FormatError, match=r"holds credit, and rollouts are wanted.*`apportion check` read credit$"):
            look(path)


def test_an_absent_file_and_a_wrong_name(tmp_path):
    with pytest.raises(FormatError, match=r"gone\.json: no such file"):
        detect(tmp_path / "gone.json")
    with pytest.raises(UnknownName, match="no file format named 'tau_bench'; did you mean 'tau-bench'"):
        read_any(listed(tmp_path / "a", tau_records()), "tau_bench")
    with pytest.raises(ConfigError, match="the format 'tau-bench' is already there"):
        readers.register(readers.Format("tau-bench", "mine", lambda head: (0.0, ""), lambda path, context: iter(())))


def test_a_format_can_be_forced(tmp_path):
    path = lines(tmp_path / "a", [{"messages": [said("a")], "prompt": "p", "completion": "c", "reward": 1}])
    assert detect(path).others
    assert read(path, "openai-chat")[0][0].steps[0].action == "a"
    assert read(path, "verifiers")[0][0].steps[0].action == "c"
    assert read(path, "verifiers")[1].files[0][2] == "as asked for"
    with pytest.raises(FormatError, match="line 1: no 'traj', so this is not a trial of tau-bench"):
        read(path, "tau-bench")


def test_a_folder_is_read_file_by_file_and_what_is_not_read_is_told(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    listed(folder / "a.json", tau_records())
    lines(folder / "b.jsonl", chat_records())
    (folder / "metadata.json").write_text('{"model": "m"}')
    (folder / ".hidden").write_text("x")
    trajectories, report = read(folder)
    assert len(trajectories) == 15
    assert report.formats == ("tau-bench", "openai-chat")
    assert [(path.rpartition("/")[2], "its records have 'model'" in why) for path, why in report.passed_over] == [
        ("metadata.json", True)
    ]
    assert any("metadata.json: passed over" in line for line in report.remarks())
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="no file of this folder holds rollouts of a known format"):
        read_any(tmp_path / "empty")


# --- identity, groups, rewards ----------------------------------------------------------------------------------


def chat(**fields):
    return {"messages": [user("q"), said("a")], **fields}


def one(tmp_path, record, **options):
    trajectories, report = read(lines(tmp_path / "one.jsonl", [record]), **options)
    return trajectories[0], report.notes


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"reward": 1}, 1.0),
        ({"reward": 0}, 0.0),
        ({"reward": True}, 1.0),
        ({"success": False}, 0.0),
        ({"outcome": -0.5}, -0.5),
        ({"score": 2.5, "success": True}, 2.5),
        ({"metadata": {"reward": 3}}, 3.0),
        ({"reward": None, "metadata": {"reward": 3}}, 3.0),
        ({}, None),
        ({"reward": None}, None),
    ],
)
def test_the_reward_of_a_record(tmp_path, fields, outcome):
    trajectory, notes = one(tmp_path, chat(**fields))
    assert trajectory.outcome == outcome
    assert type(trajectory.outcome) is type(outcome)
    assert notes["reward missing: not scored, which is not 0"] == (outcome is None)


@pytest.mark.parametrize(
    ("reward", "sentence"),
    [
        ('"1.0"', "line 1: reward is a string; give a number, true or false, or null when it was not scored"),
        ("[1]", "reward is a list"),
        ("{}", "reward is an object"),
        ("NaN", "reward is nan; give a finite number, or null"),
        ("-Infinity", "reward is -inf"),
        ("1e999", "reward is inf"),
        ("1" + "0" * 400, "reward is inf"),
    ],
)
def test_a_reward_that_is_none_gets_its_sentence(tmp_path, reward, sentence):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(chat()).replace("}]}", '}], "reward": ' + reward + "}"))
    with pytest.raises(FormatError, match=sentence):
        read(path)


@pytest.mark.parametrize(
    ("fields", "group"),
    [
        ({"task_id": 3}, "3"),
        ({"task_id": 3.0}, "3"),
        ({"group": "g", "task_id": 3}, "g"),
        ({"instance_id": "django-1"}, "django-1"),
        ({"metadata": {"example_id": 5}}, "5"),
        ({"task": "default", "uid": "x"}, None),
        ({"task_id": None}, None),
    ],
)
def test_the_group_of_a_record(tmp_path, fields, group):
    trajectory, notes = one(tmp_path, chat(**fields))
    assert trajectory.group == group
    assert notes["group not given: a group of its own"] == (group is None)
    assert any(note.startswith("group guessed from") for note in notes) == (group is not None)


@pytest.mark.parametrize("around", ["rollouts", "runs", "chats", "items", "data"])
def test_an_object_may_stand_around_the_chats(tmp_path, around):
    (tmp_path / "x.json").write_text(json.dumps({"exported": "today", around: chat_records()}))
    assert len(list(read_any(tmp_path / "x.json").trajectories)) == 3


def test_the_group_can_be_asked_for(tmp_path):
    record = chat(task_id=1, info={"seed": 8}, **{"a.b": "plain"})
    assert one(tmp_path, record, group_by="info.seed")[0].group == "8"
    assert one(tmp_path, record, group_by="a.b")[0].group == "plain"
    with pytest.raises(
        ConfigError, match=r"no record has the field 'info\.sed' to group by; they have task_id, info\.seed, a\.b$"
    ):
        one(tmp_path, record, group_by="info.sed")
    (tmp_path / "two.jsonl").write_text(json.dumps(record) + "\n" + json.dumps(chat()) + "\n")
    reading = read_any(tmp_path / "two.jsonl", group_by="info.seed")
    assert [trajectory.group for trajectory in reading.trajectories] == ["8", None]
    assert reading.report.notes["no field 'info.seed' to group by: a group of its own"] == 1
    with pytest.raises(FormatError, match="info is an object; give a string or a number"):
        one(tmp_path, record, group_by="info")


def test_the_group_can_be_the_first_user_message(tmp_path):
    chats = [[user(f"board {n % 2}"), said(f"move {n}")] for n in range(5)]
    trajectories, report = read(listed(tmp_path / "a", chats), group_by="first_user_message")
    assert sorted(Counter(t.group for t in trajectories).values()) == [2, 3]
    assert all(t.group.startswith("board ") for t in trajectories)
    assert report.notes["group guessed from the first user message"] == 5


def test_our_own_files_keep_their_groups(tmp_path):
    write_jsonl(tmp_path / "own.jsonl", random_trajectories(0))
    with pytest.raises(ConfigError, match="group_by is for foreign files; apportion names its groups itself"):
        read_any(tmp_path / "own.jsonl", group_by="task_id")


def test_ids_that_come_twice_are_numbered(tmp_path):
    records = [chat(id="x"), chat(id="x#2"), chat(id="x"), chat(), chat(id=7)]
    trajectories, report = read(lines(tmp_path / "a", records))
    assert [t.id for t in trajectories] == ["x", "x#2", "x#2#2", None, "7"]
    assert report.notes["ids used more than once: numbered with #"] == 2
    ap.Batch.from_trajectories(trajectories)


def test_what_no_rule_takes_is_kept(tmp_path):
    record = chat(task_id="t", id="i", reward=1, model="m", usage={"tokens": [1, None, 2.5]}, truncated=True)
    trajectory, _ = one(tmp_path, record)
    assert trajectory.meta == {"model": "m", "usage": {"tokens": [1, None, 2.5]}, "truncated": True}
    assert trajectory.steps[-1].truncated


def test_what_our_files_cannot_hold_is_refused_with_a_sentence(tmp_path):
    path = tmp_path / "deep.jsonl"
    for inside, sentence in (
        ("[" * 250 + "]" * 250, "line 1: notes is nested more than 200 levels deep; flatten it"),
        ("9" * 400, "line 1: notes holds an integer of 1329 bits; give it as a string"),
    ):
        path.write_text(json.dumps(chat(reward=1))[:-1] + f', "notes": {inside}}}')
        with pytest.raises(FormatError, match=sentence):
            read(path)


def test_numbers_that_are_not_finite_are_null_beside_the_reward(tmp_path):
    path = tmp_path / "n.jsonl"
    path.write_text(json.dumps(chat(reward=1, kl=float("nan"), deep={"x": [float("inf")]})))
    trajectories, report = read(path)
    assert trajectories[0].meta == {"kl": None, "deep": {"x": [None]}}
    assert report.notes["numbers beside the reward that are not finite: kept as null"] == 2
    assert ap.data.jsonl.write_jsonl(tmp_path / "out.jsonl", trajectories) == 1


# --- the formats ------------------------------------------------------------------------------------------------


def test_tau_bench(tmp_path):
    trajectories, report = read(listed(tmp_path / "tau.json", tau_records()))
    rewards = {}
    for t in trajectories:
        rewards.setdefault(t.group, []).append(t.outcome)
    assert rewards == {str(task): list(map(float, of)) for task, of in REWARDS.items()}
    assert [t.id for t in trajectories[:4]] == ["21/0", "39/0", "49/0", "21/1"]
    assert json.loads(trajectories[0].reference)["actions"] == [{"name": "finish", "kwargs": {}}]
    assert trajectories[0].meta == {"trial": 0, "info": {"source": "user", "user_cost": 0.002}}
    assert trajectories[0].final_observation == "[tool finish] done"
    assert not any("ada" in (step.observation or "") for t in trajectories for step in t.steps)
    assert report.notes["group guessed from task_id"] == 12


def test_a_tau_bench_run_that_broke_is_failed_and_unscored(tmp_path):
    records = tau_records()
    records[0] |= {"traj": [], "reward": 0.0, "info": {"error": "APIError", "traceback": "…"}}
    trajectories, report = read(listed(tmp_path / "tau.json", records))
    broken = trajectories[0]
    assert (broken.outcome, [step.failed for step in broken.steps]) == (None, [True])
    assert report.notes["runs that broke (info.error): failed and unscored, their 0 is a placeholder"] == 1
    batch = ap.Batch.from_trajectories(trajectories)
    credit = ap.assign("dr_grpo", ap.by_step(batch))
    # task 21: three ones left, so nothing to learn; with the 0 counted each would have got +0.25
    assert not credit.advantage_S[credit.units.group_of_S == 0].any()


def test_verifiers(tmp_path):
    trajectories, report = read(lines(tmp_path / "results.jsonl", wordle_records()))
    assert [t.id for t in trajectories] == ["0/0", "1/0", "0/1", "1/1", "0/2", "1/2"]
    assert [t.group for t in trajectories] == ["0", "1"] * 3
    assert [t.outcome for t in trajectories] == [0.2, 1.2, 1.2, 0.2, 0.2, 1.2]
    assert [len(t.steps) for t in trajectories] == [2, 2, 3, 3, 4, 4]
    assert trajectories[0].reference == "word0"
    assert trajectories[0].meta["reward_parts"] == {"check_answer_reward_func": 0.0, "format_reward_func": 1.0}
    assert trajectories[0].meta["generation_ms"] == 12.5
    assert trajectories[0].steps[0].observation == "[system] Play.\n[user] Guess a word."
    assert report.notes["group guessed from example_id"] == 6


def test_verifiers_of_texts(tmp_path):
    record = {
        "example_id": "e",
        "prompt": "1+1=",
        "completion": "2",
        "reward": 1,
        "metrics": {"exact": 1},
        "answer": "",
    }
    trajectory, _ = one(tmp_path, record)
    assert [(s.observation, s.action) for s in trajectory.steps] == [("[user] 1+1=", "2")]
    assert trajectory.meta["reward_parts"] == {"exact": 1}
    assert trajectory.reference is None
    with pytest.raises(FormatError, match="completion is a number; give a text or a list of chat messages"):
        one(tmp_path, {**record, "completion": 5})


# --- credit on what was read ------------------------------------------------------------------------------------


def assert_credit_is_sound(trajectories):
    """Group means are zero, one vote a trajectory; what the policy did not write holds nothing."""
    batch = ap.Batch.from_trajectories(trajectories)
    units = ap.by_step(batch)
    written = "".join(step.action for t in trajectories for step in t.steps)
    pieces = batch.pieces()
    sampled = "".join(piece for piece, own in zip(pieces, batch.sampled_T, strict=True) if own)
    assert sampled == written
    for method in ("grpo", "gigpo"):
        credit = ap.assign(method, units)
        tokens = credit.to_tokens()
        assert tokens.advantage_T.any()
        assert not tokens.advantage_T[~batch.sampled_T].any()
        assert not tokens.weight_T[~batch.sampled_T].any()
        assert (tokens.weight_T[batch.sampled_T] == 1).all()
        episode_S = credit.parts.get("episode", credit.advantage_S)
        first = np.flatnonzero(np.append(True, np.diff(units.traj_of_S) > 0))
        for g in range(len(batch.group_names)):
            assert abs(episode_S[first][batch.group_of_N == g].mean()) < 1e-12
    step_S = ap.assign("gigpo", units).parts["step"]
    keys = list(zip(units.group_of_S.tolist(), units.state_S.tolist(), strict=True))
    for key in set(keys):
        assert abs(np.mean([step_S[s] for s, other in enumerate(keys) if other == key])) < 1e-12
    return units, Counter(keys)


def test_credit_on_a_tau_bench_file(tmp_path):
    trajectories, _ = read(listed(tmp_path / "tau.json", tau_records()))
    units, states = assert_credit_is_sound(trajectories)
    shared = [key for key, times in states.items() if times > 1 and key[1].startswith("[tool look_up]")]
    assert len(shared) >= 3  # equal answers are one state
    answers = [step.observation for t in trajectories for step in t.steps if "[tool" in (step.observation or "")]
    assert answers
    assert len(units) == sum(len(t.steps) for t in trajectories)


def test_credit_on_the_other_formats(tmp_path):
    assert_credit_is_sound(read(lines(tmp_path / "a", wordle_records()))[0])
    assert_credit_is_sound(read(lines(tmp_path / "b", chat_records()))[0])


# --- broken files -----------------------------------------------------------------------------------------------


def test_broken_records_are_raised_or_counted(tmp_path):
    path = lines(tmp_path / "a.jsonl", [*chat_records(), {"messages": 5}, {"other": 1}, *chat_records()])
    with path.open("a") as file:
        file.write('{"messages": [\n')
    trajectories = read_any(path).trajectories
    assert len([next(trajectories) for _ in range(3)]) == 3
    with pytest.raises(FormatError, match=r"a\.jsonl, line 4: messages: messages is a number|line 4: messages is"):
        next(trajectories)
    got, report = read(path, skip_bad=True)
    assert (len(got), report.skipped.count, report.records) == (6, 3, 9)
    assert [reason.removeprefix(f"{path}, ")[:6] for reason in report.skipped.reasons] == ["line 4", "line 5", "line 9"]
    assert report.to_dict()["skipped"]["count"] == 3
    skipped = Skipped()
    read(path, skip_bad=skipped)
    assert skipped.count == 3


def test_nothing_but_broken_records_is_an_error(tmp_path):
    path = lines(tmp_path / "a.jsonl", [{"messages": [3]}] * 4)
    with pytest.raises(
        FormatError, match=r"none of 4 records could be read; the first: .*line 1, message 0 is a number"
    ):
        read(path, skip_bad=True)


def test_our_own_broken_lines_add_up_too(tmp_path):
    path = tmp_path / "own.jsonl"
    write_jsonl(path, random_trajectories(1))
    good = len(random_trajectories(1))
    with path.open("a") as file:
        file.write('{"steps": 5}\nnonsense\n')
    got, report = read(path, skip_bad=True)
    assert (len(got), report.skipped.count, report.records) == (good, 2, good + 2)


def test_one_broken_message_breaks_the_chat_and_not_silently(tmp_path):
    path = tmp_path / "loose.jsonl"
    path.write_text(
        '{"role": "user", "content": "a"}\n{"role": "assistant", "content": }\n{"role": "user", "content": "b"}\n'
    )
    with pytest.raises(FormatError, match=r"line 2: not JSON .*one message of the chat that begins at .*line 1"):
        read(path)


def mutations(record, rng):
    """The record with one value, somewhere inside, of a wrong type, missing, huge or doubled."""
    paths = []

    def walk(value, path):
        paths.append(path)
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            walk(inner, [*path, key])

    walk(record, [])
    for _ in range(60):
        copy = json.loads(json.dumps(record))
        path = rng.choice(paths[1:])
        holder = copy
        for key in path[:-1]:
            holder = holder[key]
        wrong = rng.choice(
            [None, True, 0, -1.5, 10**30, "", "x" * 1000, [], {}, [[]], [None], {"a": []}, float("nan"), float("inf")]
        )
        if rng.random() < 0.2 and isinstance(holder, dict):
            del holder[path[-1]]
        else:
            holder[path[-1]] = wrong
        yield copy


def outcome_of(path, format):
    """Read leniently: what came out must be sound, and only a FormatError may be raised."""
    try:
        trajectories, report = read(path, format, skip_bad=True)
    except FormatError:
        return 0
    assert adds_up(report)
    if trajectories:
        ap.Batch.from_trajectories(trajectories)
    return len(trajectories)


SAMPLES = {"tau-bench": tau_records, "verifiers": wordle_records, "openai-chat": chat_records}


@pytest.mark.parametrize("name", SAMPLES)
def test_fuzz_wrong_types(tmp_path, name):
    rng = random.Random(7)
    good = SAMPLES[name]()
    read_at_all = 0
    for broken in mutations(good[0], rng):
        path = lines(tmp_path / "f.jsonl", [broken, *good[1:3]])
        read_at_all += outcome_of(path, name)
    assert read_at_all >= 60 * 2  # the neighbours of a broken record are read


@pytest.mark.parametrize("layout", [lines, listed])
@pytest.mark.parametrize("name", SAMPLES)
def test_fuzz_truncation(tmp_path, name, layout):
    whole = layout(tmp_path / "whole", SAMPLES[name]()[:3]).read_bytes()
    counts = []
    for cut in [*range(0, len(whole), max(1, len(whole) // 60)), len(whole) - 1]:
        path = tmp_path / "cut"
        path.write_bytes(whole[:cut])
        counts.append(outcome_of(path, name))
    assert counts == sorted(counts)  # more of the file, no fewer rollouts
    assert counts[-1] >= 2


@pytest.mark.parametrize("name", SAMPLES)
def test_fuzz_bytes(tmp_path, name):
    rng = random.Random(11)
    whole = lines(tmp_path / "whole", SAMPLES[name]()[:3]).read_bytes()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.choice(b'\x00\xff\xc3"{}[]\\,:\n\r0-e')
        path = tmp_path / "bad"
        path.write_bytes(bytes(data))
        for format in (None, name):
            outcome_of(path, format)


@pytest.mark.parametrize("name", SAMPLES)
def test_fuzz_depth_and_size(tmp_path, name):
    good = SAMPLES[name]()[0]
    for depth in (150, 300, 900, 3000, 100_000):
        for key in ("info", "traj", "messages", "completion", "metadata", "reward", "task_id"):
            path = tmp_path / "deep"
            rest = json.dumps({k: v for k, v in good.items() if k != key})[1:]
            for nest in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
                path.write_text('{"' + key + '": ' + nest + ", " + rest)
                outcome_of(path, name)
    huge = json.loads(json.dumps(good).replace('"content": "', '"content": "' + "x" * 200_000))
    assert outcome_of(lines(tmp_path / "huge", [huge]), name) == 1


def test_duplicate_keys_are_refused(tmp_path):
    path = tmp_path / "twice.jsonl"
    path.write_text(
        json.dumps(chat(reward=1)).replace('"reward": 1', '"reward": 1, "reward": 0') + "\n" + json.dumps(chat())
    )
    with pytest.raises(FormatError, match="line 1: the key 'reward' stands twice in one object; keep one"):
        read(path)
    assert len(read(path, skip_bad=True)[0]) == 1
