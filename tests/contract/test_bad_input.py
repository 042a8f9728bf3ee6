"""Bad input, for every registered name, through `ap.assign` and through `apportion assign`.

One sentence that says where, what, why and what to do, before any work; nothing is written and nobody is asked.
Nobody is named here: a new method is held to this by being registered.
"""

import dataclasses
import functools
import json
import math

import pytest

import apportion as ap
from apportion.asks import KINDS
from apportion.cli.run import run
from apportion.data.record import to_record
from apportion.errors import ConfigError, DataError, UnknownName
from apportion.methods import get, names
from apportion.resources import Asker, BaseResource
from apportion.testing import random_trajectories
from apportion.units import CUTS

NAMES = names()
SEGMENTS = {"by": "fixed", "count": 2}


class Nobody(BaseResource):
    """Can be asked anything, and must not be."""

    name, kinds, identity = "nobody", frozenset(KINDS.values()), "nobody"

    def answer(self, requests):
        raise AssertionError("somebody was asked")


def expression(name):
    """How the name is used: by itself, or behind a method that reads rewards alone."""
    return name if get(name).kind == "method" else f"reinforce | {name}"


def columns_of(name):
    return tuple(read.removeprefix("column:") for read in get(name).reads if read.startswith("column:"))


@functools.cache
def rollouts(name):
    return random_trajectories(3, columns=columns_of(name))


def cut(name, trajectories, level=None):
    level = level or get(name).unit
    return CUTS[level](ap.Batch.from_trajectories(trajectories), **(SEGMENTS if level == "segment" else {}))


def told(sentence, *words):
    """One sentence, with every word in it."""
    assert "\n" not in sentence.strip()
    for word in words:
        assert word in sentence, f"{sentence!r} does not say {word!r}"


def refused(name, trajectories, *words, error=DataError, level=None, **params):
    """`ap.assign` raises, and asks nobody."""
    units = cut(name, trajectories, level)
    with pytest.raises(error) as problem:
        ap.assign(expression(name), units, ask=Asker(Nobody()), **{**get(name).example, **params})
    told(str(problem.value), *words)


@pytest.fixture
def on_the_command_line(tmp_path, capsys):
    """`apportion assign` leaves with this code and one sentence, and the folder is as it was."""

    def call(name, trajectories, code, *words, unit="", asking=(), **params):
        source, out = tmp_path / "runs.jsonl", tmp_path / "credit.parquet"
        if isinstance(trajectories, str):
            source.write_text(trajectories)
        elif trajectories is not None:
            ap.write(source, trajectories)
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        given = {key: value for key, value in {**get(name).example, **params}.items() if not callable(value)}
        options = [f"--{key.replace('_', '-')}={value}" for key, value in given.items()]
        unit = unit or get(name).unit
        unit = "segment(by='fixed', count=2)" if unit == "segment" else unit
        got = run(["assign", str(source), "--method", expression(name), "--unit", unit, "--out", str(out), *options])
        said, errors = capsys.readouterr()
        assert said == ""
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        sentence = errors[errors.index("error: ") :]
        told(sentence, *words)
        assert got == code, errors

    return call


# --- a column that is missing

STRIP = {
    "logp_S": {"logp": None},
    "ref_logp_S": {"ref_logp": None},
    "entropy_S": {"entropy": None},
    "value_S": {"value": None, "token_values": None},
    "agent_S": {"agent": None},
    "reward_parts": {"rewards": {}},
    "reward_S": {"reward": None, "rewards": {}},
}
GAPS = ("logp_S", "ref_logp_S", "entropy_S", "value_S")
READS = [(name, column) for name in NAMES for column in get(name).reads if column != "state_S"]  # see levels, below


def stripped(name, column, *, only=None):
    """The rollouts without a column; with ``only``, it is missing in the first step of that trajectory alone."""
    out = []
    for n, rollout in enumerate(rollouts(name)):
        steps = list(rollout.steps)
        for s in range(len(steps)) if only is None else range(n == only):
            less = STRIP.get(column, {"columns": {}})
            steps[s] = dataclasses.replace(steps[s], **less)
        rollout = dataclasses.replace(rollout, steps=steps)
        if column == "reward_S":
            rollout = dataclasses.replace(rollout, outcome=None, outcomes={})
        if column == "outcome_parts":
            rollout = dataclasses.replace(rollout, outcomes={})
        out.append(rollout)
    return out


@pytest.mark.parametrize(("name", "column"), READS)
def test_a_missing_column_is_named_with_where_it_comes_from(name, column, on_the_command_line):
    words = ("reinforce" if (column == "reward_S" and get(name).kind == "transform") else name, column, "give ")
    refused(name, stripped(name, column), *words)
    if not get(name).needs:
        on_the_command_line(name, stripped(name, column), 1, *words)


@pytest.mark.parametrize(("name", "column"), [r for r in READS if r[1] in GAPS or r[1].startswith("column:")])
def test_a_column_with_a_gap_says_where(name, column):
    talkative = next(n for n, rollout in enumerate(rollouts(name)) if n and len(rollout.steps[0].ids))
    where = f"trajectory {talkative} ('{rollouts(name)[talkative].id}'), step 0 has none"
    refused(name, stripped(name, column, only=talkative), name, column, where)


# --- units cut at the wrong level

WRONG = [(name, level) for name in NAMES if get(name).units for level in CUTS if level not in get(name).units]


@pytest.mark.parametrize(("name", "level"), WRONG)
def test_units_of_the_wrong_level(name, level, on_the_command_line):
    words = (f"{name} credits {get(name).unit}s, the units are {level}s; cut the batch with by_",)
    if level != "tree":  # forks only where prefixes are shared; the sentence is the same
        refused(name, rollouts(name), *words, level=level)
    on_the_command_line(name, None, 2, *words, unit=level)  # the file is not even there


def test_levels_are_declared_wherever_some_cut_cannot_have_what_is_read():
    # state_S exists for steps and turns only, so a missing column cannot be planted: the level says it first
    for name in NAMES:
        if "state_S" in get(name).reads:
            assert set(get(name).units) == {"step", "turn"}


# --- parameters, names

PARAMETERS = [(name, key) for name in NAMES for key in get(name).defaults]
PLAIN = (bool, int, float, str)


@pytest.mark.parametrize(("name", "key"), PARAMETERS)
def test_a_parameter_that_is_misspelt_or_of_the_wrong_kind(name, key, on_the_command_line):
    misspelt, own = f"{key}_", get(name).kind == "method"
    words = (
        (f"unknown parameter '{misspelt}'", f"did you mean '{key}'") if own else (f"takes {misspelt}; did you mean",)
    )
    refused(name, rollouts(name), name, *words, error=ConfigError, **{misspelt: 1})
    on_the_command_line(name, None, 2, name, *words, **{misspelt: 1})
    if get(name).kinds.get(key) in PLAIN:
        refused(name, rollouts(name), f"{name}: {key} is {{'a': 1}}; give ", error=ConfigError, **{key: {"a": 1}})
        on_the_command_line(name, None, 2, f"{name}: {key} is [1, 'a']; give ", **{key: [1, "a"]})


@pytest.mark.parametrize("name", NAMES)
def test_a_misspelt_name(name):
    with pytest.raises(UnknownName) as problem:
        ap.assign(expression(name) + "x", cut(name, rollouts(name)))
    told(str(problem.value), f"no credit method named '{name}x'", f"did you mean '{name}'")


# --- a NaN where a number must be

NUMBER = {"logp_S": "logp", "ref_logp_S": "ref_logp", "entropy_S": "entropy"}
NUMERIC = [(name, column) for name, column in READS if column not in ("agent_S", "reward_parts", "outcome_parts")]
NUMERIC += [(name, column) for name, column in READS if column in ("reward_parts", "outcome_parts")]


def spoilt(name, column, number):
    """One line of JSONL per rollout, and what of the third rollout's first step is no number there."""
    n = next(n for n, rollout in enumerate(rollouts(name)) if n > 1 and rollout.outcomes and len(rollout.steps[0].ids))
    lines = json.loads(json.dumps(as_lines(name), default=list))
    rollout = lines[n + 1]
    step = rollout["steps"][0]
    if column == "reward_S":
        step["reward"], field = number, "reward"
    elif column == "value_S":
        step["value"], field = number, "value"
    elif column == "reward_parts":
        step["rewards"], field = {"work": number}, "work"
    elif column == "outcome_parts":
        rollout["outcomes"]["correct"], field = number, "correct"
    elif column in NUMBER:
        step[NUMBER[column]][0], field = number, NUMBER[column]
    else:
        field = column.removeprefix("column:")
        step["columns"][field][0] = number
    return n, field, "\n".join(map(json.dumps, lines)) + "\n"


@functools.cache
def as_lines(name):
    return [{"schema": "apportion.rollouts/1"}, *(to_record(rollout, "here") for rollout in rollouts(name))]


@pytest.mark.parametrize(("name", "column"), NUMERIC)
def test_a_nan_where_a_number_must_be(name, column, on_the_command_line):
    for number in (math.nan, math.inf, "many"):
        n, field, text = spoilt(name, column, number)
        on_the_command_line(name, text, 1, "runs.jsonl", f"line {n + 2}", field)
