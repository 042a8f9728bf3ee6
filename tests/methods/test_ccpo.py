import numpy as np
import pytest

from apportion.asks import Continue, Place
from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.methods import get
from apportion.units import by_agent, by_step
from tests.asking import answered, asker, ends_with

JOINT, SOLO = [1, 1, -1, -1], [1, -1, -1, -1]


def pair(outcome, solo=None, group="g", **fields):
    steps = [
        Step(prompt_ids=[0], ids=[1, 2], agent="thinker"),
        Step(prompt_ids=[3], ids=[4], agent="solver"),
    ]
    outcomes = {} if solo is None else {"solo": solo}
    return Trajectory(steps, outcome=outcome, outcomes=outcomes, group=group, **fields)


def units_of(joint=JOINT, solo=SOLO, cut=by_agent):
    return cut(Batch.from_trajectories([pair(j, s) for j, s in zip(joint, solo or [None] * len(joint), strict=True)]))


def in_data(joint=JOINT, solo=SOLO, cut=by_agent, **params):
    return assign("ccpo", units_of(joint, solo, cut), solo="data", ask=asker(lambda r: 0.0), **params)


@pytest.mark.parametrize(
    ("params", "want"),
    [
        ({}, [1.1, 1.1, -1.1, -1.1]),
        ({"base": "own"}, [0.95, 1.15, -1.05, -1.05]),
        ({"bonus": "continuous"}, [1.15, 1.15, -1.05, -1.05]),
        ({"lam": 0.0}, [1, 1, -1, -1]),
    ],
)
def test_worked_example(params, want):
    credit = in_data(**params)
    got = credit.advantage_S[0::2]
    want = np.array(want)
    np.testing.assert_allclose(got, want - want.mean(), atol=1e-12)
    np.testing.assert_allclose(credit.advantage_S[1::2], [1, 1, -1, -1])  # the solver: the outcome alone


def test_worked_example_of_a_helper_that_hurts():
    # base .5: [1, -1.2, -1.2, 1], mean -.1
    credit = in_data([1, -1, -1, 1], [1, 1, 1, -1])
    np.testing.assert_allclose(credit.advantage_S[0::2], [1.1, -1.1, -1.1, 1.1])


def test_a_base_of_exactly_zero_pays_nothing():
    credit = in_data([1, 1, -1, -1], [1, -1, 1, -1])
    assert not credit.parts["bonus"].any()


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    rng = np.random.default_rng(seed)
    rollouts = []
    for g in range(4):
        for _ in range(1 if g == 0 else int(rng.integers(2, 6))):
            solo = None if rng.random() < 0.2 else float(rng.choice([-1, 1]))
            rollouts.append(pair(None if rng.random() < 0.15 else float(rng.choice([-1, 1])), solo, f"g{g}"))
    if not any(r.outcome is not None for r in rollouts) or all(not r.outcomes for r in rollouts):
        return
    batch = Batch.from_trajectories(rollouts)
    for cut in (by_agent, by_step):
        for base, bonus in (("mean", "event"), ("own", "event"), ("mean", "continuous"), ("own", "continuous")):
            got = assign("ccpo", cut(batch), solo="data", base=base, bonus=bonus, lam=0.3, ask=asker(lambda r: 0.0))
            want, known = slow(rollouts, base, bonus, 0.3)
            np.testing.assert_allclose(got.advantage_S, want, atol=1e-12)
            assert got.known_S.tolist() == known


def slow(rollouts, base, bonus, lam):
    def solo_of(r):
        own = r.outcomes.get("solo")
        if base == "own":
            return own
        told = [x.outcomes["solo"] for x in rollouts if x.group == r.group and x.outcome is not None and x.outcomes]
        return sum(told) / len(told) if told else None

    paid = []
    for r in rollouts:
        b = solo_of(r) if r.outcome is not None else None
        if b is None:
            paid.append(None)
            continue
        if bonus == "event":
            extra = float(r.outcome > 0 and b < 0) - float(r.outcome < 0 and b > 0)
        else:
            extra = (r.outcome - b) / 2
        paid.append(r.outcome + lam * extra)
    want, known = [], []
    for n, r in enumerate(rollouts):
        members = [k for k, x in enumerate(rollouts) if x.group == r.group]
        for values in (paid, [x.outcome for x in rollouts]):
            told = [values[k] for k in members if values[k] is not None]
            known.append(values[n] is not None)
            want.append(values[n] - sum(told) / len(told) if values[n] is not None else 0.0)
    return want, known


def test_it_asks_for_the_solver_without_the_thinker():
    units, spec = units_of(solo=None), get("ccpo")
    asks = spec.plan(units, **spec.bind({"k": 2}))
    assert asks == [Continue(Place(n, 1), 2, without=("thinker",)) for n in range(4)]
    solo = [[ends_with(1.0)] * 2, [ends_with(-1.0)] * 2, [ends_with(-1.0)] * 2, [ends_with(-1.0)] * 2]
    got = spec.call(units, answered("ccpo", units, solo, k=2), k=2)
    np.testing.assert_allclose(got.advantage_S, in_data().advantage_S)
    named = spec.plan(units, **spec.bind({"helper": "solver"}))
    assert named == [Continue(Place(n, 0), 1, without=("solver",)) for n in range(4)]


def test_without_a_solo_outcome_the_helper_is_unknown_and_the_others_are_not():
    units, spec = units_of(solo=None), get("ccpo")
    answers = answered("ccpo", units, [[], [ends_with(-1.0)], [ends_with(-1.0)], [ends_with(-1.0)]], base="own")
    got = spec.call(units, answers, base="own")
    assert got.known_S.tolist() == [False, True, True, True, True, True, True, True]
    assert got.notes["rollouts_without_solo"] == 1
    # the mean of the group's other solo outcomes stands in
    assert spec.call(units, answers).known_S.all()


def test_a_rollout_in_which_only_the_helper_acted_asks_nothing():
    alone = Trajectory([Step(prompt_ids=[0], ids=[1], agent="thinker")], outcome=1.0, group="g")
    units = by_step(Batch.from_trajectories([alone, pair(-1)]))
    spec = get("ccpo")
    assert [a.at for a in spec.plan(units, **spec.bind({}))] == [Place(1, 1)]


@pytest.mark.parametrize("seed", range(5))
def test_without_a_bonus_it_is_grpo_of_each_role(seed):
    rng = np.random.default_rng(seed)
    joint, solo = rng.choice([-1.0, 1.0], 6).tolist(), rng.choice([-1.0, 1.0], 6).tolist()
    np.testing.assert_allclose(
        in_data(joint, solo, lam=0.0).advantage_S,
        assign("grpo(scale='none')", units_of(joint, solo)).advantage_S,
        atol=1e-12,
    )


def test_the_bonus_is_unbiased_for_the_difference_it_made():
    # with joint and solo outcomes from known distributions, the continuous bonus has mean (E joint - E solo) / 2
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(200):
        joint, solo = (rng.random((2, 8)) < [[0.8], [0.3]]) * 2.0 - 1.0
        both = [*joint, *solo]
        units = by_agent(Batch.from_trajectories([pair(x, y) for x, y in zip(both, [*solo, *solo], strict=True)]))
        credit = assign("ccpo", units, solo="data", base="own", bonus="continuous", lam=1.0, ask=asker(lambda r: 0.0))
        bonus = credit.parts["bonus"][0::2]
        gaps.append(bonus[:8].mean() - bonus[8:].mean())
    assert np.mean(gaps) == pytest.approx(0.5, abs=4 * np.std(gaps) / np.sqrt(200))


def test_what_it_refuses():
    with pytest.raises(
        DataError, match=r"ccpo reads outcome_parts:solo, which the units \(cut by agent\) lack; give Traj"
    ):
        in_data(solo=None)
    for params, sentence in (
        ({"solo": "guess"}, "ccpo: solo is 'guess'; give one of 'ask', 'data'"),
        ({"base": "max"}, "ccpo: base is 'max'"),
        ({"bonus": "none"}, "ccpo: bonus is 'none'"),
        ({"k": 0}, "ccpo: k is 0; ask for at least one solo outcome"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            assign("ccpo", units_of(), ask=asker(lambda r: ends_with(1.0)), **params)
