import numpy as np
import pytest

from apportion.data import Batch, Step, Trajectory
from apportion.errors import ApportionError, DataError


class TestWhatBecomesOfTheInput:
    def test_ids_and_numbers_are_read_only_arrays(self):
        step = Step(ids=[1, 2], prompt_ids=np.array([3], dtype=np.int32), logp=[0, -1], entropy=np.float32([1, 2]))
        for name, dtype in (("ids", np.int64), ("prompt_ids", np.int64), ("logp", np.float64), ("entropy", np.float64)):
            array = getattr(step, name)
            assert array.dtype == dtype
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 9

    def test_the_caller_keeps_the_own_array(self):
        ids, logp = np.array([1, 2]), np.array([-1.0, -2.0])
        step = Step(ids=ids, logp=logp)
        ids[0], logp[0] = 7, 7.0
        assert step.ids.tolist() == [1, 2]
        assert step.logp.tolist() == [-1.0, -2.0]

    def test_an_empty_list_is_not_none(self):
        assert Step(ids=[]).ids.dtype == np.int64
        assert len(Step(ids=[], logp=[]).logp) == 0
        assert Step(action="").ids is None

    def test_numpy_scalars_become_plain(self):
        step = Step(action="a", reward=np.float32(0.5), turn=np.int64(2), failed=np.True_, value=3, parent=np.int32(-1))
        assert (step.reward, step.turn, step.failed, step.value, step.parent) == (0.5, 2, True, 3.0, -1)
        kinds = [type(x) for x in (step.reward, step.turn, step.failed, step.value, step.parent)]
        assert kinds == [float, int, bool, float, int]
        assert type(Trajectory([step], outcome=1).outcome) is float
        assert type(Step(action="a", reward=np.float64(0.5)).reward) is float

    def test_steps_and_actions_become_tuples(self):
        trajectory = Trajectory(iter([Step(action="a", actions=["x", "y"])]))
        assert isinstance(trajectory.steps, tuple)
        assert trajectory.steps[0].actions == ("x", "y")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"ids": [0.5]}, r"^ids must be integers, got float64; give token ids, not text or floats$"),
        ({"ids": "ab"}, r"^ids has 0 dimensions; give one flat list of token ids, not text or floats$"),
        ({"ids": ["a"]}, r"^ids must be integers, got <U1; "),
        ({"ids": [True]}, r"^ids must be integers, got bool; "),
        ({"ids": [1, None]}, r"^ids must be integers, got object; "),
        ({"ids": [[1, 2]]}, r"^ids has 2 dimensions; give one flat list of token ids"),
        ({"ids": [[1], [2, 3]]}, r"^ids cannot be read as one flat array; give token ids"),
        ({"prompt_ids": [4, -100]}, r"^prompt_ids holds -100; token ids lie between 0 and 2\*\*31 - 1$"),
        ({"ids": [7, 2**31, 3]}, r"^ids holds 2147483648; token ids lie between 0 and 2\*\*31 - 1$"),
        ({"ids": np.array([2**64 - 1], dtype=np.uint64)}, r"^ids holds 18446744073709551615; token ids lie"),
        ({"logp": ["0.5"]}, r"^logp must be numbers, got '0.5'; give one per sampled token$"),
        ({"logp": [0.5, None]}, r"^logp must be numbers, got 'None'; "),
        ({"entropy": 0.5}, r"^entropy has 0 dimensions; give one flat list of numbers, one per sampled token$"),
        ({"token_values": [[0.5], []]}, r"^token_values cannot be read as one flat array; give numbers"),
    ],
)
def test_arrays_that_are_none(fields, sentence):
    with pytest.raises(DataError, match=sentence) as caught:
        Step(**fields)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, ApportionError)


@pytest.mark.parametrize(
    ("outcome", "rewards", "scored", "total"),
    [
        (None, [1.0, 0.5], True, 1.5),
        (None, [None, 0.5], True, 0.5),
        (None, [0.5, None], False, None),
        (None, [None, None], False, None),
        (2.0, [0.5, None], True, 2.0),
        (0.0, [1.0, 1.0], True, 0.0),
        (None, [0.0, 0.0], True, 0.0),
    ],
)
def test_the_outcome_or_the_sum_of_the_rewards(outcome, rewards, scored, total):
    trajectory = Trajectory([Step(action="a", reward=reward) for reward in rewards], outcome=outcome)
    assert trajectory.scored is scored
    assert trajectory.total == total
    batch = Batch.from_trajectories([trajectory])
    assert batch.scored_N.tolist() == [scored]
    assert batch.outcome_N.tolist() == [total or 0.0]


def test_a_trajectory_without_steps_is_not_scored():
    assert Trajectory([]).total is None
