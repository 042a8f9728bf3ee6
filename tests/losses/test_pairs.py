"""Preference losses: the numbers of the papers' notes, the plain formula, equal values and gradients on tensors."""

import math

import numpy as np
import pytest

from apportion.errors import ConfigError, DataError
from apportion.losses.pairs import Pairs, dpo, treg_dpo, turn_dpo

WORKED = Pairs(
    np.array([-0.5, -1.2, -0.3, -0.9, -0.6]), np.array([-0.7, -1.0, -0.4, -0.5, -0.8]), np.array([0, 0, 0, 1, 1]),
    np.array([0]), np.array([1]),
)  # fmt: skip
REWARD = np.array([1 / 6, -1 / 6, 0.0, -0.3, 0.0])


def test_the_worked_numbers_of_t_reg():
    assert dpo(WORKED)[0] == pytest.approx(0.678260, abs=1e-6)
    assert treg_dpo(WORKED, REWARD)[0] == pytest.approx(0.673499, abs=1e-6)


def test_the_worked_number_of_sweet_rl():
    """Turn means, each a row of one token: 0.1·(0.3667 + 0.1) is the margin."""
    mean = np.array([0.2 / 3, 0.3, -0.1])
    pairs = Pairs(mean, np.zeros(3), np.array([0, 0, 1]), np.array([0]), np.array([1]))
    assert dpo(pairs, beta=0.1)[0] == pytest.approx(0.670086, abs=1e-6)


def drawn(seed):
    rng = np.random.default_rng(seed)
    row = np.sort(rng.integers(0, 5, size=17))
    logp, ref, reward = -rng.random((3, 17))
    return Pairs(logp, ref, row, np.array([0, 3, 3, 1]), np.array([1, 2, 6, 0])), reward + 0.5  # row 6 is empty


@pytest.mark.parametrize("seed", range(5))
def test_against_a_plain_loop(seed):
    pairs, reward = drawn(seed)
    beta, alpha, nll = 0.3, 0.7, 0.2
    for p, (a, b) in enumerate(zip(pairs.chosen_P, pairs.rejected_P, strict=True)):
        own = {r: np.flatnonzero(pairs.row_of_T == r) for r in (a, b)}
        score = {r: beta * sum(pairs.logp_T[t] - pairs.ref_logp_T[t] for t in own[r]) for r in (a, b)}
        pull = {r: -beta * sum(reward[t] * pairs.logp_T[t] for t in own[r]) for r in (a, b)}
        likely = -sum(pairs.logp_T[t] for t in own[a]) / max(len(own[a]), 1)
        want = math.log1p(math.exp(score[b] - score[a])) + nll * likely
        assert dpo(pairs, beta=beta, nll=nll)[p] == pytest.approx(want)
        weight = 1 / (1 + math.exp(score[a] - score[b]))
        want += alpha * weight * (pull[a] + pull[b])
        assert treg_dpo(pairs, reward, beta=beta, alpha=alpha, nll=nll)[p] == pytest.approx(want)
    np.testing.assert_array_equal(turn_dpo(pairs, beta=beta), dpo(pairs, beta=beta, nll=0.01))


@pytest.mark.parametrize("seed", range(3))
def test_tensors_have_the_same_values_and_the_gradients_of_the_formula(seed):
    torch = pytest.importorskip("torch")
    from apportion.losses import pairs_torch

    pairs, reward = drawn(seed)
    tensors = Pairs(*map(torch.as_tensor, pairs))
    tensors.logp_T.requires_grad_(True)
    token = torch.as_tensor(reward).requires_grad_(True)
    for name, more in (("dpo", ()), ("turn_dpo", ()), ("treg_dpo", (reward,))):
        got = getattr(pairs_torch, name)(tensors, *map(torch.as_tensor, more))
        np.testing.assert_allclose(
            got.detach().numpy(), {"dpo": dpo, "turn_dpo": turn_dpo, "treg_dpo": treg_dpo}[name](pairs, *more)
        )
    pairs_torch.treg_dpo(tensors, token, beta=0.3, alpha=0.7).sum().backward()
    assert token.grad is None  # a constant
    score = 0.3 * np.bincount(pairs.row_of_T, weights=pairs.logp_T - pairs.ref_logp_T, minlength=7)
    want = np.zeros(17)
    for a, b in zip(pairs.chosen_P, pairs.rejected_P, strict=True):
        weight = 1 / (1 + math.exp(score[a] - score[b]))
        want += np.where(pairs.row_of_T == a, -0.3 * weight, 0) + np.where(pairs.row_of_T == b, 0.3 * weight, 0)
        want -= 0.7 * weight * 0.3 * reward * ((pairs.row_of_T == a) + (pairs.row_of_T == b))
    np.testing.assert_allclose(tensors.logp_T.grad.numpy(), want, atol=1e-12)


def test_what_does_not_belong_together_is_said():
    pairs, reward = drawn(0)
    with pytest.raises(ConfigError, match=r"beta is 0.0; give a number above 0"):
        dpo(pairs, beta=0.0)
    with pytest.raises(ConfigError, match=r"alpha is -1; give a number from 0"):
        treg_dpo(pairs, reward, alpha=-1)
    with pytest.raises(DataError, match="17 log-probabilities, 3 of the reference, 17 rows"):
        dpo(pairs._replace(ref_logp_T=np.zeros(3)))
    with pytest.raises(DataError, match="4 chosen rows and 1 rejected"):
        dpo(pairs._replace(rejected_P=np.array([1])))
    with pytest.raises(DataError, match="2 token rewards for 17 tokens"):
        treg_dpo(pairs, np.zeros(2))
