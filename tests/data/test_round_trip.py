import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.data import Batch, Step, Trajectory, fold, read, stream, unfold, write
from tests.data.strategies import row_sets, trajectories
from tests.make import assert_same_trajectories, random_trajectories

lists = st.lists(trajectories(), max_size=3)
# a file for every example: fewer of them than the profile asks for, which HYPOTHESIS_PROFILE=explore makes many
quick = settings(max_examples=settings.default.max_examples // 6, suppress_health_check=list(HealthCheck))


def there_and_back(path, rollouts):
    assert write(path, rollouts) == len(rollouts)
    return list(stream(path))


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".arrow"])
class TestEveryFormat:
    @quick
    @given(rollouts=lists)
    def test_anything_comes_back_exactly(self, tmp_path_factory, ending, rollouts):
        path = tmp_path_factory.mktemp("files") / f"rollouts{ending}"
        assert_same_trajectories(there_and_back(path, rollouts), rollouts)

    @pytest.mark.parametrize("seed", range(8))
    @pytest.mark.parametrize("ids", [True, False])
    def test_ragged_batches_come_back_exactly(self, tmp_path, ending, seed, ids):
        rollouts = random_trajectories(seed, ids=ids)
        path = tmp_path / f"rollouts{ending}"
        assert_same_trajectories(there_and_back(path, rollouts), rollouts)
        assert read(path).fingerprint() == Batch.from_trajectories(rollouts).fingerprint()

    def test_equal_rollouts_make_equal_files(self, tmp_path, ending):
        one, two = tmp_path / f"one{ending}", tmp_path / f"two{ending}"
        write(one, random_trajectories(3))
        write(two, random_trajectories(3))
        assert one.read_bytes() == two.read_bytes()


@quick
@given(rollouts=lists)
def test_between_the_formats(tmp_path_factory, rollouts):
    folder = tmp_path_factory.mktemp("files")
    write(folder / "a.jsonl", rollouts)
    write(folder / "b.parquet", stream(folder / "a.jsonl"))
    write(folder / "b.arrow", stream(folder / "b.parquet"))
    write(folder / "c.jsonl", stream(folder / "b.arrow"))
    assert (folder / "a.jsonl").read_bytes() == (folder / "c.jsonl").read_bytes()


@settings(max_examples=settings.default.max_examples // 2, suppress_health_check=list(HealthCheck))
@given(rows=row_sets(), seed=st.integers(0, 9))
def test_unfolding_gives_the_rows_back(rows, seed):
    shuffled = list(rows)
    random.Random(seed).shuffle(shuffled)
    order = list(dict.fromkeys(row.traj for row in shuffled))
    expected = sorted(rows, key=lambda row: order.index(row.traj))
    assert [row for trajectory in fold(shuffled) for row in unfold(trajectory)] == expected


@pytest.mark.parametrize("seed", range(30))
def test_folding_gives_the_trajectories_back(seed):
    # where the first step is not called fresh, and a fresh prompt does not happen to extend the one before
    rollouts = random_trajectories(seed, groups=6)
    assert_same_trajectories(fold(row for t in rollouts for row in unfold(t)), rollouts)


class TestTheComparisonItself:
    """`assert_same_trajectories` decides the tests above, so it must see every difference."""

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (Step(action="a", reward=0.0), Step(action="a", reward=-0.0)),
            (Step(action="a", reward=None), Step(action="a", reward=0.0)),
            (Step(action="a"), Step(action="a", observation="")),
            (Step(action="a", ids=[]), Step(action="a")),
            (Step(ids=[1], logp=[0.1]), Step(ids=[1], logp=[0.1 + 1e-17 * 8])),
            (Step(action="a", actions=[]), Step(action="a")),
            (Step(action="a", extra={"k": 1}), Step(action="a", extra={"k": 1.0})),
            (Step(action="a", extra={"k": True}), Step(action="a", extra={"k": 1})),
            (Step(action="é"), Step(action="e\u0301")),
            (Step(action="a", turn=0), Step(action="a")),
        ],
    )
    def test_sees(self, one, other):
        with pytest.raises(AssertionError):
            assert_same_trajectories([Trajectory([one])], [Trajectory([other])])

    def test_sees_fields_of_the_trajectory_and_lengths(self):
        step = Step(action="a")
        same = Trajectory([step], meta={"a": 1})
        assert_same_trajectories([same], [Trajectory([Step(action="a")], meta={"a": 1})])
        for other in (Trajectory([step]), Trajectory([step, step], meta={"a": 1}), Trajectory([step], id="")):
            with pytest.raises(AssertionError):
                assert_same_trajectories([same], [other])
        with pytest.raises(AssertionError):
            assert_same_trajectories([same], [])
