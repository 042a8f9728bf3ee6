from itertools import product

import pytest

from apportion.envs import make
from apportion.envs.colspec.language import parse
from apportion.envs.colspec.wishes import TESTS, WISHES, behaviour, best_program, success, value_of_asking
from apportion.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("3", lambda x: 3),
        ("-x * -2 + 1", lambda x: 2 * x + 1),
        ("2 + 3 * x - 1", lambda x: 1 + 3 * x),
        ("10 - x - 1", lambda x: 9 - x),
        ("(2 + 3) * x", lambda x: 5 * x),
        ("min(x, 4) + max(0, x)", lambda x: min(x, 4) + max(0, x)),
        ("if x >= 4 then x else if x == 0 then 7 else 0 - x", lambda x: x if x >= 4 else 7 if x == 0 else -x),
        ("max(if x < 2 then 5 else 1, x)", lambda x: max(5 if x < 2 else 1, x)),
    ],
)
def test_the_language_means_what_it_says(text, meant):
    assert [parse(text)(x) for x in TESTS] == [meant(x) for x in TESTS]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has 'the end' where a number"),
        ("x +", "has 'the end' where"),
        ("x x", "goes on after its end, at 'x'"),
        ("__import__('os')", "cannot be read at .__import__"),
        ("y", "has 'y' where a number"),
        ("x ** 2", "has '\\*' where a number"),
        ("if x then 1 else 2", "has 'then' where < or"),
        ("min(x 1)", "has '1' where , is due"),
        ("(" * 50 + "x" + ")" * 50, "more than 30 levels deep"),
        ("x" + " + x" * 200, "has 801 characters; 400 are allowed"),
        ("-" * 390 + "x", "more than 30 levels deep"),
        ("1234567890 * x", "goes on after its end"),
    ],
)
def test_what_the_language_does_not_know_is_refused(text, says):
    with pytest.raises(DataError, match=says):
        parse(text)


def test_every_wish_runs_and_its_points_matter():
    for wish in WISHES:
        shown = {values: behaviour(wish.program(values)) for values in wish.all_values()}
        for at, (_, _, possible) in enumerate(wish.points):
            assert any(len({shown[(*values[:at], v, *values[at + 1 :])] for v in possible}) > 1 for values in shown), (
                wish.name,
                at,
            )


def slow_success(wish, known, questions):
    """Over every way to ask, hear and write, straight from the definition."""
    possible = [v for v in wish.all_values() if all(k in (None, x) for k, x in zip(known, v, strict=True))]
    written = max(
        sum(behaviour(wish.program(p)) == behaviour(wish.program(v)) for v in possible) for p in possible
    ) / len(possible)
    if not questions:
        return written
    best = written
    for at in (k for k, value in enumerate(known) if value is None):
        total = 0.0
        for value in wish.points[at][2]:
            share = sum(v[at] == value for v in possible) / len(possible)
            total += share * slow_success(wish, (*known[:at], value, *known[at + 1 :]), questions - 1)
        best = max(best, total)
    return best


@pytest.mark.parametrize("wish", WISHES, ids=lambda wish: wish.name)
def test_the_value_of_asking_is_exact(wish):
    nothing = (None,) * len(wish.points)
    for questions in (0, 1, 2):
        assert success(wish, nothing, questions) == pytest.approx(slow_success(wish, nothing, questions))
    gains = [value_of_asking(wish, nothing, name, 1) for name in wish.names]
    assert max(gains) == pytest.approx(success(wish, nothing, 1) - success(wish, nothing, 0))
    assert success(wish, nothing, len(wish.points)) == 1.0


@pytest.mark.parametrize(("questions", "told"), [(0, 1), (1, 1), (2, 0), (3, 1)])
def test_the_expert_does_as_well_as_the_optimum_says(questions, told):
    env = make("colspec", questions=questions, told=told, split="all")
    for seed in range(6):
        env.reset(seed=seed)
        here, due, won = env.snapshot(), success(env.wish, env.known, questions), []
        for hidden in env.wish.all_values():
            if any(k not in (None, v) for k, v in zip(env.known, hidden, strict=True)):
                continue
            env.restore(here)
            env.hidden, over = hidden, False
            while not over:
                *_, over, _, info = env.step(env.expert()[0])
            won.append(info["success"])
            env.restore(here)
        assert sum(won) / len(won) == pytest.approx(due)


def test_a_played_game():
    env = make("colspec", mode="text", told=0, questions=2)
    text, _ = env.reset(seed=0)
    assert text.startswith(f"Wanted: {env.wish.about}.\nForm: ")
    name = env.wish.names[0]
    text = env.step(f"Ask about the {name}?")[0]
    assert f"It is {env.hidden[0]}" in text
    assert env.step(f"ask {name}")[4]["invalid"]  # the answer is known
    _, reward, done, _, info = env.step(f"write {env.wish.program(env.hidden)} + 0 * x")
    assert (reward, done, info["success"]) == (1.0, True, True)
    env.reset(seed=0)
    assert env.step("write import os")[1:3] == (0.0, True)


def test_the_share_of_tests_is_paid_on_request():
    env = make("colspec", reward="share", mode="text")
    env.reset(seed=3)
    wanted = behaviour(env.wish.program(env.hidden))
    wrong = next(p for p in map(env.wish.program, env.wish.all_values()) if behaviour(p) != wanted)
    _, reward, _, _, info = env.step(f"write {wrong}")
    assert reward == sum(a == b for a, b in zip(behaviour(wrong), wanted, strict=True)) / len(TESTS)
    assert not info["success"]


def test_splits_want_different_functions():
    tasks = [{(w.name, v) for w, v in make("colspec", split=split)._tasks} for split in ("train", "valid", "test")]
    assert not any(a & b for a, b in product(tasks, tasks) if a is not b)
    assert min(map(len, tasks)) >= 5


def test_best_program_is_a_mode():
    wish = WISHES[0]
    program = best_program(wish, (None,) * 4)
    shown = [behaviour(wish.program(values)) for values in wish.all_values()]
    assert shown.count(behaviour(program)) == max(map(shown.count, shown))


def test_wrong_options():
    for given, says in (({"reward": "x"}, "reward is 'x'; it takes all or share"), ({"told": -1}, "4 questions and -1"),
                        ({"split": "x"}, "split is 'x'")):  # fmt: skip
        with pytest.raises(ConfigError, match=f"colspec: {says}"):
            make("colspec", **given)
