"""Methods that ask for samples, on tasks whose values are known: unbiased, with a variance that falls as one over K.

A method that asks for continuations is listed here, or the first test says its name.
"""

import numpy as np
import pytest

from apportion.asks import Continue, Judge, Verdict
from apportion.assign import assign
from apportion.assign.cost import most_asked
from apportion.bench.continuations import ExactPolicy, askable
from apportion.bench.exact import exact, improve, sample, uniform
from apportion.bench.tasks import task
from apportion.data import Batch, Step, Trajectory
from apportion.methods import get, names
from apportion.methods.critic import plan_verdicts, read_verdicts
from apportion.resources import Asker, Table
from apportion.testing import random_units
from apportion.units import by_agent, by_segment, by_step
from tests.asking import asker, ends_with

TABLE = task("crafttree", horizon=5, budget=2).table
TRUTH = exact(TABLE, improve(TABLE, uniform(TABLE), 2.0))
DRAWN = sample(TABLE, TRUTH.policy, groups=1, n=2, rng=np.random.default_rng(1))
BATCH = askable(TRUTH, DRAWN)
V = TRUTH.value_HX[DRAWN.time_S, DRAWN.state_S]
LAST = np.append(DRAWN.traj_of_S[1:] != DRAWN.traj_of_S[:-1], True)
TO_GO = np.array([DRAWN.reward_S[s:][DRAWN.traj_of_S[s:] == DRAWN.traj_of_S[s]].sum() for s in range(len(V))])
CHANGE = DRAWN.reward_S + np.where(LAST, 0.0, np.append(V[1:], 0.0)) - V


def on_steps(method, **params):
    units = by_step(BATCH)
    return lambda seed: assign(method, units, ask=Asker(ExactPolicy(TRUTH), seed=seed), **params).advantage_S


def on_segments(k):
    """Two tokens, a or b with probability 1/2 each, reward 1 for equal ones, cut into single tokens."""
    step = Step(prompt_ids=[0], ids=[1, 1], logp=np.log([0.5, 0.5]))
    units = by_segment(Batch.from_trajectories([Trajectory([step], outcome=1.0)]), by="fixed", count=2)

    def play(request):
        rng = np.random.default_rng(request.seed)
        first = 1 if request.ask.at.token else int(rng.integers(1, 3))
        return ends_with(float(first == int(rng.integers(1, 3))))

    return lambda seed: assign("spo_chain", units, n=k, ask=asker(play, seed=seed)).advantage_S


def on_roles(k):
    """Two tasks' solvers, who succeed alone with probability 0.2 and 0.6; both succeeded with the thinker's help."""
    rollouts = [
        Trajectory(
            [Step(prompt_ids=[task], ids=[1], agent="thinker"), Step(prompt_ids=[2], ids=[3], agent="solver")],
            outcome=1.0,
            group="g",
        )
        for task in (2, 6)
    ]
    units = by_agent(Batch.from_trajectories(rollouts))

    def play(request):
        alone = request.trajectory.steps[0].prompt_ids[0] / 10
        return ends_with(1.0 if np.random.default_rng(request.seed).random() < alone else -1.0)

    how = {"base": "own", "bonus": "continuous", "lam": 1.0, "k": k}
    return lambda seed: assign("ccpo", units, ask=asker(play, seed=seed), **how).parts["bonus"]


# what is drawn for K samples and a seed, and what its mean must be
SAMPLED = {
    "vineppo": (lambda k: on_steps("vineppo", k=k), CHANGE),
    "agentprm_mc": (lambda k: on_steps("agentprm_mc", k=k, label="mean", first="asked"), CHANGE),
    "c3": (lambda k: on_steps("c3", k=k), TO_GO - V),
    "spo_chain": (on_segments, np.array([0.0, 0.5])),
    "ccpo": (on_roles, np.array([0.2, 0.0, -0.2, 0.0])),  # (1 - E solo) / 2 is 0.8 and 0.4
}


def test_every_method_that_asks_for_continuations_is_listed():
    found = set()
    for name in names("method"):
        spec = get(name)
        if spec.plan is not None and any(
            isinstance(ask, Continue)
            for seed in range(3)
            for ask in most_asked(spec, random_units(seed, spec.unit), spec.bind(dict(spec.example)))
        ):
            found.add(name)
    assert found == set(SAMPLED)


@pytest.mark.parametrize("name", SAMPLED)
def test_unbiased_and_the_variance_falls_as_one_over_k(name):
    draw, right = SAMPLED[name]
    spread = {}
    for k in (1, 5):
        made = draw(k)
        got = np.array([made(seed) for seed in range(80 if len(right) > 4 else 250)])
        error = got.std(axis=0, ddof=1) / np.sqrt(len(got))
        assert (np.abs(got.mean(axis=0) - right) <= 4 * error + 1e-9).all()
        spread[k] = float(got.var(axis=0, ddof=1).sum())
    assert spread[5] > 0
    assert spread[1] / spread[5] == pytest.approx(5.0, rel=0.3)


def test_a_mean_of_votes_is_unbiased_and_its_variance_falls_as_one_over_votes():
    """What every method makes of its judge's votes: here good with probability 0.7, so 0.4 on the scale of -1 to 1."""
    steps = [Step(prompt_ids=[s], ids=[s]) for s in range(3)]
    units = by_step(Batch.from_trajectories([Trajectory(steps, outcome=1.0, group="g")]))

    def vote(request):
        assert isinstance(request.ask, Judge)
        good = np.random.default_rng(request.seed).random(len(request.ask.units)) < 0.7
        return Verdict(tuple(np.where(good, 10.0, 0.0).tolist()), scale=(0.0, 10.0))

    spread = {}
    for votes in (1, 6):
        plan = plan_verdicts("x", units, template="scores", votes=votes)
        got = []
        for seed in range(200):
            ask = Asker(Table(vote, kinds=["judge"], identity="votes"), seed=seed)
            answers = ask(plan, units.batch.trajectories)
            got.append(read_verdicts("x", units, answers, aggregate="mean", votes=votes)[0])
        error = np.std(got, axis=0, ddof=1) / np.sqrt(len(got))
        assert (np.abs(np.mean(got, axis=0) - 0.4) <= 4 * error).all()
        spread[votes] = float(np.var(got, axis=0, ddof=1).sum())
    assert spread[1] / spread[6] == pytest.approx(6.0, rel=0.25)


GAMES = {"scar": "step", "shapley": "agent"}
"""Methods that divide a score by Shapley value, and whose players stand in which units."""


def played(name, value, players=5, seed=0, **params):
    """Shares of a game's players, with one step each: ``value`` of the set of those that are there."""
    steps = [Step(prompt_ids=[p], ids=[p], action=f"{p}", agent=f"a{p}") for p in range(players)]
    batch = Batch.from_trajectories([Trajectory(steps, outcome=0.0)])
    units = (by_step if GAMES[name] == "step" else by_agent)(batch)

    def score(request):
        absent = {span.step for span in request.ask.absent} | {int(agent[1:]) for agent in request.ask.agents}
        return value(frozenset(range(players)) - absent)

    params |= {"alpha": 1.0} if name == "scar" else {}
    return assign(name, units, ask=asker(score, seed=seed), **params)


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("estimator", ["exact", "permutation"])
def test_shares_are_efficient_and_players_who_can_be_swapped_get_the_same(name, estimator):
    rng = np.random.default_rng(4)
    worth = {}

    def value(there):
        # players 1 and 3 count alike, 4 counts nothing
        alike = (0 in there, 2 in there, (1 in there) + (3 in there))
        return worth.setdefault(alike, float(rng.normal()))

    how = {"estimator": estimator} | ({"orders": 7, "max_evals": 99} if estimator == "permutation" else {})
    credit = played(name, value, **how).advantage_S
    assert credit.sum() == pytest.approx(value(frozenset(range(5))) - value(frozenset()), abs=1e-12)
    assert credit[4] == 0.0
    if estimator == "exact":
        assert credit[1] == pytest.approx(credit[3], abs=1e-12)


@pytest.mark.parametrize("name", GAMES)
def test_one_player_gets_the_score_of_all_less_that_of_nobody(name):
    for estimator in ("auto", "exact", "permutation"):
        credit = played(name, lambda there: 2.5 if there else -0.75, players=1, estimator=estimator)
        assert credit.advantage_S.tolist() == [3.25]


def test_who_divides_a_score_by_shapley_value_is_listed():
    found = {name for name in names("method") if "estimator" in get(name).defaults}
    assert found == set(GAMES)
