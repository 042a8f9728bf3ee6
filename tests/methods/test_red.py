import itertools

import numpy as np
import pytest

from apportion.asks import Place, Score
from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.methods import get
from apportion.methods.red import ranks
from apportion.units import by_episode, by_segment, by_step, by_token, by_turn
from tests.asking import answered, asker
from tests.make import random_batch
from tests.plain import plain
from tests.pricing import assert_the_price_is_counted, number_of

PHI = [-0.2, 0.1, 0.4, -0.1, 0.8]


def rollout(*sizes, **fields):
    steps = [Step(prompt_ids=[100 + s], ids=list(range(10 * s, 10 * s + n))) for s, n in enumerate(sizes)]
    return Trajectory(steps, **fields)


def credit_of(units, values, **params):
    return get("red").call(units, answered("red", units, values, **params), **params)


def test_worked_example():
    # differences .3, .3, -.5, .9 sum to .8 - (-.2) = 1; halved, and half of the score .8 at the end
    units = by_token(Batch.from_trajectories([rollout(4)]))
    assert credit_of(units, PHI, mix=1.0).advantage_S == pytest.approx([0.3, 0.3, -0.5, 0.9])
    credit = credit_of(units, PHI, mix=0.5)
    assert credit.advantage_S == pytest.approx([0.15, 0.15, -0.25, 0.85])
    assert credit.parts["sparse"] == pytest.approx([0, 0, 0, 0.4])
    # reward to go differs from that of the sparse reward by -mix * Phi before each token
    sparse = np.array([0, 0, 0, 0.8])
    shift = np.cumsum((credit.advantage_S - sparse)[::-1])[::-1]
    assert shift == pytest.approx([0.1, -0.05, -0.2, 0.05])
    assert credit_of(units, PHI, mix=0.0).advantage_S == pytest.approx(sparse)


def test_worked_example_from_zero():
    # the first token gets .1 - 0, and the score of the prompt is not asked for
    units = by_token(Batch.from_trajectories([rollout(4)]))
    assert credit_of(units, PHI[1:], mix=1.0, initial="zero").advantage_S == pytest.approx([0.1, 0.3, -0.5, 0.9])


def test_what_an_observation_changes_is_dropped():
    # Phi: prompt 0, .5 after the first action, 2 after the observation, 1 at the end
    units = by_step(Batch.from_trajectories([rollout(2, 1)]))
    spec = get("red")
    places = [ask.upto for ask in spec.plan(units, **spec.bind({}))]
    assert places == [Place(0, 0, 0), Place(0, 0, 2), Place(0, 1, 0), Place(0, 1, 1)]
    credit = credit_of(units, [0.0, 0.5, 2.0, 1.0], mix=1.0)
    assert credit.advantage_S.tolist() == [0.5, -1.0]
    assert credit.notes["env_delta"] == 1.5
    assert credit.notes["observations_dropped"] == 1


LEVELS = {
    "token": by_token,
    "segment": lambda batch: by_segment(batch, by="fixed", size=2),
    "step": by_step,
    "turn": by_turn,
    "episode": by_episode,
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(12))
def test_equals_the_slow_reference(seed, level):
    batch = random_batch(seed, forks=False)
    units = LEVELS[level](batch)
    for mix, initial in itertools.product((0.0, 0.3, 1.0), ("prompt", "zero")):
        params = {"mix": mix, "initial": initial}
        spec = get("red")
        asks = spec.plan(units, **spec.bind(params))
        assert len(set(asks)) == len(asks)
        values = [phi(ask.upto) for ask in asks]
        got = spec.call(units, answered("red", units, values, **params), **params)
        np.testing.assert_allclose(got.advantage_S, slow_red(batch, units, mix, initial), atol=1e-12)
        heard = [sum(r.tokens) > 0 and not broken(t) for r, t in zip(plain(batch), batch.trajectories, strict=True)]
        assert got.known_S.tolist() == [heard[n] for n in units.traj_of_S.tolist()]


def phi(place):
    return number_of(place.traj, place.step, place.token)


def broken(trajectory):
    return any(step.failed for step in trajectory.steps)


def slow_red(batch, units, mix, initial):
    out = [0.0] * len(units)
    owners = iter([u for u in units.unit_of_T.tolist() if u >= 0])
    for n, trajectory in enumerate(batch.trajectories):
        first, unit, end = True, None, None
        for s, step in enumerate(trajectory.steps):
            for t in range(len(step.ids)):
                unit, end = next(owners), phi(Place(n, s, t + 1))
                begin = 0.0 if first and initial == "zero" else phi(Place(n, s, t))
                first = False
                if not broken(trajectory):
                    out[unit] += mix * (end - begin)
        if unit is not None and not broken(trajectory):
            last = [u for u in range(len(units)) if units.traj_of_S[u] == n][-1]
            out[last] += (1 - mix) * end
    return out


def test_coarse_units_are_the_sums_of_their_tokens():
    batch = random_batch(3, forks=False)
    fine, coarse = by_token(batch), by_step(batch)
    values = {
        name: get("red")
        .call(
            units,
            answered(
                "red", units, [phi(a.upto) for a in get("red").plan(units, **get("red").bind({"mix": 1.0}))], mix=1.0
            ),
            mix=1.0,
        )
        .advantage_S
        for name, units in (("fine", fine), ("coarse", coarse))
    }
    total = np.zeros(len(coarse))
    np.add.at(total, np.searchsorted(coarse.step_of_S, fine.step_of_S, side="right") - 1, values["fine"])
    np.testing.assert_allclose(total, values["coarse"], atol=1e-12)


def test_the_gradient_is_exact_whatever_the_scores_of_prefixes_are():
    # potential-based: with gamma 1 the dense reward has the policy gradient of the sparse one
    rng = np.random.default_rng(0)
    logits = {(): rng.normal(size=2), (0,): rng.normal(size=2), (1,): rng.normal(size=2)}
    score = {path: float(rng.normal()) for path in [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]}
    prob = {path: np.exp(x) / np.exp(x).sum() for path, x in logits.items()}

    def gradient(mix):
        total = {path: np.zeros(2) for path in logits}
        for a, b in itertools.product((0, 1), repeat=2):
            units = by_token(Batch.from_trajectories([Trajectory([Step(prompt_ids=[9], ids=[a, b])])]))
            reward = credit_of(units, [score[()], score[a,], score[a, b]], mix=mix).advantage_S
            chance = prob[()][a] * prob[a,][b]
            for path, taken, to_go in (((), a, reward.sum()), ((a,), b, reward[1])):
                total[path] += chance * to_go * (np.eye(2)[taken] - prob[path])
        return np.concatenate([total[path] for path in logits])

    sparse = gradient(0.0)
    assert np.abs(sparse).max() > 0.05
    np.testing.assert_allclose(gradient(0.5), sparse, atol=1e-12)
    np.testing.assert_allclose(gradient(1.0), sparse, atol=1e-12)


def test_units_beside_a_missing_score_are_unknown():
    units = by_token(Batch.from_trajectories([rollout(4)]))
    credit = credit_of(units, [-0.2, 0.1, [], -0.1, 0.8], mix=0.5)
    assert credit.known_S.tolist() == [True, False, False, True]
    assert credit.advantage_S == pytest.approx([0.15, 0, 0, 0.85])
    assert credit.notes["units_without_score"] == 2
    assert credit_of(units, [-0.2, 0.1, [], -0.1, 0.8], mix=0.0).known_S.all()
    assert credit_of(units, [-0.2, 0.1, 0.4, -0.1, []], mix=0.5).known_S.tolist() == [True, True, True, False]


def test_the_notes_tell_how_early_scores_rank_the_rollouts():
    # at half the tokens the scores rank the rollouts in reverse; at a quarter as at the end
    units = by_token(Batch.from_trajectories([rollout(4) for _ in range(4)]))
    values = [v for n in range(4) for v in (0.0, float(n), -float(n), 1.0, float(n))]
    notes = credit_of(units, values).notes
    assert notes["rank_correlation_25"] == pytest.approx(1.0)
    assert notes["rank_correlation_50"] == pytest.approx(-1.0)
    assert "rank_correlation_75" not in notes  # all alike there
    assert not any(name.startswith("rank") for name in credit_of(by_episode(units.batch), [0.0, 1.0] * 4).notes)
    assert ranks(np.array([3.0, 1.0, 3.0, 0.0])).tolist() == [2.5, 1.0, 2.5, 0.0]


def test_rollouts_that_nobody_can_score_are_not_asked_about():
    fine, mute = rollout(2), Trajectory([Step(prompt_ids=[1], ids=[])])
    failed = Trajectory([Step(prompt_ids=[1], ids=[5], failed=True)])
    units = by_step(Batch.from_trajectories([fine, mute, failed]))
    spec = get("red")
    assert {ask.traj for ask in spec.plan(units, **spec.bind({}))} == {0}
    assert credit_of(units, [0.0, 1.0]).known_S.tolist() == [True, False, False]


def test_the_price_is_what_is_counted():
    units = by_token(random_batch(5, forks=False))
    assert assert_the_price_is_counted("red", units) > len(units)
    # equal prefixes of one task are scored once: prompt, a, ab, abc beside prompt, a, ad
    steps = [Step(prompt_ids=[1], ids=ids) for ids in ([2, 3, 4], [2, 5])]
    shared = by_token(Batch.from_trajectories([Trajectory([step], group="g") for step in steps]))
    assert assert_the_price_is_counted("red", shared) == 5


def test_what_it_refuses():
    units = by_token(Batch.from_trajectories([rollout(2)]))
    ask = asker(lambda request: 0.0)
    with pytest.raises(ConfigError, match=r"red: mix is 1.5; give a number from 0 to 1"):
        assign("red", units, mix=1.5, ask=ask)
    with pytest.raises(ConfigError, match=r"red: initial is 'end'; give one of 'prompt', 'zero'"):
        assign("red", units, initial="end", ask=ask)
    with pytest.raises(ConfigError, match=r"red asks a reward model"):
        get("red").call(units)
    assert isinstance(get("red").plan(units, **get("red").bind({}))[0], Score)
