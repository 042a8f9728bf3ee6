import itertools
import math

import numpy as np
import pytest

from apportion.asks import Logprob, Place
from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.methods import get
from apportion.units import by_segment, by_step, by_token, by_turn
from tests.asking import answered, asker
from tests.make import random_batch
from tests.plain import peers, plain, spread
from tests.pricing import assert_the_price_is_counted


def rollout(outcome, *sizes, **fields):
    steps = [Step(prompt_ids=[100 + s], ids=list(range(10 * s, 10 * s + n))) for s, n in enumerate(sizes)]
    return Trajectory(steps, outcome=outcome, group="g", **fields)


def units_of(*rollouts):
    return by_turn(Batch.from_trajectories(rollouts))


def credit_of(units, values, **params):
    return get("hcapo").call(units, answered("hcapo", units, values, **params), **params)


MEANS = [(-0.5,), (-1.0,), (-2.0,)]


def test_worked_example():
    # h = e^(-.1), e^(-.2), e^(-.4); rho = h / mean; Q = rho * .95^(T-t) * 10; the failure has Q = 0 and is not asked
    units = units_of(rollout(10.0, 1, 1, 1), rollout(0.0, 1, 1))
    credit = credit_of(units, MEANS, ddof=0)
    assert credit.parts["micro"] == pytest.approx([0.975190, 0.871089, 0.582894, -1.214587, -1.214587], abs=1e-6)
    assert credit.parts["macro"].tolist() == [1, 1, 1, -1, -1]
    assert credit.advantage_S == pytest.approx([1.975190, 1.871089, 1.582894, -2.214587, -2.214587], abs=1e-6)


def test_worked_example_smoothed():
    # Q = 10.233758, 9.747250, 8.400393 becomes 9.990504, 9.073821, 8.400393; beside it a failure's two zeros
    units = units_of(rollout(10.0, 1, 1, 1), rollout(0.0, 1, 1))
    micro = credit_of(units, MEANS, ddof=0, smoothing=0.5).parts["micro"]
    q = np.array([9.990504, 9.073821, 8.400393, 0, 0])
    assert micro == pytest.approx((q - q.mean()) / q.std(), abs=1e-5)
    assert credit_of(units, MEANS, smoothing=1.0).advantage_S == pytest.approx(credit_of(units, MEANS).advantage_S)


def test_turns_of_several_tokens_count_by_their_mean():
    units = units_of(rollout(10.0, 2, 1, 3), rollout(0.0, 1, 1))
    longer = credit_of(units, [(-0.2, -0.8), (-1.0,), (-1.0, -2.0, -3.0)], ddof=0)
    assert longer.advantage_S[:3] == pytest.approx([1.975190, 1.871089, 1.582894], abs=1e-6)


LEVELS = {
    "turn": by_turn,
    "step": by_step,
    "segment": lambda batch: by_segment(batch, by="fixed", size=2),
    "token": by_token,
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(10))
def test_equals_the_slow_reference(seed, level):
    batch = random_batch(seed, forks=False)
    units = LEVELS[level](batch)
    rng = np.random.default_rng(seed)
    spec = get("hcapo")
    asks = spec.plan(units, **spec.bind({}))
    values = []
    for ask in asks:
        lost = rng.random() < 0.05
        values.append([] if lost else tuple((-4 * rng.exponential(size=ask.until - ask.at.token)).tolist()))
    settings = itertools.product((None, 0.5), (True, False), ("std", "none"), (1.0, 0.3))
    for smoothing, harmless, scale, omega in settings:
        params = {
            "temperature": 5.0 if harmless else 2.0,
            "low": 0.8 if harmless else 0.5,
            "high": 1.2 if harmless else 2.5,
            "gamma": 0.95 if harmless else 1.0,
            "omega": omega,
            "smoothing": smoothing,
            "harmless": harmless,
            "success": 0.0 if omega == 1.0 else 0.4,
            "scale": scale,
            "ddof": 1 if smoothing else 0,
            "epsilon": 0.0 if smoothing else 0.1,
        }
        got = credit_of(units, values, **params)
        want, known = slow_hcapo(batch, units, asks, values, **params)
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)
        assert got.known_S.tolist() == known


def slow_hcapo(
    batch, units, asks, values, temperature, low, high, gamma, omega, smoothing, harmless, success, scale, ddof, epsilon
):
    rollouts = plain(batch)
    owners = iter([u for u in units.unit_of_T.tolist() if u >= 0])
    owner = {(n, s, t): next(owners) for n, r in enumerate(rollouts) for s, k in enumerate(r.tokens) for t in range(k)}
    logp = {u: [] for u in range(len(units))}
    for ask, value in zip(asks, values, strict=True):
        for t in range(ask.at.token, ask.until):
            logp[owner[ask.at.traj, ask.at.step, t]].append(value[t - ask.at.token] if value else None)
    q = {}
    for n, r in enumerate(rollouts):
        mine = [u for u in range(len(units)) if units.traj_of_S[u] == n]
        spoke = [u for u in mine if u in owner.values()]
        if not r.valid:
            continue
        h = {u: math.exp(sum(logp[u]) / len(logp[u]) / temperature) for u in spoke if logp[u] and None not in logp[u]}
        asked = r.outcome != 0 and len(spoke) > 1
        own = {}
        for u in spoke:
            rho = 1.0 if not asked else None if u not in h else min(max(h[u] * len(h) / sum(h.values()), low), high)
            own[u] = None if rho is None else rho * gamma ** (len(mine) - 1 - mine.index(u)) * r.outcome
        for u, after in zip(spoke, [*spoke[1:], None], strict=True):
            mixed = own[u]
            if smoothing is not None and after is not None:
                both = own[u] is not None and own[after] is not None
                mixed = smoothing * own[u] + (1 - smoothing) * own[after] if both else None
            q[u] = mixed
    out, known = [], []
    for u in range(len(units)):
        r = rollouts[int(units.traj_of_S[u])]
        known.append(r.valid and q.get(u, 0) is not None)
        if not known[-1]:
            out.append(0.0)
            continue
        group = [x for v, x in q.items() if x is not None and rollouts[int(units.traj_of_S[v])].group == r.group]
        micro = placed(q[u], group, scale, ddof, epsilon) if u in q else 0.0
        if harmless and r.outcome > success:
            micro = max(micro, 0.0)
        out.append(placed(r.outcome, peers(rollouts, r.group), scale, ddof, epsilon) + omega * micro)
    return out, known


def placed(x, group, scale, ddof, epsilon):
    if len(group) < 2 or not spread(group, 1):
        return 0.0
    off = x - sum(group) / len(group)
    return off / (spread(group, ddof) + epsilon) if scale == "std" else off


@pytest.mark.parametrize("seed", [0, 3])
def test_without_the_second_part_it_is_grpo(seed):
    units = by_turn(random_batch(seed, forks=False))
    ask = asker(lambda r: tuple(-1.0 for _ in range(r.ask.until - r.ask.at.token)))
    assert assign("hcapo", units, omega=0.0, ask=ask).advantage_S == pytest.approx(assign("grpo", units).advantage_S)


def test_exact_hindsight_favours_what_decided_over_what_did_not_but_not_over_what_was_certain():
    # Enumerable: first a fair choice that alone decides, then a fair one that decides nothing, then one that was never
    # open. In hindsight of a success the three have probability 1, 1/2 and 1, while the advantages are 1/2, 0 and 0.
    # So the ratio is right about the first two, and no formula that reads it alone can be unbiased on the third.
    units = units_of(rollout(1.0, 1, 1, 1), rollout(0.0, 1, 1, 1))
    hindsight = [(0.0,), (math.log(0.5),), (0.0,)]
    micro = credit_of(units, hindsight, gamma=1.0, temperature=1.0).parts["micro"]
    assert micro[0] > micro[1] + 0.1
    assert micro[2] == pytest.approx(micro[0])


def test_no_unit_of_a_success_is_blamed():
    units = units_of(rollout(10.0, 1, 1, 1), rollout(9.0, 1, 1), rollout(9.5, 1))
    values = [*MEANS, (-0.1,), (-4.0,)]
    blamed = credit_of(units, values, harmless=False).parts["micro"]
    spared = credit_of(units, values)
    assert (blamed < 0).sum() == spared.notes["units_spared"] == 2
    assert spared.parts["micro"].tolist() == np.maximum(blamed, 0.0).tolist()
    assert (credit_of(units, values, success=9.7).parts["micro"] < 0).any()
    assert credit_of(units_of(rollout(-1.0, 1), rollout(1.0, 1)), []).notes["negative_outcomes"] == 1


def test_missing_and_misshapen_answers_leave_their_unit_unknown():
    units = units_of(rollout(10.0, 1, 1, 1), rollout(0.0, 1, 1))
    credit = credit_of(units, [(-0.5,), [], (-2.0,)])
    assert credit.known_S.tolist() == [True, False, True, True, True]
    assert credit.notes["units_without_hindsight"] == 1
    assert credit_of(units, [(-0.5,), (-1.0, -1.0), (-2.0,)]).known_S.tolist() == [True, False, True, True, True]
    # the one before needs it too when they are mixed
    assert credit_of(units, [(-0.5,), [], (-2.0,)], smoothing=0.5).known_S.tolist() == [False, False, True, True, True]
    assert credit_of(units, [(-1e9,)] * 3).known_S.all()  # impossible in hindsight, all alike


def test_what_is_asked():
    units = units_of(
        rollout(0.5, 2, 0, 1),
        rollout(0.0, 1, 1),
        rollout(2.0, 3),
        Trajectory([Step(prompt_ids=[1], ids=[5])], group="g"),
    )
    spec = get("hcapo")
    asks = spec.plan(units, **spec.bind({"frame": "{context} | {outcome} | {score}"}))
    # not the failure, not the single turn, not the rollout that nobody scored
    told = "{context} | {outcome} | 0.5"
    assert asks == [Logprob(Place(0, 0), until=2, frame=told), Logprob(Place(0, 2), until=1, frame=told)]
    ours = spec.plan(units, **spec.bind({}))[0].frame
    assert "a return of 0.5." in ours
    assert "{context}" in ours
    assert "{outcome}" in ours


def test_the_price_is_what_is_counted():
    batch = random_batch(5, forks=False)
    assert assert_the_price_is_counted("hcapo", by_turn(batch)) > 0
    assert assert_the_price_is_counted("hcapo", by_token(batch), omega=0.5) > 0


def test_what_it_refuses():
    units = units_of(rollout(1.0, 1, 1))
    ask = asker(lambda request: (0.0,))
    for bad in ({"temperature": 0.0}, {"low": 2.0}, {"smoothing": 1.5}):
        with pytest.raises(ConfigError, match=r"hcapo: temperature=.* give a temperature above 0, low up to high, and"):
            assign("hcapo", units, ask=ask, **bad)
    with pytest.raises(ConfigError, match=r"hcapo: scale is 'batch'"):
        assign("hcapo", units, scale="batch", ask=ask)
    with pytest.raises(ConfigError, match=r"hcapo: frame is 'no context'; give .* or a text with the slot"):
        assign("hcapo", units, frame="no context", ask=ask)
