import dataclasses
import itertools
import json

import numpy as np
import pytest

from apportion.assign import assign, assign_carrying, news_and_credit, remembers
from apportion.bench.exact import advantage_of, batch_gradient, cosine, exact, improve, policy_gradient, sample, uniform
from apportion.bench.tasks import task
from apportion.bench.truth import to_batch
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.methods.pooled import carry
from apportion.methods.pooled_choice import ENOUGH, ROWS, Settings, choose
from apportion.methods.pooled_keys import KINDS, keys_of
from apportion.methods.pooled_memory import DECAYS, EVIDENCE_DECAY, Memory
from apportion.testing.sample import random_units
from apportion.units import by_step
from tests.make import batch_of, traj, units_of

PLAIN = {"gamma": 1.0, "key": "state+time", "shrinkage": 1.0, "lam": 0.5}


def test_worked_example():
    # A -0-> B -1-> end, A -0-> B -0-> end, A -0-> C -1-> end in one group; returns 1, 0, 1
    units = units_of([0, 0, 0], [2, 2, 2], [("A", 0), ("B", 1), ("A", 0), ("B", 0), ("A", 0), ("C", 1)])
    got = assign("pooled", units, key="state+time", shrinkage=1.0, lam=0.5).advantage_S
    # V(A) for the first: others 0, 1 and b = 1/2 once: (0 + 1 + .5) / 3 = .5; second: (1 + 1 + 1) / 3; third .5
    # V(B): first (0 + .5) / 2 = .25, second (1 + 1) / 2 = 1; nobody else saw C: V(C) = b = .5, and no bootstrap on it
    # before B: l = 1 - .5 * 1 / 2 = .75
    first = 0.25 * 0.25 + 0.75 * 1 - 0.5
    second = 0.25 * 1.0 + 0.75 * 0 - 1.0
    np.testing.assert_allclose(got, [first, 1 - 0.25, second, 0 - 1.0, 1 - 0.5, 1 - 0.5])


def slow(units, gamma, key, shrinkage, lam, memory=lambda k: (0.0, 0.0)):
    """Plain loops from the formula."""
    S = [s for s in range(len(units)) if units.valid_S[s]]
    final = units.final_value_N
    t = {s: sum(1 for q in range(s) if units.traj_of_S[q] == units.traj_of_S[s]) for s in range(len(units))}
    follows = {s: s + 1 if s + 1 < len(units) and units.traj_of_S[s + 1] == units.traj_of_S[s] else None for s in S}
    r = {s: float(units.reward_S[s]) for s in S}
    for s in S:
        i = units.traj_of_S[s]
        if follows[s] is None and units.truncated_N[i] and np.isfinite(final[i]):
            r[s] += gamma * final[i]
    G = {}
    for s in reversed(S):
        G[s] = r[s] + (gamma * G[follows[s]] if follows[s] is not None else 0.0)

    def name(s):
        text, group = units.state_S[s], units.group_of_S[s]
        pieces = [(units.state_S[q], tuple(units.batch.ids_T[units.unit_of_T == q])) for q in range(s)
                  if units.traj_of_S[q] == units.traj_of_S[s]]  # fmt: skip
        return {"state": text, "state+time": (text, t[s]), "task+state+time": (group, text, t[s]),
                "history": (text, tuple(pieces))}[key]  # fmt: skip

    n, V = {}, {}
    for s in S:
        mates = [q for q in S if t[q] == 0 and units.group_of_S[q] == units.group_of_S[s]
                 and units.traj_of_S[q] != units.traj_of_S[s]]  # fmt: skip
        b = sum(G[q] for q in mates) / len(mates) if mates else None
        others = [G[q] for q in S if name(q) == name(s) and units.traj_of_S[q] != units.traj_of_S[s]]
        m, total = memory(s)
        n[s] = len(others) + m
        weight = 0.0 if b is None else shrinkage
        V[s] = (sum(others) + total + weight * (b or 0.0)) / (n[s] + weight) if n[s] else b
    R, out = {}, np.zeros(len(units))
    for s in reversed(S):
        R[s], q = r[s], follows[s]
        if q is not None:
            trace = 1.0 if V[q] is None or n[q] == 0 else 1 - (1 - lam) * n[q] / (n[q] + shrinkage)
            R[s] += gamma * ((1 - trace) * (V[q] or 0.0) + trace * R[q])
        out[s] = 0.0 if V[s] is None else R[s] - V[s]
    return out


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize(
    ("gamma", "shrinkage", "lam"), [(1.0, 1.0, 0.5), (0.9, 3.0, 0.0), (0.7, 0.0, 0.25), (1, 10, 1)]
)
def test_equals_the_slow_reference(key, gamma, shrinkage, lam):
    for seed in range(13):
        units = random_units(seed)
        got = assign("pooled", units, gamma=gamma, key=key, shrinkage=shrinkage, lam=lam).advantage_S
        np.testing.assert_allclose(got, slow(units, gamma, key, shrinkage, lam), atol=1e-9)


def test_left_to_itself_it_uses_the_defaults_on_one_batch():
    for seed in range(6):
        units = random_units(seed)
        credit = assign("pooled", units)
        key = credit.notes["key"]
        assert (credit.notes["shrinkage"], credit.notes["lam"], credit.notes["decay"]) == (1.0, 0.5, 0.9)
        np.testing.assert_allclose(credit.advantage_S, slow(units, 1.0, key, 1.0, 0.5), atol=1e-9)


def strangers(seed, *, terminal=True):
    """Rollouts of several lengths in which no state comes twice."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, size=12)
    steps = [(f"{i}-{t}", 0.0 if terminal and t + 1 < n else float(rng.normal()))
             for i, n in enumerate(lengths) for t in range(n)]  # fmt: skip
    return units_of([i // 4 for i in range(12)], lengths.tolist(), steps)


def test_where_nothing_recurs_it_is_rloo_to_the_bit():
    for seed in range(20):
        units = strangers(seed)
        for more in ({}, {"lam": 0.0}, {"shrinkage": 10.0}):
            got = assign("pooled", units, **more).advantage_S
            np.testing.assert_allclose(got, assign("rloo", units).advantage_S, rtol=0, atol=1e-12)
        paid = strangers(seed, terminal=False)  # rewards on the way: the return to go less the others' mean outcome
        to_go = assign("reinforce", paid, gamma=1.0).advantage_S
        baseline = paid.outcome_N[paid.traj_of_S] - assign("rloo", paid).advantage_S
        np.testing.assert_allclose(assign("pooled", paid).advantage_S, to_go - baseline, rtol=0, atol=1e-12)
    assert assign("pooled", units).notes["units_without_company"] == len(units)


def test_with_memory_strangers_stay_rloo():
    memory = None
    for seed in range(8):
        credit, memory = assign_carrying("pooled", strangers(1000 + seed), memory)
        np.testing.assert_allclose(
            credit.advantage_S, assign("rloo", strangers(1000 + seed)).advantage_S, rtol=0, atol=1e-12
        ) if seed == 0 else None
    fresh = batch_of([0, 0], [1, 2], [("never", 1.0), ("seen", 0.0), ("before", 0.0)])
    credit, _ = assign_carrying("pooled", by_step(fresh), memory)
    np.testing.assert_allclose(credit.advantage_S, assign("rloo", by_step(fresh)).advantage_S, atol=1e-12)


def test_a_lone_rollout_has_credit_only_where_somebody_was():
    units = units_of([0, 1, 1], [2, 1, 1], [("A", 0), ("B", 1), ("A", 0.5), ("C", 0)])
    got = assign("pooled", units, lam=1.0).advantage_S
    assert got[0] == 1 - 0.5  # A was seen by another group; B by nobody, and there is no b
    assert got[1] == 0.0
    assert assign("pooled", units_of([0], [2], [("A", 0), ("B", 1)])).advantage_S.tolist() == [0.0, 0.0]


def sampled(name="keydoor", beta=1.0, seed=0, groups=8, n=8, **options):
    table = task(name, **options).table
    truth = exact(table, improve(table, uniform(table), beta))
    drawn = sample(table, truth.policy, groups=groups, n=n, rng=np.random.default_rng(seed))
    return truth, drawn, by_step(to_batch(truth, drawn))


def gradient_cosine(truth, drawn, credit):
    return cosine(batch_gradient(truth.table, truth.policy, drawn, credit), policy_gradient(truth))


@pytest.mark.parametrize("name", ["keydoor", "relay", "ice"])
def test_it_points_closer_to_the_true_gradient_than_its_relatives(name):
    beta = task(name).strengths[-1]
    found = {method: [] for method in ("pooled", "gigpo(scale='none')", "rloo")}
    for seed in range(12):
        truth, drawn, units = sampled(name, beta, seed)
        for method in found:
            found[method].append(gradient_cosine(truth, drawn, assign(method, units).advantage_S))
    mean = {method: np.mean(values) for method, values in found.items()}
    assert mean["pooled"] > mean["gigpo(scale='none')"] + 0.02
    assert mean["pooled"] > mean["rloo"] + 0.03


def test_memory_brings_it_closer_still():
    memory, alone, remembering = None, [], []
    for seed in range(12):
        truth, drawn, units = sampled("relay", 1.0, seed)
        alone.append(gradient_cosine(truth, drawn, assign("pooled", units).advantage_S))
        credit, memory = assign_carrying("pooled", units, memory)
        remembering.append(gradient_cosine(truth, drawn, credit.advantage_S))
    assert remembering[0] == pytest.approx(alone[0])
    assert np.mean(remembering[4:]) > np.mean(alone[4:]) + 0.03


def test_with_much_memory_and_no_trace_it_is_the_exact_advantage_and_noise():
    # values remembered from thousands of rollouts: r + V(s') - V(s) is the true advantage on average
    truth, _, many = sampled("relay", 1.0, 99, groups=400)
    news = carry(many, Memory(), **PLAIN)[1]
    memory = dataclasses.replace(news, count=news.count * 1e6, total=news.total * 1e6)
    _, drawn, units = sampled("relay", 1.0, 5, groups=40)
    credit, _ = carry(units, memory, **{**PLAIN, "lam": 0.0}, decay=0.9)
    right = advantage_of(truth, drawn)
    for slot in np.unique(drawn.slot_S):
        here = drawn.slot_S == slot
        if here.sum() > 30:
            assert np.mean(credit.advantage_S[here]) == pytest.approx(np.mean(right[here]), abs=0.06)


def slow_memory(batches, tick, decay, key):
    """Every return under its key, weighted by its age."""
    store = {}
    for when, units in batches:
        G = assign("reinforce", units, gamma=1.0).advantage_S
        for s, k in enumerate(keys_of(units)[key].tolist()):
            if units.valid_S[s]:
                n, total = store.get(k, (0.0, 0.0))
                store[k] = n + decay ** (tick - when), total + decay ** (tick - when) * G[s]
    return store


@pytest.mark.parametrize("decay", DECAYS)
def test_memory_equals_the_slow_reference(decay):
    batches = [(tick, sampled(seed=tick, groups=2, n=3)[2]) for tick in range(1, 5)]
    memory = Memory()
    for tick, units in batches[:3]:
        memory = memory.merge(carry(units, memory, **PLAIN)[1])
        assert memory.tick == tick
    units = batches[3][1]
    store = slow_memory(batches[:3], 4, decay, "state+time")
    names = keys_of(units)["state+time"].tolist()
    got = carry(units, memory, **PLAIN, decay=decay)[0].advantage_S
    want = slow(units, 1.0, "state+time", 1.0, 0.5, memory=lambda s: store.get(names[s], (0.0, 0.0)))
    np.testing.assert_allclose(got, want, atol=1e-9)
    assert not np.allclose(got, carry(units, memory, **PLAIN, decay=0.0)[0].advantage_S)


def random_memory(seed):
    rng = np.random.default_rng(seed)
    key = np.unique(rng.integers(0, 40, size=25).astype(np.uint64)) * np.uint64(2**58 + 1)
    evidence = rng.random((len(ROWS), 4)) if seed % 2 else np.zeros((0, 0))
    return Memory(int(rng.integers(1, 6)), key, *rng.random((2, len(key), len(DECAYS))), evidence)


def same(a, b):
    assert a.tick == b.tick
    for name in ("key", "count", "total", "evidence"):
        np.testing.assert_allclose(
            getattr(a, name).astype(float), getattr(b, name).astype(float), rtol=1e-12, err_msg=name
        )


def test_merging_does_not_hang_on_order_or_brackets():
    for seed in range(20):
        a, b, c = (random_memory(3 * seed + i) for i in range(3))
        same(a.merge(b), b.merge(a))
        same(a.merge(b).merge(c), a.merge(b.merge(c)))
        same(a.merge(Memory()), a)
        total = a.merge(b).aged(9).total.sum(axis=0)
        by_hand = [(m.total * np.array(DECAYS) ** (9 - m.tick)).sum(axis=0) for m in (a, b)]
        np.testing.assert_allclose(total, sum(by_hand))


def test_workers_may_arrive_in_any_order_and_late():
    memory = carry(sampled(seed=0)[2], Memory(), **PLAIN)[1]
    news = [news_and_credit("pooled", sampled(seed=seed)[2], memory)[1] for seed in (1, 2, 3)]
    ends = []
    for order in itertools.permutations(news):
        after = memory
        for one in order:
            after = after.merge(one)
        ends.append(after)
    for end in ends[1:]:
        same(ends[0], end)
    late = ends[0].aged(9).merge(news[0])  # news of tick 2 that come at tick 9 weigh what tick 2 weighs there
    assert late.tick == 9
    np.testing.assert_allclose(late.count.sum(0), (ends[0].aged(9).count.sum(0) + news[0].aged(9).count.sum(0)))
    with pytest.raises(DataError, match="cannot be aged back to 3"):
        late.aged(3)


def test_memory_is_bounded_and_keeps_what_is_seen_most():
    memory = Memory()
    for seed in range(3):
        memory = memory.merge(carry(sampled(seed=seed)[2], memory, **PLAIN)[1])
    few = memory.trimmed(50)
    assert len(few) == 50 < len(memory)
    assert few.count[:, -1].min() >= np.sort(memory.count[:, -1])[-51]
    assert memory.trimmed(10**6) is memory
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(len(memory))
    again = Memory(memory.tick, memory.key[shuffled], memory.count[shuffled], memory.total[shuffled])
    np.testing.assert_array_equal(Memory().merge(again).trimmed(50).key, few.key)


def test_memory_survives_as_plain_values():
    memory = carry(sampled()[2], Memory(), **PLAIN)[1]
    back = Memory.from_mapping(json.loads(json.dumps(memory.to_mapping())))
    for name in ("tick", "key", "count", "total", "evidence"):
        np.testing.assert_array_equal(getattr(back, name), getattr(memory, name))
    empty = Memory.from_mapping(json.loads(json.dumps(Memory().to_mapping())))
    assert len(empty) == empty.tick == empty.evidence.size == 0
    good = memory.to_mapping()
    for wrong, says in (
        ({"format": 2}, "format 2"),
        ({"decays": [0.5]}, "start without it"),
        ({"count": [[1.0]]}, "cannot be read"),
        ({"key": good["key"][::-1]}, "keys must be sorted"),
        ({"tick": None}, "cannot be read"),
    ):
        with pytest.raises(DataError, match=says):
            Memory.from_mapping({**good, **wrong})


def evidence_for(**gains):
    """One row per setting: six batches with this gain each."""
    out = np.zeros((len(ROWS), 4))
    for row, (name, value) in enumerate(ROWS):
        for key, (mean, spread) in gains.items():
            if f"{name}_{value}".replace(".", "_").replace("+", "_") == key:
                x = mean + spread * np.array([1, -1, 1, -1, 1, -1])
                out[row] = 6, 6, x.sum(), (x**2).sum()
    return out


def test_evidence_moves_a_setting_only_beyond_its_error():
    free = {"key": "auto", "shrinkage": None, "lam": None, "decay": None}
    assert choose(np.zeros((0, 0)), free) == Settings()
    assert choose(evidence_for(lam_0_9=(0.2, 0.01)), free).lam == 0.9
    assert choose(evidence_for(lam_0_9=(0.2, 0.6)), free).lam == 0.5
    assert choose(evidence_for(lam_0_9=(-0.2, 0.01)), free).lam == 0.5
    assert choose(evidence_for(lam_0_9=(0.2, 0.01), lam_1_0=(0.3, 0.01)), free).lam == 1.0
    assert choose(evidence_for(shrinkage_3_0=(0.2, 0.01), decay_0_6=(0.1, 0.01)), free) == Settings(
        shrinkage=3.0, decay=0.6
    )
    assert choose(evidence_for(key_state=(1.0, 0.1)), free).key == "state"
    assert choose(evidence_for(key_state=(1.0, 0.1)), {**free, "key": "history"}).key == "history"
    few = evidence_for(lam_0_9=(0.2, 0.01)) * (ENOUGH - 0.5) / 6
    assert choose(few, free).lam == 0.5


def test_what_was_not_said_about_later_batches_cannot_change_them():
    # λ, κ and decay of a batch come from earlier batches: its own evidence is only in the news
    _, _, units = sampled()
    credit, news = carry(units, Memory(), **{**PLAIN, "shrinkage": None, "lam": None})
    assert news.evidence.shape == (len(ROWS), 4)
    assert np.abs(news.evidence[len(KINDS) :, 2]).max() > 0
    assert (credit.notes["shrinkage"], credit.notes["lam"]) == (1.0, 0.5)
    # earlier batches all but decide for another λ: one more would, but must not be this one
    nearly = evidence_for(lam_0_9=(50.0, 0.01)) * (ENOUGH - 0.1) / 6 / EVIDENCE_DECAY
    memory = Memory(tick=1, evidence=nearly)
    free = {**PLAIN, "lam": None}
    credit, news = carry(units, memory, **free)
    assert credit.notes["lam"] == 0.5
    assert carry(units, memory.merge(news), **free)[0].notes["lam"] == 0.9
    np.testing.assert_allclose(memory.aged(3).evidence, nearly * EVIDENCE_DECAY**2)


def test_mixed_states_are_told_apart_by_their_task_or_their_past():
    # the same text in every task, and tasks pay differently: another task's returns say nothing
    rng = np.random.default_rng(0)
    steps = [("hall", 0.0, 1), ("door", 0.0, 1)]
    batch = Batch.from_trajectories(
        traj(steps[0], ("door", float(g * 4 + rng.normal() / 4), 1), group=f"task-{g}")
        for g in range(4)
        for _ in range(8)
    )
    assert assign("pooled", by_step(batch)).notes["key"] == "task+state+time"
    # the same corridor after another lever: what was done before is not seen, and decides
    forgetful = []
    for i in range(24):
        lever = Step(observation="levers", action=f"pull {i % 2}", reward=0.0)
        walk, door = (Step(observation=text, action="go", reward=0.0) for text in ("corridor", "door"))
        end = dataclasses.replace(door, reward=float(4 * (i % 2) + rng.normal() / 4))
        forgetful.append(Trajectory([lever, walk, end], group="one"))
    units = by_step(Batch.from_trajectories(forgetful))
    credit = assign("pooled", units)
    assert credit.notes["key"] == "history"
    lever, walk = credit.advantage_S[::3], credit.advantage_S[1::3]
    assert np.abs(lever).min() > 1.0 > np.abs(walk).max()


def test_wrong_settings_are_refused():
    units = random_units(0)
    for given, says in (
        ({"key": "texts"}, "key is 'texts'; give one of 'auto', 'state\\+time'"),
        ({"shrinkage": -1.0}, "shrinkage is -1.0; give 0 or more"),
        ({"lam": 2.0}, "lam"),
    ):
        with pytest.raises(ConfigError, match=says):
            assign("pooled", units, **given)
    with pytest.raises(ConfigError, match=r"decay is 0\.5; give 0"):
        carry(units, Memory(), **PLAIN, decay=0.5)


def test_the_front_door_with_memory():
    _, _, units = sampled()
    credit, memory = assign_carrying("pooled(key='state') | whiten", units, lam=0.9)
    assert credit.method == "pooled | whiten"
    assert credit.params["pooled"]["lam"] == 0.9
    assert not np.allclose(credit.advantage_S, assign("pooled(key='state')", units, lam=0.9).advantage_S)
    assert memory.tick == 1
    assert remembers("pooled | whiten")
    assert not remembers("gigpo")
    assert not remembers("pooled + grpo")
    for method in ("gigpo", "pooled + grpo"):
        with pytest.raises(ConfigError, match="does not remember earlier batches; give a method that does"):
            assign_carrying(method, units)
    plainly, first = assign("pooled", units), assign_carrying("pooled", units)[0]
    np.testing.assert_array_equal(plainly.advantage_S, first.advantage_S)
    assert plainly.record() == first.record()
