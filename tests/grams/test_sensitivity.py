"""What a list marks, worked by hand, and each finding with a list that deserves it."""

import math

import pytest

from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.grams import Gram, GramList, encode, sensitivity
from tests.grams.corpus import PLANTED, corpus
from tests.make import random_batch


def of_texts(*actions, outcomes=None, group="g"):
    told = outcomes or [1.0] * len(actions)
    rollouts = [Trajectory([Step(action=a)], outcome=o, group=group) for a, o in zip(actions, told, strict=True)]
    return Batch.from_trajectories(rollouts)


def grams(*phrases):
    return GramList(tuple(Gram(phrase) for phrase in phrases))


def test_by_hand():
    # 4 + 4 words; "so we" twice, "go on" once, "not there" never
    batch = of_texts("so we go on", "x so we y", outcomes=[1.0, 0.0])
    told = sensitivity(batch, grams("so we", "go on", "not there"))
    assert (told.grams, told.found, told.tokens) == (3, 2, 8)
    assert told.planning_share == 6 / 8
    assert (told.planning_share_of_successes, told.planning_share_of_failures) == (1.0, 0.5)
    assert told.per_thousand == 1000 * 3 / 8
    assert told.largest_share == 2 / 3
    assert told.semantic_entropy == pytest.approx(-(2 / 3) * math.log(2 / 3) - math.log(1 / 3) / 3)


def test_who_is_not_above_the_mean_is_no_success_and_no_word_no_share():
    told = sensitivity(of_texts("so we go on", "x so we y", outcomes=[1.0, 1.0]), grams("so we"))
    assert (told.planning_share_of_successes, told.planning_share_of_failures) == (None, 0.5)
    silent = sensitivity(of_texts("", ""), grams("so we"))
    assert (silent.tokens, silent.planning_share) == (0, 0.0)


def test_semantic_entropy_of_the_specification():
    batch = of_texts("a b a b c d e f")
    assert sensitivity(batch, grams("a b", "c d", "e f")).semantic_entropy == pytest.approx(1.0397, abs=1e-4)


def test_removing_grams_leaves_the_others_marks():
    # ten phrases that cover two words each, all apart: removing 3 of 10 leaves 70 % in every round
    phrases = [f"w{k} v{k}" for k in "abcdefghij"]
    told = sensitivity(of_texts(" ".join(phrases)), grams(*phrases), rounds=7)
    assert told.kept_mean == pytest.approx(0.7)
    assert told.kept_worst == pytest.approx(0.7)
    assert told.findings == []


def test_a_list_that_marks_no_more_than_chance_is_found():
    told = sensitivity(of_texts("so we", "so we"), grams("so we"))
    sentence = (
        "random n-grams mark as much (100.0% of the tokens) as the list (100.0%); compare training with such a list"
    )
    assert told.findings == [f"{sentence} before trusting this one"]


def test_a_list_that_hangs_on_one_phrase_is_found():
    batch = of_texts(*["so we x y z u v"] * 5)
    told = sensitivity(batch, grams("so we", "a b", "c d"), rounds=30)
    assert told.kept_worst == 0.0
    assert any("the list hangs on few phrases" in sentence for sentence in told.findings)
    assert not any("hangs" in s for s in sensitivity(batch, grams("so we", "so we x", "we x y"), rounds=30).findings)


def test_a_planted_list_beats_the_placebo():
    told = sensitivity(of_texts(*corpus()), grams(*PLANTED))
    assert told.placebo_share < told.planning_share / 3
    assert told.findings == [] or "hangs" in told.findings[0]


def test_a_list_that_never_occurs_is_found():
    told = sensitivity(of_texts("a b"), grams("x y"))
    assert told.findings == ["none of the grams occurs; build a list from solutions of this kind, in this language"]
    assert sensitivity(of_texts("a b"), GramList(())).findings == told.findings


def test_token_ids():
    words = {"so": 1, " so": 2, "So": 3, " we": 5, " We": 6}

    def spell(text):
        head, tail = text[: text.rindex(" ")], text[text.rindex(" ") :]
        return [words.get(head, 9), words.get(tail, 8)]

    coded = encode(grams("so we"), spell)
    batch = Batch.from_trajectories([Trajectory([Step(prompt_ids=[1, 5], ids=[7, 2, 5, 3, 5, 1])], outcome=1.0)])
    told = sensitivity(batch, coded)
    assert told.planning_share == 4 / 6
    assert told.per_thousand == 1000 * 2 / 6
    assert told.placebo_share is None


def test_equal_seeds_equal_answers():
    batch = of_texts(*corpus(size=5))
    assert sensitivity(batch, grams(*PLANTED), seed=4) == sensitivity(batch, grams(*PLANTED), seed=4)


def test_what_it_refuses():
    batch = of_texts("a b")
    with pytest.raises(ConfigError, match=r"grams: remove is 1\.0; give a share between 0 and 1"):
        sensitivity(batch, grams("a b"), remove=1.0)
    with pytest.raises(ConfigError, match="grams: rounds is 0; give a whole number from 1 on"):
        sensitivity(batch, grams("a b"), rounds=0)
    with pytest.raises(
        DataError, match="the batch has token ids and the list only phrases; `apportion grams encode` it"
    ):
        sensitivity(random_batch(1), grams("a b"))
    mixed = Batch.from_trajectories([Trajectory([Step(ids=[1])]), Trajectory([Step(action="go")])])
    with pytest.raises(DataError, match="the batch mixes ids and text-only trajectories; check them apart"):
        sensitivity(mixed, grams("a b"))
