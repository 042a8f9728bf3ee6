"""Blocks that a judge is shown, against going through the whole rollout for every ask."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.asks import Judge, Place, Value
from apportion.data import Step, Trajectory
from apportion.resources import judge_blocks
from apportion.resources.judge import JudgeResource
from apportion.resources.judge_blocks import Block, blocks_of
from apportion.resources.judge_template import load_template
from apportion.resources.protocol import Request
from apportion.resources.rollout_text import NoText

STEPWISE, OF_STATES = load_template("scores"), load_template("value")
TEXT = st.one_of(st.none(), st.text("ab \n", max_size=6))


@pytest.fixture(autouse=True)
def _nothing_kept():
    judge_blocks._kept.cache_clear()


@st.composite
def rollouts(draw):
    steps = [
        Step(observation=draw(TEXT), action=draw(TEXT), agent=draw(st.sampled_from([None, "bob", "a<b"])))
        for _ in range(draw(st.integers(1, 5)))
    ]
    return Trajectory(steps, final_observation=draw(TEXT))


def said(step):
    return len((step.action or "").split()) + bool(step.action and step.action[-1] in " \n")


@st.composite
def asks(draw, rollout):
    places = [Place(0, s, token) for s, step in enumerate(rollout.steps) for token in range(said(step) + 1)]
    if draw(st.booleans()):
        return Value(draw(st.sampled_from(places)))
    units = tuple(sorted(draw(st.sets(st.sampled_from(places), min_size=1))))
    return Judge(0, units, "scores", focus=draw(st.one_of(st.none(), st.integers(0, len(units) - 1))))


def words_of(text, first, last):
    parts, at = [], 0
    for word in (text or "").split():
        end = text.index(word, at) + len(word)
        parts.append(text[at:end])
        at = end
    return "".join([*parts, (text or "")[at:]][first:last])


def slow(ask, rollout):
    """Everything shown, written down step by step and unit by unit."""
    if isinstance(ask, Value):
        begins, until, numbers = {}, (ask.at.step, ask.at.token), {}
    elif ask.focus is None:
        begins, until = {(p.step, p.token): k for k, p in enumerate(ask.units)}, None
        numbers = {k: STEPWISE.first + k for k in begins.values()}
    else:
        here = ask.units[ask.focus]
        begins, numbers = {(here.step, here.token): 0}, {0: STEPWISE.first + ask.focus}
        later = ask.units[ask.focus + 1 :]
        until = (later[0].step, later[0].token) if later else None
    out, unit = [], None
    for s, step in enumerate(rollout.steps):
        if until is not None and s > until[0]:
            break
        if step.observation:
            title = "task" if s == 0 else f"observation before step {s + 1} of the rollout"
            out.append(Block(title, step.observation, own=False))
        who = {None: "", "bob": " by bob", "a<b": " by a_b"}[step.agent]
        end = said(step) if until is None or s < until[0] else until[1]
        cuts = sorted({0, end, *(token for at, token in begins if at == s and token <= end)})
        marks = [token for at, token in begins if at == s]
        for first, last in zip(cuts, [*cuts[1:], None], strict=True):
            new = first in marks
            if new:
                unit = begins[s, first]
            if last is None and not (new and first == end):
                continue
            last = first if last is None else last
            own = "earlier action" if unit is None else f"{STEPWISE.unit} {numbers[unit]}"
            text = words_of(step.action, first, last)
            out.append(Block(f"{own}{who}" + ("" if new or unit is None else ", continued"), text, own=True))
        if any(token > end for token in marks):
            raise AssertionError("no place lies beyond what is shown")
    if until is None and rollout.final_observation:
        out.append(Block("observation at the end", rollout.final_observation, own=False))
    return out


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_blocks_of_any_ask_in_any_order(data):
    rollout = data.draw(rollouts())
    for _ in range(4):
        ask = data.draw(asks(rollout))
        template = OF_STATES if isinstance(ask, Value) else STEPWISE
        numbers = range(STEPWISE.first, STEPWISE.first + 99)
        if isinstance(ask, Judge) and ask.focus is not None:
            numbers = range(STEPWISE.first + ask.focus, STEPWISE.first + ask.focus + 1)
        assert blocks_of(template, ask, rollout, numbers, None) == slow(ask, rollout)


def long(steps, **fields):
    return Trajectory([Step(observation=f"o{s}", action=f"a{s} b", **fields) for s in range(steps)])


def focused(steps):
    return [Judge(0, tuple(Place(0, s) for s in range(steps)), "scores", focus=k) for k in range(steps)]


def test_steps_before_the_one_in_question_are_read_once(monkeypatch):
    read = []
    real = judge_blocks.observation_of
    monkeypatch.setattr(judge_blocks, "observation_of", lambda *given: read.append(1) or real(*given))
    rollout = long(40)
    for ask in focused(40):
        blocks_of(STEPWISE, ask, rollout, range(1, 2), None)
    assert len(read) <= 3 * 40


def test_what_is_kept_is_bounded_and_told_apart():
    seen = set()
    for k in range(3 * judge_blocks.KEPT):
        rollout = Trajectory([Step(observation=f"o{k}", action="a"), Step(observation="p", action="b")])
        seen.add(blocks_of(STEPWISE, Judge(0, (Place(0, 1),), "scores", focus=0), rollout, range(1, 2), None)[0].text)
        assert judge_blocks._kept.cache_info().currsize <= judge_blocks.KEPT
    assert len(seen) == 3 * judge_blocks.KEPT


def test_two_decoders_and_a_step_that_nobody_can_spell():
    rollout = Trajectory([Step(prompt_ids=[1], ids=[2]), Step(prompt_ids=[3], ids=[4])])
    ask = Judge(0, (Place(0, 1),), "scores", focus=0)
    for _ in range(2):
        with pytest.raises(NoText, match="step 0"):
            blocks_of(STEPWISE, ask, rollout, range(1, 2), None)
        for mark in "xy":
            shown = blocks_of(STEPWISE, ask, rollout, range(1, 2), lambda ids, mark=mark: f"{mark}{ids}")
            assert [block.text for block in shown] == [f"{mark}[{k}]" for k in (1, 2, 3, 4)]


def test_judges_of_several_threads_are_shown_the_same():
    def slow_to_spell(ids):
        time.sleep(0.0005)  # somebody else goes on meanwhile
        return f"<{ids}>"

    rollout = Trajectory([Step(prompt_ids=[s], ids=[s, s]) for s in range(30)])
    want = [blocks_of(STEPWISE, ask, rollout, range(1, 2), lambda ids: f"<{ids}>") for ask in focused(30)]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda a: blocks_of(STEPWISE, a, rollout, range(1, 2), slow_to_spell), focused(30)[::-1]))
    assert got[::-1] == want


def test_a_judge_has_each_part_of_a_rollout_decoded_once():
    calls = []
    judge = JudgeResource(identity="x", decode=lambda ids: calls.append(tuple(ids)) or f"{ids}")
    rollout = Trajectory([Step(prompt_ids=[s], ids=[s, s]) for s in range(20)])
    for ask in focused(20):
        judge.content(Request(ask, rollout, 0, 0))
        judge.load(Request(ask, rollout, 1, 5))
    assert sorted(calls) == sorted([(s,) for s in range(20)] + [(s, s) for s in range(20)])
