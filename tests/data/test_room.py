"""Memory that record batches share: no number of one batch, file or thread may stand in another's."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from apportion.data import Step, Trajectory, arrow, parquet, read, room, write
from apportion.data.room import Room, kept_room
from apportion.errors import DataError
from tests.make import assert_same_trajectories, random_trajectories

pytest.importorskip("pyarrow")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(room, "_kept", [])
    return tmp_path


def rollouts(seed, size=40):
    rng = np.random.default_rng(seed)
    step = [
        Step(prompt_ids=rng.integers(0, 99, n), ids=rng.integers(0, 99, n + 1), logp=-rng.random(n + 1))
        for n in rng.integers(0, 30, size)
    ]
    return [Trajectory([one], id=f"{seed}-{n}") for n, one in enumerate(step)]


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_batches_and_files_that_follow_each_other_keep_their_own_numbers(folder, monkeypatch, ending, rows):
    monkeypatch.setattr(arrow, "ROWS", rows)
    monkeypatch.setattr(parquet, "ROWS", rows)
    given = [rollouts(0), rollouts(1, 90), random_trajectories(2, groups=6), rollouts(3, 5)]
    for n, each in enumerate(given):
        write(f"{n}.{ending}", each)
    for n, each in enumerate(given):
        assert_same_trajectories(read(f"{n}.{ending}"), each)


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_a_file_written_while_another_is(folder, monkeypatch, ending):
    monkeypatch.setattr(arrow, "ROWS", 3)
    monkeypatch.setattr(parquet, "ROWS", 3)
    outer, inner = rollouts(0), rollouts(1)

    def stream():
        for n, trajectory in enumerate(outer):
            if n % 10 == 4:
                write(f"inner.{ending}", inner)
            yield trajectory

    write(f"warm.{ending}", outer)  # leaves a room behind, for the outer file to take
    write(f"outer.{ending}", stream())
    assert_same_trajectories(read(f"outer.{ending}"), outer)
    assert_same_trajectories(read(f"inner.{ending}"), inner)


def test_files_of_several_threads(folder, monkeypatch):
    monkeypatch.setattr(arrow, "ROWS", 2)
    given = [rollouts(seed) for seed in range(6)]

    def run(n):
        for _ in range(5):
            write(f"{n}.arrow", given[n])
            assert_same_trajectories(read(f"{n}.arrow"), given[n])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, range(6)))
    assert len(room._kept) == 1


def test_memory_is_used_again_by_who_comes_next_and_by_one_alone(folder):
    with kept_room() as first:
        numbers = first.empty("ids", 100, np.int32)
        assert first.empty("logp", 100, np.int32).base is not numbers.base
        assert first.empty("ids", 60, np.int32).base is numbers.base
        assert first.empty("ids", 60, np.float32).dtype == np.float32  # another type, another array
        with kept_room() as second:
            assert second is not first
    with kept_room() as third:
        assert third is second  # the inner block ended first


def test_no_more_than_so_much_is_kept(folder, monkeypatch):
    monkeypatch.setattr(room, "KEPT", 1000)
    with kept_room() as large:
        large.empty("ids", 240, np.int32)
        assert large.bytes() == 1080  # an eighth more than was asked for
    with kept_room() as small:
        assert small is not large
        small.empty("ids", 200, np.int32)
    with kept_room() as again:
        assert again is small


def test_a_room_that_an_error_left_is_not_kept(folder):
    bad = [*rollouts(0), Trajectory([Step(prompt_ids=[1], ids=[2], logp=[-0.5, -0.5])], id="bad")]
    with pytest.raises(DataError, match="bad"):
        write("a.arrow", bad)
    assert room._kept == []
    assert list(folder.iterdir()) == []


def test_as_much_as_is_asked_for():
    held = Room()
    for size in (3, 1000, 0, 1001, 1200):
        assert held.empty("ids", size, np.int64).shape == (size,)
