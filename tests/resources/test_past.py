"""What stood before a place, against going through the rollout from its beginning for each."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import cost
from apportion.asks import Place
from apportion.data import Batch, Step, Trajectory
from apportion.data.words import kind_of, words
from apportion.resources import digest, past
from apportion.resources.context import action_text, context_ids, context_text, path, sampled
from apportion.resources.past import context_size, digest_all, digest_upto, has_ids, rest_of, size_upto
from apportion.resources.rollout_text import remembered
from apportion.units import by_step, by_token

TEXT = st.text(st.sampled_from("ab \n\t漢字かな.\u3000\ud800\x1c"), max_size=8)
IDS = st.lists(st.integers(0, 99999), max_size=5)


@pytest.fixture(autouse=True)
def _nothing_kept():
    past._kept.cache_clear()
    digest._kept.cache_clear()


@st.composite
def rollouts(draw):
    kinds = draw(st.sampled_from([("text",), ("ids",), ("text", "ids", "both", "half")]))
    steps = []
    for s in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(kinds))
        fields = {"fresh": draw(st.booleans()), "parent": draw(st.one_of(st.none(), st.integers(-1, s - 1)))}
        if kind != "ids":
            fields |= {"observation": draw(st.one_of(st.none(), TEXT)), "action": draw(st.one_of(st.none(), TEXT))}
        if kind in ("ids", "both"):
            fields |= {"prompt_ids": draw(IDS)}
        if kind != "text":
            fields |= {"ids": draw(IDS)}
        steps.append(Step(**fields))
    last = draw(st.one_of(st.none(), TEXT))
    return Trajectory(steps, group=draw(st.sampled_from([None, "g"])), final_observation=last, meta={"seed": 3})


def slow_digest(rollout, place):
    out = digest.task_digest(digest.task_of(rollout))
    for s in path(rollout, place.step)[:-1]:
        digest.add_step(out, rollout.steps[s], None)
    digest.add_step(out, rollout.steps[place.step], place.token)
    return out.digest()


def slow_digest_of_all(rollout):
    out = digest.task_digest(digest.task_of(rollout))
    for step in rollout.steps:
        digest.add_step(out, step, None)
    digest.add_text(out, rollout.final_observation or "")
    return out.digest()


def told(step):
    return len(words(step.action or "")) if step.ids is None else len(step.ids)


def slow_size(rollout, steps):
    given_to = [len(words(s.observation or "")) if s.prompt_ids is None else len(s.prompt_ids) for s in rollout.steps]
    return sum(given_to[:steps]) + sum(told(s) for s in rollout.steps[:steps])


@settings(max_examples=300, deadline=None)
@given(rollouts(), st.randoms(use_true_random=False))
def test_every_place_of_any_rollout_in_any_order(rollout, order):
    ids = all(s.ids is not None and s.prompt_ids is not None for s in rollout.steps)
    assert has_ids(rollout) is ids
    longest = [max(told(step), len(words(step.action or ""))) for step in rollout.steps]
    places = [Place(0, s, token) for s, n in enumerate(longest) for token in range(n + 3)]  # and beyond the end
    order.shuffle(places)
    for place in places:
        assert digest_upto(rollout, place) == slow_digest(rollout, place)
        held = len(context_ids(rollout, place)) if ids else len(words(context_text(rollout, place)))
        assert context_size(rollout, place) == held
        assert rest_of(rollout, place.step, place.token) == sum(map(told, rollout.steps[place.step :])) - place.token
    assert digest_all(rollout) == slow_digest_of_all(rollout)
    assert [size_upto(rollout, n) for n in range(len(rollout.steps) + 1)] == [
        slow_size(rollout, n) for n in range(len(rollout.steps) + 1)
    ]


@given(TEXT, st.one_of(st.none(), st.integers(-3, 9)), st.integers(-3, 9))
def test_words_of_an_action_are_cut_where_they_end(text, last, first):
    assert action_text(Step(action=text), first, last) == "".join(words(text)[first:last])
    assert sampled(Step(action=text)) == len(words(text))


@given(TEXT.filter(bool))
def test_kinds_of_characters_are_those_that_words_are_made_of(text):
    for character in text:
        split = words(f"a{character}a")
        assert kind_of(character) == {1: "plain", 2: "space", 3: "ideograph"}[len(split)]


def test_metadata_that_were_changed_are_seen():
    meta = {"seed": 1}
    rollout = Trajectory([Step(observation="a", action="b")], meta=meta)
    before = digest_upto(rollout, Place(0, 0)), digest_all(rollout)
    meta["seed"] = 2
    changed = digest_upto(rollout, Place(0, 0)), digest_all(rollout)
    assert not set(before) & set(changed)
    assert changed[0] == slow_digest(rollout, Place(0, 0))


def test_what_is_kept_is_bounded_and_of_the_rollout_itself():
    """Rollouts that are gone leave their number to others."""
    seen = set()
    for k in range(4 * past.KEPT):
        rollout = Trajectory([Step(observation="a", action=f"{k}"), Step(observation="", action="c")])
        seen.add(digest_upto(rollout, Place(0, 1)))
        del rollout
        gc.collect()
        assert past._kept.cache_info().currsize <= past.KEPT
    assert len(seen) == 4 * past.KEPT


def test_rollouts_that_are_asked_about_side_by_side_stay(monkeypatch):
    made = []
    monkeypatch.setattr(past, "_Past", lambda *given, real=past._Past: made.append(1) or real(*given))
    group = [Trajectory([Step(observation="a", action="b")], id=str(k)) for k in range(past.KEPT)]
    for _ in range(3):
        for rollout in group:
            digest_upto(rollout, Place(0, 0))
    assert len(made) == past.KEPT
    digest_upto(group[0], Place(0, 0))
    digest_upto(Trajectory([Step(observation="a", action="other")]), Place(0, 0))  # takes the place of the second
    for rollout in (group[0], *group[2:]):
        digest_upto(rollout, Place(0, 0))
    assert len(made) == past.KEPT + 1


def long(steps, ids):
    rng = np.random.default_rng(0)
    made = [
        Step(prompt_ids=rng.integers(0, 9, 4), ids=rng.integers(0, 9, 3), logp=[-1.0] * 3)
        if ids
        else Step(observation="you see a door", action="open the door")
        for _ in range(steps)
    ]
    return Batch.from_trajectories([Trajectory(made, group="g", outcome=float(k)) for k in range(2)])


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("method", ["vineppo", "agentprm_mc", "c3", "treg", "red", "hcapo"])
def test_a_plan_reads_each_step_as_often_as_it_is_asked_about_and_not_as_often_as_it_was_seen(method, ids, monkeypatch):
    """Digests of a plan at every step took time with the square of the steps."""
    reads = []
    real = digest.add_step
    monkeypatch.setattr(past, "add_step", lambda *given: (reads.append(1), real(*given))[1])
    cut = by_token if method in ("treg", "red") else by_step
    spent = []
    for steps in (20, 40, 80):
        reads.clear()
        price = cost(method, cut(long(steps, ids)))
        spent.append((len(reads), price.requests))
    assert price.requests > 0
    (first, _), (second, _), (third, asked) = spent
    assert third - second <= 2.1 * (second - first) + 10
    assert third <= 4 * asked + 1000


def test_parts_of_a_rollout_are_decoded_once():
    calls = []
    decode = remembered(lambda ids: calls.append(ids) or " ".join(map(str, ids)))
    assert [decode([1, 2]), decode([1, 2]), decode([1]), decode([])] == ["1 2", "1 2", "1", ""]
    assert calls == [[1, 2], [1], []]
