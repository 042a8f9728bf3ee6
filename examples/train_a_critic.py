"""Fit a value head to rollouts, measure it on others, and credit with it; then ask the exact values how good it is.

    python examples/train_a_critic.py [BACKBONE]        "small" (the default) or any causal model of transformers

Needs `pip install 'apportion[train]'`; some seconds on a CPU.
"""

import sys

import numpy as np

import apportion as ap
from apportion.bench.exact import advantage_of, exact, improve, sample, uniform
from apportion.bench.oracle import told
from apportion.bench.tasks import task


def game():
    """A long line of words in which three decide, under a policy better than chance, with the truth about it."""
    one = task("chain")
    return exact(one.table, improve(one.table, uniform(one.table), 2.5))


def halves(truth, groups):
    """Rollouts to fit to, others to measure on, and the exact advantage of each step of the latter."""
    drawn = sample(truth.table, truth.policy, groups=2 * groups, n=8, rng=np.random.default_rng(0))
    rollouts, right_S = told(truth, drawn).trajectories, advantage_of(truth, drawn)
    past, fresh = (ap.Batch.from_trajectories(part) for part in (rollouts[: 8 * groups], rollouts[8 * groups :]))
    return past, fresh, right_S[len(past.traj_of_S) :]


def main(backbone="small", groups=12, epochs=10, out="runs/examples/critic"):
    truth = game()
    past, fresh, right_S = halves(truth, groups)
    how = {"epochs": epochs, "lr": 3e-4, "batch_tokens": 256}  # small steps, many of them
    model = ap.models.ValueHead.fit(past, backbone=backbone, level="step", **how)
    model.save(out)
    value, low, high = model.measure(fresh)["explained_variance"]
    print(f"variance of the returns of other rollouts that it explains: {value:.2f} [{low:.2f}, {high:.2f}]")
    for name, more in (("step_gae", {"values": model, "lam": 0.0}), ("grpo", {})):
        credit = ap.assign(name, ap.by_step(fresh), **more)
        print(f"{name}: correlation with the exact advantage {np.corrcoef(credit.advantage_S, right_S)[0, 1]:.2f}")
    return model, fresh


if __name__ == "__main__":
    main(*sys.argv[1:2])
