"""What advice costs to give: long answers are priced on a part of them, like many."""

import numpy as np
import pytest

from apportion.assign import cost
from apportion.data import Batch, Step, Trajectory
from apportion.recommend import front
from apportion.recommend.front import recommend
from apportion.units import CUTS


@pytest.fixture
def long_answers():
    rng = np.random.default_rng(0)
    return Batch.from_trajectories(
        Trajectory(
            [Step(prompt_ids=[g], ids=rng.integers(0, 999, 300).tolist(), logp=[-1.0] * 300)],
            group=str(g),
            outcome=float(m),
        )
        for g in range(8)
        for m in range(2)
    )


def test_long_answers_are_priced_on_whole_groups_and_scaled(long_answers, monkeypatch):
    monkeypatch.setattr(front, "PRICED_TOKENS", 1300)
    seen = []
    monkeypatch.setattr(front, "cost", lambda *a, **k: seen.append(len(a[1].batch)) or cost(*a, **k))
    told = recommend(long_answers, have=["reward_model"]).of("red").cost
    assert set(seen) == {4}
    whole = cost("red", CUTS["token"](long_answers))
    assert (told["requests"], told["exact"]) == (whole.requests, False)
    assert told["tokens"] == pytest.approx(whole.prompt_tokens + whole.expected_tokens, rel=0.01)


def test_a_group_that_is_longer_is_priced_whole(long_answers, monkeypatch):
    monkeypatch.setattr(front, "PRICED_TOKENS", 10)
    seen = []
    monkeypatch.setattr(front, "cost", lambda *a, **k: seen.append(len(a[1].batch)) or cost(*a, **k))
    recommend(long_answers)
    assert set(seen) == {2}
