"""Every registered task, and its noisy variant, against the listing of all its rollouts. Nobody is named here."""

import re

import numpy as np
import pytest

from apportion.bench.exact import advantage_of, exact, improve, policy_gradient, sample, uniform
from apportion.bench.stamped import plain
from apportion.bench.tasks import task, task_names
from apportion.bench.ties import cores, tied, tied_gradient, ties
from apportion.bench.truth import to_batch
from apportion.errors import ConfigError
from apportion.units import by_step
from tests.bench import brute

EVERY = task_names(noisy=True)


def small(name, **more):
    given = dict(task(name).small)
    if name.endswith("-noisy"):
        given["stamps"] = 2
        if "decisive" in given:  # two stamps in each of its steps are too many rollouts
            given |= {"horizon": 4, "decisive": (1, 3)}
    return task(name, **{**given, **more}).table


def random_policy(table, seed, timed=False):
    weight = np.exp(np.random.default_rng(seed).normal(size=(table.horizon, table.slots) if timed else table.slots))
    return weight / table.sum_by_state(weight)[..., table.state_of_K]


def reader(texts, actions):
    """A policy that goes by every letter, as a transformer does."""
    rows = [np.arange(1.0, len(a) + 1) ** (sum(map(ord, text)) % 5 / 2) for text, a in zip(texts, actions, strict=True)]
    return [row / row.sum() for row in rows]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("kind", ["table", "timed table", "reader"])
def test_truth_equals_the_average_over_all_rollouts(name, kind):
    # every rollout is listed, so nothing here is shared with the recursion that is checked
    table = small(name, **({"show_time": True} if kind == "reader" else {}))
    policy = reader if kind == "reader" else random_policy(table, 1, timed=kind == "timed table")
    for gamma in (1.0, 0.8):
        answer = exact(table, policy, gamma=gamma)
        pi_HK = np.broadcast_to(answer.policy, (table.horizon, table.slots))

        def prob(t, x, pi_HK=pi_HK):
            i = table.index[x]
            return pi_HK[t, table.first_slot_X[i] : table.first_slot_X[i + 1]]

        if kind == "reader":  # the probabilities straight from the text, without the table

            def prob(t, x):
                return reader([table.rules.text(x, table.horizon - t)], [table.rules.actions(x)])[0]

        J, mean, mass = brute.truth(table.rules, prob, gamma)
        assert pytest.approx(J, abs=1e-12) == answer.J
        assert len(mass) > table.horizon
        for (t, x, *action), value in mean.items():
            i = table.index[x]
            if action:
                slot = table.slot(i, action[0])
                assert answer.q_HK[t, slot] == pytest.approx(value, abs=1e-9)
                assert answer.advantage_HK[t, slot] == pytest.approx(value - mean[t, x], abs=1e-9)
            else:
                assert answer.value_HX[t, i] == pytest.approx(value, abs=1e-9)
                assert answer.visit_HX[t, i] == pytest.approx(mass[t, x], abs=1e-12)


@pytest.mark.parametrize("name", EVERY)
def test_the_gradient_of_a_policy_that_reads_texts_equals_finite_differences(name):
    table = small(name)
    place = ties(table)
    logits = np.random.default_rng(0).normal(size=place.max() + 1)

    def policy(z):
        weight = np.exp(z[place])
        return weight / table.sum_by_state(weight)[table.state_of_K]

    gradient = tied_gradient(policy_gradient(exact(table, policy(logits))), place)
    for at in np.argsort(-np.abs(gradient))[:12]:
        bump = np.eye(len(logits))[at] * 1e-5
        up, down = exact(table, policy(logits + bump)).J, exact(table, policy(logits - bump)).J
        assert gradient[at] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-9)
    assert np.abs(gradient).max() > 1e-4
    np.testing.assert_allclose(tied(table, policy(logits)), policy(logits), atol=1e-12)


@pytest.mark.parametrize("name", task_names())
def test_stamps_change_the_texts_and_not_the_truth(name):
    table, noisy = task(name).table, task(name + "-noisy").table
    pi = improve(table, random_policy(table, 0), 0.5)
    inner = [table.index[x] for x in plain(noisy.rules, noisy.states)[1]]
    same = np.concatenate([pi[table.first_slot_X[i] : table.first_slot_X[i + 1]] for i in inner])
    a, b = exact(table, pi), exact(noisy, same)
    assert pytest.approx(b.J) == a.J
    for i, j in enumerate(inner[:200]):
        np.testing.assert_allclose(b.value_HX[:, i], a.value_HX[:, j], atol=1e-12)
    texts = {noisy.text(i, 0) for i in range(len(noisy.states))}
    assert len(texts) == len(noisy.states)
    goal = tied_gradient(policy_gradient(a), ties(table))
    gradient = tied_gradient(policy_gradient(b), ties(noisy))
    np.testing.assert_allclose(np.sort(gradient), np.sort(goal), atol=1e-12)
    assert len(set(cores(noisy))) == table.slots


@pytest.mark.parametrize("name", task_names())
def test_state_keys_see_through_the_stamps(name):
    noisy = task(name + "-noisy").table
    answer = exact(noisy, uniform(noisy))
    batch = to_batch(answer, sample(noisy, answer.policy, groups=8, n=8, rng=np.random.default_rng(0)))
    rough, fine = by_step(batch).state_S, by_step(batch, state="normalised").state_S
    unstamped = [re.sub(r"^\[.*?\] ", "", text) for text in rough]
    assert len(set(fine)) == len(set(unstamped)) < len(set(rough))
    assert all(len({f for f, u in zip(fine, unstamped, strict=True) if u == text}) == 1 for text in unstamped[:20])


@pytest.mark.parametrize("name", EVERY)
def test_equal_cores_have_one_advantage(name):
    table = task(name).table
    pi = tied(table, improve(table, uniform(table), 1.0))
    answer = exact(table, pi)
    rollouts = sample(table, pi, groups=8, n=8, rng=np.random.default_rng(1))
    core, right = cores(table)[rollouts.slot_S], advantage_of(answer, rollouts)
    for key in {(t, c) for t, c in zip(rollouts.time_S, core, strict=True)}:
        assert np.ptp(right[(rollouts.time_S == key[0]) & (core == key[1])]) < 1e-12


def test_twins_look_alike_and_are_not():
    table = task("twins").table
    answer = exact(table, tied(table, uniform(table)))
    red, blue = table.index["red", 0], table.index["blue", 0]
    assert table.text(red, 1) == table.text(blue, 1)
    assert abs(answer.value_HX[1, red] - answer.value_HX[1, blue]) > 0.1
    better = tied(table, improve(table, uniform(table), 4.0))
    door = [table.index[x, 3] for x in ("red", "blue")]
    assert better[table.slot(door[0], "push")] == better[table.slot(door[1], "push")]


def test_states_that_look_alike_share_a_policy_weighted_by_visits():
    table = task("twins", slip=0.0, squares=1).table
    pi = uniform(table).copy()
    pi[[table.slot(table.index["", 0], a) for a in ("pull red", "pull blue")]] = 0.75, 0.25
    for switch, push in (("red", 1.0), ("blue", 0.2)):
        door = table.index[switch, 1]
        pi[table.slot(door, "push")], pi[table.slot(door, "pull")] = push, 1.0 - push
    both = tied(table, pi)
    for switch in ("red", "blue"):
        assert both[table.slot(table.index[switch, 1], "push")] == pytest.approx(0.75 * 1.0 + 0.25 * 0.2)
    with pytest.raises(ConfigError, match="the policy changes with the time"):
        tied(table, np.tile(pi, (table.horizon, 1)))
