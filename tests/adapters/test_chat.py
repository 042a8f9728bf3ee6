"""Chat messages to steps: what is a step, what it saw, what state it was in, and what the file could not tell."""

import json
from collections import Counter

import pytest

from apportion.adapters.readers import ReadReport
from apportion.adapters.readers.chat import conversation
from apportion.adapters.readers.registry import Context
from apportion.errors import FormatError
from tests.adapters.foreign import call, said, system, tool, user


def fold(messages, **options):
    context = Context(ReadReport("x"))
    return conversation(messages, "f, line 1", context, **options), context.report.notes


def shape(chat):
    return [(step.observation, step.action, step.turn) for step in chat.steps]


def test_a_step_is_an_assistant_message_and_what_lies_between_is_seen():
    chat, notes = fold([system("Be kind."), user("Hi"), said("Hello"), user("Bye"), said("Ciao"), user("…")])
    assert shape(chat) == [("[system] Be kind.\n[user] Hi", "Hello", 0), ("[user] Bye", "Ciao", 1)]
    assert chat.final_observation == "[user] …"
    assert chat.first_user == "Hi"
    assert all(step.reward is None for step in chat.steps)
    assert notes == Counter()


def test_several_calls_of_one_message_are_steps_of_one_turn():
    chat, _ = fold(
        [
            user("Compare"),
            said("Both.", call("get", '{"id": 1}', "a"), call("get", '{"id": 2}', "b"), call("get", '{"id": 3}', "c")),
            tool("one", id="a"),
            tool("two", id="b"),
            tool("three", id="c"),
            said("Done."),
        ]
    )
    assert shape(chat) == [
        ("[user] Compare", 'Both.\nget({"id": 1})', 0),
        (None, 'get({"id": 2})', 0),
        (None, 'get({"id": 3})', 0),
        ("[tool get] one\n[tool get] two\n[tool get] three", "Done.", 1),
    ]
    assert [step.extra["tool_call"]["id"] for step in chat.steps[:3]] == ["a", "b", "c"]


def test_equal_answers_are_one_state_and_a_later_call_knows_the_calls_before_it():
    one, _ = fold([user("A"), said("x"), tool("same", "f"), said(None, call("f", "{}"), call("g", "{}"))])
    two, _ = fold([user("B"), said("y"), tool("same", "f", id="other"), said(None, call("f", "{}"), call("h", "{}"))])
    three, _ = fold([user("B"), said("y"), tool("same", "f"), said(None, call("k", "{}"), call("g", "{}"))])
    states = [[step.state for step in chat.steps] for chat in (one, two, three)]
    assert states[0][0] != states[1][0]
    assert states[0][1:] == states[1][1:]  # same answer; then same answer and same first call
    assert states[0][1] == states[2][1]
    assert states[0][2] != states[2][2]


def test_assistant_messages_in_a_row_and_at_the_start():
    chat, _ = fold([said("first"), said("second")])
    assert shape(chat) == [(None, "first", 0), (None, "second", 1)]
    assert [step.state for step in chat.steps] == ["", "\n[assistant] first"]


def test_null_content_reasoning_refusal_and_names():
    chat, notes = fold(
        [
            user(None),
            said(None),
            said("a", reasoning_content="hm"),
            said(None, refusal="No."),
            said("b", name="planner", reasoning={"effort": "high"}),
        ]
    )
    assert [step.action for step in chat.steps] == ["", "<think>hm</think>\na", "No.", "b"]
    assert chat.steps[0].observation == "[user]"
    assert [step.agent for step in chat.steps] == [None, None, None, "planner"]
    assert notes["assistant messages without any content: empty actions"] == 1
    assert notes["reasoning that is not text: left out"] == 1


BROKEN_CALLS = [
    (call("search", '{"q": "Par'), 'search({"q": "Par)', r"not JSON \(Unterminated string"),
    (call("search", "[1]"), "search([1])", "the arguments are a list, not an object"),
    (call("search", "[" * 5000), "search(" + "[" * 5000 + ")", "cannot be read as JSON"),
    ('{"name": "search"', '{"name": "search"', "the tool call is a string, not an object"),
    ({"type": "function"}, '{"type": "function"}', "the tool call has no function name"),
]


@pytest.mark.parametrize(("broken", "action", "problem"), BROKEN_CALLS)
def test_a_broken_call_is_kept_as_it_is_and_flagged(broken, action, problem):
    chat, notes = fold([user("Go"), said(None, broken), tool("error"), said("Sorry.")])
    assert [step.action for step in chat.steps] == [action, "Sorry."]
    with pytest.raises(ValueError, match=problem):
        raise ValueError(chat.steps[0].extra["parse_error"])
    assert "parse_error" not in chat.steps[1].extra
    assert notes["tool calls that are not well formed: kept as they are, flagged in extra.parse_error"] == 1


def test_case_i5_keeps_the_raw_string():
    raw = '{"q": "Par'
    chat, _ = fold([user("Go"), said(None, call("search", raw))])
    assert chat.steps[0].extra["tool_call"]["arguments"] == raw
    assert "parse_error" in chat.steps[0].extra


def test_arguments_as_an_object_none_at_all_and_the_old_form_are_well_formed():
    chat, _ = fold(
        [
            user("Go"),
            said(None, {"function": {"name": "f", "arguments": {"ä": 1}}}),
            said(None, {"name": "g"}),
            said(None, function_call={"name": "h", "arguments": ""}),
        ]
    )
    assert [step.action for step in chat.steps] == ['f({"ä": 1})', "g()", "h()"]
    assert not any("parse_error" in step.extra for step in chat.steps)


def test_parts_are_read_and_images_are_kept_by_reference():
    def image(data):
        return {"type": "image_url", "image_url": {"url": data}}

    inline = "data:image/png;base64," + "iVBORw0KGgo" * 10_000
    chat, notes = fold(
        [
            user(
                [{"type": "text", "text": "See"}, image("https://a.org/b.png"), image(inline), {"type": "input_audio"}]
            ),
            said([{"type": "text", "text": "A cat."}]),
            user([image(inline.replace("iVB", "iVC"))]),
            said("A dog."),
        ]
    )
    first, second = (step.observation for step in chat.steps)
    lines = first.split("\n")
    assert lines[:2] == ["[user] See", "[image https://a.org/b.png]"]
    assert lines[2].startswith("[image data:image/png;base64 #")
    assert lines[3] == "[input_audio]"
    assert len(first) < 200
    assert second.split("#")[1] != lines[2].split("#")[1]  # other pixels, other state
    assert chat.steps[0].action == "A cat."
    assert notes["images kept by reference"] == 3
    assert notes["content parts of type 'input_audio' left out"] == 1


def test_what_was_not_sampled_holds_no_action():
    chat, notes = fold([user("Now you"), said("b")], before=[user("Example"), said("a", call("f", "{}"))])
    assert shape(chat) == [("[user] Example\n[assistant] a\nf({})\n[user] Now you", "b", 0)]
    weighed, notes = fold([user("?"), said("draft", weight=0), user("Again"), said("final", weight=1)])
    assert shape(weighed) == [("[user] ?\n[assistant] draft\n[user] Again", "final", 0)]
    assert notes["assistant messages of weight 0: context, not sampled"] == 1


def test_a_chat_without_an_answer_is_one_empty_action():
    for messages, seen in (([], None), ([user("Anyone?")], "[user] Anyone?")):
        chat, notes = fold(messages)
        assert [(step.observation, step.action) for step in chat.steps] == [(seen, "")]
        assert notes["conversations without an assistant message: one empty action"] == 1


def test_the_end_is_flagged():
    flags = lambda chat: (chat.steps[-1].truncated, chat.steps[-1].terminated)  # noqa: E731
    assert flags(fold([said("a")])[0]) == (False, False)
    assert flags(fold([said("a", finish_reason="length")])[0]) == (True, False)
    assert flags(fold([said("a", finish_reason="length"), user("go on")])[0]) == (False, False)
    assert flags(fold([said("a", finish_reason="length"), said("b", finish_reason="stop")])[0]) == (False, False)
    assert flags(fold([said("a")], truncated=True, terminated=True)[0]) == (True, False)
    assert flags(fold([said("a")], terminated=True)[0]) == (False, True)


def test_what_is_left_out_is_counted():
    _, notes = fold(
        [user("a") | {"type": "message", "audio": None, "cache": {"ttl": 5}}, {"role": "ipython", "content": "1"}]
    )
    assert notes["message field 'cache' left out"] == 1
    assert notes["messages of the unknown role 'ipython': taken as seen, not as sampled"] == 1
    assert not any("audio" in note or "'type'" in note for note in notes)


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ("hello", "f, line 1: messages is a string; give a list of chat messages"),
        ([user("a"), 5], "f, line 1, message 1 is a number; give an object with role and content"),
        ([{"content": "a"}], "f, line 1, message 0: role is null; give one of assistant, model, system"),
        ([{"role": 3}], "role is a number"),
        ([user(7)], "message 0: content is a number; give a string, a list of parts, or null"),
        ([user([3])], "message 0: content part 0 is a number; give a string or an object with a type"),
        ([user([{"type": "text", "text": 3}])], "content part 0: text is a number; give a string"),
        ([said("a", weight="x")], "message 0: weight is a string; give a number"),
    ],
)
def test_what_is_no_chat_gets_its_sentence(messages, sentence):
    with pytest.raises(FormatError, match=sentence):
        fold(messages)


def test_the_sampled_text_is_all_there_and_nothing_else():
    chat, _ = fold([user("q"), said("alpha", call("f", json.dumps({"k": "beta"}))), tool("gamma"), said("delta")])
    actions = "\n".join(step.action for step in chat.steps)
    assert all(word in actions for word in ("alpha", "beta", "delta"))
    assert "gamma" not in actions
    assert "q" not in actions
