"""Odd rollouts and odd credit: plain findings, never an exception; order and names of rollouts do not matter."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion as ap
from apportion.bench.check.world import rollouts
from apportion.check import LiveCheck, check, check_credit, compare_credits
from apportion.data import Batch, Step, Trajectory
from apportion.units import CUTS, STATES
from tests.make import random_batch, random_trajectories

TEXTS = (
    *("", " ", "\n\n", "\x00", "\ud800", "go", "1" * 5000, "½ 二 ٣", "<think>", "</think>", "<think></think>x", "id:"),
    *(
        "a\u2028b",
        "Session: 8f3a91c2",
        "not done",
        "All tests pass.",
        "ids:00ff",
        "x " * 400,
        "🦊" * 300,
        "%s{0}\\g<0>",
    ),
    *("(((", "step 3 of 50"),
)

texts = st.sampled_from(TEXTS)
numbers = st.one_of(st.none(), st.sampled_from([0.0, -1.0, 1.0, 1e-300, 1e300, -1e300, 0.1]))


@st.composite
def odd(draw):
    with_ids = draw(st.booleans())
    length = draw(st.integers(1, 5))
    steps = []
    for s in range(length):
        size = draw(st.integers(0, 4))
        ids = {"ids": draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))} if with_ids else {}
        if with_ids and draw(st.booleans()):
            ids["prompt_ids"] = draw(st.lists(st.integers(0, 9), min_size=1, max_size=5))
            ids["fresh"] = s > 0 and draw(st.booleans())
        steps.append(
            Step(
                observation=draw(st.one_of(st.none(), texts)),
                action=draw(texts) if not with_ids else draw(st.one_of(st.none(), texts)),
                state=draw(st.one_of(st.none(), texts)),
                reward=draw(numbers),
                actions=draw(st.one_of(st.none(), st.lists(texts, max_size=3))),
                agent=draw(st.one_of(st.none(), st.sampled_from(["a", "b"]))),
                terminated=draw(st.booleans()),
                truncated=draw(st.booleans()),
                failed=draw(st.integers(0, 9)) == 0,
                parent=draw(st.one_of(st.none(), st.integers(-1, s - 1))) if s else None,
                **ids,
            )
        )
    return Trajectory(
        steps,
        group=draw(st.one_of(st.none(), st.sampled_from("gh"))),
        outcome=draw(numbers),
        reference=draw(st.one_of(st.none(), texts)),
    )


def plain(findings):
    document = findings.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    return findings


@settings(max_examples=150, deadline=None)
@given(st.lists(odd(), min_size=1, max_size=8), st.sampled_from(STATES))
def test_odd_rollouts_get_plain_findings(made, states):
    plain(check(made, states=states))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("level", [name for name in CUTS if name not in ("segment",)])
def test_every_kind_of_unit_can_be_checked_live_and_compared(seed, level):
    batch = random_batch(seed, forks=False)
    units = CUTS[level](batch)
    rng = np.random.default_rng(seed)
    known = rng.random(len(units)) < 0.8
    credit = ap.Credit(np.where(known, rng.normal(size=len(units)), 0.0), units, known_S=known)
    plain(check_credit(credit))
    numbers = LiveCheck(stop=None)(credit, seed)
    assert all(np.isfinite(value) for value in numbers.values())
    other = ap.Credit(rng.normal(size=len(units)), units)
    plain(compare_credits({"a": credit, "b": other}))


def test_a_single_rollout_of_a_single_token():
    one = Trajectory([Step(observation="q", action="a", prompt_ids=[1], ids=[2])], outcome=1.0)
    found = plain(check([one]))
    assert [f.code for f in found] == ["group-of-one"]
    units = ap.by_token(Batch.from_trajectories([one]))
    plain(check_credit(ap.Credit(np.ones(1), units)))


def test_rollouts_of_ids_beside_rollouts_of_text():
    mixed = rollouts(np.random.default_rng(0))
    mixed = [
        replace(t, steps=[replace(s, ids=None, prompt_ids=None) for s in t.steps]) if n % 2 else t
        for n, t in enumerate(mixed)
    ]
    assert {f.code for f in plain(check(mixed))} == {"text-only"}


@pytest.mark.parametrize("seed", range(6))
def test_the_order_and_the_names_of_rollouts_do_not_matter(seed):
    made = random_trajectories(seed, forks=False)
    rng = np.random.default_rng(seed)

    def said(order):
        return sorted(
            (f.code, f.severity, round(float(f.evidence.get("share", 0)), 9))
            for f in check(order)
            if f.code != "group-mixing"
        )

    names = {t.group: f"renamed {k}" for k, t in enumerate(made)}
    renamed = [replace(t, id=f"other {k}", group=names[t.group]) for k, t in enumerate(made)]
    assert said(made) == said([made[k] for k in rng.permutation(len(made))]) == said(renamed)


def test_nothing_is_edited():
    batch = random_batch(3)
    before = batch.fingerprint()
    check(batch)
    assert batch.fingerprint() == before
