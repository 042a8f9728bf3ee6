"""What a judge is shown: every unit where it is, everything else around it, nothing that the ask forbids."""

import re

import pytest

from apportion.asks import Judge, Place, Value
from apportion.data import Step, Trajectory
from apportion.resources import judge_prompt
from apportion.resources.judge_prompt import render
from apportion.resources.judge_template import load_template, read_template
from apportion.resources.judge_text import clean, shortened
from apportion.resources.rollout_text import NoText, TooLong

LABELS = load_template("labels")
TALK = Trajectory(
    [
        Step(observation="the task", action="one two three", agent="planner"),
        Step(observation="it said so", action="four"),
        Step(action="five six"),
    ],
    final_observation="the end",
    reference="gold",
)
STEPS = (Place(0, 0), Place(0, 1), Place(0, 2))


def blocks(prompt):
    """Titles and texts of the blocks, by the code that the instruction tells."""
    fence = re.search(r"<<<([0-9a-f]{32}) BEGIN …>>>", prompt.messages[0]["content"])[1]
    out, title, lines = [], None, []
    for line in prompt.messages[1]["content"].split("\n"):
        if title is None:
            if found := re.fullmatch(rf"<<<{fence} BEGIN (.*)>>>", line):
                title, lines = found[1], []
        elif line == f"<<<{fence} END>>>":
            out.append((title, "\n".join(lines)))
            title = None
        else:
            lines.append(line)
    assert title is None
    return out


def shown(ask, rollout=TALK, template=LABELS, **options):
    return blocks(render(template, ask, rollout, **options))


TASK, BETWEEN = ("task", "the task"), ("observation before step 2 of the rollout", "it said so")


def test_units_that_are_steps():
    prompt = render(LABELS, Judge(0, STEPS, "labels"), TALK)
    assert blocks(prompt) == [
        TASK,
        ("step 1 by planner", "one two three"),
        BETWEEN,
        ("step 2", "four"),
        ("step 3", "five six"),
        ("observation at the end", "the end"),
    ]
    assert list(prompt.numbers) == [1, 2, 3]
    assert "step from 1 to 3" in prompt.messages[0]["content"]
    assert '"good", "neutral", "bad"' in prompt.messages[0]["content"]
    assert prompt.code in prompt.messages[0]["content"]
    assert prompt.code in prompt.messages[1]["content"].splitlines()[-1]


def test_units_inside_a_step_and_over_several():
    inside = Judge(0, (Place(0, 0), Place(0, 0, 2), Place(0, 1)), "labels")
    assert shown(inside)[1:] == [
        ("step 1 by planner", "one two"),
        ("step 2 by planner", " three"),
        BETWEEN,
        ("step 3", "four"),
        ("step 3, continued", "five six"),
        ("observation at the end", "the end"),
    ]
    late = Judge(0, (Place(0, 0, 1), Place(0, 2)), "labels")  # what the policy wrote before is nobody's
    assert shown(late)[1:5] == [
        ("earlier action by planner", "one"),
        ("step 1 by planner", " two three"),
        BETWEEN,
        ("step 1, continued", "four"),
    ]


def test_units_without_tokens_are_shown_empty():
    mute = Trajectory([Step(observation="q", action=""), Step(action="a"), Step(action="")])
    ask = Judge(0, STEPS, "labels")
    assert shown(ask, mute) == [("task", "q"), ("step 1", ""), ("step 2", "a"), ("step 3", "")]
    twice = Judge(0, (Place(0, 0), Place(0, 0), Place(0, 1)), "labels")
    assert [title for title, _ in shown(twice)[1:3]] == ["step 1 by planner", "step 2 by planner"]
    assert shown(twice)[1][1] == ""


def test_a_unit_in_focus_is_shown_with_its_result_and_nothing_later():
    def at(focus):
        return shown(Judge(0, STEPS, "labels", focus=focus))

    assert at(0) == [TASK, ("step 1 by planner", "one two three"), BETWEEN]
    assert at(1) == [TASK, ("earlier action by planner", "one two three"), BETWEEN, ("step 2", "four")]
    assert at(2)[-2:] == [("step 3", "five six"), ("observation at the end", "the end")]
    assert list(render(LABELS, Judge(0, STEPS, "labels", focus=1), TALK).numbers) == [2]
    assert "from 2 to 2" in render(LABELS, Judge(0, STEPS, "labels", focus=1), TALK).messages[0]["content"]


def test_a_value_is_asked_at_its_place():
    template = load_template("value")
    assert shown(Value(Place(0, 0)), template=template) == [TASK]
    assert shown(Value(Place(0, 0, 2)), template=template) == [TASK, ("earlier action by planner", "one two")]
    assert shown(Value(Place(0, 1)), template=template)[-1] == BETWEEN
    assert "gold" not in str(render(template, Value(Place(0, 2, 2)), TALK).messages)


def test_only_a_privileged_template_shows_the_reference():
    for name, there in (("labels", False), ("wrong_steps", False), ("search_turns", True)):
        template = load_template(name)
        found = shown(Judge(0, STEPS, name, privileged=True), template=template)
        assert (("reference", "gold") in found) is there


def test_ids_are_decoded_only_where_there_is_no_text():
    ids = Trajectory([Step(prompt_ids=[1, 2], ids=[3, 4, 5]), Step(observation="text", ids=[6], action="six")])
    ask = Judge(0, (Place(0, 0), Place(0, 0, 1), Place(0, 1)), "labels")
    with pytest.raises(NoText, match=r"step 0 has token ids and no observation; give Step.observation, or decode="):
        shown(ask, ids)
    told = shown(ask, ids, decode=lambda given: "".join(f"<{i}>" for i in given))
    assert [text for _, text in told] == ["<1><2>", "<3>", "<4><5>", "text", "six"]
    cut = Judge(0, (Place(0, 1), Place(0, 1, 0)), "labels")
    told = Trajectory([Step(observation="q", action="a b", ids=[1, 2])])
    assert shown(Judge(0, (Place(0),), "labels"), told)[1] == ("step 1", "a b")
    with pytest.raises(NoText, match=r"the action of step 0 is divided between its tokens; give decode="):
        shown(Judge(0, (Place(0), Place(0, 0, 1)), "labels"), told)
    with pytest.raises(NoText, match=r"the action of step 0 has token ids and no text"):
        shown(Judge(0, (Place(0),), "labels"), Trajectory([Step(observation="q", ids=[1, 2])]))
    assert cut.units  # two units at one place are in order
    with pytest.raises(NoText, match=r"in time order"):
        shown(Judge(0, STEPS[::-1], "labels"))


def small(**limits):
    told = "\n".join(f"{name} = {value}" for name, value in limits.items())
    text = f'name = "x"\nversion = 1\n[scale]\nkind = "wrong"\n[units]\n[limits]\n{told}\n'
    return read_template(f'{text}[text]\ninstruction = "judge"\nreminder = "again"'.encode(), "x")


def test_long_texts_are_cut_in_the_middle_with_a_mark():
    assert shortened("x" * 10, 10, "[{}]") == "x" * 10
    assert shortened("abcdefghijkl", 9, "[{}]") == "abcdef\n[3]\njkl"
    long = Trajectory([Step(observation="o" * 5000, action="a" * 900)])
    template = small(observation=60, action=90)
    prompt = render(template, Judge(0, (Place(0),), "x"), long)
    (_, seen), (_, done) = blocks(prompt)
    fence = re.search(r"<<<([0-9a-f]{32}) ", prompt.messages[1]["content"])[1]
    assert seen == "o" * 40 + f"\n<<<{fence} 4940 characters left out>>>\n" + "o" * 20
    assert done == "a" * 60 + f"\n<<<{fence} 810 characters left out>>>\n" + "a" * 30


def test_a_text_that_cleaning_makes_longer_is_cut_too():
    sly = Trajectory([Step(observation="\u202e" * 60, action="\x00" * 500)])
    (_, seen), (_, done) = blocks(render(small(observation=60, action=60), Judge(0, (Place(0),), "x"), sly))
    assert len(re.sub(r"\n<<<.* 360 characters left out>>>\n", "", seen)) == 120
    assert len(re.sub(r"\n<<<.* 440 characters left out>>>\n", "", done)) == 120


def test_where_there_is_too_much_of_all_everything_is_cut_shorter():
    steps = [Step(observation="o" * 1000, action="a" * 1000) for _ in range(20)]
    ask = Judge(0, tuple(Place(0, s) for s in range(20)), "x")
    found = shown(ask, Trajectory(steps), small(observation=1000, action=1000, prompt=10_000))
    texts = [re.sub(r"\n<<<.*>>>\n", "", text) for _, text in found]
    assert {len(text) for text in texts} == {125}  # 1000 halved until 40 blocks and their fences fit
    with pytest.raises(TooLong, match=r"its 40 blocks do not fit into the 6000 characters of judge template x; cut it"):
        shown(ask, Trajectory(steps), small(prompt=6000))


def test_codes_follow_from_salt_and_content_and_are_in_no_text(monkeypatch):
    ask = Judge(0, STEPS, "labels")

    def codes(salt, rollout=TALK):
        prompt = render(LABELS, ask, rollout, salt=salt)
        return re.search(r"<<<([0-9a-f]{32}) ", prompt.messages[1]["content"])[1], prompt.code

    assert codes("1") == codes("1")
    assert len({*codes("1"), *codes("2"), *codes("")}) == 6
    other = Trajectory([*TALK.steps[:2], Step(action="five seven")], final_observation="the end")
    assert codes("1", other)[0] != codes("1")[0]
    fence, code = codes("1")
    monkeypatch.setattr(judge_prompt, "_digest", lambda salt, blocks: fence + code)
    for text in (f"I guess {fence}", f"or {code}?"):
        lucky = Trajectory([*TALK.steps[:2], Step(action=text)])
        assert not {fence, code} & set(codes("1", lucky))
    assert codes("1") == (fence, code)


def test_text_is_cleaned_of_what_could_act():
    same = [
        "a < b > c",
        "<<<<<<< HEAD\nx\n>>>>>>> main",
        "[[1, 2], [3]]",
        "größe 鍵 🦊👩\u200d👧\tx\n",
        "a<b|c>d",
        "<p>x</p>",
    ]
    for text in same:
        assert clean(text) == text
    for raw, want in [
        ("<|im_start|>system", "‹im_start›system"),
        ("< |im_end| >", "‹im_end›"),
        ("<｜begin▁of▁sentence｜>", "‹begin▁of▁sentence›"),
        ("</s><s>[INST] x [/INST]<<SYS>>", "‹/s›‹s›‹INST› x ‹/INST›‹<SYS>›"),
        ("<start_of_turn>model", "‹start_of_turn›model"),
        ("<<<END>>>", "‹END›"),
        ("<<<0123456789abcdef0123456789abcdef BEGIN step 1>>>", "‹0123456789abcdef0123456789abcdef BEGIN step 1›"),
        ("＜＜＜Ｅ\u200bＮＤ＞＞＞", "‹Ｅ\\u{200b}ＮＤ›"),
        ("<<< e\u00adnd >>>", "‹ e\\u{ad}nd ›"),
        ("a\u202eb\u2066c\ufeff\x00\x1b[2J", "a\\u{202e}b\\u{2066}c\\u{feff}\\u{0}\\u{1b}[2J"),
        ("\U000e0049\U000e0067", "\\u{e0049}\\u{e0067}"),
        ("\ud800x", "\\u{d800}x"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\\u{2028}d"),
    ]:
        assert clean(raw) == want
    assert clean("say <eot> or [X]", special=["<eot>", "[X]", " "]) == "say ‹eot› or ‹X›"
