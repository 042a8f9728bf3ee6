import numpy as np
import pytest

from apportion.assign import assign
from apportion.errors import ConfigError
from apportion.units import by_step, by_tree
from tests.branches import batch, edges, random_root, value

EARLY = [(1, [(1, 1.0), (2, 0.0)]), (2, 1.0)]
EVEN = [(1, [(1, 1.0), (2, 0.0), (3, 1.0)]), (2, [(1, 0.0), (2, 0.0), (3, 1.0)])]


def credit_of(root, **params):
    return assign("spo_tree", by_step(batch(root)), **params)


def test_worked_example_with_an_early_leaf():
    # V(c1) = .5, V(root) = .75 as means of means; c1 -.25, c2 +.25; pstd .25
    np.testing.assert_allclose(credit_of(EARLY).advantage_S, [-0.25, 0.5, -0.5, 0.25])
    np.testing.assert_allclose(credit_of(EARLY, scale="std").advantage_S, [-1, 1, -1, 1])
    parity = credit_of(EARLY, scale="std", epsilon=1e-8).advantage_S
    assert parity[0] == pytest.approx(-0.99999996, abs=1e-9)
    # over leaves V(root) = 2/3
    np.testing.assert_allclose(credit_of(EARLY, value="leaves").advantage_S[[0, 3]], [-1 / 6, 1 / 3])


def test_worked_example_with_six_leaves():
    credit = credit_of(EVEN)
    leaves = [1, 2, 3, 5, 6, 7]
    np.testing.assert_allclose(credit.advantage_S[[0, 4]], [1 / 6, -1 / 6])
    np.testing.assert_allclose(credit.advantage_S[leaves[:3]], [1 / 3, -2 / 3, 1 / 3])
    scaled = credit_of(EVEN, scale="std").advantage_S
    np.testing.assert_allclose(scaled[leaves[:3]], [0.707107, -1.414214, 0.707107], atol=1e-6)
    np.testing.assert_allclose(credit_of(EVEN, baseline="loo").advantage_S[leaves[:3]], [0.5, -1, 0.5])


def test_worked_example_of_the_prover():
    # best of 4: V .5 -> .9375, V .75 -> .996094
    kept = credit_of(EARLY, prover="train", prover_weight=1.0)
    np.testing.assert_allclose(kept.parts["prover"][0], 0.9375 - 0.99609375)
    np.testing.assert_allclose(kept.parts["value"], [0.5, 1, 0, 1])
    np.testing.assert_allclose(credit_of(EARLY, prover="train").parts["prover"][0], 5 * -0.05859375)


def test_edges_without_advantage_or_tokens_are_not_trained():
    root = [(1, [(1, 1.0), (2, 1.0)]), (2, 0.0), (3, 0.5)]
    credit = credit_of(root)
    assert credit.advantage_S.tolist() == [0.5, 0, 0, -0.5, 0]
    assert credit.train_S.tolist() == [True, False, False, True, False]
    assert credit_of(root, drop_zero=False).train_S.all()
    # the prover's credit is not 0 there, and they are left out all the same
    assert credit_of(root, prover="train").train_S.tolist() == [True, False, False, True, False]
    only = credit_of([(1, [(1, 1.0)])])
    assert not only.advantage_S.any()
    assert not only.train_S.any()


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    roots = [random_root(seed, repeat=bool(seed % 2)), random_root(seed + 500)]
    for form in ("children", "leaves"):
        for baseline in ("parent", "loo"):
            for scale, ddof, epsilon in (("none", 0, 0.0), ("std", 0, 0.1), ("std", 1, 0.0)):
                params = {"value": form, "baseline": baseline, "scale": scale, "ddof": ddof, "epsilon": epsilon}
                credit = assign("spo_tree", by_step(batch(*roots)), **params)
                want = [slow(*edge, **params) for root in roots for edge in edges(root)]
                assert credit.known_S.tolist() == [w is not None for w in want]
                np.testing.assert_allclose(credit.advantage_S, [w or 0.0 for w in want], atol=1e-9)
                assert credit.train_S.tolist() == [w is None or w != 0 for w in want]


def slow(siblings, after, *, value: str, baseline: str, scale: str, ddof: int, epsilon: float):
    by_leaf = value == "leaves"
    mine = VALUE(after, leaves=by_leaf)
    if mine is None:
        return None
    told = [v for _, x in siblings if (v := VALUE(x, leaves=by_leaf)) is not None]
    if baseline == "parent":
        base = VALUE(siblings, leaves=by_leaf)
    else:
        base = (sum(told) - mine) / (len(told) - 1) if len(told) > 1 else mine
    out = 0.0 if abs(mine - base) < 1e-12 else mine - base
    if scale == "std":
        mean = sum(told) / len(told)
        std = (sum((x - mean) ** 2 for x in told) / max(len(told) - ddof, 1)) ** 0.5
        out = out / (std + epsilon) if std > 1e-9 * max(map(abs, told)) and len(told) > ddof else 0.0
    return out


VALUE = value


@pytest.mark.parametrize("seed", range(20))
def test_depth_one_is_the_centred_score(seed):
    # every sample is an edge of the root: grpo without the scale
    rng = np.random.default_rng(seed)
    root = [(c, float(rng.integers(0, 3))) for c in range(1, 6)]
    flat = by_step(batch(root, flat=True))
    np.testing.assert_allclose(
        assign("spo_tree", flat).advantage_S, assign("grpo(scale='none')", flat).advantage_S, atol=1e-12
    )
    np.testing.assert_allclose(
        assign("spo_tree(baseline='loo')", flat).advantage_S, assign("rloo", flat).advantage_S, atol=1e-12
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_tree_logged_leaf_by_leaf_is_the_same_tree(seed):
    def scored(node):
        return [(c, scored(x) if isinstance(x, list) else 0.5 if x is None else x) for c, x in node]

    root = scored(random_root(seed))
    whole = credit_of(root)
    flat = by_tree(batch(root, flat=True))
    credit, once = assign("spo_tree", flat), assign("spo_tree(copies='once')", flat)
    # an only child changes nothing, so the credit along each way adds up to the same
    ends = [s for s in range(len(whole.units)) if s not in whole.units.parent_S.tolist()]
    sums = []
    for s in ends:
        total = 0.0
        while s >= 0:
            total, s = total + whole.advantage_S[s], int(whole.units.parent_S[s])
        sums.append(total)
    np.testing.assert_allclose(np.bincount(flat.traj_of_S, credit.advantage_S), sums, atol=1e-9)
    trained = [(node, x) for node, x in edges(root) if len(node) > 1 and abs(value(x) - value(node)) > 1e-12]
    assert int(once.train_S.sum()) == len(trained)


def test_over_every_tree_that_can_grow_its_mean_is_the_true_advantage():
    """Two children a node, two levels, weighted by their probabilities: leave-one-out is Q - V, "parent" half of it."""
    p = {1: 0.25, 2: 0.75}
    q = {1: {3: 0.5, 4: 0.5}, 2: {3: 0.2, 4: 0.8}}
    score = {(1, 3): 1.0, (1, 4): 0.0, (2, 3): 0.5, (2, 4): 0.25}
    q_of = {a: sum(q[a][u] * score[a, u] for u in q[a]) for a in p}
    v = sum(p[a] * q_of[a] for a in p)
    branch = [(a, u, w, p[a] * q[a][u] * q[a][w]) for a in p for u in q[a] for w in q[a]]
    for baseline, share in (("loo", 1.0), ("parent", 0.5)):
        total, mass = {}, {}
        for left in branch:
            for right in branch:
                root = [(a, [(u, score[a, u]), (w, score[a, w])]) for a, u, w, _ in (left, right)]
                credit = credit_of(root, baseline=baseline).advantage_S
                weight = left[3] * right[3]
                for at, (a, u, w, _) in ((0, left), (3, right)):
                    for key, x in (((a,), credit[at]), ((a, u), credit[at + 1]), ((a, w), credit[at + 2])):
                        total[key] = total.get(key, 0.0) + weight * x
                        mass[key] = mass.get(key, 0.0) + weight
        for key, x in total.items():
            truth = q_of[key[0]] - v if len(key) == 1 else score[key] - q_of[key[0]]
            assert x / mass[key] == pytest.approx(share * truth, abs=1e-12)


def test_equal_siblings_are_edges_of_their_own_or_one():
    # the first choice was sampled twice: apart V(root) = (1 + 0 + .5) / 3 = .5, merged V(1) = .5 and V(root) = .5
    twice = [(1, 1.0), (1, 0.0), (2, 0.5)]
    np.testing.assert_allclose(credit_of(twice).advantage_S, [0.5, -0.5, 0])
    np.testing.assert_allclose(credit_of(twice, equal="merged").advantage_S, [0, 0, 0])


def test_what_it_refuses():
    for name, wrong in (("value", "best"), ("baseline", "none"), ("scale", "mean"), ("prover", "on"), ("copies", "2")):
        with pytest.raises(ConfigError, match=f"spo_tree: {name} is '{wrong}'"):
            credit_of(EARLY, **{name: wrong})
    with pytest.raises(ConfigError, match="spo_tree: best_of is 0; give a whole number from 1 on"):
        credit_of(EARLY, best_of=0)
