"""The memory of `pooled` with many workers: order, lateness, size, and what comes from a disk."""

import copy
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.assign import news_and_credit
from apportion.errors import DataError
from apportion.methods.pooled import carry
from apportion.methods.pooled_choice import COLUMNS, ROWS
from apportion.methods.pooled_memory import DECAYS, EVIDENCE_DECAY, Memory
from apportion.testing.sample import random_units

PLAIN = {"gamma": 1.0, "key": "state+time", "shrinkage": 1.0, "lam": 0.5}
SEEN = st.lists(st.tuples(st.integers(0, 11), st.integers(-3, 3)), min_size=1, max_size=6)
"""Visits of one batch: key, and the return that followed. Few and small, so that keys meet."""
BATCHES = st.lists(st.tuples(st.integers(1, 9), SEEN, st.booleans()), min_size=1, max_size=7)
"""Tick at which a worker credited its batch, what was seen, and whether it brought evidence."""


def news(tick, seen, told):
    """As a worker makes it."""
    keys = sorted({key for key, _ in seen})
    count = np.array([[sum(k == key for k, _ in seen)] * len(DECAYS) for key in keys], dtype=float)
    total = np.array([[sum(r for k, r in seen if k == key)] * len(DECAYS) for key in keys], dtype=float)
    evidence = np.full((len(ROWS), COLUMNS), float(len(seen))) if told else np.zeros((0, 0))
    return Memory(tick, np.array(keys, dtype=np.uint64), count, total, evidence)


def merged(parts):
    out = Memory()
    for part in parts:
        out = out.merge(part)
    return out


def same(a, b):
    assert a.tick == b.tick
    np.testing.assert_array_equal(a.key, b.key)
    for name in ("count", "total", "evidence"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-9, atol=1e-12, err_msg=name)


@given(BATCHES, st.randoms(use_true_random=False), st.integers(0, 6))
def test_any_order_and_any_brackets_give_one_memory(batches, random, cut):
    parts = [news(*batch) for batch in batches]
    whole = merged(parts)
    random.shuffle(parts)
    same(merged(parts), whole)
    same(merged(parts[:cut]).merge(merged(parts[cut:])), whole)  # workers merged among themselves before they met


@given(BATCHES, st.integers(0, 5))
def test_a_return_weighs_what_its_age_says_whenever_it_arrives(batches, later):
    # plain loops: every return under its key, faded by the ticks since its own batch
    memory = merged(news(*batch) for batch in batches)
    memory = memory.aged(memory.tick + later)
    got = {int(k): (memory.count[i], memory.total[i]) for i, k in enumerate(memory.key)}
    assert set(got) == {key for _, seen, _ in batches for key, _ in seen}
    for key, (count, total) in got.items():
        for d, decay in enumerate(DECAYS):
            fade = [(decay ** (memory.tick - tick), r) for tick, seen, _ in batches for k, r in seen if k == key]
            assert count[d] == pytest.approx(sum(f for f, _ in fade))
            assert total[d] == pytest.approx(sum(f * r for f, r in fade), abs=1e-9)
    told = [len(seen) * EVIDENCE_DECAY ** (memory.tick - tick) for tick, seen, brought in batches if brought]
    assert np.allclose(memory.evidence, sum(told)) if told else memory.evidence.size == 0


@given(BATCHES, st.integers(0, 8), st.integers(0, 3))
def test_no_stream_of_news_outgrows_the_bound(batches, capacity, later):
    memory = Memory()
    for batch in batches:
        memory = memory.merge(news(*batch)).trimmed(capacity)
        assert len(memory) <= capacity
    whole = merged(news(*batch) for batch in batches)
    few = whole.trimmed(capacity)
    lost = np.isin(whole.key, few.key, invert=True)
    if lost.any() and capacity:  # what stays was seen at least as much as anything that went
        assert few.count[:, -1].min() >= whole.count[lost, -1].max()
    same(few.aged(few.tick + later).trimmed(capacity), whole.aged(whole.tick + later).trimmed(capacity))
    np.testing.assert_array_equal(few.evidence, whole.evidence)  # what is known about settings is not trimmed


@given(BATCHES)
def test_it_comes_back_from_a_file_as_it_was(batches):
    memory = merged(news(*batch) for batch in batches)
    back = Memory.from_mapping(json.loads(json.dumps(memory.to_mapping())))
    for name in ("tick", "key", "count", "total", "evidence"):
        np.testing.assert_array_equal(getattr(back, name), getattr(memory, name), err_msg=name)


def test_nothing_is_changed_in_place():
    units, more = random_units(1), random_units(2)
    first = carry(units, Memory(), **PLAIN)[1]
    before = copy.deepcopy(first)
    second = news_and_credit("pooled", more, first)[1]
    first.merge(second).trimmed(1)
    first.aged(7)
    same(first, before)


def test_credit_with_one_memory_does_not_hang_on_what_other_workers_add():
    memory = carry(random_units(0), Memory(), **PLAIN)[1]
    alone = [news_and_credit("pooled", random_units(seed), memory) for seed in (3, 4, 5)]
    for order in itertools.permutations(range(3)):
        for i in order:
            credit, told = news_and_credit("pooled", random_units(3 + i), memory)
            np.testing.assert_array_equal(credit.advantage_S, alone[i][0].advantage_S)
            same(told, alone[i][1])


def test_rollouts_of_an_old_policy_count_for_less_than_fresh_ones():
    # equal states, and the old policy earned 1 where the new one earns 0: the younger the news, the nearer V is to 0
    units = random_units(6)
    key = carry(units, Memory(), **PLAIN)[1].key

    def value(age):
        old, new = (
            Memory(t, key, np.full((len(key), 3), 4.0), np.full((len(key), 3), r))
            for t, r in ((9 - age, 4.0), (9, 0.0))
        )
        memory = new.merge(old)
        return memory.total[0] / memory.count[0]

    values = np.array([value(age) for age in range(9)])
    assert np.all(values[0] == 0.5)
    assert np.all(np.diff(values, axis=0) < 0)
    assert values[8, 0] < 0.02 < values[8, -1]


def test_returns_of_two_discounts_are_not_added_up():
    long, short = (carry(random_units(0), Memory(), **{**PLAIN, "gamma": gamma})[1] for gamma in (1.0, 0.9))
    assert (long.gamma, short.gamma) == (1.0, 0.9)
    assert Memory().merge(long).trimmed(1).aged(9).gamma == long.merge(Memory()).gamma == 1.0
    assert Memory.from_mapping(short.to_mapping()).gamma == 0.9
    says = "its returns are of gamma=1, and gamma is 0.9 now; take gamma=1, or start without it"
    with pytest.raises(DataError, match=says):
        long.merge(short)
    with pytest.raises(DataError, match=says):
        news_and_credit("pooled", random_units(1), long, gamma=0.9)


GOOD = carry(random_units(1), Memory(), **PLAIN)[1].to_mapping()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"tick": -1}, "tick -1"),
        ({"count": [[-1.0] * 3] * len(GOOD["key"])}, "counts below 0"),
        ({"total": [[float("nan")] * 3] * len(GOOD["key"])}, "sums finite"),
        ({"evidence": [[float("inf")] * COLUMNS] * len(ROWS)}, "sums finite"),
        ({"evidence": [[1.0] * COLUMNS] * (len(ROWS) - 1)}, "evidence of"),
        ({"evidence": [[1.0], [1.0, 2.0]]}, "cannot be read"),
        ({"key": [-1]}, "cannot be read"),
        ({"key": "abc"}, "cannot be read"),
        ({"format": 99}, "format 99"),
    ],
)
def test_a_file_that_is_no_memory_is_refused(wrong, says):
    with pytest.raises(DataError, match=says):
        news_and_credit("pooled", random_units(1), Memory.from_mapping({**GOOD, **wrong}))
