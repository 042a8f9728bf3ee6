import pytest

from apportion.envs.splits import SPLITS, at_seed, choose_split, split_of
from apportion.errors import ConfigError

TASKS = [f"task {k}" for k in range(1000)]


def test_splits_are_disjoint_and_complete_and_of_the_right_size():
    parts = [choose_split("x", TASKS, split) for split in SPLITS]
    assert sorted(task for part in parts for task in part) == sorted(TASKS)
    assert [round(len(part) / 100) for part in parts] == [8, 1, 1]
    assert all(split_of(task) == split for part, split in zip(parts, SPLITS, strict=True) for task in part)


def test_a_task_keeps_its_split_whatever_else_there_is():
    assert [split_of(task) for task in ("oak plate", "bone gear", "task 3")] == ["train", "train", "train"]
    few = choose_split("x", TASKS[:50], "test")
    assert set(few) == set(choose_split("x", TASKS, "test")) & set(TASKS[:50])


def test_the_order_given_does_not_matter_and_is_not_kept():
    assert choose_split("x", TASKS, "train") == choose_split("x", TASKS[::-1], "train") != tuple(TASKS[:800])


def test_seeds_in_a_row_play_every_task_once():
    chosen = choose_split("x", TASKS, "valid")
    assert sorted(at_seed(chosen, seed) for seed in range(1_000_000, 1_000_000 + len(chosen))) == sorted(chosen)


def test_wrong_splits():
    with pytest.raises(ConfigError, match="x: split is 'dev'; it takes train, valid, test or all"):
        choose_split("x", TASKS, "dev")
    with pytest.raises(ConfigError, match="x: no task is left in split 'test'; widen the options"):
        choose_split("x", [], "test")
