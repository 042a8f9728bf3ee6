"""Folders credited file by file: the numbers of crediting everything at once, and counts that add up."""

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest

import apportion as ap
from apportion.adapters.volume import assign_files, chunks, crediting
from apportion.data import Step, Trajectory, write
from apportion.errors import ConfigError, DataError, FormatError
from apportion.methods import get, names
from apportion.units import CUTS
from tests.adapters.volume.folders import batch_of, contents, flat, folder_of, in_order, parts, rollouts, tables

PLAIN = [name for name in names("method") if not get(name).needs and get(name).scope == "group"]
MORE = [
    ("grpo + 0.5*anchor | clip(limit=0.5)", "step"),
    ("gigpo(step_weight=0.3) | drop_truncated", "turn"),
    ("gae | surprisal_weight", "token"),
    ("grpo | probability_mask", "segment"),
    ("reinforce", "agent"),
]


@pytest.fixture
def small(monkeypatch):
    """Chunks of a few rollouts, so that a small file has many."""
    monkeypatch.setattr(chunks, "STEPS", 20)
    monkeypatch.setattr(chunks, "ROWS", 3)
    monkeypatch.setattr(crediting, "ORDINARY_STEPS", 20)


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("volume") / "big", rollouts(5))


def options_of(level):
    return {"by": "fixed", "count": 2} if level == "segment" else {}


@pytest.mark.parametrize(("method", "level"), [(name, get(name).unit) for name in PLAIN] + MORE)
def test_the_numbers_are_those_of_everything_at_once(big, tmp_path, small, method, level):
    options = options_of(level)
    try:
        whole = ap.assign(method, CUTS[level](batch_of(big), **options))
    except DataError as why:
        pytest.skip(f"not for these rollouts: {why}")
    summary = assign_files([big], tmp_path / "out", method, unit=level, options=options)
    assert np.array_equal(flat(tmp_path / "out", "advantage"), whole.advantage_S)
    for name, part in parts(tmp_path / "out").items():
        assert np.array_equal(part, whole.parts[name])
    assert sorted(parts(tmp_path / "out")) == sorted(whole.parts)
    assert summary.counts["units"] == len(whole.units)
    assert summary.counts["unknown_units"] == np.count_nonzero(~whole.known_S)
    assert summary.counts["dropped_units"] == np.count_nonzero(~whole.train_S)
    assert summary.counts["groups"] == len(whole.units.batch.group_names)
    rows = [row for table in tables(tmp_path / "out").values() for row in table]
    assert [(r["id"], r["group"], r["outcome"]) for r in rows] == [(t.id, t.group, t.outcome) for t in in_order(big)]
    for table in tables(tmp_path / "out").values():
        assert [row["row"] for row in table] == list(range(len(table)))
    back = [ap.read_credit(path) for path in sorted((tmp_path / "out").glob("*.parquet"))]
    for name in ("advantage_S", "known_S", "train_S"):
        assert np.array_equal(np.concatenate([getattr(c, name) for c in back]), getattr(whole, name))
    if whole.train_T is not None:
        assert np.array_equal(np.concatenate([c.train_T for c in back]), whole.train_T)
    assert {c.method for c in back} == {whole.method}
    assert all(dict(c.params) == dict(whole.params) and dict(c.cut) == dict(whole.cut) for c in back)


@pytest.mark.parametrize("method", ["gigpo", "grpo", "hgpo", "mt_grpo", "dr_mas"])
def test_lean_columns_and_trajectories_write_the_same(big, tmp_path, monkeypatch, method):
    lean = assign_files([big], tmp_path / "lean", method, unit=get(method).unit)
    monkeypatch.setattr(crediting, "LEVELS", ())
    assert assign_files([big], tmp_path / "plain", method, unit=get(method).unit) == lean
    assert tables(tmp_path / "lean") == tables(tmp_path / "plain")
    kept = [(tmp_path / name / "_apportion.jsonl").read_text() for name in ("lean", "plain")]
    assert '"lean_rows": 0' in kept[1]
    assert '"lean_rows": 0' not in kept[0]


def test_a_row_that_is_not_lean_ends_the_lean_part_only(tmp_path, small):
    given = rollouts(3)
    forked = given[-1]
    steps = [*forked.steps, dataclasses.replace(forked.steps[-1], terminated=False, truncated=False)]
    steps = [dataclasses.replace(s, terminated=False, truncated=False, parent=k - 1) for k, s in enumerate(steps)]
    given[-1] = dataclasses.replace(forked, steps=steps)
    big = folder_of(tmp_path / "big", given, files=1)
    whole = ap.assign("grpo", ap.by_step(batch_of(big)))
    assign_files([big], tmp_path / "out", "grpo", unit="step")
    assert np.array_equal(flat(tmp_path / "out", "advantage"), whole.advantage_S)
    entry = (tmp_path / "out" / "_apportion.jsonl").read_text().splitlines()[1]
    lean = int(entry.partition('"lean_rows": ')[2].partition(",")[0])
    assert 0 < lean < len(given)


def test_columns_are_read_when_they_turn_out_to_be_needed(tmp_path, small):
    given = rollouts(4)
    given[-1] = dataclasses.replace(  # the last rollout alone has no states of its own
        given[-1], steps=[dataclasses.replace(step, state=None) for step in given[-1].steps]
    )
    given[:-1] = [
        dataclasses.replace(t, steps=[dataclasses.replace(s, state=s.observation) for s in t.steps]) for t in given[:-1]
    ]
    big = folder_of(tmp_path / "big", given, files=1)
    assign_files([big], tmp_path / "out", "gigpo")
    whole = ap.assign("gigpo", ap.by_step(batch_of(big)))
    assert np.array_equal(flat(tmp_path / "out", "advantage"), whole.advantage_S)
    assert f'"lean_rows": {len(given)}' in (tmp_path / "out" / "_apportion.jsonl").read_text()


def test_a_text_only_log_is_credited_from_columns_too(tmp_path, small):
    given = [
        Trajectory([Step(observation=f"room {k % 3}", action=a) for k, a in enumerate(acts)], group=f"g{g}", outcome=r)
        for g in range(9)
        for acts, r in ((["go", "open door"], 1.0), (["go", "", "sit"], 0.0), ([""], 0.0))
    ]
    big = folder_of(tmp_path / "big", given)
    assign_files([big], tmp_path / "out", "gigpo")
    whole = ap.assign("gigpo", ap.by_step(batch_of(big)))
    assert np.array_equal(flat(tmp_path / "out", "advantage"), whole.advantage_S)
    assert '"lean_rows": 0' not in (tmp_path / "out" / "_apportion.jsonl").read_text()


def test_groups_that_nobody_scored_are_unknown_wherever_they_stand(tmp_path, small):
    given = rollouts(6)
    names = list(dict.fromkeys(t.group for t in given))
    for unknown in (names[:6], names[-6:], names):
        mute = [
            dataclasses.replace(t, outcome=None, steps=[dataclasses.replace(s, reward=None) for s in t.steps])
            if t.group in unknown
            else t
            for t in given
        ]
        big = folder_of(tmp_path / f"big-{len(unknown)}-{unknown[0]}", mute, files=1)
        out = tmp_path / f"out-{len(unknown)}-{unknown[0]}"
        summary = assign_files([big], out, "gigpo")
        if len(unknown) < len(names):
            whole = ap.assign("gigpo", ap.by_step(batch_of(big)))
            assert np.array_equal(flat(out, "advantage"), whole.advantage_S)
            assert summary.counts["unknown_units"] == np.count_nonzero(~whole.known_S)
        else:
            assert summary.counts["unknown_units"] == summary.counts["units"] > 0


def test_ids_that_several_writers_gave_alike_do_no_harm(tmp_path):
    given = [dataclasses.replace(t, id="0") for t in rollouts(7)]
    big = folder_of(tmp_path / "big", given)
    for method, unit in (("gigpo", "step"), ("gae", "token")):
        assign_files([big], tmp_path / method, method, unit=unit)
        assert len(ap.read_credit(tmp_path / method / "part-0.parquet").units.batch) > 1


def test_rows_without_a_group_are_groups_of_one(tmp_path):
    given = [dataclasses.replace(t, group=None) for t in rollouts(8)]
    write(tmp_path / "a.parquet", given)
    table = pq.read_table(tmp_path / "a.parquet")
    pq.write_table(table.drop_columns(["group"]), tmp_path / "b.parquet")
    for name in "ab":
        summary = assign_files([tmp_path / f"{name}.parquet"], tmp_path / f"out-{name}", "grpo")
        assert summary.counts["groups"] == summary.counts["rollouts"] == len(given)
    assert tables(tmp_path / "out-a").popitem()[1] == tables(tmp_path / "out-b").popitem()[1]


def test_a_boundary_inside_a_group_would_be_seen(big, tmp_path, small, monkeypatch):
    """A planted fault: chunks that end anywhere."""
    whole = ap.assign("grpo", ap.by_step(batch_of(big)))
    monkeypatch.setattr(chunks, "run_starts", lambda group: np.arange(len(group)))
    assign_files([big], tmp_path / "out", "grpo", unit="step")
    assert not np.array_equal(flat(tmp_path / "out", "advantage"), whole.advantage_S)


def test_bad_rows_are_left_out_and_counted_or_named(tmp_path):
    given = rollouts(9)
    big = folder_of(tmp_path / "big", given, files=1)
    table = pq.read_table(big / "part-0.parquet")
    rows = table.to_pylist()
    rows[4]["steps"][0]["reward"] = float("nan")
    pq.write_table(type(table).from_pylist(rows, schema=table.schema), big / "part-0.parquet")
    with pytest.raises(FormatError, match=r"part-0.parquet, row 4, step 0: reward is nan"):
        assign_files([big], tmp_path / "out", "gigpo")
    assert not list((tmp_path / "out").rglob("*.parquet"))
    summary = assign_files([big], tmp_path / "skipped", "gigpo", skip_bad=True)
    counts = summary.counts
    assert (counts["rows"], counts["rollouts"], counts["skipped"]) == (len(given), len(given) - 1, 1)
    assert "row 4, step 0: reward is nan" in summary.problems[0]
    kept = [(row["row"], row["id"]) for table in tables(tmp_path / "skipped").values() for row in table]
    assert kept == [(k, t.id) for k, t in enumerate(given) if k != 4]
    whole = ap.assign("gigpo", ap.by_step(ap.Batch.from_trajectories([t for k, t in enumerate(given) if k != 4])))
    assert np.array_equal(flat(tmp_path / "skipped", "advantage"), whole.advantage_S)
    assert np.array_equal(ap.read_credit(tmp_path / "skipped" / "part-0.parquet").advantage_S, whole.advantage_S)


def test_the_arithmetic_does_not_change_with_the_size_of_a_chunk(big, tmp_path, small, monkeypatch):
    pytest.importorskip("numba", reason="needs numba")
    monkeypatch.delenv("APPORTION_NUMBA", raising=False)
    assign_files([big], tmp_path / "plain", "gae", unit="token")
    monkeypatch.setattr("apportion.numerics.kernels.THRESHOLD", 1)
    assign_files([big], tmp_path / "out", "gae", unit="token")
    assert contents(tmp_path / "out") == contents(tmp_path / "plain")
    compiled = ap.assign("gae", ap.by_token(batch_of(big))).advantage_S
    assert not np.array_equal(compiled, flat(tmp_path / "out", "advantage"))  # or the test could not fail


def test_what_a_method_cannot_say_names_the_file_and_the_rows(big, tmp_path):
    with pytest.raises(DataError, match=r"part-0.parquet, rows 0 to \d+: .*reads reward_parts:nothing, which"):
        assign_files([big], tmp_path / "out", "gigpo", params={"undiscounted": "nothing"})


@pytest.mark.parametrize(
    ("method", "options", "sentence"),
    [
        ("grpo | whiten", {}, "whiten takes its numbers from all rollouts at once, so a file cannot be credited"),
        ("gigpo(scope='batch')", {}, "gigpo\\(scope='batch'\\) takes its numbers from all"),
        ("reinforce_pp", {}, "reinforce_pp takes its numbers"),
        ("vineppo", {}, "vineppo asks a policy, which files credited by themselves cannot share"),
        ("gigpo", {"state": "learned"}, "'learned' learns from all rollouts at once"),
    ],
)
def test_what_needs_everything_at_once_is_refused_with_the_reason(big, tmp_path, method, options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        assign_files([big], tmp_path / "out", method, options=options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("rule", ["normalised", "near", "blocks"])
def test_rules_of_states_that_look_at_one_group_give_the_same(big, tmp_path, small, rule):
    whole = ap.assign("gigpo", ap.by_step(batch_of(big), state=rule))
    assign_files([big], tmp_path / "out", "gigpo", options={"state": rule})
    assert np.array_equal(flat(tmp_path / "out", "advantage"), whole.advantage_S)


def test_credit_without_its_rollouts_says_where_they_should_be(big, tmp_path):
    copy = folder_of(tmp_path / "big", in_order(big))
    assign_files([copy], tmp_path / "out", "gigpo")
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tmp_path / "out").rename(moved / "out")
    copy.rename(moved / "big")  # both together: found
    assert len(ap.read_credit(moved / "out" / "part-0.parquet").units)
    write(moved / "big" / "part-0.parquet", in_order(big)[:3])
    with pytest.raises(FormatError, match=r"the rollouts at .*part-0.parquet are not those that were credited"):
        ap.read_credit(moved / "out" / "part-0.parquet")
    (moved / "big" / "part-0.parquet").unlink()
    with pytest.raises(FormatError, match=r"its rollouts are not at .*part-0.parquet; bring them there"):
        ap.read_credit(moved / "out" / "part-0.parquet")
