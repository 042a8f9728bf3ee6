"""The exact reward model and the words of actions, against plain averages over rollouts."""

import numpy as np
import pytest

from apportion.asks import Continue, Place, Score, Span
from apportion.bench.continuations import ExactPolicy
from apportion.bench.exact import exact, improve, sample, uniform
from apportion.bench.oracle import ExactReward, told
from apportion.bench.spelling import beginning, spelled
from apportion.bench.tasks import task, task_names
from apportion.bench.ties import tied
from apportion.resources import Refusal, Request
from apportion.units import by_step, by_token
from tests.bench import brute


def world(name, groups=2, n=4, **options):
    table = task(name, **options).table
    truth = exact(table, tied(table, improve(table, uniform(table), 2.0)))
    drawn = sample(table, truth.policy, groups=groups, n=n, rng=np.random.default_rng(0))
    return truth, drawn, told(truth, drawn)


def score(truth, batch, traj, **given):
    return ExactReward(truth).function(Request(Score(traj, **given), batch.trajectories[traj], 0, 0))


@pytest.mark.parametrize("name", task_names(noisy=True))
def test_words_add_up_to_actions(name):
    truth, drawn, batch = world(name)
    steps, tokens = by_step(batch), by_token(batch)
    np.testing.assert_allclose(steps.logp_S, np.log(truth.policy[drawn.slot_S]), atol=1e-9)
    reference = uniform(truth.table)[drawn.slot_S]
    np.testing.assert_allclose(steps.ref_logp_S, np.log(reference), atol=1e-9)
    first = np.searchsorted(tokens.step_of_S, np.arange(len(steps)))
    np.testing.assert_allclose(tokens.value_S[first], truth.value_HX[drawn.time_S, drawn.state_S], atol=1e-9)


def test_each_word_has_the_probability_and_the_worth_of_its_beginning():
    table = task("crafttree").table
    x = next(x for x in range(len(table.states)) if "get log" in table.actions[x] and "craft plank" in table.actions[x])
    pi, q = np.random.default_rng(0).random(table.slots), np.random.default_rng(1).normal(size=table.slots)
    pi = pi / table.sum_by_state(pi)[table.state_of_K]
    one = spelled(table, table.slot(x, "get ore"), pi, q)
    gets = [table.slot(x, f"get {item}") for item in ("log", "coal", "ore")]
    assert sorted(beginning(table, x, ["get"])) == gets
    assert np.exp(one.logp[0]) == pytest.approx(pi[gets].sum())
    assert np.exp(one.logp[1]) == pytest.approx(pi[gets[2]] / pi[gets].sum())
    assert one.value[1] == pytest.approx(np.average(q[gets], weights=pi[gets]))
    p = pi[gets] / pi[gets].sum()
    assert (one.entropy[1], one.square[1]) == pytest.approx((-(p * np.log(p)).sum(), (p**2).sum()))


@pytest.mark.parametrize("name", ["keydoor", "relay", "twins"])
def test_the_score_of_a_moment_is_its_value(name):
    truth, drawn, batch = world(name)
    first = np.searchsorted(drawn.traj_of_S, np.arange(len(batch)))
    for traj, rollout in enumerate(batch.trajectories):
        paid = 0.0
        for t, step in enumerate(rollout.steps):
            s, size = first[traj] + t, len(step.action.split())
            v, q = truth.value_HX[t, drawn.state_S[s]], truth.q_HK[t, drawn.slot_S[s]]
            assert score(truth, batch, traj, upto=Place(traj, t)) == pytest.approx(paid + v)
            assert score(truth, batch, traj, upto=Place(traj, t, size)) == pytest.approx(paid + q)
            paid += step.reward


def test_the_score_of_a_rollout_is_what_its_actions_pay_on_average():
    truth, _, batch = world("relay", legs=2)
    rules = truth.table.rules
    for traj, rollout in enumerate(batch.trajectories):
        actions = [step.action for step in rollout.steps]
        for missing, absent in (
            ((), ()),
            (("planner",), ()),
            (("worker",), ()),
            ((), (1, 2)),
            (("planner", "worker"), ()),
        ):

            def prob(t, x, actions=actions, missing=missing, absent=absent):
                idle = rules.agent(x) in missing or t in absent
                return [float(a == (rules.absent(x) if idle else actions[t])) for a in rules.actions(x)]

            spans = tuple(Span(t, 0, 2) for t in absent)
            got = score(truth, batch, traj, agents=missing, absent=spans)
            assert got == pytest.approx(brute.truth(rules, prob)[0])


def test_what_a_game_cannot_answer_is_refused():
    truth, drawn, batch = world("twins")
    with pytest.raises(Refusal, match="the game has no agents; score whole rollouts"):
        score(truth, batch, 0, agents=("planner",))
    play = ExactPolicy(truth).function
    with pytest.raises(Refusal, match="nobody can be left out"):
        play(Request(Continue(Place(0), 1, without=("planner",)), batch.trajectories[0], 0, 0))
    with pytest.raises(Refusal, match="knows words, not token ids; make the rollouts without ids"):
        play(Request(Continue(Place(0), 1, first=(1,)), batch.trajectories[0], 0, 0))
    assert not told(truth, drawn, ids=False).has_ids


def test_continuations_without_an_agent_pay_what_the_others_are_worth():
    from apportion.bench.agents import coalition_values

    truth, _, batch = world("relay")
    names, value_C = coalition_values(truth.table, truth.policy)
    play = ExactPolicy(truth).function
    for m, name in enumerate(names):
        totals = [
            play(Request(Continue(Place(0, 1), 1, without=(name,)), batch.trajectories[0], 0, seed)).total()
            for seed in range(600)
        ]
        want = value_C[(1 << len(names)) - 1 - (1 << m)]
        assert abs(np.mean(totals) - want) < 4 * np.std(totals) / 600**0.5 + 1e-12


def test_a_beginning_is_finished_as_the_policy_would():
    truth, _, batch = world("crafttree", groups=1)
    x = batch.trajectories[0].steps[0].extra["table_state"]
    play, action = ExactPolicy(truth).function, batch.trajectories[0].steps[0].action
    assert action.startswith("get")
    totals = [
        play(Request(Continue(Place(0, 0, 1), 1), batch.trajectories[0], 0, seed)).total() for seed in range(3000)
    ]
    gets = beginning(truth.table, x, ["get"])
    want = np.average(truth.q_HK[0, gets], weights=truth.policy[gets])
    assert abs(np.mean(totals) - want) < 4 * np.std(totals) / 3000**0.5
