"""Credit inside your own training loop, in NumPy: a table of logits learns KeyDoor from GiGPO's advantages.

    python examples/own_loop.py [METHOD]        any method or expression that reads steps; default gigpo

The three lines that concern apportion are marked. Needs nothing but the base install.
"""

import sys

import numpy as np

import apportion as ap
from apportion.envs import make


class Logits(dict):  # zeros where nobody was before, one for each action
    def __missing__(self, key):
        self[key] = np.zeros(len(key[1]))
        return self[key]


def probabilities(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def play(env, table, task, member, rng):
    """One rollout, as steps; and where in the table each action was drawn."""
    observation, _ = env.reset(seed=task, options={"noise_seed": member})
    steps, drawn, over = [], [], False
    while not over:
        actions = env.actions()
        k = rng.choice(len(actions), p=probabilities(table[observation, actions]))
        drawn.append((observation, actions, k))
        seen, reward, terminated, truncated, _ = env.step(actions[k])
        steps.append(ap.Step(observation, actions[k], reward=reward, terminated=terminated, truncated=truncated))
        observation, over = seen, terminated or truncated
    return steps, drawn


def main(method="gigpo", iterations=60, groups=2, members=8, rate=0.5, seed=0):
    env, rng = make("keydoor", n=2, apples=1, horizon=12), np.random.default_rng(seed)
    table, returns = Logits(), []
    for iteration in range(iterations):
        rollouts = [(g, *play(env, table, g, m, rng)) for g in range(groups) for m in range(members)]
        batch = ap.Batch.from_trajectories(ap.Trajectory(s, group=f"task-{g}") for g, s, _ in rollouts)  # 1
        credit = ap.assign(method, ap.by_step(batch))  # 2
        drawn = [place for _, _, places in rollouts for place in places]
        for (observation, actions, k), advantage in zip(drawn, credit.advantage_S, strict=True):  # 3
            logits = table[observation, actions]
            logits += rate / len(rollouts) * advantage * (np.eye(len(logits))[k] - probabilities(logits))
        returns.append(float(np.mean(batch.outcome_N)))
        if (iteration + 1) % 20 == 0:
            print(f"iteration {iteration + 1}: mean return {np.mean(returns[-20:]):.2f}")
    return returns


if __name__ == "__main__":
    main(*sys.argv[1:2])
