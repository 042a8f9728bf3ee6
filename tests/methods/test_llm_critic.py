import random
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from apportion.asks import Judge, Place, Verdict
from apportion.assign import assign, cost
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.methods import get
from apportion.methods.critic import read_verdicts
from apportion.units import by_step, by_token
from tests.asking import answered, asker
from tests.judging import slow_numbers, slow_standard, verdicts, wrong
from tests.make import random_units
from tests.plain import plain, spread

CRITIQUES = [wrong(1, 0, 1, 0), wrong(1, 0, 0, 0), wrong(1, 1, 0, 0), wrong(1, 0, 1, 0)]


def rollouts(*outcomes, sizes=(1, 1, 1, 1), group="g"):
    steps = [Step(prompt_ids=[9], ids=list(range(n))) for n in sizes]
    return by_step(Batch.from_trajectories([Trajectory(steps, group=group, outcome=r) for r in outcomes]))


@pytest.mark.parametrize(
    ("aggregate", "want"),
    [
        # of 4 critiques, 4 find fault with step 1, 1 with step 2, 2 with step 3
        ("intersection", [1, 0, 0, 0]),
        ("majority", [1, 0, 1, 0]),
        ("union", [1, 1, 1, 0]),
        ("mean", [1, 0.25, 0.5, 0]),
        ("median", [1, 0, 0.5, 0]),
    ],
)
def test_worked_votes(aggregate, want):
    units = rollouts(1.0)
    answers = answered("llm_critic", units, [CRITIQUES], votes=4)
    value_S, notes = read_verdicts("t", units, answers, aggregate=aggregate, votes=4)
    np.testing.assert_allclose(value_S, np.negative(want))
    assert notes == {"verdicts": 16}


@pytest.mark.parametrize(
    ("scale", "scores", "want"),
    [
        ((-1.0, 1.0), (1.0, 0.0, -1.0), (1, 0, -1)),  # good, neutral, bad
        ((0.0, 10.0), (10.0, 5.0, 2.0), (1, 0, -0.6)),  # (s - 5) / 5
        ((1.0, 5.0), (5.0, 3.0, 2.0), (1, 0, -0.5)),
    ],
)
def test_a_scale_is_centred(scale, scores, want):
    units = rollouts(1.0, sizes=(1, 1, 1))
    answers = answered("llm_critic", units, [Verdict(scores, scale=scale)])
    np.testing.assert_allclose(read_verdicts("t", units, answers, aggregate="mean", votes=1)[0], want)


def test_worked_example():
    # outcomes 1, 0: ±.7071; verdicts 1, 0 | 0, -1: mean 0, std sqrt(2/3) = .8165, so 1.2247, 0, 0, -1.2247
    units = rollouts(1.0, 0.0, sizes=(1, 1))
    values = [Verdict((1.0, 0.0)), Verdict((0.0, -1.0))]
    credit = get("llm_critic").call(units, answered("llm_critic", units, values))
    np.testing.assert_allclose(credit.advantage_S, [1.93185, 0.70711, -0.70711, -1.93185], atol=1e-5)
    np.testing.assert_allclose(credit.parts["judge"], [1.22474, 0, 0, -1.22474], atol=1e-5)


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    rng = random.Random(seed)
    units = random_units(seed, forks=False)
    everything = list(
        product(("after", "before"), ("group", "batch"), ("unit", "token", "rollout"), ("std", "none"), (0, 1))
    )
    for mix, within, weigh, scale, ddof in rng.sample(everything, 12):
        for aggregate, calls, weights in (("mean", "rollout", (0.7, 1.5)), ("majority", "unit", (1.0, 0.0))):
            params = {
                "votes": 3,
                "aggregate": aggregate,
                "calls": calls,
                "mix": mix,
                "within": within,
                "weigh": weigh,
                "scale": scale,
                "ddof": ddof,
                "epsilon": rng.choice((0.0, 0.01)),
                "weight": weights[0],
                "outcome_weight": weights[1],
            }
            answers = verdicts("llm_critic", units, rng, **params)
            got = get("llm_critic").call(units, answers, **params)
            want, known = slow_critic(units, answers, **params)
            np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)
            assert got.known_S.tolist() == known


def slow_critic(
    units, answers, *, aggregate, mix, within, weigh, scale, ddof, epsilon, weight, outcome_weight, votes, calls
):
    batch, x = plain(units.batch), slow_numbers(units, answers, aggregate)
    rows = []
    for s, n in enumerate(units.traj_of_S.tolist()):
        r = batch[n]
        known = x[s] is not None and r.valid
        total = (outcome_weight * r.outcome if mix == "before" else 0.0) + weight * x[s] if known else 0.0
        place = sum(t == n for t in units.traj_of_S.tolist()[:s])
        rows.append(SimpleNamespace(known=known, rollout=n, group=r.group, x=total, tokens=r.tokens[place], z=0.0))
    if mix == "after":
        for row, verdict in zip(rows, x, strict=True):
            row.x = verdict if row.known else 0.0
    sets = {row.group if within == "group" else 0 for row in rows}
    for name in sets:
        chosen = [row for row in rows if row.known and (row.group if within == "group" else 0) == name]
        slow_standard(chosen, weigh=weigh, scale=scale, ddof=ddof, epsilon=epsilon)
    out = []
    for row in rows:
        a = row.z
        if mix == "after" and row.known:
            peers = [r.outcome for r in batch if r.group == row.group and r.valid]
            std = spread(peers, ddof)
            gap = batch[row.rollout].outcome - sum(peers) / len(peers) if len(peers) > 1 and std else 0.0
            a = weight * row.z + outcome_weight * gap / (std + epsilon if scale == "std" and gap else 1.0)
        out.append(a if row.known else 0.0)
    return out, [row.known for row in rows]


def test_its_settings_are_its_neighbours():
    units = random_units(3, forks=False)
    rng = random.Random(5)
    common = {"template": "t", "votes": 2, "ddof": 0}
    answers = verdicts("llm_critic", units, rng, votes=2)
    full = get("llm_critic").call

    def same(method, theirs, ours, given=answers):
        a = get(method).call(units, given, **common, **theirs)
        b = full(units, given, **common, **ours)
        np.testing.assert_allclose(a.advantage_S, b.advantage_S, atol=1e-12)
        assert a.known_S.tolist() == b.known_S.tolist()

    before = {"mix": "before", "weigh": "token", "aggregate": "union"}
    same("capo", {"aggregate": "union"}, {**before, "outcome_weight": 2.0, "weight": 1.0})
    same("critic_search", {"weight": 0.3}, {"weight": 0.3})
    of_units = verdicts("mappa", units, rng, votes=2)
    a = get("mappa").call(units, of_units, **common)
    assert np.any(a.advantage_S)
    # where every rollout takes part in both, mappa is the critic that reads no outcome
    valid = [n for n, rollout in enumerate(units.batch.trajectories) if units.valid_N[n]]
    units = by_step(Batch.from_trajectories([units.batch.trajectories[n] for n in valid]))
    of_units = verdicts("mappa", units, rng, votes=2)
    ours = {"calls": "unit", "within": "batch", "weigh": "token", "outcome_weight": 0.0}
    same("mappa", {}, ours, of_units)


def test_without_weight_on_the_verdicts_it_is_grpo():
    units = random_units(8, forks=False)
    answers = verdicts("llm_critic", units, random.Random(1))
    credit = get("llm_critic").call(units, answers, weight=0.0)
    want = get("grpo").call(units).advantage_S
    np.testing.assert_allclose(credit.advantage_S, np.where(credit.known_S, want, 0.0), atol=1e-12)


def test_a_judge_that_knows_gives_the_true_advantage():
    # two coins, success where both are heads: Q - V of each toss under the uniform policy is ±1/4 at first; then ±1/2
    # after heads and 0 after tails. A judge that says so, asked about the whole distribution, is passed on unchanged.
    truth = {"HH": (0.25, 0.5), "HT": (0.25, -0.5), "TH": (-0.25, 0.0), "TT": (-0.25, 0.0)}
    steps = {name: [Step(prompt_ids=[1], ids=[ord(c)]) for c in name] for name in truth}
    batch = Batch.from_trajectories([Trajectory(steps[n], group="g", outcome=float(n == "HH")) for n in truth])
    units = by_step(batch)
    params = {"outcome_weight": 0.0, "scale": "none", "weight": 1.0}
    answers = answered("llm_critic", units, [Verdict(scores) for scores in truth.values()])
    got = get("llm_critic").call(units, answers, **params)
    np.testing.assert_allclose(got.advantage_S, np.concatenate(list(truth.values())), atol=1e-12)


def test_what_nobody_could_say_is_unknown_and_in_no_mean():
    units = rollouts(1.0, 0.0, sizes=(1, 1))
    values = [[Verdict((1.0, None)), Verdict((None, None))], []]
    credit = get("llm_critic").call(units, answered("llm_critic", units, values, votes=2), votes=2)
    assert credit.known_S.tolist() == [True, False, False, False]
    assert credit.advantage_S.tolist() == [pytest.approx(0.7071, abs=1e-4), 0, 0, 0]  # its outcome; nobody to compare
    assert credit.notes == {
        "groups": 1,
        "verdicts": 1,
        "verdicts_missing": 7,
        "units_without_verdict": 3,
    }


def test_verdicts_that_differ_by_rounding_alone_are_no_signal():
    units = rollouts(1.0, 1.0, 1.0, sizes=(3, 7, 2))
    values = [[Verdict((x, x, x)) for x in xs] for xs in ((0.1, 0.2, 0.3), (0.3, 0.1, 0.2), (0.2, 0.3, 0.1))]
    for weigh in ("unit", "token", "rollout"):
        credit = get("llm_critic").call(units, answered("llm_critic", units, values, votes=3), votes=3, weigh=weigh)
        assert credit.advantage_S.tolist() == [0] * 9


def test_a_score_outside_its_scale_is_no_verdict():
    units = rollouts(1.0, 0.0, sizes=(1, 1))
    values = [Verdict((11.0, 5.0), scale=(0.0, 10.0)), Verdict((1.0, -3.0), scale=(0.0, 10.0))]
    credit = get("llm_critic").call(units, answered("llm_critic", units, values))
    assert credit.known_S.tolist() == [False, True, True, False]
    assert credit.notes["verdicts_off_scale"] == 2
    assert "verdicts_missing" not in credit.notes


def test_the_plan_asks_about_rollouts_or_units():
    units = by_token(Batch.from_trajectories([Trajectory([Step(ids=[1, 2], reward=1.0), Step(ids=[3])], outcome=1.0)]))
    spec = get("llm_critic")
    places = (Place(0, 0, 0), Place(0, 0, 1), Place(0, 1, 0))
    (ask,) = spec.plan(units, **spec.bind({"votes": 3, "template": "t", "privileged": True}))
    assert ask == Judge(0, places, "t", votes=3, privileged=True)
    each = spec.plan(units, **spec.bind({"calls": "unit"}))
    assert each == [Judge(0, places, "labels", focus=f) for f in range(3)]


def test_the_price_is_what_the_runner_counts():
    units = random_units(2, forks=False)
    ask = asker(lambda r: Verdict((1.0,) * len(r.ask.units)))
    quoted = cost("llm_critic", units, votes=3, ask=ask)
    credit = assign("llm_critic", units, votes=3, ask=ask)
    assert quoted.requests == credit.cost.requests == ask.resources[0].calls == 3 * int(units.valid_N.sum())
    assert cost("llm_critic", units, votes=3, ask=ask).requests == 0
    assert cost("llm_critic", units, calls="unit").requests == int(units.valid_S.sum())


def test_what_it_refuses():
    units = rollouts(1.0)
    said = answered("llm_critic", units, [wrong(0, 0, 0, 0)])
    call = get("llm_critic").call
    for name in ("mix", "within", "weigh", "scale", "aggregate", "calls"):
        with pytest.raises(ConfigError, match=f"llm_critic: {name} is 'no'; give one of "):
            call(units, said, **{name: "no"}) if name != "calls" else get("llm_critic").plan(
                units, **get("llm_critic").bind({"calls": "no"})
            )
    with pytest.raises(ConfigError, match=r"llm_critic: votes is 0; ask for one opinion or more"):
        cost("llm_critic", units, votes=0)
    with pytest.raises(DataError, match=r"a verdict has 2 scores for 4 units; give one for each, None = no verdict"):
        call(units, answered("llm_critic", units, [wrong(0, 1)]))
    with pytest.raises(ConfigError, match=r"llm_critic asks a judge, and nobody was given to ask"):
        assign("llm_critic", units)
