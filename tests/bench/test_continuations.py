"""The exact policy as somebody to ask: its continuations are unbiased, and so are methods that stand on them."""

import numpy as np
import pytest

from apportion.asks import Answer, Continue, Place
from apportion.assign import assign
from apportion.bench.continuations import ExactPolicy, askable
from apportion.bench.exact import advantage_of, exact, improve, sample, uniform
from apportion.bench.tasks import task
from apportion.data import Batch, Step, Trajectory
from apportion.methods import get
from apportion.resources import Asker, Refusal, Request
from apportion.units import by_step


def truth_of(name, beta, gamma=1.0, **options):
    table = task(name, **options).table
    return exact(table, improve(table, uniform(table), beta), gamma=gamma)


def rollouts_of(truth, groups=1, n=1, seed=0):
    drawn = sample(truth.table, truth.policy, groups=groups, n=n, rng=np.random.default_rng(seed))
    return drawn, askable(truth, drawn)


def play(truth, asks, batch, seed=0):
    """Answers straight from the table, without a runner: thousands of them."""
    resource = ExactPolicy(truth)
    out = []
    for a, ask in enumerate(asks):
        rollout = batch.trajectories[ask.at.traj]
        samples = [resource.function(Request(ask, rollout, k, hash((seed, a, k)) & (2**62 - 1))) for k in range(ask.k)]
        out.append(Answer(ask, tuple(samples)))
    return out


TASKS = [("crafttree", {"horizon": 5, "budget": 2}), ("keydoor", {"horizon": 6, "n": 1, "apples": 2})]


@pytest.mark.parametrize(("name", "options", "gamma"), [(*TASKS[0], 1.0), (*TASKS[1], 0.9)])
def test_continuations_have_the_exact_value_as_their_mean(name, options, gamma):
    truth = truth_of(name, 2.0, gamma, **options)
    drawn, batch = rollouts_of(truth)
    first = np.searchsorted(drawn.traj_of_S, np.arange(len(batch)))
    places = [Place(n, s) for n in range(len(batch)) for s in range(len(batch.trajectories[n].steps))]
    before = play(truth, [Continue(p, 300) for p in places], batch)
    size = [len(batch.trajectories[p.traj].steps[p.step].action.split()) for p in places]
    behind = play(truth, [Continue(Place(p.traj, p.step, n), 300) for p, n in zip(places, size, strict=True)], batch)
    at = np.array([first[p.traj] + p.step for p in places])
    v = truth.value_HX[drawn.time_S[at], drawn.state_S[at]]
    q = truth.q_HK[drawn.time_S[at], drawn.slot_S[at]]
    for answers, want in ((before, v), (behind, q)):
        totals = np.array([[c.total(gamma) for c in a.samples] for a in answers])
        error = totals.std(axis=1, ddof=1) / np.sqrt(totals.shape[1])
        assert (np.abs(totals.mean(axis=1) - want) <= 4 * error + 1e-12).all()


def test_another_action_leads_to_its_own_value():
    truth = truth_of("crafttree", 2.0, horizon=5, budget=2)
    drawn, batch = rollouts_of(truth)
    x = int(drawn.state_S[0])
    for action in truth.table.actions[x]:
        ask = Continue(Place(0), 300, first=action, whole=True)
        (answer,) = play(truth, [ask], batch)
        totals = np.array([c.total() for c in answer.samples])
        want = truth.q_HK[0, truth.table.slot(x, action)]
        assert abs(totals.mean() - want) <= 4 * totals.std() / np.sqrt(300) + 1e-12
        assert {c.moves[0].action for c in answer.samples} == {""}
    (failed,) = Asker(ExactPolicy(truth))([Continue(Place(0), 1, first="fly", whole=True)], batch.trajectories)
    assert failed.reason.startswith("'fly' is none of the actions")


@pytest.mark.parametrize(("name", "options"), TASKS)
def test_vineppo_is_unbiased_and_its_variance_falls_as_one_over_k(name, options):
    truth = truth_of(name, 2.0 if name == "crafttree" else 0.5, **options)
    drawn, batch = rollouts_of(truth, seed=1)
    units, spec, table = by_step(batch), get("vineppo"), truth.table
    # what a noisy reward paid beside its mean is not the action's doing: r + V' - V is the advantage plus that
    paid = np.bincount(table.slot_of_M, weights=table.prob_M * table.reward_M, minlength=table.slots)
    right = advantage_of(truth, drawn) + drawn.reward_S - paid[drawn.slot_S]
    spread = {}
    for k in (1, 4):
        asks = spec.plan(units, **spec.bind({"k": k}))
        got = np.array([spec.call(units, play(truth, asks, batch, seed), k=k).advantage_S for seed in range(200)])
        error = got.std(axis=0, ddof=1) / np.sqrt(len(got))
        assert (np.abs(got.mean(axis=0) - right) <= 4 * error + 0.01).all()
        spread[k] = float(got.var(axis=0, ddof=1).sum())
    assert spread[1] / spread[4] == pytest.approx(4.0, rel=0.25)
    assert spread[4] > 0


def test_the_runner_asks_it_once_for_equal_states():
    truth = truth_of("crafttree", 2.0, horizon=5, budget=2, goal="torch")
    _, batch = rollouts_of(truth, n=3)
    resource = ExactPolicy(truth)
    credit = assign("vineppo", by_step(batch), k=2, ask=Asker(resource))
    states = {
        (t.group, s, tuple(x.action for x in t.steps[:s])) for t in batch.trajectories for s in range(len(t.steps))
    }
    assert credit.cost.requests == resource.calls + 2 * (len(by_step(batch)) - len(states))
    assert resource.calls == 2 * len(states)
    strange = Batch.from_trajectories([Trajectory([Step(observation="x", action="y", reward=0.0)])])
    with pytest.raises(Refusal, match=r"does not tell its state; make the rollouts with apportion.bench.continuations"):
        assign("vineppo", by_step(strange), ask=Asker(resource))
