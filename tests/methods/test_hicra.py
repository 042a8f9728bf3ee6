"""The true advantage is HICRA's input; what it adds is a bias on purpose, worked out exactly below."""

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.methods import get
from apportion.units import by_step, by_token
from tests.make import random_batch, random_units

hicra = get("hicra").call


def of_ids(*rows, outcomes):
    steps = [Step(prompt_ids=[1, 2], ids=row) for row in rows]
    return Batch.from_trajectories(
        [Trajectory([s], outcome=o, group="g") for s, o in zip(steps, outcomes, strict=True)]
    )


def test_worked_example():
    # credit +1, -1, +.5, 0, each with one planning token of two: 1.2, -.8, .6, 0
    units = by_step(of_ids([1, 9], [9, 1], [3, 1], [1, 3], outcomes=(0, 0, 0, 0)))
    credit = hicra(Credit(np.array([1, -1, 0.5, 0]), units), grams=[(1,)])
    np.testing.assert_allclose(credit.advantage_S, [1.2, 1, -1, -0.8, 0.5, 0.6, 0, 0])
    np.testing.assert_allclose(credit.parts["planning"], [0.2, 0, 0, 0.2, 0, 0.1, 0, 0])


def test_the_push_toward_planning_is_exact():
    # R = 1 1 0 0: credit +-.5; one token in five plans. The plain credit sums to 0; now a token has +.02 in the mean
    # and a planning token +.10, whatever the outcomes
    units = by_step(of_ids(*[[1, 5, 6, 7, 8]] * 4, outcomes=(1, 1, 0, 0)))
    credit = hicra(assign("dr_grpo", units), grams=[(1,)])
    assert credit.advantage_S.mean() == pytest.approx(0.02)
    assert credit.advantage_S[::5].mean() == pytest.approx(0.10)
    assert credit.notes["planning_push"] == pytest.approx(0.02)
    assert (credit.notes["planning_tokens"], credit.notes["planning_share"]) == (4, 0.2)


GRAMS = [(i,) for i in range(0, 1000, 7)] + [(i, j) for i in range(1, 400, 5) for j in range(0, 900, 11)]


def slow_mask(batch, grams):
    """Token by token, from the steps as given."""
    known = set(grams)
    for trajectory in batch:
        for step in trajectory.steps:
            yield from [False] * len(step.prompt_ids)
            ids = step.ids.tolist()
            own = [False] * len(ids)
            for size in (1, 2):
                for k in range(len(ids) - size + 1):
                    if tuple(ids[k : k + size]) in known:
                        own[k : k + size] = [True] * size
            yield from own


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    credit = assign("gigpo", random_units(seed, forks=False))
    before = credit.to_tokens()
    mask = list(slow_mask(credit.units.batch, GRAMS))
    for alpha in (0.0, 0.2, 1.5):
        after = hicra(credit, grams=GRAMS, alpha=alpha)
        want = [a + alpha * abs(a) * m for a, m in zip(before.advantage_T.tolist(), mask, strict=True)]
        np.testing.assert_allclose(after.to_tokens().advantage_T, want, atol=1e-12)
        assert after.to_tokens().weight_T.tolist() == before.weight_T.tolist()
        told = [m and w > 0 for m, w in zip(mask, before.weight_T.tolist(), strict=True)]
        assert after.notes["planning_tokens"] == sum(told)
        np.testing.assert_allclose(sum(after.parts.values()), after.advantage_S, atol=1e-12)


def test_alpha_zero_is_its_input():
    credit = assign("gigpo", random_units(3, forks=False))
    same = hicra(credit, grams=GRAMS, alpha=0.0)
    assert same.to_tokens().advantage_T.tolist() == credit.to_tokens().advantage_T.tolist()
    nothing = hicra(credit, grams=[(10**6,)])
    assert nothing.to_tokens().advantage_T.tolist() == credit.to_tokens().advantage_T.tolist()


def test_a_response_that_is_all_plan_is_scaled_whole():
    units = by_step(of_ids([1, 1], [1, 1], outcomes=(1, 0)))
    np.testing.assert_allclose(hicra(assign("dr_grpo", units), grams=[[1]]).advantage_S, [0.6, 0.6, -0.4, -0.4])


def test_overlapping_grams_amplify_once():
    units = by_step(of_ids([1, 2, 3, 4], outcomes=(1,)))
    credit = hicra(Credit(np.ones(1), units), grams=[(1, 2), (2, 3), (2,)])
    np.testing.assert_allclose(credit.advantage_S, [1.2, 1.2, 1.2, 1])


def test_a_gram_lies_inside_one_step():
    steps = [Step(prompt_ids=[0], ids=[1]), Step(prompt_ids=[], ids=[2]), Step(prompt_ids=[1, 2], ids=[1, 2])]
    units = by_token(Batch.from_trajectories([Trajectory(steps, outcome=1.0)]))
    credit = hicra(Credit(np.ones(4), units), grams=[(1, 2)])
    np.testing.assert_allclose(credit.advantage_S, [1, 1, 1.2, 1.2])


def test_phrases_in_a_text_only_log():
    steps = [
        Step(observation="Let me check: go", action="So  Let me\ncheck it. outlet me check"),
        Step(observation="?", action="Let me"),
        Step(observation="", action="check"),
    ]
    units = by_token(Batch.from_trajectories([Trajectory(steps, outcome=1.0)]))
    credit = hicra(Credit(np.ones(len(units)), units), grams=["let me check"])
    np.testing.assert_allclose(credit.advantage_S, [1, 1.2, 1.2, 1.2, 1, 1, 1, 1, 1, 1, 1])


def test_planning_tokens_from_a_column():
    batch = random_batch(3, forks=False, columns=["planning"])
    credit = assign("dr_grpo", by_token(batch))
    plans = np.concatenate([step.columns["planning"] > 0 for t in batch for step in t.steps])
    want = credit.advantage_S + 0.3 * np.abs(credit.advantage_S) * plans
    np.testing.assert_allclose(hicra(credit, alpha=0.3).advantage_S, want)


def test_the_credit_can_be_made_again():
    from apportion.assign import remake

    units = random_units(3, forks=False)
    credit = assign(f"dr_grpo | hicra(grams={GRAMS[:40]!r})", units)
    again = remake(credit.record(), units)
    assert again.advantage_S.tolist() == credit.advantage_S.tolist()


def test_what_it_refuses():
    units = random_units(1, forks=False)
    text = by_step(random_batch(1, ids=False))
    with pytest.raises(
        DataError, match=r"hicra: the batch has token ids and the 1 grams are phrases; turn them into ids"
    ):
        assign("grpo | hicra(grams=['let me'])", units)
    with pytest.raises(DataError, match="hicra: the batch has words only and the 1 grams are token ids; give phrases"):
        assign("grpo | hicra(grams=[[1, 2]])", text)
    with pytest.raises(DataError, match=r"hicra reads column:planning.*give Step.columns\['planning'\]"):
        assign("grpo | hicra", units)
    with pytest.raises(ConfigError, match="hicra: alpha is -1; give a number of at least 0"):
        assign("grpo | hicra(grams=[[1]], alpha=-1)", units)
    with pytest.raises(DataError, match=r"gram 0 is \[\]; give one token id or more"):
        assign("grpo | hicra(grams=[[]])", units)
