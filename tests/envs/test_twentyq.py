import itertools
from functools import cache
from random import Random

import pytest

from apportion.envs import make
from apportion.envs.twentyq.optimum import EXACT_UP_TO, best_question, success
from apportion.envs.twentyq.truth import TruthTable, generated_table, read_table
from apportion.errors import ConfigError, FormatError


def table(*rows, questions=3):
    objects = tuple(f"o{k}" for k in range(len(rows)))
    return TruthTable(objects, tuple(f"is it q{q}?" for q in range(questions)), tuple(map(frozenset, rows)))


def brute_force(truth, belief, questions):
    """Best expected success over every policy, written as the game is told: ask, hear, guess."""

    @cache
    def value(objects, left):
        guess = 1 / len(objects)
        if not left:
            return guess
        best = guess
        for q in range(len(truth.questions)):
            parts = [[o for o in objects if (q in truth.true[o]) is told] for told in (True, False)]
            best = max(best, sum(len(p) / len(objects) * value(tuple(p), left - 1) for p in parts if p))
        return best

    return value(tuple(sorted(belief)), questions)


def test_the_optimum_by_hand():
    truth = table({0}, {0, 1}, {2}, {})
    everything = frozenset(range(4))
    assert [success(truth, everything, n) for n in range(4)] == [0.25, 0.5, 1.0, 1.0]
    assert best_question(truth, everything, 2) == 0
    assert best_question(truth, frozenset({2}), 2) is None
    twins = table({0}, {0}, {})
    assert success(twins, frozenset(range(3)), 3) == pytest.approx(2 / 3)


@pytest.mark.parametrize("world", range(12))
def test_the_optimum_is_that_of_a_search_over_all_policies(world):
    truth = generated_table(world)
    task = truth.only(truth.objects[: 3 + world % 5])
    belief = frozenset(range(len(task.objects)))
    for questions in range(4):
        assert success(task, belief, questions) == pytest.approx(brute_force(task, belief, questions))


def test_the_most_even_question_is_not_always_the_best():
    truth = table({1, 2}, {0, 2, 3}, {3}, {2}, {3}, {3}, questions=4)
    belief = frozenset(range(6))
    assert success(truth, belief, 2) == pytest.approx(brute_force(truth, belief, 2)) == pytest.approx(4 / 6)
    for seed in range(60):
        rng = Random(seed)
        rows = [{q for q in range(4) if rng.random() < 0.5} for _ in range(3 + seed % 5)]
        truth, belief = table(*rows, questions=4), frozenset(range(len(rows)))
        for questions in (1, 2, 3):
            assert success(truth, belief, questions) == pytest.approx(brute_force(truth, belief, questions))


@pytest.mark.parametrize("questions", [1, 2, 3])
def test_the_expert_does_as_well_as_the_optimum_says(questions):
    """Over every hidden object of a task, the share that the expert finds is the exact value."""
    env = make("twentyq", questions=questions, objects=6)
    for seed in range(5):
        env.reset(seed=seed)
        here, due = env.snapshot(), success(env.task, env.belief, questions)
        won = 0
        for hidden in env.task.objects:
            env.restore(here)
            env.hidden, over = hidden, False
            while not over:
                *_, over, _, info = env.step(env.expert()[0])
            won += info["success"]
        assert won / 6 == pytest.approx(due)


def test_large_beliefs_are_cut_by_what_tells_most():
    truth = generated_table(0)
    belief = frozenset(range(len(truth.objects)))
    assert len(belief) > EXACT_UP_TO
    q = best_question(truth, belief, 4)
    sizes = [abs(2 * sum(k in row for row in truth.true) - len(belief)) for k in range(len(truth.questions))]
    assert sizes[q] == min(sizes)


def test_a_played_game():
    env = make("twentyq", objects=4, questions=2)
    text, _ = env.reset(seed=1)
    assert text.startswith("Objects: ")
    assert text.endswith("Answers: none.\nSteps left: 3.")
    question = env.expert()[0]
    text, reward, done, _, info = env.step(question)
    assert f"Answers: {question} " in text
    assert (reward, done, info["invalid"]) == (0.0, False, False)
    assert question not in env.commands()
    assert env.step(question)[4]["invalid"]
    assert env.step(f"guess {env.hidden}")[1:3] == (1.0, True)
    assert "(" not in make("twentyq", show_table=False).reset(seed=1)[0]


def test_free_text_is_understood():
    env = make("twentyq", mode="text")
    env.reset(seed=0)
    question = env.expert()[0]
    for text in (question.upper(), f"Guess a {env.hidden}", f"is it an {env.hidden}?"):
        here = env.snapshot()
        assert not env.step(text)[4]["invalid"], text
        env.restore(here)
    env.step(question)
    assert env.step(question)[4]["invalid"]  # it was answered
    assert env.step("is it a unicorn?")[4]["invalid"]


def test_equal_texts_hide_different_objects():
    env = make("twentyq")
    env.reset(seed=0)
    here, keys = env.snapshot(), set()
    for hidden in env.task.objects:
        env.restore(here)
        env.hidden = hidden
        keys.add(env.state_key(by="state"))
    assert len(keys) == 8
    assert not env.spec.full_state


def test_splits_have_different_objects():
    pools = [set(make("twentyq", split=split)._pool) for split in ("train", "valid", "test")]
    assert not any(a & b for a, b in itertools.combinations(pools, 2))


def test_a_csv_table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("animal,hair,legs,type\ncat,1,4,1\nant,0,6,2\neel,0,0,3\n")
    truth = read_table(str(path))
    assert truth.questions == ("is it hair?", "is its legs 0?", "is its legs 4?", "is its legs 6?")
    assert truth.true == (frozenset({0, 2}), frozenset({3}), frozenset({1}))
    assert make("twentyq", table=str(path), objects=3, split="all", questions=2).reset(seed=0)
    read_table.cache_clear()
    for text, says in (("animal\ncat\n", "is no table of objects"),
                       ("a,b\nx,1,2\ny,0\n", "is no table of objects")):  # fmt: skip
        read_table.cache_clear()
        path.write_text(text)
        with pytest.raises(FormatError, match=says):
            read_table(str(path))
    read_table.cache_clear()
    path.write_text("a,b\nfrog,1\nfrog,0\n")
    assert read_table(str(path)).objects == ("frog", "frog 2")
    with pytest.raises(ConfigError, match="no such file"):
        make("twentyq", table=str(tmp_path / "none.csv"))


def test_the_zoo(data_root):
    truth = read_table(str(data_root / "twentyq" / "zoo.csv"))
    assert (len(truth.objects), len(truth.questions), len(set(truth.true))) == (101, 21, 59)
    everything = frozenset(range(101))
    assert success(truth, everything, 2) == pytest.approx(4 / 101)
    assert success(truth, everything, 3) == pytest.approx(8 / 101)


def test_wrong_options():
    for given, says in (({"objects": 1}, "1 objects and 5 questions"), ({"split": "x"}, "split is 'x'"),
                        ({"objects": 900}, r"split 'train' has \d+ objects, and a task needs 900")):  # fmt: skip
        with pytest.raises(ConfigError, match=f"twentyq: {says}"):
            make("twentyq", **given)
