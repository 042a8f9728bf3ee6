"""The gradient yardstick gives the figures of the first look: other code, other random numbers, same cosines."""

import numpy as np
import pytest

from apportion.bench import exact as truth
from apportion.bench.tasks import task

# exact J, then cosine with the exact gradient (95% half width over 40 batches) per credit
FIGURES = {
    ("crafttree", 1.0): (0.086, {"exact": (0.550, 0.033), "immediate": (0.166, 0.04), "random": (0.0, 0.03),
                                 "grpo": (0.236, 0.031), "gigpo": (0.240, 0.033)}),
    ("crafttree", 8.0): (0.153, {"exact": (0.611, 0.023), "immediate": (0.168, 0.04), "random": (0.0, 0.03),
                                 "grpo": (0.277, 0.020), "gigpo": (0.288, 0.021)}),
    ("keydoor", 1.0): (0.331, {"exact": (0.979, 0.004), "immediate": (0.304, 0.03), "random": (0.0, 0.06),
                               "grpo": (0.774, 0.031), "gigpo": (0.818, 0.027)}),
    ("keydoor", 3.0): (0.791, {"exact": (0.984, 0.002), "immediate": (0.332, 0.03), "random": (0.0, 0.06),
                               "grpo": (0.795, 0.026), "gigpo": (0.826, 0.024)}),
}  # fmt: skip
BATCHES = 120


def centred(values, key):
    _, key = np.unique(np.asarray(key), axis=0, return_inverse=True)
    key = key.ravel()
    return values - (np.bincount(key, weights=values) / np.bincount(key))[key]


def to_go(rollouts, gamma):
    out = rollouts.reward_S.astype(float).copy()
    for s in range(len(out) - 2, -1, -1):
        if rollouts.traj_of_S[s] == rollouts.traj_of_S[s + 1]:
            out[s] += gamma * out[s + 1]
    return out


def credits(rollouts, answer, rng):
    episode = centred(rollouts.return_N, rollouts.group_of_N)[rollouts.traj_of_S]
    anchor = centred(to_go(rollouts, 0.95), np.stack([rollouts.group_of_S, rollouts.state_S], axis=1))
    return {
        "exact": truth.advantage_of(answer, rollouts),
        "immediate": rollouts.reward_S,
        "random": rng.normal(size=len(rollouts.slot_S)),
        "grpo": episode,
        "gigpo": episode + anchor,
    }


@pytest.mark.slow
@pytest.mark.parametrize(("name", "beta"), FIGURES, ids=str)
def test_the_cosines_of_the_first_look(name, beta):
    J, figures = FIGURES[name, beta]
    table, rng = task(name).table, np.random.default_rng(7)
    answer = truth.exact(table, truth.improve(table, truth.uniform(table), beta))
    assert pytest.approx(J, abs=5e-4) == answer.J
    goal, found = truth.policy_gradient(answer), {}
    total = dict.fromkeys(figures, 0.0)
    for _ in range(BATCHES):
        rollouts = truth.sample(table, answer.policy, groups=8, n=8, rng=rng)
        for method, credit in credits(rollouts, answer, rng).items():
            gradient = truth.batch_gradient(table, answer.policy, rollouts, credit)
            found.setdefault(method, []).append(truth.cosine(gradient, goal))
            total[method] = total[method] + gradient
    for method, (figure, half_width) in figures.items():
        own = 1.96 * np.std(found[method], ddof=1) / BATCHES**0.5
        print(f"{name} {beta} {method}: {np.mean(found[method]):.3f} +- {own:.3f}, published {figure:.3f}, "
              f"averaged {truth.cosine(total[method], goal):.3f}")  # fmt: skip
        assert abs(np.mean(found[method]) - figure) < 1.5 * np.hypot(own, half_width)
    assert truth.cosine(total["exact"], goal) > 0.98
    assert truth.cosine(total["grpo"], goal) > 0.85
    assert truth.cosine(total["immediate"], goal) < 0.65
