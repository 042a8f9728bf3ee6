import json
import re

import pytest

from apportion.envs import make
from apportion.envs.mathword.answers import final_answer, is_right
from apportion.envs.mathword.sources import generated_problem, read_problems
from apportion.errors import ConfigError, FormatError, MissingExtra


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("3 + 4 = 7. #### 7", "7"),
        ("so \\boxed{\\frac{1}{2}} it is", "\\frac{1}{2}"),
        ("\\boxed{1} no, \\boxed{2}", "2"),
        ("Answer: 12.\nI am sure, 100%", "12"),
        ("first 3, then 1,234.5", "1,234.5"),
        ("a\nblue", "blue"),
        ("", ""),
        ("\\boxed{1", "1"),
        ("####", ""),
    ],
)
def test_the_final_answer(response, answer):
    assert final_answer(response) == answer


@pytest.mark.parametrize(
    ("given", "wanted", "right"),
    [
        ("7", "7", True), ("7.0", "7", True), ("$1,000", "1000", True), ("1/2", "0.5", True), ("-3", "3", False),
        ("7 pens", "7", True), ("7 or 8", "7", False), ("dog", "7", False), ("", "7", False), ("1/0", "7", False),
        ("0.33", "1/3", False), ("9^9^9^9", "7", False),
    ],
)  # fmt: skip
def test_plain_numbers_need_no_library(given, wanted, right, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "math_verify", None)
    assert is_right(given, wanted) is right


def test_other_answers_need_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "math_verify", None)
    assert is_right("x + 1", "x + 1")
    with pytest.raises(MissingExtra, match=r"math-verify.*apportion\[math\]"):
        is_right("1 + x", "x + 1")


@pytest.mark.parametrize(
    ("given", "wanted", "right"),
    [("\\dfrac{1}{2}", "\\frac12", True), ("\\sqrt{4}", "2", True), ("x^2+1", "1+x^2", True), ("x^2", "x^3", False),
     ("(1, 2]", "(1,2]", True), ("9^{9^{9}}", "x", False), ("x" * 400, "x", False)],
)  # fmt: skip
def test_with_the_library(given, wanted, right):
    pytest.importorskip("math_verify", reason="needs the extra 'math'")
    assert is_right(given, wanted) is right


def worked(solution):
    """The value that the solution's steps lead to, each step computed anew."""
    last = None
    for a, sign, b, c in re.findall(r"(\d+) ([-+*]) (\d+) = (\d+)\.", solution):
        assert {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b)}[sign] == int(c)
        last = c
    return last


def test_generated_problems_are_right():
    for seed in range(300):
        problem = generated_problem(seed, steps=1 + seed % 5)
        assert worked(problem.solution) == problem.answer == final_answer(problem.solution)
        assert int(problem.answer) > 0
        have = None
        for sentence in problem.text.split(". ")[:-1]:
            n = [int(x) for x in re.findall(r"\d+", sentence)]
            if " has " in sentence:
                (have,) = n
            elif "gives away" in sentence:
                have -= n[0]
            elif "bags" in sentence:
                have += n[0] * n[1]
            elif "doubles" in sentence:
                have *= 2
            else:
                have += n[0]
        assert str(have) == problem.answer, problem.text


def test_a_played_game():
    env = make("mathword")
    env.reset(seed=0)
    here, answer = env.snapshot(), env.problem.answer
    assert env.step(f"I think it is {answer}")[1:3] == (1.0, True)
    env.restore(here)
    assert env.step(f"I think it is {int(answer) + 1}")[1:3] == (0.0, True)


def test_choices_hold_the_answer_and_are_no_giveaway():
    env, places = make("mathword", mode="choice"), []
    for seed in range(200):
        env.reset(seed=seed)
        listed = env.actions()
        assert len(set(listed)) == 4
        places.append(listed.index(env.problem.answer))
    assert min(places.count(k) for k in range(4)) > 30


def test_splits_share_no_problem():
    texts = [{make_text(split, seed) for seed in range(50)} for split in ("train", "valid", "test")]
    assert sum(map(len, texts)) == len(set().union(*texts))


def make_text(split, seed):
    return make("mathword", split=split, steps=4).reset(seed=seed)[0]


def test_files(tmp_path):
    path = tmp_path / "p.jsonl"
    rows = [{"question": f"q{k}", "answer": f"so\n#### {k}"} for k in range(60)]
    rows += [{"problem": "p", "solution": "s \\boxed{5}", "answer": "5"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    sizes = {
        split: make("mathword", source="file", data=str(path), split=split).tasks for split in ("train", "valid", "all")
    }
    assert sizes["all"] == 61
    assert sizes["train"] > 35 > sizes["valid"] > 0
    for text, says in (("{}", r"p\.jsonl, line 1: is no problem"), ("", "holds no problem"),
                       ('{"question": "x", "answer": "7"}', "line 1")):  # fmt: skip
        path.write_text(text)
        read_problems.cache_clear()
        with pytest.raises(FormatError, match=says):
            make("mathword", source="file", data=str(path))


@pytest.mark.parametrize(("name", "count"), [("gsm8k", 1319), ("math500", 500)])
def test_published_solutions_are_right(name, count, data_root):
    if name == "math500":
        pytest.importorskip("math_verify", reason="needs the extra 'math'")
    env = make("mathword", source="file", data=str(data_root / name / "test.jsonl.xz"), split="all")
    assert env.tasks == count
    won = 0
    for seed in range(0, count, 7):
        env.reset(seed=seed)
        won += env.step(env.expert()[0])[4]["success"]
    assert won / len(range(0, count, 7)) > 0.97


def test_reasoning_gym():
    pytest.importorskip("reasoning_gym", reason="needs the extra 'reasoning-gym'")
    env = make("mathword", source="reasoning-gym:chain_sum", split="test")
    for seed in range(20):
        text, _ = env.reset(seed=seed)
        assert env.step(env.expert()[0])[4]["success"], text
    with pytest.raises(ConfigError, match="no generator named 'chian_sum'"):
        make("mathword", source="reasoning-gym:chian_sum")


def test_wrong_options():
    for given, says in (
        ({"source": "web"}, "source is 'web'; it takes generated, reasoning-gym:NAME or file"),
        ({"source": "reasoning-gym"}, "source is 'reasoning-gym'; it takes"),
        ({"source": "file"}, "source is 'file' and data ''; give data"),
        ({"source": "file", "data": "/none"}, "/none: no such file"),
        ({"split": "x"}, "split is 'x'"),
    ):
        with pytest.raises(ConfigError, match=f"mathword: {says}"):
            make("mathword", **given)
