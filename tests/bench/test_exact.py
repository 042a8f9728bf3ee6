"""The exact answers against slow recursion, finite differences, Monte Carlo and identities."""

import numpy as np
import pytest

from apportion.bench import exact as truth
from apportion.bench.tasks import task, task_names
from apportion.errors import ConfigError, DataError

SMALL = [
    ("keydoor", {"n": 2, "horizon": 8}),
    ("keydoor", {"n": 2, "horizon": 6, "show_time": True, "noise": (0.0, 0.5, 2.0)}),
    ("crafttree", {"budget": 2, "horizon": 5}),
    ("crafttree", {"budget": 2, "horizon": 5, "goal": "torch", "show_time": True}),
]
small = pytest.mark.parametrize(("name", "given"), SMALL, ids=str)


def table_of(name, given):
    return task(name, **given).table


def random_policy(table, seed, *, timed=False, spread=1.0):
    rng = np.random.default_rng(seed)
    weight = np.exp(spread * rng.normal(size=(table.horizon, table.slots) if timed else table.slots))
    return weight / table.sum_by_state(weight)[..., table.state_of_K]


def slow_q(rules, prob, t, x, a, gamma):
    """Plain recursion over the rules; shares nothing with the code under test. prob(t, x) lists probabilities."""
    total = 0.0
    for p, y, reward, done in rules.step(x, a):
        after = 0.0 if done or t + 1 == rules.horizon else slow_v(rules, prob, t + 1, y, gamma)
        total += p * (reward + gamma * after)
    return total


def slow_v(rules, prob, t, x, gamma):
    return sum(p * slow_q(rules, prob, t, x, a, gamma) for p, a in zip(prob(t, x), rules.actions(x), strict=True))


def slow_best(rules, t, x):
    if t == rules.horizon:
        return 0.0
    return max(
        sum(p * (r + (0.0 if done else slow_best(rules, t + 1, y))) for p, y, r, done in rules.step(x, a))
        for a in rules.actions(x)
    )


def row(table, pi, t, x):
    i = table.index[x]
    part = slice(table.first_slot_X[i], table.first_slot_X[i + 1])
    return (pi[t] if pi.ndim == 2 else pi)[part]


@small
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_values_equal_plain_recursion(name, given, timed, gamma):
    table = table_of(name, given)
    pi = random_policy(table, 3, timed=timed)
    answer = truth.exact(table, pi, gamma=gamma)

    def prob(t, x):
        return row(table, pi, t, x)

    J = sum(p * slow_v(table.rules, prob, 0, x, gamma) for p, x in table.rules.starts())
    assert pytest.approx(J, abs=1e-12) == answer.J
    rng = np.random.default_rng(0)
    late = np.argwhere(table.reached_HX)
    for t, i in late[rng.permutation(len(late))[:25]]:
        if t < table.horizon - 6:
            continue  # the recursion is exponential in the steps left
        x = table.states[i]
        assert answer.value_HX[t, i] == pytest.approx(slow_v(table.rules, prob, t, x, gamma), abs=1e-12)
        for a, action in enumerate(table.actions[i]):
            q = slow_q(table.rules, prob, t, x, action, gamma)
            assert answer.q_HK[t, table.slot(i, a)] == pytest.approx(q, abs=1e-12)
            assert answer.advantage_HK[t, table.slot(i, action)] == pytest.approx(q - answer.value_HX[t, i], abs=1e-12)


@small
def test_the_optimum_equals_plain_recursion(name, given):
    table = table_of(name, given)
    best = sum(p * slow_best(table.rules, 0, x) for p, x in table.rules.starts())
    answer = truth.optimal(table)
    assert pytest.approx(best, abs=1e-12) == answer.J
    assert pytest.approx(best, abs=1e-12) == truth.exact(table, answer.policy).J


@small
@pytest.mark.parametrize("timed", [False, True])
def test_visits_equal_plain_counting(name, given, timed):
    table = table_of(name, given)
    pi = random_policy(table, 5, timed=timed)
    visit_HX = truth.exact(table, pi).visit_HX
    here = {}
    for p, x in table.rules.starts():
        here[x] = here.get(x, 0.0) + p
    for t in range(table.horizon):
        assert {table.states[i]: m for i, m in enumerate(visit_HX[t]) if m > 0} == pytest.approx(here, abs=1e-12)
        there = {}
        for x, mass in here.items():
            for prob, action in zip(row(table, pi, t, x), table.rules.actions(x), strict=True):
                for p, y, _, done in table.rules.step(x, action):
                    if not done:
                        there[y] = there.get(y, 0.0) + mass * prob * p
        here = there


@small
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_the_gradient_equals_finite_differences(name, given, timed, gamma):
    table = table_of(name, given)
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(table.horizon, table.slots) if timed else table.slots)

    def policy(z):
        weight = np.exp(z)
        return weight / table.sum_by_state(weight)[..., table.state_of_K]

    gradient = truth.policy_gradient(truth.exact(table, policy(logits), gamma=gamma))
    assert gradient.shape == logits.shape
    largest = np.argsort(-np.abs(gradient.ravel()))[:20]
    for at in (*largest, *rng.choice(logits.size, size=20, replace=False)):
        bump = np.zeros_like(logits)
        bump.flat[at] = 1e-5
        up, down = (truth.exact(table, policy(logits + sign * bump), gamma=gamma).J for sign in (1, -1))
        assert gradient.flat[at] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-9)
    assert np.abs(gradient.flat[largest]).min() > 1e-6


@pytest.mark.parametrize("name", task_names())
@pytest.mark.parametrize("timed", [False, True])
def test_the_mean_advantage_of_every_state_is_zero(name, timed):
    table = task(name).table
    answer = truth.exact(table, random_policy(table, 0, timed=timed))
    mean_HX = table.sum_by_state(np.broadcast_to(answer.policy, answer.advantage_HK.shape) * answer.advantage_HK)
    assert np.abs(mean_HX[table.reached_HX]).max() < 1e-12
    assert np.isnan(mean_HX[~table.reached_HX]).all()


@pytest.mark.parametrize("name", task_names())
@pytest.mark.parametrize("timed", [False, True])
def test_sampling_agrees_with_the_truth(name, timed):
    table = task(name).table
    pi = truth.improve(table, random_policy(table, 2, timed=timed), 1.0)
    answer = truth.exact(table, pi)
    rollouts = truth.sample(table, pi, groups=6000, n=1, rng=np.random.default_rng(0))
    returns = rollouts.return_N
    assert abs(returns.mean() - answer.J) < 4 * returns.std(ddof=1) / len(returns) ** 0.5
    seen = np.bincount(rollouts.time_S * len(table.states) + rollouts.state_S, minlength=answer.visit_HX.size)
    expected = 6000 * answer.visit_HX.ravel()
    assert seen[expected == 0].sum() == 0
    often = expected > 20
    assert often.sum() > 20
    assert (np.abs(seen - expected) < 5 * np.sqrt(expected))[often].all()
    taken = np.bincount(rollouts.slot_S, minlength=table.slots)  # one state's actions, whatever the time
    likely = np.bincount(rollouts.state_S, minlength=len(table.states))[table.state_of_K] * answer.policy
    if not timed:
        assert (np.abs(taken - likely) <= 5 * np.sqrt(likely) + 2).all()


def test_rollouts_are_whole_episodes_of_the_rules():
    table = task("keydoor").table
    rules = table.rules
    rollouts = truth.sample(table, truth.uniform(table), groups=5, n=3, rng=np.random.default_rng(4))
    assert rollouts.group_of_N.tolist() == [g for g in range(5) for _ in range(3)]
    assert (rollouts.group_of_S == rollouts.traj_of_S // 3).all()
    for i in range(15):
        steps = np.flatnonzero(rollouts.traj_of_S == i)
        assert rollouts.time_S[steps].tolist() == list(range(len(steps)))
        assert (np.diff(steps) == 1).all()
        for s in steps:
            x = table.states[rollouts.state_S[s]]
            action = table.actions[rollouts.state_S[s]][rollouts.action_S[s]]
            assert table.slot(rollouts.state_S[s], action) == rollouts.slot_S[s]
            ends = {(y, r) for _, y, r, done in rules.step(x, action) if done}
            goes = {(y, r) for _, y, r, done in rules.step(x, action) if not done}
            if s == steps[-1]:
                assert len(steps) == rules.horizon or rollouts.reward_S[s] in {r for _, r in ends}
            else:
                assert (table.states[rollouts.state_S[s + 1]], rollouts.reward_S[s]) in goes


def test_groups_share_their_start():
    table = task("crafttree").table
    rollouts = truth.sample(table, truth.uniform(table), groups=40, n=4, rng=np.random.default_rng(0))
    first = rollouts.state_S[rollouts.time_S == 0].reshape(40, 4)
    assert (first == first[:, :1]).all()
    assert len(set(first[:, 0])) == 4


@small
@pytest.mark.parametrize("timed", [False, True])
def test_the_batch_gradient_equals_its_formula(name, given, timed):
    table = table_of(name, given)
    rng = np.random.default_rng(0)
    pi = random_policy(table, 0, timed=timed)
    rollouts = truth.sample(table, pi, groups=3, n=2, rng=rng)
    credit = rng.normal(size=len(rollouts.slot_S))
    expected = np.zeros_like(pi)
    for s in range(len(credit)):
        x, t = rollouts.state_S[s], rollouts.time_S[s]
        part = slice(table.first_slot_X[x], table.first_slot_X[x + 1])
        target = expected[t] if timed else expected
        one = np.zeros(len(table.actions[x]))
        one[rollouts.action_S[s]] = 1.0
        target[part] += credit[s] * (one - row(table, pi, t, table.states[x])) / 6
    np.testing.assert_allclose(truth.batch_gradient(table, pi, rollouts, credit), expected, atol=1e-12)


@small
def test_exact_credit_gives_the_exact_gradient_on_average(name, given):
    table = table_of(name, given)
    pi = truth.improve(table, random_policy(table, 0, spread=0.5), 1.0)
    answer = truth.exact(table, pi)
    rollouts = truth.sample(table, pi, groups=20000, n=1, rng=np.random.default_rng(0))
    gradient = truth.batch_gradient(table, pi, rollouts, truth.advantage_of(answer, rollouts))
    assert truth.cosine(gradient, truth.policy_gradient(answer)) > 0.995


@pytest.mark.parametrize(("name", "given"), [*SMALL, *((name, {}) for name in task_names())], ids=str)
def test_improvement_starts_at_the_policy_and_ends_at_the_optimum(name, given):
    table = table_of(name, given)
    pi = random_policy(table, 0, timed=True)
    np.testing.assert_allclose(truth.improve(table, pi, 0.0), pi, atol=1e-15)
    values = [truth.exact(table, truth.improve(table, pi, beta)).J for beta in (0.0, 2.0, 8.0, 1e4)]
    assert values == sorted(values)
    assert values[-1] == pytest.approx(truth.optimal(table).J)


def test_improvement_follows_its_formula_at_the_first_visit():
    table = task("keydoor", n=2, horizon=8).table  # too short for everything, so the time matters
    pi = truth.uniform(table)
    better = truth.improve(table, pi, 0.7)
    answer = truth.optimal(table)
    for i, x in enumerate(table.states):
        first = int(np.flatnonzero(table.reached_HX[:, i])[0])
        weight = np.exp(0.7 * row(table, answer.advantage_HK, first, x))
        np.testing.assert_allclose(row(table, better, 0, x), weight / weight.sum(), atol=1e-12)


@pytest.mark.parametrize("show_time", [False, True])
def test_a_scorer_is_asked_once_for_every_distinct_text(show_time):
    table = task("keydoor", show_time=show_time, n=2, horizon=7).table
    calls = []

    def scorer(texts, actions):
        calls.append(texts)
        seed = [sum(map(ord, text)) for text in texts]
        return [np.arange(1.0, len(a) + 1) ** (s % 3) / sum(np.arange(1.0, len(a) + 1) ** (s % 3))
                for a, s in zip(actions, seed, strict=True)]  # fmt: skip

    pi = truth.probabilities(table, scorer)
    (texts,) = calls
    assert pi.shape == ((table.horizon, table.slots) if show_time else (table.slots,))
    for t, i in np.argwhere(table.reached_HX):
        text, actions = table.text(i, t), table.actions[i]
        (expected,) = scorer([text], [actions])
        np.testing.assert_allclose(row(table, pi, t, table.states[i]), expected)
        assert text in texts
    if not show_time:
        assert len(texts) < len(table.states)  # apples left behind are no longer in the text
    assert pytest.approx(truth.exact(table, pi).J, abs=1e-12) == truth.exact(table, scorer).J


def test_a_mapping_and_an_array_are_one_policy():
    table = task("keydoor").table
    pi = random_policy(table, 0)
    mapping = {x: row(table, pi, 0, x) for x in table.states}
    np.testing.assert_allclose(truth.probabilities(table, mapping), pi, atol=1e-15)


def test_rounded_probabilities_are_made_exact():
    table = task("keydoor").table
    rough = random_policy(table, 0).astype(np.float16)
    total = table.sum_by_state(truth.probabilities(table, rough))
    np.testing.assert_allclose(total, 1.0, atol=1e-12)


def test_what_is_no_policy_is_refused():
    table = task("keydoor").table
    good = truth.uniform(table)
    with pytest.raises(ConfigError, match=r"the policy has shape \(3,\); give \(\d+,\) for one probability per slot"):
        truth.exact(table, np.ones(3))
    with pytest.raises(ConfigError, match=r"the policy lacks the state \('key', 0, 0, 3\); give all 72"):
        truth.exact(table, {})
    with pytest.raises(ConfigError, match=r"shape \(1,\) in state \('key', 0, 0, 3\); give one probability for each"):
        truth.exact(table, {x: [1.0] for x in table.states})
    with pytest.raises(ConfigError, match=r"in state \('key', 0, 0, 3\) does not sum to 1; give probabilities"):
        truth.exact(table, good * 1.01)
    for wrong in (-1.0, np.nan):
        bad = good.copy()
        bad[:2] = wrong, 1.0 - wrong
        with pytest.raises(ConfigError, match="has a negative or NaN entry; give probabilities"):
            truth.exact(table, bad)
    with pytest.raises(ConfigError, match="the policy returned 1 rows for"):
        truth.exact(table, lambda texts, actions: [np.ones(1)])


def test_what_is_no_credit_is_refused():
    table = task("keydoor").table
    rollouts = truth.sample(table, truth.uniform(table), groups=1, n=1, rng=np.random.default_rng(0))
    for credit in (np.zeros(1), np.full(len(rollouts.slot_S), np.nan)):
        with pytest.raises(DataError, match=r"for \d+ steps; give one finite number per step"):
            truth.batch_gradient(table, truth.uniform(table), rollouts, credit)
    with pytest.raises(ConfigError, match="groups is 0 and n is 1; both must be 1 or more"):
        truth.sample(table, truth.uniform(table), groups=0, n=1, rng=np.random.default_rng(0))


def test_cosine():
    assert truth.cosine([1.0, 0.0], [1.0, 1.0]) == pytest.approx(0.5**0.5)
    assert truth.cosine([[1.0, 2.0]], [[-2.0, -4.0]]) == pytest.approx(-1.0)
    assert truth.cosine([0.0, 0.0], [1.0, 1.0]) == 0.0
