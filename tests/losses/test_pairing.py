"""Credit that a loss cannot carry: a warning, before the run and not after it."""

import warnings

import numpy as np
import pytest

from apportion import losses
from apportion.errors import ConfigError
from apportion.losses import FineCreditLost, Tokens, check_pairing

FINE = Tokens(np.full(4, -1.0), np.array([1.0, -1.0, 0.5, 0.5]), np.ones(4), np.array([0, 0, 1, 1]), np.full(4, -1.1))


def masked(tokens, *weight):
    return tokens._replace(weight_T=np.array(weight, dtype=float))


def test_plain_gspo_warns_of_credit_that_differs_inside_a_row():
    message = (
        "gspo has one ratio per row and gives each token the row's mean credit, but this credit differs inside rows; "
        r"use gspo_token, or a loss with a ratio per token \(ppo, cispo\)"
    )
    with pytest.warns(FineCreditLost, match=message):
        losses.gspo(FINE)
    with pytest.warns(FineCreditLost, match="gspo has one ratio per row"):
        assert not check_pairing("gspo", FINE.advantage_T, FINE.weight_T, FINE.row_of_T)


@pytest.mark.parametrize("name", list(losses.LOSSES))
def test_no_warning_where_nothing_is_lost(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for weight in ((1, 0, 1, 1), (0, 0, 0, 0), (0, 1, 1, 1)):  # one credit per row is left
            losses.LOSSES[name](masked(FINE, *weight))
            assert check_pairing(name, FINE.advantage_T, weight, FINE.row_of_T)
        if name != "gspo":
            losses.LOSSES[name](FINE)


def test_what_is_lost_is_real():
    """With credit +1 and -1 in a row the gradient of plain gspo is 0; gspo_token's is not."""

    def gradient(name, held):
        out = []
        for t in range(2):
            moved = FINE.logp_T.copy()
            moved[t] += 1e-6
            options = {"eps_low": 1.0, "eps_high": 1.0} | ({"held_T": FINE.logp_T} if held else {})
            two = FINE._replace(logp_T=moved)
            out.append(losses.LOSSES[name](two, **options)[:2].sum() - losses.LOSSES[name](FINE, **options)[:2].sum())
        return np.array(out) / 1e-6

    with pytest.warns(FineCreditLost):
        np.testing.assert_allclose(gradient("gspo", False), 0, atol=1e-6)
    ratio = np.exp(0.1)
    np.testing.assert_allclose(gradient("gspo_token", True), [-ratio, ratio], atol=1e-4)


def test_segments_as_rows_give_a_ratio_per_segment():
    segments = FINE._replace(row_of_T=np.arange(4))
    wide = {"eps_low": 0.2, "eps_high": 0.2}
    np.testing.assert_allclose(losses.gspo_token(segments, **wide), losses.ppo(FINE, **wide))


def test_on_tensors():
    torch = pytest.importorskip("torch")
    tensors = Tokens(*(torch.tensor(column) for column in FINE))
    with pytest.warns(FineCreditLost):
        losses.backend("torch").gspo(tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses.backend("torch").gspo_token(tensors)


@pytest.mark.parametrize(("low", "high"), [(-0.1, 5), (2, 1), (0, 0), (0, float("nan"))])
def test_bounds_of_a_weight_are_absolute_and_in_order(low, high):
    message = (
        r"cispo: weight_min is .* and weight_max .*; they bound the weight itself, so give 0 <= weight_min <= weight"
    )
    with pytest.raises(ConfigError, match=message):
        losses.cispo(FINE, weight_min=low, weight_max=high)
    torch = pytest.importorskip("torch")
    with pytest.raises(ConfigError, match=message):
        losses.backend("torch").cispo(Tokens(*(torch.tensor(c) for c in FINE)), weight_min=low, weight_max=high)
