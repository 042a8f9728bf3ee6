import itertools
import math

import numpy as np
import pytest

from apportion.asks import Logprob, Place
from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.methods import get
from apportion.units import by_segment, by_step, by_token, by_turn
from tests.asking import answered, asker
from tests.make import random_trajectories
from tests.plain import plain, spread
from tests.pricing import assert_the_price_is_counted


def rollout(outcome, *sizes, first=0, context=1, **fields):
    steps = [
        Step(prompt_ids=[100 + s] * context, ids=list(range(first + 10 * s, first + 10 * s + n)), turn=s)
        for s, n in enumerate(sizes)
    ]
    return Trajectory(steps, outcome=outcome, **{"group": "g", "reference": "gold", **fields})


def units_of(*rollouts):
    return by_turn(Batch.from_trajectories(rollouts))


def credit_of(units, values, **params):
    return get("igpo").call(units, answered("igpo", units, values, **params), **params)


def p(*probabilities):
    return [(math.log(x),) for x in probabilities]


CODE = {"ddof": 0, "epsilon": 1e-6}
PAIR = (rollout(1.0, 1, 1, 1), rollout(0.2, 1, 1, first=50))
SEEN = p(0.1, 0.3, 0.6, 0.1, 0.15)  # gains .2, .3 and .05


@pytest.mark.parametrize(
    ("params", "want"),
    [
        ({"norm": "joint"}, [1.344628, 1.792837, 1.942241, -1.344628, -0.448209]),
        ({"norm": "joint", "gamma": 0.9}, [0.990543, 1.598613, 1.942241, -1.299807, -0.448209]),
        ({"norm": "separate"}, [2.297756, 2.135536, 0.999997, -2.297756, -0.999997]),
    ],
)
def test_worked_examples(params, want):
    credit = credit_of(units_of(*PAIR), SEEN, **CODE, **params)
    assert credit.advantage_S == pytest.approx(want, abs=2e-5)


def test_worked_example_unnormalised():
    credit = credit_of(units_of(*PAIR), SEEN, norm="none")
    assert credit.advantage_S == pytest.approx([1.5, 1.3, 1.0, 0.25, 0.2])
    assert credit.parts["gain"] == pytest.approx([0.5, 0.3, 0, 0.05, 0])
    weighed = credit_of(units_of(*PAIR), SEEN, norm="none", gain_weight=0.5)
    assert weighed.advantage_S == pytest.approx([1.25, 1.15, 1.0, 0.225, 0.2])
    # divided by the root of the number of terms
    rooted = credit_of(units_of(*PAIR), SEEN, norm="none", root=True)
    assert rooted.advantage_S == pytest.approx([1.5 / 3**0.5, 1.3 / 2**0.5, 1.0, 0.25 / 2**0.5, 0.2])
    logs = credit_of(units_of(*PAIR), SEEN, norm="none", gain="log_prob_diff").parts["gain"]
    assert logs == pytest.approx([math.log(6), math.log(2), 0, math.log(1.5), 0])


def test_worked_example_of_the_watermark():
    # log-probabilities .3 .5 .4 .7 .65: .2, 0, .2, 0; the plain differences are .2, -.1, .3, -.05
    units = units_of(rollout(0.0, 1, 1, 1, 1, 1))
    seen = [(x,) for x in (0.3, 0.5, 0.4, 0.7, 0.65)]

    def own(gain):
        to_go = credit_of(units, seen, norm="none", gain=gain).parts["gain"]
        return to_go[:-1] - to_go[1:]

    assert own("watermark") == pytest.approx([0.2, 0, 0.2, 0])
    assert own("log_prob_diff") == pytest.approx([0.2, -0.1, 0.3, -0.05])


def test_worked_example_of_rising_belief():
    # beliefs .1 .2 .15 .3: log 2, 0, log 2
    credit = credit_of(units_of(rollout(0.0, 1, 1, 1, 1)), p(0.1, 0.2, 0.15, 0.3), norm="none", gain="rise")
    assert credit.advantage_S == pytest.approx([2 * 0.693147, 0.693147, 0.693147, 0], abs=1e-6)


def test_an_answer_of_several_tokens_counts_by_their_mean():
    units = units_of(rollout(0.0, 1, 1))
    seen = [(math.log(0.1), math.log(0.4)), (math.log(0.9), math.log(0.4))]
    assert credit_of(units, seen, norm="none").advantage_S == pytest.approx([0.6 - 0.2, 0])


LEVELS = {
    "turn": by_turn,
    "step": by_step,
    "segment": lambda batch: by_segment(batch, by="fixed", size=2),
    "token": by_token,
}


def referenced(seed, **options):
    return Batch.from_trajectories(
        [
            t if n % 5 == 4 else Trajectory(t.steps, t.group, t.id, t.outcome, reference="a b")
            for n, t in enumerate(random_trajectories(seed, forks=False, **options))
        ]
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(8))
def test_equals_the_slow_reference(seed, level):
    batch = referenced(seed)
    if not batch.scored_N.any():
        pytest.skip("nobody was scored")
    units = LEVELS[level](batch)
    rng = np.random.default_rng(seed)
    spec = get("igpo")
    asks = spec.plan(units, **spec.bind({}))
    values = [[] if rng.random() < 0.04 else tuple(np.round(-rng.exponential(size=2), 1).tolist()) for _ in asks]
    settings = itertools.product(
        ("separate", "joint", "turn", "none"),
        ("prob_diff", "log_prob_diff", "rise", "watermark"),
        ("std", "none"),
        (False, True),
    )
    for norm, gain, scale, other in settings:
        params = {
            "norm": norm,
            "gain": gain,
            "scale": scale,
            "gamma": 0.9 if other else 1.0,
            "gain_weight": 0.5 if other else 1.0,
            "root": other,
            "skip_zeros": other,
            "ddof": 0 if other else 1,
            "epsilon": 0.1 if other else 0.0,
        }
        got = credit_of(units, values, **params)
        want, known = slow_igpo(batch, units, asks, values, **params)
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-8)
        assert got.known_S.tolist() == known


def rewards_of(batch, units, asks, values, gain):
    """Raw reward of each unit, None where not known, and its trajectory's units; valid rollouts only."""
    told = {ask.at: sum(value) / len(value) for ask, value in zip(asks, values, strict=True) if value}
    at = dict(zip([ask.at for ask in asks], range(len(asks)), strict=False))
    assert len(at) <= len(asks)
    rollouts, out, waiting = plain(batch), {}, iter(zip(asks, values, strict=True))
    for n, r in enumerate(rollouts):
        mine = [u for u in range(len(units)) if units.traj_of_S[u] == n]
        if not r.valid:
            continue
        asked = bool(batch.trajectories[n].reference) and len(mine) > 1
        level = [next(waiting)[1] if asked else [] for _ in mine]
        level = [sum(x) / len(x) if x else None for x in level]
        high = None
        for k, u in enumerate(mine):
            if k + 1 == len(mine):
                out[u] = r.outcome
                continue
            a, b = level[k], level[k + 1]
            high = a if k == 0 else None if high is None or a is None else max(high, a)
            base = high if gain == "watermark" else a
            if base is None or b is None:
                out[u] = None
            elif gain == "prob_diff":
                out[u] = math.exp(b) - math.exp(a)
            else:
                out[u] = b - base if gain == "log_prob_diff" else max(b - base, 0.0)
    assert next(waiting, None) is None
    assert told is not None
    return out


def slow_igpo(batch, units, asks, values, norm, gain, scale, gamma, gain_weight, root, skip_zeros, ddof, epsilon):
    rollouts = plain(batch)
    raw = rewards_of(batch, units, asks, values, gain)
    traj = units.traj_of_S.tolist()
    last = {u: u + 1 == len(traj) or traj[u + 1] != traj[u] for u in raw}
    place = {u: u - traj.index(traj[u]) for u in raw}

    def peer(u, v):
        if rollouts[traj[u]].group != rollouts[traj[v]].group:
            return False
        if norm == "joint":
            return True
        return last[u] == last[v] and (norm == "separate" or last[u] or place[u] == place[v])

    normal = {}
    for u, x in raw.items():
        if x is None or norm == "none" or (skip_zeros and x == 0):
            normal[u] = x
            continue
        same = [y for v, y in raw.items() if y is not None and peer(u, v) and not (skip_zeros and y == 0)]
        off = x - sum(same) / len(same)
        flat = len(same) < 2 or spread(same, 1) == 0
        normal[u] = 0.0 if flat else off / (spread(same, ddof) + epsilon) if scale == "std" else off
    out, known = [0.0] * len(units), [False] * len(units)
    for u in raw:
        rest = [v for v in raw if traj[v] == traj[u] and v >= u]
        if any(raw[v] is None for v in rest):
            continue
        known[u] = True
        out[u] = sum(gamma ** (v - u) * normal[v] * (1.0 if last[v] else gain_weight) for v in rest)
        if root:
            out[u] /= len(rest) ** 0.5
    return out, known


@pytest.mark.parametrize("seed", range(8))
def test_the_released_loop_equals_the_slow_reference(seed):
    batch = referenced(seed, unscored=False)
    for cut in (by_token, by_turn, by_step):
        units = cut(batch)
        rng = np.random.default_rng(seed)
        spec = get("igpo")
        asks = spec.plan(units, **spec.bind({}))
        values = [tuple((-rng.exponential(size=2)).tolist()) for _ in asks]
        for gamma in (1.0, 0.9):
            got = credit_of(units, values, mode="legacy", gamma=gamma)
            raw = rewards_of(batch, units, asks, values, "prob_diff")
            want = slow_legacy(batch, units, raw, gamma)
            np.testing.assert_allclose(got.advantage_S, np.where(got.known_S, want, 0.0), atol=1e-12)


def slow_legacy(batch, units, raw, gamma):
    """Rows padded to one length: a return that stops at masked tokens, minus the group's mean column by column."""
    unit_T, traj_T = units.unit_of_T.tolist(), batch.traj_of_T.tolist()
    rows = []
    for n in range(len(batch)):
        own = [t for t in range(len(traj_T)) if traj_T[t] == n]
        first = next((k for k, t in enumerate(own) if unit_T[t] >= 0), len(own))
        rows.append([unit_T[t] for t in own[first:]])
    width = max(map(len, rows))
    returns = np.zeros((len(rows), width))
    for n, row in enumerate(rows):
        reward = [0.0] * len(row)
        spoken = list(dict.fromkeys(u for u in row if u >= 0))
        for u, after in zip(spoken, [*spoken[1:], None][: len(spoken)], strict=True):
            end = row.index(after) - 1 if after is not None else len(row) - 1 - row[::-1].index(u)
            reward[end] += raw.get(u) or 0.0
        following = 0.0
        for t in reversed(range(len(row))):
            returns[n, t] = reward[t] + gamma * following
            following = returns[n, t] if row[t] >= 0 else 0.0
    members = {}
    for n, r in enumerate(plain(batch)):
        if r.valid:
            members.setdefault(r.group, []).append(n)
    out = np.zeros(len(units))
    for same in members.values():
        for n in same:
            # what the loop leaves on masked tokens is in the mean of the column too
            values = {}
            for t, u in enumerate(rows[n]):
                if u >= 0:
                    column = [returns[m, t] for m in same]
                    values.setdefault(u, []).append(returns[n, t] - sum(column) / len(same))
            for u, own in values.items():
                out[u] = sum(own) / len(own)
    return out


def test_the_released_loop_loses_gains_at_observations():
    # with an observation after each turn only the last turn sees a reward, and the baseline sees it at its position
    a = rollout(1.0, 2, 2)
    b = rollout(0.0, 2, 2, first=50)
    units = units_of(a, b)
    credit = credit_of(units, p(0.1, 0.9, 0.1, 0.2), mode="legacy")
    assert credit.advantage_S.tolist() == [0, 0.5, 0, -0.5]
    # without observations in between the gains stand on sampled tokens and are summed: .8 + 1 against .1 + 0
    steps = [Step(prompt_ids=[1] * (s == 0), ids=[5, 6 + s], turn=s) for s in range(2)]
    plain_a = Trajectory(steps, "g", outcome=1.0, reference="gold")
    plain_b = Trajectory(steps, "g", outcome=0.0, reference="gold")
    credit = credit_of(units_of(plain_a, plain_b), p(0.1, 0.9, 0.1, 0.2), mode="legacy")
    assert credit.advantage_S == pytest.approx([(1.8 - 0.1) / 2, 0.5, (0.1 - 1.8) / 2, -0.5])


@pytest.mark.parametrize("seed", [1, 2])
def test_without_gains_it_is_grpo(seed):
    units = by_turn(referenced(seed, unscored=False))
    credit = assign("igpo", units, gain_weight=0.0, ask=asker(lambda r: (-1.0,)))
    known = credit.known_S
    assert known.sum() > 5
    assert credit.advantage_S[known] == pytest.approx(assign("grpo", units).advantage_S[known])


def test_the_exact_gradient_is_twice_the_outcomes_where_answers_are_drawn_from_the_belief():
    # Enumerable: the hidden item is 0 or 1. A policy may look (with probability q, which tells it the item nine times
    # in ten) or idle, twice, and then answers as it believes. So E[outcome] = E[p at the end] with p the belief in the
    # right item, and outcome + p_end - p_now has mean 2 V - p_now: its advantage is twice the outcome's.
    q = 0.4

    def paths():
        for looks in itertools.product((True, False), repeat=2):
            for item, hints in itertools.product((0, 1), itertools.product((0, 1), repeat=2)):
                chance, belief, seen = 0.5, 0.5, [0.5]
                for look, hint in zip(looks, hints, strict=True):
                    chance *= q if look else 1 - q
                    right = hint == item
                    chance *= (0.9 if right else 0.1) if look else 0.5
                    if look:
                        good = 0.9 if right else 0.1
                        belief = belief * good / (belief * good + (1 - belief) * (1 - good))
                    seen.append(belief)
                for hit in (True, False):
                    yield looks, seen, float(hit), chance * (belief if hit else 1 - belief)

    total = {True: [0.0, 0.0, 0.0], False: [0.0, 0.0, 0.0]}
    mass = 0.0
    for looks, seen, hit, chance in paths():
        if chance == 0:
            continue
        units = units_of(rollout(hit, 1, 1, 1))
        credit = credit_of(units, p(*seen), norm="none").advantage_S
        mass += chance
        total[looks[0]][0] += chance
        total[looks[0]][1] += chance * credit[0]
        total[looks[0]][2] += chance * hit
    assert mass == pytest.approx(1.0)
    credit, outcome = ({look: x[k] / x[0] for look, x in total.items()} for k in (1, 2))
    gap = outcome[True] - outcome[False]
    assert gap > 0.05
    assert credit[True] - credit[False] == pytest.approx(2 * gap)


def test_gains_of_zero_count_unless_they_are_skipped():
    units = units_of(rollout(1.0, 1, 1, 1), rollout(0.0, 1, 1, first=50))
    seen = p(0.1, 0.1, 0.4, 0.1, 0.3)  # 0, .3, .2
    kept = credit_of(units, seen, scale="none")
    assert kept.parts["gain"] == pytest.approx([-1 / 6 + 0.4 / 3, 0.4 / 3, 0, 0.1 / 3, 0])
    assert kept.notes["gains_of_zero"] == 1
    skipped = credit_of(units, seen, scale="none", skip_zeros=True)
    assert skipped.parts["gain"] == pytest.approx([0.05, 0.05, 0, -0.05, 0])


def test_missing_gains_leave_everything_before_them_unknown():
    units = units_of(rollout(1.0, 1, 1, 1, 1), rollout(0.0, 1, 1, first=50))
    credit = credit_of(units, [*p(0.1, 0.2), [], *p(0.3, 0.1, 0.2)], norm="none")
    assert credit.known_S.tolist() == [False, False, False, True, True, True]
    assert credit.notes["units_without_gain"] == 2
    # from the first missing one the watermark is not known either
    high = credit_of(units, [[], *p(0.2, 0.3, 0.4, 0.1, 0.2)], norm="none", gain="watermark")
    assert high.known_S.tolist() == [False, False, False, True, True, True]


def test_what_is_asked():
    spec = get("igpo")
    units = units_of(
        rollout(1.0, 2, 1), rollout(1.0, 3), rollout(1.0, 1, 1, reference=None), rollout(None, 1, 1), rollout(0.0, 1, 1)
    )
    asks = spec.plan(units, **spec.bind({"frame": "{context} So:"}))
    at = [Place(0, 0), Place(0, 1), Place(4, 0), Place(4, 1)]
    assert asks == [Logprob(place, target="gold", frame="{context} So:") for place in at]
    assert spec.plan(units, **spec.bind({}))[0].frame is None
    assert spec.plan(units, **spec.bind({"frame": "answer"}))[0].frame.endswith("The answer is: ")
    credit = credit_of(units, p(0.1, 0.2, 0.1, 0.3), norm="none")
    assert credit.known_S.tolist() == [True, True, True, False, True, False, False, True, True]
    assert credit.notes["rollouts_without_reference"] == 1


def test_the_price_is_what_is_counted():
    batch = referenced(5)
    assert assert_the_price_is_counted("igpo", by_turn(batch)) > 0
    # rollouts of one prompt share the question before anything was done, framed or not
    shared = units_of(rollout(1.0, 1, 1), rollout(0.0, 1, 1, first=50), rollout(0.5, 1, 1, first=60))
    assert assert_the_price_is_counted("igpo", shared) == 4
    assert assert_the_price_is_counted("igpo", shared, frame="answer") == 4


def test_what_it_refuses():
    ask = asker(lambda request: (0.0,))
    for key, words in (
        ("gain", "'prob_diff', 'log_prob_diff', 'rise', 'watermark'"),
        ("norm", "'separate', 'joint', 'turn', 'none'"),
        ("mode", "'paper', 'legacy'"),
        ("scale", "'std', 'none'"),
    ):
        with pytest.raises(ConfigError, match=f"igpo: {key} is 'x'; give one of {words}"):
            assign("igpo", units_of(*PAIR), ask=ask, **{key: "x"})
    with pytest.raises(DataError, match=r"igpo reads the right answers, which the rollouts lack; give Trajectory.ref"):
        assign("igpo", units_of(rollout(1.0, 1, 1, reference=None)), ask=ask)
