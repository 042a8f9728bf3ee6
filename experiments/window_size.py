"""How wide should a unit of credit be? D(w) against the measured error of a policy gradient whose truth is known.

A line of T words (the task `chain`) under a fixed softmax policy. Per word the exact advantage A[t] is known. A window
of w words gets one number, which all of its words share:

    R[k] = sum of A[t] over the window, and, where it is narrower than what the environment answers (w_env),
           a labeller's bias  beta * (1[a in P] - pi(P))  of the window's first word
    g    = sum_k R[k] * sum of the scores (e_a - pi) of the window's words

The bias of g is known exactly, by E[beta 1[a in P] grad log pi(a)] = beta grad pi(P): beta times the sum over windows
of grad pi(P) at their first words, a number of terms that grows as 1 / w. Squared error, squared bias and variance of g
are measured against the exact gradient, beside D(w) with the variances of A and of the scores measured in the same
rollouts and beta0^2 from the exact bias at w = 1.

    python -m experiments.window_size [--seeds 10] [--rollouts 1000] [--work runs/window_size]

Writes results/window_size.json and .md; one JSON file per seed and setting, so a stopped run goes on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from apportion.bench.exact import Exact, advantage_of, exact, improve, policy_gradient, sample, uniform
from apportion.bench.tasks import task
from apportion.check import optimal_window, resolution_risk
from experiments.command import options
from experiments.markdown import cell, document, items, table
from experiments.means import interval
from experiments.stored import kept, write_results

T, W_ENV = 24, 12
WINDOWS = (24, 12, 6, 4, 3, 2, 1)
BETAS = (0.0, 0.1, 0.3)
TASKS = {"planted": (3, 11, 19), "dense": tuple(range(T))}
BATCHES = (1, 64)
WORD = 0  # P: the first of the words


def truth_of(name: str) -> Exact:
    """The task under a policy that leans towards the right words."""
    table = task("chain", horizon=T, decisive=TASKS[name]).table
    return exact(table, improve(table, uniform(table), 1.0))


def exact_bias(truth: Exact, window: int, beta: float) -> np.ndarray:
    """beta * sum over windows of grad pi(P) at their first words, in the logits of each state [K]."""
    table, pi = truth.table, truth.policy
    out = np.zeros(table.slots)
    if window >= W_ENV:
        return out
    visit_X = truth.visit_HX.sum(axis=0)
    for x in range(len(table.states)):
        if table.states[x][0] % window == 0:
            first = int(table.first_slot_X[x])
            own = pi[first : first + len(table.actions[x])]
            one = np.zeros(len(own))
            one[WORD] = 1.0
            out[first : first + len(own)] += beta * visit_X[x] * own[WORD] * (one - own)
    return out


def measure(name: str, beta: float, seed: int, rollouts: int) -> dict[str, Any]:
    """Error, squared bias and variance of one rollout's gradient at each window."""
    truth = truth_of(name)
    table, pi, goal = truth.table, truth.policy, policy_gradient(truth)
    drawn = sample(table, pi, groups=rollouts, n=1, rng=np.random.default_rng([seed, 5]))
    advantage = advantage_of(truth, drawn).reshape(rollouts, T)
    state, slot = drawn.state_S.reshape(rollouts, T), drawn.slot_S.reshape(rollouts, T)
    says = (drawn.action_S.reshape(rollouts, T) == WORD) - pi[table.first_slot_X[state] + WORD]
    size = len(table.actions[0])
    square = table.sum_by_state(pi**2)
    score = 1.0 - 2.0 * pi[slot] + square[state]  # |e_a - pi|^2
    out: dict[str, Any] = {"var_r": float(np.mean(advantage**2)), "var_u": float(np.mean(score)), "windows": {}}
    for window in WINDOWS:
        reward = advantage.reshape(rollouts, -1, window).sum(axis=2)
        if window < W_ENV:
            reward = reward + beta * says.reshape(rollouts, -1, window)[:, :, 0]
        credit = np.repeat(reward, window, axis=1)
        gradient = np.zeros((rollouts, table.slots))
        row = np.arange(rollouts)[:, None]
        for a in range(size):
            at = table.first_slot_X[state] + a
            gradient[row, at] += credit * ((slot == at) - pi[at])  # a rollout is in a state at most once
        gap = gradient - goal
        total = gap.sum(axis=0)
        squares = float((gap**2).sum(axis=1).mean())
        bias = float((total @ total - (gap**2).sum()) / (rollouts * (rollouts - 1)))  # products of different rollouts
        out["windows"][str(window)] = {"error": squares, "bias2": bias, "variance": squares - bias}
    return out


def cached(name: str, beta: float, seed: int, rollouts: int, work: Path) -> dict[str, Any]:
    """One measurement, from its file or now."""
    path = work / f"{name}.{beta:g}.{rollouts}.{seed}.json"
    found: dict[str, Any] = kept(path, lambda: measure(name, beta, seed, rollouts))
    return found


def compare(name: str, beta: float, seeds: int, rollouts: int, work: Path) -> dict[str, Any]:
    """Measured and predicted, window by window."""
    runs = [cached(name, beta, seed, rollouts, work) for seed in range(seeds)]
    truth = truth_of(name)
    var_r, var_u = (float(np.mean([run[key] for run in runs])) for key in ("var_r", "var_u"))
    finest = exact_bias(truth, 1, beta)
    beta0 = float((finest @ finest / W_ENV) ** 0.5)
    rows = {}
    for window in WINDOWS:
        told = {
            key: interval([run["windows"][str(window)][key] for run in runs]) for key in ("error", "bias2", "variance")
        }
        known = exact_bias(truth, window, beta)
        formula = resolution_risk(T, window, W_ENV, beta0, var_r=var_r, var_u=var_u)
        rows[str(window)] = {**told, "exact_bias2": float(known @ known), "formula": formula}
    best = {}
    for batch in BATCHES:  # a mean over rollouts divides the variance and leaves the bias
        measured = {w: rows[str(w)]["variance"][0] / batch + rows[str(w)]["exact_bias2"] for w in WINDOWS}
        told_by = optimal_window(T, W_ENV, beta0, var_r=var_r / batch, var_u=var_u)
        best[str(batch)] = {"measured": min(measured, key=lambda w: measured[w]), "formula": told_by}
    scales = {"beta0": beta0, "var_r": var_r, "var_u": var_u}
    return {"task": name, "beta": beta, **scales, "windows": rows, "best": best}


def markdown(found: dict[str, Any]) -> str:
    """The page for people."""
    parts = [
        "# How wide a unit of credit: D(w) and the measured error",
        f"The task `chain`, {T} words, the environment answers every {W_ENV}; {found['seeds']} seeds of "
        f"{found['rollouts']} rollouts, Student's 95% intervals. Error, bias and variance are of one rollout's "
        "gradient.",
    ]
    for one in found["found"]:
        rows = []
        for window, row in one["windows"].items():
            error, bias2, variance = (cell(row[key], ".4g") for key in ("error", "bias2", "variance"))
            ratio = row["formula"] / row["error"][0]
            exactly, formula = f"{row['exact_bias2']:.4g}", f"{row['formula']:.4g}"
            rows.append([window, error, bias2, exactly, variance, formula, f"{ratio:.2f}"])
        parts += [
            f"## {one['task']}, beta {one['beta']:g} (beta0 {one['beta0']:.4f})",
            items(
                f"Best window for the mean of {batch} rollouts: measured {best['measured']}, D(w) {best['formula']:.2f}"
                for batch, best in one["best"].items()
            ),
            table(["w", "squared error", "squared bias", "exactly", "variance", "D(w)", "D(w) / error"], rows),
        ]
    return document(*parts)


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = options("window_size", __doc__, seeds=10)
    parser.add_argument("--rollouts", type=int, default=1000)
    given = parser.parse_args()
    compared = [compare(n, b, given.seeds, given.rollouts, given.work) for n in TASKS for b in BETAS]
    found = {"seeds": given.seeds, "rollouts": given.rollouts, "found": compared}
    write_results(given.out, "window_size", found, markdown(found))
    sys.stdout.write(markdown(found))


if __name__ == "__main__":
    main()
