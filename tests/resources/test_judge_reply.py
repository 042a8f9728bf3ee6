"""Replies are read by the schema or not at all; nothing that a reply can hold becomes a number it does not say."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.resources.codec import decode, encode
from apportion.resources.judge_reply import KEPT, NoVerdict, no_verdict, read_probability, read_verdict, schema_of
from apportion.resources.judge_template import load_template

CODE = "0badc0de"
LABELS, SCORES, WRONG, VALUE = (load_template(name) for name in ("labels", "scores", "wrong_steps", "value"))
NUMBERS = range(1, 4)


def labels(*given, **more):
    return {"code": CODE, "verdicts": [{"unit": n, "reason": "so", "label": x} for n, x in given], **more}


def scores(*given):
    return {"code": CODE, "verdicts": [{"unit": n, "score": x} for n, x in given]}


def read(body, template=LABELS, numbers=NUMBERS):
    return read_verdict(body if isinstance(body, str) else json.dumps(body), template, numbers, CODE)


def test_what_a_verdict_looks_like():
    verdict = read(labels((1, "good"), (3, "bad"), (2, "neutral")))
    assert (verdict.scores, verdict.labels) == ((1, 0, -1), ("good", "neutral", "bad"))
    assert verdict.scale == (-1, 1)
    assert json.loads(verdict.text) == labels((1, "good"), (3, "bad"), (2, "neutral"))
    verdict = read(scores((1, 10), (2, 0), (3, 2.5)), SCORES)
    assert (verdict.scores, verdict.scale) == ((10, 0, 2.5), (0, 10))
    verdict = read({"code": CODE, "wrong": [3, 1], "reason": "1 + 1 is 2"}, WRONG)
    assert (verdict.scores, verdict.scale) == ((-1, 0, -1), (-1, 1))
    assert read({"code": CODE, "wrong": []}, WRONG).scores == (0, 0, 0)
    assert read_probability(json.dumps({"code": CODE, "probability": 0.25}), VALUE, CODE) == 0.25


def test_where_the_object_may_stand():
    body = json.dumps(labels((1, "good")))
    other = json.dumps(labels((1, "bad")))
    for reply in (
        body,
        f"\n  {body}\n",
        f"```json\n{body}\n```",
        f"```\n{body}\n```",
        f"First I thought:\n```json\n{other}\n```\nbut then:\n``` json\n{body}\n```\nThat is it.",
        f"```python\n{other}\n```\n```json\n{body}\n```",
        f"```json\n{body}\n```\n```python\n{other}\n```",
        f"<think>\n```json\n{other}\n```\n</think>\n{body}",
        f"{other}</think>{body}",
        f"```json\n{body}\n```\nand ```json\n{other}",  # no line of its own: not a fence
        body.replace(" ", "\n\t"),
    ):
        assert read(reply).scores == (1, None, None), reply


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "no JSON object"),
        ("good", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ("null", "no JSON object"),
        ("3", "no JSON object"),
        ('{"code"', "no JSON object"),
        ("I would say: {}", "no JSON object"),
        ("{} {}", "no JSON object"),
        ("```json\n{}", "no JSON object"),  # cut off
        ("```\nnothing\n```\n{}", "no JSON object"),
        ("[" * 100_001, "longer than"),
        ("[" * 50_000, "no JSON object"),
        ('{"code":' * 10_000, "no JSON object"),
        ("9" * 5000, "no JSON object"),
        ("{}" + " " * 200_000, "longer than 100000 characters"),
        ("{}", "other keys than code, verdicts"),
        (json.dumps({"code": CODE}), "other keys than"),
        (json.dumps(labels((1, "good"), comment="x")), "other keys than"),
        (json.dumps({"code": CODE, "wrong": [1]}), "other keys than"),
        (json.dumps(labels((1, "good")) | {"code": "0badc0dE"}), "code is not the one"),
        (json.dumps(labels((1, "good")) | {"code": None}), "code is not the one"),
        (json.dumps(labels((1, "good")) | {"code": [CODE]}), "code is not the one"),
        (json.dumps({"code": CODE, "verdicts": {"1": "good"}}), "verdicts is no list"),
        (json.dumps({"code": CODE, "verdicts": ["good"]}), "a verdict is no object"),
        (json.dumps({"code": CODE, "verdicts": [[]]}), "a verdict is no object"),
        (json.dumps({"code": CODE, "verdicts": [{"label": "good"}]}), "other keys than label, reason, unit"),
        (json.dumps({"code": CODE, "verdicts": [{"unit": 1, "label": "good", "x": 1}]}), "other keys than"),
        (json.dumps({"code": CODE, "verdicts": [{"unit": 1, "score": 5}]}), "other keys than"),
        (json.dumps({"code": CODE, "verdicts": [{"unit": 1, "reason": 5}]}), "a reason is no text"),
        (json.dumps(labels((4, "good"))), "not asked about"),
        (json.dumps(labels((0, "good"))), "not asked about"),
        (json.dumps(labels((True, "good"))), "not asked about"),
        (json.dumps(labels((1.0, "good"))), "not asked about"),
        (json.dumps(labels(("1", "good"))), "not asked about"),
        (json.dumps(labels((None, "good"))), "not asked about"),
        (json.dumps(labels((10**30, "good"))), "not asked about"),
        (json.dumps(labels((1, "good"), (1, "good"))), "unit 1 is named twice"),
        (json.dumps(labels((1, "good"), (1, "bad"))), "unit 1 is named twice"),
        ('{"code": "0badc0de", "verdicts": [], "verdicts": []}', "a key stands twice"),
        ('{"code": "0badc0de", "verdicts": [{"unit": 1, "label": "bad", "label": "good"}]}', "a key stands twice"),
        ('{"code": "0badc0de", "verdicts": [{"unit": 1, "label": NaN}]}', "NaN is no JSON"),
        ('{"code": "0badc0de", "verdicts": [{"unit": 1, "label": -Infinity}]}', "-Infinity is no JSON"),
    ],
)
def test_what_is_no_verdict(reply, why):
    with pytest.raises(NoVerdict, match=why):
        read(reply)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"code": CODE, "wrong": [4]}, "not asked about"),
        ({"code": CODE, "wrong": [1, 1]}, "named twice"),
        ({"code": CODE, "wrong": "1"}, "wrong is no list"),
        ({"code": CODE, "wrong": None}, "wrong is no list"),
        ({"code": CODE, "wrong": [[1]]}, "not asked about"),
        ({"code": CODE, "wrong": [], "reason": None}, "a reason is no text"),
        ({"wrong": []}, "other keys than code, reason, wrong"),
        ({"code": "x", "wrong": []}, "code is not the one"),
    ],
)
def test_what_is_no_set_of_wrong_steps(body, why):
    with pytest.raises(NoVerdict, match=why):
        read(body, WRONG)


@pytest.mark.parametrize("p", ["0.5", None, True, -0.1, 1.1, [0.5], 10**400])
def test_what_is_no_probability(p):
    with pytest.raises(NoVerdict, match=r"no number from 0 to 1"):
        read_probability(json.dumps({"code": CODE, "probability": p}), VALUE, CODE)


def test_what_is_no_verdict_on_one_unit_leaves_the_others():
    assert read(labels((1, "good"), (2, "GOOD"))).scores == (1, None, None)
    assert read(labels((1, "good"), (2, None), (3, ["bad"]))).scores == (1, None, None)
    assert read({"code": CODE, "verdicts": [{"unit": 2}]}).scores == (None, None, None)
    for odd in (10.01, -0.01, True, "7", None, [7], {}, 10**400, -(10**400)):
        assert read(scores((1, 7), (2, odd)), SCORES).scores == (7, None, None), odd
    assert read('{"code": "0badc0de", "verdicts": [{"unit": 1, "score": 1e999}]}', SCORES).scores[0] is None


def test_only_the_unit_in_focus_is_asked_about():
    assert read(labels((2, "bad")), numbers=range(2, 3)).scores == (-1,)
    with pytest.raises(NoVerdict, match="not asked about"):
        read(labels((1, "bad")), numbers=range(2, 3))


def test_no_verdict_says_why_and_keeps_the_reply():
    verdict = no_verdict(SCORES, 3, "the reply is no JSON object", "x" * 9000)
    assert (verdict.scores, verdict.labels, verdict.scale) == ((None,) * 3, (None,) * 3, (0, 10))
    assert verdict.text.startswith("no verdict: the reply is no JSON object\nxxx")
    assert len(verdict.text) == KEPT + 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([CODE, "good"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["code", "verdicts", "unit", "label", "score", "wrong", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(JSON | st.text(max_size=60), st.sampled_from([LABELS, SCORES, WRONG]))
def test_anything_else_is_no_verdict_or_one_that_can_be_stored(body, template):
    reply = body if isinstance(body, str) else json.dumps(body)
    try:
        verdict = read(reply, template)
    except NoVerdict:
        return
    assert len(verdict.scores) == len(NUMBERS)
    assert decode("judge", encode("judge", verdict)) == verdict
    assert all(x is None or verdict.scale[0] <= x <= verdict.scale[1] for x in verdict.scores)


@pytest.mark.parametrize("template", [LABELS, SCORES, WRONG], ids=lambda t: t.name)
def test_what_the_schema_lets_through_is_read(template):
    rng = random.Random(3)
    schema = schema_of(template, NUMBERS, CODE)
    for _ in range(50):
        body = draw(schema, rng)
        if "verdicts" in body:
            body["verdicts"] = list({entry["unit"]: entry for entry in body["verdicts"]}.values())
        else:
            body["wrong"] = sorted(set(body["wrong"]))
        read(body, template)
    assert read_probability(json.dumps(draw(schema_of(VALUE, range(0), CODE), rng)), VALUE, CODE) <= 1


def draw(schema, rng):
    """A value that the schema allows; knows the keywords that ours use."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "anyOf" in schema:
        return draw(rng.choice(schema["anyOf"]), rng)
    kind = schema["type"]
    if kind == "object":
        assert schema["required"] == list(schema["properties"])
        assert schema["additionalProperties"] is False
        return {name: draw(part, rng) for name, part in schema["properties"].items()}
    if kind == "array":
        return [draw(schema["items"], rng) for _ in range(rng.randrange(4))]
    if kind == "number":
        return rng.uniform(schema["minimum"], schema["maximum"])
    return {"string": "words", "null": None}[kind]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "an object has other keys"),
        ({"probability": None}, "no number from 0 to 1"),
        ({"probability": 0.5, "score": 1}, "an object has other keys"),
        ({"probability": 0.5, "reason": 3}, "a reason is no text"),
    ],
)
def test_a_probability_is_read_as_strictly(body, why):
    with pytest.raises(NoVerdict, match=why):
        read_probability(json.dumps({"code": CODE, **body}), VALUE, CODE)


@pytest.mark.parametrize("p", [0, 1, 0.0, 1.0])
def test_a_judge_may_be_certain(p):
    assert read_probability(json.dumps({"code": CODE, "probability": p}), VALUE, CODE) == p


def test_a_reply_may_be_as_long_as_the_template_says():
    longest = VALUE.limits.reply
    fits = json.dumps({"code": CODE, "probability": 0.5}).ljust(longest)
    assert read_probability(fits, VALUE, CODE) == 0.5
    with pytest.raises(NoVerdict, match="longer than"):
        read_probability(fits + " ", VALUE, CODE)
