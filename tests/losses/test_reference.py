"""The losses against numbers worked by hand and against the formulas' limits."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from apportion import losses
from apportion.errors import ConfigError, DataError, UnknownName
from apportion.losses import AGGREGATIONS, LOSSES, Tokens, aggregate, denominator, from_rows, kl, shares

pytestmark = pytest.mark.filterwarnings("ignore::apportion.losses.FineCreditLost")  # see test_pairing.py

LOG_RATIO = np.array([0.4, -0.1, 0.0])
LOGP = np.array([-0.6, -1.1, -2.0])


def tokens(advantage, log_ratio=LOG_RATIO, logp=LOGP, weight=None, row=None):
    logp = np.asarray(logp, dtype=float)
    n = len(logp)
    return Tokens(
        logp,
        np.broadcast_to(np.asarray(advantage, dtype=float), n),
        np.ones(n) if weight is None else np.asarray(weight, dtype=float),
        np.zeros(n, dtype=int) if row is None else np.asarray(row),
        logp - log_ratio,
    )


def gradient(loss, given, step=1e-6, **options):
    """d (sum of the losses) / d logp by central differences, with sg[.] held where the loss has one."""
    if loss in (losses.gspo_token, losses.cispo):
        options["held_T"] = given.logp_T
    out = []
    for t in range(len(given.logp_T)):
        shift = np.where(np.arange(len(given.logp_T)) == t, step, 0.0)
        up = loss(given._replace(logp_T=given.logp_T + shift), **options).sum()
        down = loss(given._replace(logp_T=given.logp_T - shift), **options).sum()
        out.append((up - down) / (2 * step))
    return np.array(out)


def test_ppo_clips_above_for_gains_and_not_for_losses():
    assert_allclose(-losses.ppo(tokens(1)), [1.2, 0.904837, 1], atol=1e-6)
    assert_allclose(-losses.ppo(tokens(-1)), [-1.491825, -0.904837, -1], atol=1e-6)
    # the ratio is its own derivative in logp
    assert_allclose(-gradient(losses.ppo, tokens(1)), [0, 0.904837, 1], atol=1e-5)


def test_ppo_clips_below_where_credit_is_negative():
    low = tokens([-1.0], log_ratio=np.array([-0.5]), logp=[-1.0])
    assert_allclose(-losses.ppo(low), [-0.8])
    assert_allclose(-losses.ppo(low, eps_low=0.3, eps_high=0.1), [-0.7])
    assert gradient(losses.ppo, low) == [0]


def test_clip_higher_moves_the_upper_bound_only():
    assert_allclose(-losses.ppo(tokens(1), eps_high=0.28), [1.28, 0.904837, 1], atol=1e-6)
    assert_allclose(losses.ppo(tokens(-1), eps_high=0.28), losses.ppo(tokens(-1)))


def test_dual_clip_caps_the_loss_of_a_token_that_exploded():
    exploded = tokens([-1.0], log_ratio=np.array([1.5]), logp=[-1.0])
    assert_allclose(losses.ppo(exploded), [4.481689], atol=1e-6)
    assert_allclose(losses.ppo(exploded, dual_clip=3), [3.0])
    with pytest.raises(ConfigError, match=r"ppo: dual_clip is 1; it must be above 1, e\.g\. 3"):
        losses.ppo(exploded, dual_clip=1)


@pytest.mark.parametrize("name", ["ppo", "gspo", "gspo_token"])
def test_delta_caps_the_ratio_before_the_comparison(name):
    # ratio e^1.5 = 4.481689; clipped 1.2. A < 0: the unclipped side decides, 4.48 -> 3. A > 0: the clip decides anyway
    wide = {"eps_low": 0.2, "eps_high": 0.2}
    loss = LOSSES[name]
    for advantage, want, capped in ((-1.0, 4.481689, 3.0), (2.0, -2.4, -2.4)):
        given = tokens([advantage], log_ratio=np.array([1.5]), logp=[-1.0])
        assert_allclose(loss(given, **wide), [want], atol=1e-6)
        assert_allclose(loss(given, **wide, delta=3.0), [capped], atol=1e-6)
    assert_allclose(loss(given, **wide, delta=1.1), [-2.2])  # a cap below the clip decides
    exploded = tokens([-1.0], log_ratio=np.array([1.5]), logp=[-1.0])
    assert gradient(loss, exploded, **wide, delta=3.0) == [0]
    assert_allclose(loss(exploded, **wide, delta=5.0), loss(exploded, **wide))


def test_where_credit_is_negative_delta_is_dual_clip():
    rng = np.random.default_rng(4)
    given = tokens(-rng.exponential(size=50), rng.normal(size=50) * 2, -rng.exponential(size=50))
    assert_allclose(losses.ppo(given, delta=3.0), losses.ppo(given, dual_clip=3.0))
    assert (losses.ppo(given) > losses.ppo(given, delta=3.0) + 1e-9).any()


@pytest.mark.parametrize("name", ["ppo", "gspo", "gspo_token"])
@pytest.mark.parametrize("on", ["numpy", "torch"])
def test_bounds_of_a_ratio_are_in_order(name, on):
    if on == "torch":
        pytest.importorskip("torch")
    loss = losses.get(name, on=on)
    for option in ("eps_low", "eps_high"):
        for bad in (-0.1, float("nan")):
            with pytest.raises(ConfigError, match=f"{name}: {option} is {bad}; it is a distance from the ratio 1, so"):
                loss(None, **{option: bad})
    for option in ("delta", *(["dual_clip"] if name == "ppo" else [])):
        for bad in (1.0, float("nan")):
            with pytest.raises(ConfigError, match=f"{name}: {option} is {bad}; it must be above 1, e"):
                loss(None, **{option: bad})


def test_gspo_has_one_ratio_per_row():
    # mean log-ratio 0.1: s = 1.105171, clipped to 1.0004 for gains
    assert_allclose(-losses.gspo(tokens(1)), [1.0004] * 3)
    assert_allclose(-losses.gspo(tokens(-1)), [-1.105171] * 3, atol=1e-6)
    assert_allclose(gradient(losses.gspo, tokens(1)), 0, atol=1e-9)
    both = tokens(-1.0, log_ratio=np.array([0.4, -0.1, 0.3]), row=[0, 0, 1])
    assert_allclose(losses.gspo(both), np.exp([0.15, 0.15, 0.3]))


def test_gspo_averages_credit_away_and_gspo_token_keeps_it():
    on_policy = tokens([2, 1, -1], log_ratio=np.zeros(3))
    assert_allclose(-gradient(losses.gspo, on_policy) / 3, [0.222222] * 3, atol=1e-5)
    assert_allclose(-gradient(losses.gspo_token, on_policy) / 3, [0.666667, 0.333333, -0.333333], atol=1e-5)
    level = tokens([2, 0, -2], log_ratio=np.zeros(3))
    assert_allclose(gradient(losses.gspo, level), 0, atol=1e-8)
    assert_allclose(-gradient(losses.gspo_token, level), [2, 0, -2], atol=1e-5)


def test_gspo_token_has_the_value_of_gspo():
    rng = np.random.default_rng(0)
    row = np.repeat([0, 1, 2], [4, 1, 5])
    given = tokens(rng.normal(size=10), rng.normal(size=10) * 1e-4, -rng.exponential(size=10), row=row)
    assert_allclose(losses.gspo_token(given), losses.gspo(given), rtol=1e-12)


def test_with_one_credit_a_row_gspo_token_has_the_gradient_of_gspo():
    rng = np.random.default_rng(2)
    row = np.repeat([0, 1, 2], [4, 1, 5])
    given = tokens(np.array([0.7, -1.3, 0.2])[row], rng.normal(size=10) * 0.1, -rng.exponential(size=10), row=row)
    want = gradient(losses.gspo, given, eps_low=0.2, eps_high=0.2)
    assert np.abs(want).min() > 0.01  # nothing is clipped away
    assert_allclose(gradient(losses.gspo_token, given, eps_low=0.2, eps_high=0.2), want, rtol=1e-6)


def test_gspo_token_of_rows_of_one_token_is_ppo():
    rng = np.random.default_rng(1)
    given = tokens(rng.normal(size=9), rng.normal(size=9) * 0.3, -rng.exponential(size=9), row=np.arange(9))
    assert_allclose(losses.gspo_token(given, eps_low=0.2, eps_high=0.2), losses.ppo(given))


def test_cispo_bounds_the_weight_and_never_the_gradient():
    given = tokens(1)
    assert_allclose(-losses.cispo(given), np.exp(LOG_RATIO) * LOGP, atol=1e-9)
    assert_allclose(-gradient(losses.cispo, given), [1.491825, 0.904837, 1], atol=1e-5)
    verl = {"weight_min": 0.8, "weight_max": 1.2}
    assert_allclose(-gradient(losses.cispo, given, **verl), [1.2, 0.904837, 1], atol=1e-5)
    assert_allclose(-gradient(losses.cispo, given, weight_max=0.2), [0.2] * 3, atol=1e-5)


def test_reinforce_is_minus_credit_times_log_probability():
    assert_allclose(losses.reinforce(tokens([2, 0, -1])), [1.2, 0, -2.0])


@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"gspo"}))  # gspo averages credit over a row, see above
def test_on_policy_the_gradient_is_that_of_reinforce(name):
    given = tokens([2, 0.5, -1], log_ratio=np.zeros(3))
    want = gradient(losses.reinforce, given)
    assert_allclose(gradient(LOSSES[name], given), want, atol=1e-5)
    assert_allclose(LOSSES[name](given._replace(old_logp_T=None)), LOSSES[name](given))


def test_the_published_bounds_of_gspo_are_the_defaults():
    # 1 - 3e-4 for losses below, 1 + 4e-4 for gains above, as in the paper; the log-ratio is held within 20
    for loss in (losses.gspo, losses.gspo_token):
        assert_allclose(-loss(tokens([1.0], log_ratio=np.array([0.1]), logp=[-1.0])), [1.0004])
        assert_allclose(-loss(tokens([-1.0], log_ratio=np.array([-0.1]), logp=[-1.0])), [-0.9997])
    assert_allclose(losses.ppo(tokens([-1.0], log_ratio=np.array([900.0]), logp=[-1.0])), [np.exp(20.0)])
    assert from_rows(np.zeros((1, 1)), np.zeros((1, 1)), np.ones((1, 1))).old_logp_T is None


@pytest.mark.parametrize("loss", [losses.gspo_token, losses.cispo])
def test_held_log_probabilities_are_not_read_where_nothing_weighs(loss):
    given = tokens([1.0, 1.0], log_ratio=np.zeros(2), logp=[-1.0, -1.0], weight=[1, 0])
    held = np.array([-1.0, np.nan])
    assert loss(given, held_T=held).tolist() == loss(given).tolist()


def test_a_broken_log_probability_does_not_overflow():
    given = tokens([-1.0], log_ratio=np.array([900.0]), logp=[-1.0])
    for loss in LOSSES.values():
        assert np.isfinite(loss(given)).all()


def test_kl_estimators():
    d = np.array([0.4, 0.0, -0.4])
    assert_allclose(kl(d, 0 * d, "k1"), d)
    assert_allclose(kl(d, 0 * d, "k2"), [0.08, 0, 0.08])
    assert_allclose(kl(d, 0 * d), [0.070320, 0, 0.091825], atol=1e-6)
    with pytest.raises(ConfigError, match="kl: the estimator is 'k4'; give 'k1', 'k2' or 'k3'"):
        kl(d, d, "k4")


GROUPED = {"group_of_T": np.array([0, 0, 1, 1, 1, 1])}  # the two worked rows in groups of their own

WORKED = {
    "token-mean": 2 / 6,
    "group-mean-token-mean": 0.0,
    "seq-mean-token-mean": 0.0,
    "seq-mean-token-sum": 1.0,
    "seq-mean-token-sum-norm": 0.125,
}


@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_aggregation_on_the_worked_rows(mode):
    loss, row = np.array([-1, -1, 1, 1, 1, 1.0]), np.array([0, 0, 1, 1, 1, 1])
    assert aggregate(loss, np.ones(6), row, mode, length=8, **GROUPED) == pytest.approx(WORKED[mode])


def test_dapo_as_printed_takes_the_token_mean_of_each_group():
    # two rows of one group, [-1, -1] and [1, 1, 1, 1]: 2/6; another group [3]: 3. verl's token mean of all is 5/7
    loss, row, group = np.array([-1, -1, 1, 1, 1, 1, 3.0]), [0, 0, 1, 1, 1, 1, 2], [5, 5, 5, 5, 5, 5, 0]
    assert aggregate(loss, np.ones(7), row, "group-mean-token-mean", group_of_T=group) == pytest.approx(5 / 3)
    assert aggregate(loss, np.ones(7), row) == pytest.approx(5 / 7)
    assert denominator(np.ones(7), row, "group-mean-token-mean", group_of_T=group) == 2
    for call in (aggregate, lambda loss, *rest: denominator(*rest)):
        with pytest.raises(
            ConfigError, match="'group-mean-token-mean' needs group_of_T, the group of each token; give"
        ):
            call(loss, np.ones(7), row, "group-mean-token-mean")
    with pytest.raises(DataError, match=r"group_of_T has shape \(6,\) and weight_T \(7,\); give one entry per token"):
        shares(np.ones(7), row, "group-mean-token-mean", group_of_T=group[1:])


def test_not_dividing_by_the_rows_reproduces_verl():
    loss, row = np.array([-1, -1, 1, 1, 1, 1.0]), np.array([0, 0, 1, 1, 1, 1])
    verl = aggregate(loss, np.ones(6), row, "seq-mean-token-sum-norm", length=8, denominator=1)
    assert verl == pytest.approx(0.25)


@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_a_row_that_is_left_out_is_not_counted_either(mode):
    # case T5: [[1, 1], [1, 1, 1, 1]], the second row unused; dividing by all six tokens gives 1/3
    loss, row = np.ones(6), np.array([0, 0, 1, 1, 1, 1])
    weight = np.array([1, 1, 0, 0, 0, 0])
    alone = aggregate(loss[:2], weight[:2], row[:2], mode, length=4, group_of_T=row[:2])
    assert aggregate(loss, weight, row, mode, length=4, group_of_T=row) == pytest.approx(alone)
    if mode == "token-mean":
        assert alone == 1.0


def test_the_same_mask_above_and_below_from_the_case_file(data_root):
    (case,) = (c for c in json.loads((data_root / "cases/cases.json").read_text()) if c["id"] == "T5")
    rows = case["input"]["token_loss"]
    row = np.repeat([0, 1], [len(r) for r in rows])
    weight = np.array(case["input"]["row_used"])[row]
    assert aggregate(np.concatenate(rows), weight, row) == case["right"]["token_mean"]


def test_a_short_micro_batch_does_not_weigh_as_much_as_a_long_one():
    # case N6: losses [1] and [0, 0, 0]; a mean per micro-batch gives 0.5
    total = denominator(np.ones(4), np.arange(4))
    parts = [
        aggregate(loss, np.ones(len(loss)), np.zeros(len(loss), int), denominator=total)
        for loss in ([1.0], [0.0, 0.0, 0.0])
    ]
    assert sum(parts) == 0.25


@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_micro_batches_add_up_to_the_whole(mode):
    rng = np.random.default_rng(2)
    row = np.repeat(np.arange(7), [1, 5, 2, 2, 8, 3, 4])
    loss, weight = rng.normal(size=25), rng.integers(0, 3, size=25) / 2.0
    weight[row == 3] = 0
    group = np.array([0, 0, 1, 1, 1, 2, 2])[row]  # no cut goes through one
    whole = aggregate(loss, weight, row, mode, length=9, group_of_T=group)
    total = denominator(weight, row, mode, group_of_T=group)
    cuts = [row < 2, (row >= 2) & (row < 5), row >= 5]
    by_denominator = [
        aggregate(loss[c], weight[c], row[c], mode, length=9, denominator=total, group_of_T=group[c]) for c in cuts
    ]
    assert sum(by_denominator) == pytest.approx(whole)
    anyhow = np.arange(25) % 3  # cuts through rows: by shares
    share = shares(weight, row, mode, length=9, group_of_T=group)
    assert sum((share[anyhow == k] * loss[anyhow == k]).sum() for k in range(3)) == pytest.approx(whole)


@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_shares_are_plain_sums_over_rows(mode):
    """Against the formula as a loop."""
    rng = np.random.default_rng(3)
    row, weight = np.repeat(np.arange(4), [3, 1, 2, 4]), rng.random(10) * rng.integers(0, 2, 10)
    group = row // 2
    rows = [i for i in range(4) if weight[row == i].sum() > 0]
    groups = [g for g in range(2) if weight[group == g].sum() > 0]
    want = []
    for t in range(10):
        size = sum(weight[u] for u in range(10) if row[u] == row[t])
        size_of_group = sum(weight[u] for u in range(10) if group[u] == group[t])
        want.append(
            {
                "token-mean": weight[t] / sum(weight),
                "group-mean-token-mean": weight[t] / (size_of_group or 1) / len(groups),
                "seq-mean-token-mean": weight[t] / (size or 1) / len(rows),
                "seq-mean-token-sum": weight[t] / len(rows),
                "seq-mean-token-sum-norm": weight[t] / len(rows) / 6,
            }[mode]
        )
    assert_allclose(shares(weight, row, mode, length=6, group_of_T=group), want)


def test_nothing_to_train_on_is_a_loss_of_zero():
    for mode in AGGREGATIONS:
        none = np.zeros(3, int)
        assert aggregate(np.full(3, np.nan), np.zeros(3), none, mode, length=2, group_of_T=none) == 0
        assert shares(np.zeros(3), none, mode, length=2, group_of_T=none).tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_weighs_nothing_is_never_read(name, bad):
    clean = tokens([1, -2, 0.5], row=[0, 1, 1])
    logp, advantage, old = (np.append(x, bad) for x in (clean.logp_T, clean.advantage_T, clean.old_logp_T))
    dirty = Tokens(logp, advantage, np.array([1.0, 1, 1, 0]), np.array([0, 1, 1, 1]), old)
    loss = LOSSES[name](dirty)
    assert_allclose(loss[:3], LOSSES[name](clean))
    assert aggregate(loss, dirty.weight_T, dirty.row_of_T) == pytest.approx(LOSSES[name](clean).mean())


def test_rectangles_are_rows_with_padding_of_weight_zero():
    logp = np.array([[-1.0, np.nan], [-2.0, -3.0]])
    weight = np.array([[1, 0], [1, 1]])
    flat = from_rows(logp, np.ones((2, 2)), weight, logp)
    assert flat.row_of_T.tolist() == [0, 0, 1, 1]
    loss = losses.reinforce(flat)
    assert aggregate(loss, flat.weight_T, flat.row_of_T, "seq-mean-token-mean") == (1 + 2.5) / 2


def test_errors_say_what_to_do():
    with pytest.raises(UnknownName, match="no loss named 'gspo_tokn'; did you mean 'gspo_token'"):
        losses.get("gspo_tokn")
    with pytest.raises(UnknownName, match="no losses for 'jax'; there are 'numpy' and 'torch'"):
        losses.backend("jax")
    with pytest.raises(ConfigError, match="ppo: unknown option 'eps'; it takes eps_low, eps_high, dual_clip, delta"):
        losses.bind("ppo", {"eps": 0.1})
    with pytest.raises(ConfigError, match="aggregation is 'mean'; give one of token-mean, "):
        aggregate([1.0], [1.0], [0], "mean")
    with pytest.raises(ConfigError, match="divides by a constant length and length is None"):
        aggregate([1.0], [1.0], [0], "seq-mean-token-sum-norm")
    with pytest.raises(DataError, match=r"weight_T is -1.0 at 1; weights are finite and at least 0"):
        aggregate([1.0, 1.0], [1.0, -1.0], [0, 0])
    with pytest.raises(DataError, match=r"advantage_T has shape \(2,\) and logp_T \(3,\); give flat columns"):
        losses.ppo(Tokens(np.zeros(3), np.zeros(2), np.ones(3), np.zeros(3, int)))
    with pytest.raises(DataError, match=r"row_of_T has shape \(1,\) and weight_T \(2,\)"):
        aggregate([1.0, 1.0], [1.0, 1.0], [0])


def test_bind_fills_in_defaults():
    assert losses.bind("ppo", {"eps_high": 0.28}) == {
        "eps_low": 0.2,
        "eps_high": 0.28,
        "dual_clip": None,
        "delta": None,
    }
    assert losses.bind("cispo", {}) == {"weight_min": 0.0, "weight_max": 5.0}
