"""Credit files give the same credit back, bit by bit, or say in one sentence why they cannot."""

import dataclasses
import gzip
import json
import re
import sys

import numpy as np
import pytest

from apportion.assign import assign, remake
from apportion.credit import Cost, Credit, read_credit, write_credit
from apportion.data import Batch, Step, Trajectory
from apportion.data.jsonl import write_jsonl
from apportion.errors import ConfigError, DataError, FormatError, MissingExtra
from apportion.units import CUTS, Units, by_episode, by_segment, by_step, by_token, by_turn, cut
from tests.make import assert_same_trajectories, random_batch, random_units, traj

SUFFIXES = ["jsonl", "jsonl.gz", "parquet"]


def bits(array):
    return array.tolist() if array.dtype == object else (array.dtype, array.shape, array.tobytes())


def assert_same_units(got: Units, want: Units) -> None:
    for name in Units.__slots__:
        a, b = getattr(got, name), getattr(want, name)
        if isinstance(b, np.ndarray):
            assert a is not None, f"{name} is missing"
            assert bits(a) == bits(b), name
        elif name != "batch":
            assert a == b, name


def assert_same_credit(got: Credit, want: Credit) -> None:
    assert_same_trajectories(got.units.batch, want.units.batch)
    assert_same_units(got.units, want.units)
    for name in ("advantage_S", "known_S", "train_S"):
        assert bits(getattr(got, name)) == bits(getattr(want, name)), name
    assert list(got.parts) == list(want.parts)
    for name, part in want.parts.items():
        assert bits(got.parts[name]) == bits(part), name
    for name in ("notes", "cost", "method", "params"):
        assert getattr(got, name) == getattr(want, name), name
    assert got.record() == want.record()


def round_trip(tmp_path, credit, suffix):
    path = tmp_path / f"credit.{suffix}"
    write_credit(path, credit)
    return read_credit(path)


def awkward_credit(units: Units, seed: int = 0) -> Credit:
    """Credit with unknown and dropped units, -0.0, subnormal and huge numbers, parts, notes and cost."""
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=len(units)), rng.normal(size=len(units)) * 1e-3
    if len(units) > 3:
        first[0], second[0] = -0.0, -0.0
        first[1], second[1] = 5e-324, 0.0
        first[2], second[2] = 1e300, 0.0
    return Credit(
        first + second,
        units,
        known_S=rng.random(len(units)) < 0.9,
        train_S=rng.random(len(units)) < 0.7,
        parts={"a": first, "b.c#2": second},
        notes={"groups": 3, "share": 0.1, "why": "größe"},
        cost=Cost(3, 4, 5),
        method="mine/method",
        params={"gamma": 0.95, "levels": (1, (2, "x")), "none": None, "flag": True},
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("level", list(CUTS))
@pytest.mark.parametrize("ids", [True, False])
def test_every_cut_comes_back_bit_by_bit(tmp_path, suffix, level, ids):
    batch = random_batch(3, ids=ids, values=ids)
    options = {"by": "fixed", "count": 2} if level == "segment" else {}
    credit = awkward_credit(CUTS[level](batch, **options))
    assert_same_credit(round_trip(tmp_path, credit, suffix), credit)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_units_of_the_users_own_come_back(tmp_path, suffix):
    batch = random_batch(5)
    decoded = by_segment(batch, decode=lambda ids: ["a\n" if i % 2 else "b" for i in ids])
    keyed = by_step(batch, state=str.upper)
    rewarded = by_turn(batch).with_reward(np.linspace(-1, 1, len(by_turn(batch))))
    stateless = dataclasses.replace(by_step(batch), state_S=None)
    own = cut(batch, "mine", by_token(batch).unit_of_T, by_token(batch).step_of_S, options={"k": 1}, has_states=False)
    for units in (decoded, keyed, rewarded, stateless, own):
        credit = awkward_credit(units)
        assert_same_credit(round_trip(tmp_path, credit, suffix), credit)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("method", ["gigpo(gamma=0.9)", "grpo + 0.5*anchor | whiten", "rloo"])
def test_the_record_that_comes_back_makes_the_credit_again(tmp_path, suffix, method):
    credit = assign(method, random_units(7, rich=False))
    again = round_trip(tmp_path, credit, suffix)
    assert_same_credit(again, credit)
    assert bits(remake(again.record(), again.units).advantage_S) == bits(credit.advantage_S)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_texts_that_break_files_come_back(tmp_path, suffix):
    texts = ["</script>", "a\u2028b\x00\x1b[31m", "half \ud83d", "\u202egnp.exe", "x" * 100_000]
    steps = [Step(observation=text, action=f"{text} go", reward=0.5) for text in texts]
    batch = Batch.from_trajectories([Trajectory(steps, group="\ud83d", id="\u202e"), traj(("A", 1.0))][:1])
    credit = awkward_credit(by_step(batch))
    assert_same_credit(round_trip(tmp_path, credit, suffix), credit)


def test_a_batch_without_any_sampled_token(tmp_path):
    batch = Batch.from_trajectories([Trajectory([Step(observation="x", action="", reward=1.0)])])
    for units in (by_episode(batch), by_token(batch)):
        for suffix in SUFFIXES:
            credit = awkward_credit(units)
            assert_same_credit(round_trip(tmp_path, credit, suffix), credit)


def test_the_jsonl_form_is_what_the_docs_say(tmp_path):
    write_credit(tmp_path / "c.jsonl", assign("gigpo", random_units(1, rich=False)))
    header, first, *_ = map(json.loads, (tmp_path / "c.jsonl").read_text(encoding="utf-8").strip().split("\n"))
    assert header["schema"] == "apportion.credit/1"
    assert header["method"] == "gigpo"
    assert header["parts"] == ["episode", "step"]
    assert header["built_in"] is True
    assert header["given"] == []
    assert len(first["advantage"]) == len(first["trajectory"]["steps"]) == len(first["parts"]["episode"])


def test_parquet_columns_can_be_read_without_us(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    credit = assign("gigpo", random_units(1, rich=False))
    write_credit(tmp_path / "c.parquet", credit)
    table = pq.read_table(tmp_path / "c.parquet").to_pydict()
    assert np.array_equal(np.concatenate(table["advantage"]), credit.advantage_S)
    assert np.array_equal(np.concatenate([p["step"] for p in table["parts"]]), credit.parts["step"])
    assert tuple(table["id"]) == credit.units.batch.names()


def test_a_failed_write_leaves_the_old_file(tmp_path):
    units = random_units(1)
    for suffix in SUFFIXES:
        path = tmp_path / f"c.{suffix}"
        write_credit(path, assign("grpo", units))
        before = path.read_bytes()
        endless = np.full(len(units), np.nan)
        broken = assign("grpo", units)
        object.__setattr__(broken, "parts", {"x": endless})  # `Credit` itself refuses them
        with pytest.raises(DataError, match=r"part 'x' holds nan; a credit file keeps finite numbers"):
            write_credit(path, broken)
        assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(f"c.{s}" for s in SUFFIXES)


def test_equal_credit_makes_equal_jsonl(tmp_path):
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_credit(tmp_path / name, assign("gigpo", random_units(2, rich=False)))
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_what_a_file_cannot_keep_is_named(tmp_path):
    units = random_units(1)
    credit = assign("grpo", units)
    with pytest.raises(ConfigError, match=r"a credit file ends in \.jsonl, .*; choose one of these names"):
        write_credit(tmp_path / "c.csv", credit)
    with pytest.raises(DataError, match=r"write_credit writes a Credit, got Units; call apportion\.assign first"):
        write_credit(tmp_path / "c.jsonl", units)
    with pytest.raises(DataError, match=r"credit.params\['f'\] is a builtin_function_or_method, which a credit file"):
        write_credit(tmp_path / "c.jsonl", dataclasses.replace(credit, params={"f": len}))
    states = np.empty(len(units), dtype=object)
    states[:] = [(1, 2)] * len(units)
    odd = dataclasses.replace(credit, units=dataclasses.replace(units, state_S=states))
    with pytest.raises(DataError, match=r"units\.state_S holds more than texts"):
        write_credit(tmp_path / "c.jsonl", odd)
    assert list(tmp_path.iterdir()) == []


def edited(tmp_path, edit, name="c.jsonl"):
    """A written file whose JSON lines went through ``edit``; returns its path."""
    path = tmp_path / name
    write_credit(path, awkward_credit(random_units(4)))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").strip().split("\n")]
    lines = edit(lines) or lines
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def all_of(key, value):
    """The first row with that value for each of its units."""

    def edit(lines):
        lines[1][key] = [value] * len(lines[1]["advantage"])

    return edit


def changed(key, value, row=1):
    def edit(lines):
        lines[row][key] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (lambda lines: lines[:-1], r"of \d+ trajectories; the file was cut short, copy or write it again"),
        (lambda lines: lines[1:], "line 1: no header, so this is not a credit file"),
        (changed("schema", "apportion.credit/2", 0), "and this apportion reads up to 'apportion.credit/1'; update"),
        (
            changed("schema", "apportion.rollouts/1", 0),
            "the file holds 'apportion.rollouts/1', rollouts and not credit",
        ),
        (changed("schema", "apportion.bench/1", 0), "the file holds 'apportion.bench/1', expected"),
        (changed("notes", 3, 0), r"the header lacks 'notes' \(dict\); write the file again"),
        (changed("advantage", [0.0] * 99), r"line 2: advantage has 99 entries for \d+ units; give one per unit"),
        (changed("advantage", ["x"]), "line 2: advantage must be a list of numbers"),
        (changed("known", [1]), r"line 2: known must be \d+ booleans, one per unit"),
        (changed("tokens", [[0, 10**15]]), "its runs cover another number of tokens than its"),
        (changed("tokens", [[0]]), r"tokens must be \[unit, length\] pairs"),
        (changed("tokens", [0]), r"tokens must be \[unit, length\] pairs"),
        (changed("tokens", [[0, True]]), r"tokens must be \[unit, length\] pairs"),
        (changed("tokens", [[0, 1.0]]), r"tokens must be \[unit, length\] pairs"),
        (changed("tokens", [[0, 2**63]]), r"tokens must be \[unit, length\] pairs"),
        (changed("step", [True]), "step whole numbers; write the file again"),
        (all_of("known", 1), r"line 2: known must be \d+ booleans, one per unit"),
        (all_of("advantage", 10**400), "line 2: advantage holds an integer that no float can hold"),
        (changed("advantage", [True]), "line 2: advantage must be a list of numbers"),
        (changed("advantage", "12"), "line 2: advantage must be a list of numbers"),
        (changed("step", "x"), r"step whole numbers; write the file again"),
        (changed("parts", {"a": [0.0]}), r"line 2: part 'a' has 1 entries"),
        (changed("trajectory", {"steps": [{"acton": "x"}]}), r"there is no field 'acton'; did you mean 'action'\?"),
        (changed("cost", {"euros": 3}, 0), "unexpected keyword argument 'euros'"),
    ],
)
def test_a_changed_file_is_refused_with_a_sentence(tmp_path, edit, sentence):
    path = edited(tmp_path, edit)
    with pytest.raises(FormatError, match=sentence) as caught:
        read_credit(path)
    assert str(caught.value).startswith(str(path))


def test_changed_rollouts_are_noticed(tmp_path):
    def edit(lines):
        lines[1]["trajectory"]["steps"][0]["state"] = "another state"

    with pytest.raises(FormatError, match=r"not those that were credited \(digests differ\); write it again"):
        read_credit(edited(tmp_path, edit))


def test_a_map_that_is_not_of_the_recorded_cut_is_noticed(tmp_path):
    def edit(lines):
        row = next(row for row in lines[1:] if len(row["step"]) == 2)
        row["tokens"] = [[1 - unit if unit >= 0 else -1, length] for unit, length in row["tokens"]]

    with pytest.raises(FormatError, match="the cut 'step' made again differs from the stored one; write it again"):
        read_credit(edited(tmp_path, edit))


def test_files_that_are_not_credit(tmp_path):
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "noise.jsonl").write_bytes(b"\xff\xfe{")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"schema": "apportion.credit/1"')[:-9])
    (tmp_path / "noise.parquet").write_bytes(b"PAR1 not really")
    write_jsonl(tmp_path / "rollouts.jsonl", [traj(("a", 1.0))])
    for name, sentence in {
        "rollouts.jsonl": "rollouts and not credit; `apportion assign` makes credit of them",
        "empty.jsonl": "an empty file; a credit file starts with a header",
        "noise.jsonl": "not UTF-8",
        "cut.jsonl.gz": "the compressed data are damaged",
        "noise.parquet": "not a Parquet file that can be read",
        "absent.jsonl": "no such file; check the path",
    }.items():
        with pytest.raises(FormatError, match=sentence):
            read_credit(tmp_path / name)


def test_without_pyarrow_the_sentence_says_what_needs_none(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    credit = assign("grpo", random_units(0))
    with pytest.raises(MissingExtra, match=r"'apportion\[parquet\]'`, or give a name that ends in \.jsonl$"):
        write_credit(tmp_path / "credit.parquet", credit)
    write_credit(tmp_path / "credit.jsonl", credit)


def test_a_parquet_file_of_another_tool_is_named(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(FormatError, match=re.escape("a Parquet file, but not of credit")):
        read_credit(tmp_path / "x.parquet")
