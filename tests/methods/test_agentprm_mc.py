import numpy as np
import pytest

from apportion.asks import Place
from apportion.assign import assign
from apportion.data import Batch
from apportion.errors import ConfigError
from apportion.methods import get
from apportion.units import by_step
from tests.asking import answered, asker, ends_with
from tests.make import random_units
from tests.methods.test_vineppo import chain
from tests.plain import peers, plain


def credit_of(units, values, **params):
    return get("agentprm_mc").call(units, answered("agentprm_mc", units, values, **params), **params)


def wins(n, of=16):
    return [ends_with(1.0)] * n + [ends_with(0.0)] * (of - n)


def test_worked_example():
    # behind steps 1, 2: 0 and 3 of 16 succeed; the outcome is a success: hard labels 0, 1, 1
    units = by_step(Batch.from_trajectories([chain(0, 0, 1, group="g"), chain(0, 0, 0, group="g")]))
    values = [wins(0), wins(3), wins(1), wins(0)]
    promise = credit_of(units, values, credit="promise")
    assert promise.advantage_S.tolist() == [0, 1, 1, 1, 0, 0]
    progress = credit_of(units, values)  # before the first step: mean outcome of the group, 1/2
    assert progress.advantage_S.tolist() == [-0.5, 1, 0, 0.5, -1, 0]
    mean = credit_of(units, values, label="mean")
    np.testing.assert_allclose(mean.advantage_S, [0 - 0.5, 3 / 16, 13 / 16, 1 / 16 - 0.5, -1 / 16, 0])
    asked = credit_of(units, [wins(5), *values[:2], wins(6), *values[2:]], first="asked", label="mean")
    np.testing.assert_allclose(asked.advantage_S[[0, 3]], [-5 / 16, 1 / 16 - 6 / 16])
    unknown = credit_of(units, values, first="unknown")
    assert unknown.known_S.tolist() == [False, True, True] * 2


@pytest.mark.parametrize(("p", "want"), [(0.01, 0.149), (0.05, 0.560), (0.2, 0.972)])
def test_the_hard_label_saturates(p, want):
    units = by_step(Batch.from_trajectories([chain(0, 0)]))
    rng = np.random.default_rng(3)
    labels = [
        credit_of(units, [[ends_with(float(x)) for x in rng.random(16) < p]], credit="promise").advantage_S[0]
        for _ in range(1500)
    ]
    assert np.mean(labels) == pytest.approx(want, abs=0.04)
    assert 1 - (1 - p) ** 16 == pytest.approx(want, abs=6e-4)


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False)
    rng = np.random.default_rng(seed)
    spec = get("agentprm_mc")
    for credit, label, first, unfinished in (
        ("progress", "hard", "group", None), ("promise", "mean", "group", -1.0), ("progress", "mean", "asked", None),
        ("progress", "hard", "unknown", None),
    ):  # fmt: skip
        params = {"k": 2, "credit": credit, "label": label, "first": first, "unfinished": unfinished, "success": 0.1}
        asks = spec.plan(units, **spec.bind(params))
        values = [[ends_with(float(rng.normal()), finished=bool(rng.random() < 0.7)) for _ in range(2)] for _ in asks]
        got = spec.call(units, answered("agentprm_mc", units, values, **params), **params)
        want, known = slow(units.batch, iter(values), credit, label, first, unfinished)
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)
        assert got.known_S.tolist() == known


def slow(batch, values, credit, label, first, unfinished):
    rollouts, out, known = plain(batch), [], []

    def labelled(totals):
        return sum(totals) / len(totals) if label == "mean" else float(max(totals) > 0.1)

    for r in rollouts:
        q = []
        for i in range(len(r.rewards)):
            if not r.valid or (i == 0 and (credit == "promise" or first != "asked")):
                q.append(None)
                continue
            got = [unfinished if unfinished is not None and not c.finished else c.moves[0].reward for c in next(values)]
            q.append(labelled([sum(r.rewards[:i]) + x for x in got]))
        if r.valid:
            q.append(labelled([r.outcome]))
            if first == "group":
                q[0] = sum(labelled([x]) for x in peers(rollouts, r.group)) / len(peers(rollouts, r.group))
        for i in range(len(r.rewards)):
            after = q[i + 1] if r.valid else None
            before = 0.0 if credit == "promise" else q[i]
            known.append(after is not None and before is not None)
            out.append(after - before if known[-1] else 0.0)
    return out, known


@pytest.mark.parametrize("seed", range(10))
def test_progress_of_means_is_vineppo(seed):
    rng = np.random.default_rng(seed)
    units = by_step(Batch.from_trajectories(chain(*rng.normal(size=int(n)).tolist()) for n in rng.integers(1, 6, 5)))
    ask = asker(lambda r: ends_with(float(np.random.default_rng(r.seed).normal())))
    mine = assign("agentprm_mc(k=3, label='mean', first='asked')", units, ask=ask)
    other = assign("vineppo(k=3)", units, ask=ask)
    np.testing.assert_allclose(mine.advantage_S, other.advantage_S, atol=1e-9)


def test_a_label_that_could_not_be_had_leaves_two_steps_unknown():
    units = by_step(Batch.from_trajectories([chain(0, 0, 1)]))
    credit = credit_of(units, [[], wins(3)])
    assert credit.known_S.tolist() == [False, False, True]
    assert credit.notes["units_without_value"] == 2


def test_where_it_asks():
    units = by_step(Batch.from_trajectories([chain(0, 0, 1)]))
    spec = get("agentprm_mc")
    at = [a.at for a in spec.plan(units, **spec.bind({}))]
    assert at == [Place(0, 1, 0), Place(0, 2, 0)]
    assert len(spec.plan(units, **spec.bind({"first": "asked"}))) == 3
    assert len(spec.plan(units, **spec.bind({"first": "asked", "credit": "promise"}))) == 2


def test_what_it_refuses():
    units = by_step(Batch.from_trajectories([chain(0, 1)]))
    for params, sentence in (
        ({"k": 0}, "agentprm_mc: k is 0; give a whole number from 1 on"),
        ({"credit": "q"}, "credit is 'q'; give one of 'promise', 'progress'"),
        ({"label": "soft"}, "label is 'soft'; give one of 'hard', 'mean'"),
        ({"first": "zero"}, "first is 'zero'; give one of 'group', 'asked', 'unknown'"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            assign("agentprm_mc", units, ask=asker(lambda r: ends_with(1.0)), **params)
