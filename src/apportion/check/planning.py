"""A planning curve: how wide a unit of credit should be, between variance and bias.

    D(w) = T·w·σr²·σu²  +  1[w < w_env]·β0²·w_env / w
    w*   = β0·√(w_env / (T·σr²·σu²))

An illustration and not a law (`ASSUMPTIONS`): it says which term grows with which quantity, not which method wins.
"""

from __future__ import annotations

import math

from apportion.errors import ConfigError

ASSUMPTIONS = (
    "the score and the reward of each token are independent with mean 0, so the true gradient is 0 and D is a variance "
    "plus a term of arbitrary units, no squared error",
    "the bias of a window narrower than the environment's is beta0² · w_env / w; beta0 is a guess of yours, measured "
    "nowhere",
    "the bias term jumps by beta0² at w_env",
    "no rewards to go: every window sees the whole outcome once",
    "windows divide the rollout",
)
"""What has to hold for the curve to mean anything; print it beside every number."""


def resolution_risk(
    tokens: float, window: float, env_window: float, beta0: float, *, var_r: float = 1.0, var_u: float = 1.0
) -> float:
    """D(w), squared gradient units.

    Args:
        tokens: T, sampled tokens of a rollout. window: w, tokens of one unit, in [1, T].
        env_window: w_env, tokens between two answers of the environment.
        beta0: size of the bias of windows narrower than that. var_r, var_u: variances of reward and score per token.

    Raises:
        ConfigError: a number that is not positive (variances and beta0: negative), or a window wider than the rollout.
    """
    _check(tokens, env_window, beta0, var_r, var_u)
    if not 1 <= window <= tokens:
        raise ConfigError(f"resolution_risk: the window is {window}; give tokens between 1 and {tokens:g}")
    bias = beta0**2 * env_window / window if window < env_window else 0.0
    return tokens * window * var_r * var_u + bias


def optimal_window(tokens: float, env_window: float, beta0: float, *, var_r: float = 1.0, var_u: float = 1.0) -> float:
    """The window with the least `resolution_risk`: w* held inside [1, w_env], or w_env where that is better.

    Raises:
        ConfigError: as `resolution_risk`.
    """
    _check(tokens, env_window, beta0, var_r, var_u)
    widest = min(env_window, tokens)
    noise = tokens * var_r * var_u
    best = beta0 * math.sqrt(env_window / noise) if noise > 0 else widest
    best = min(max(best, 1.0), widest)
    risks = {w: resolution_risk(tokens, w, env_window, beta0, var_r=var_r, var_u=var_u) for w in (best, widest)}
    return min(risks, key=lambda w: (risks[w], w))


def _check(tokens: float, env_window: float, beta0: float, var_r: float, var_u: float) -> None:
    for name, value, least in (("tokens", tokens, 1), ("env_window", env_window, 1)):
        if not (math.isfinite(value) and value >= least):
            raise ConfigError(f"resolution_risk: {name} is {value}; give a number of at least {least}")
    for name, value in (("beta0", beta0), ("var_r", var_r), ("var_u", var_u)):
        if not (math.isfinite(value) and value >= 0):
            raise ConfigError(f"resolution_risk: {name} is {value}; give a number of at least 0")
