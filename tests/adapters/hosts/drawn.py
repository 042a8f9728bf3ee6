"""Rows of a trainer that Hypothesis draws, and the same rollouts built here as trajectories."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from apportion.adapters.rows import HostRow
from apportion.data import Batch, Step, Trajectory

STATES = ("hall", "cellar", "attic")


def rollout(seed, group, name, calls=1):
    """Rows of one rollout, and its trajectory; of several calls, some prompts go on and some begin afresh."""
    rng = np.random.default_rng(seed)
    rows, steps, held, rest = [], [], [], []
    outcome = round(float(rng.normal()), 3)
    for k in range(calls):
        fresh = k > 0 and rng.random() < 0.3
        new = rng.integers(30, 40, rng.integers(1, 4)).tolist()
        prompt = new if fresh or k == 0 else held + new
        ids, mask, spans, told, states = [], [], [], [], []
        context = prompt if fresh or k == 0 else rest + new
        for s in range(int(rng.integers(1, 4))):
            size = int(rng.integers(1, 4))
            own = rng.integers(3, 9, size).tolist()
            seen = rng.integers(20, 30, rng.integers(1, 3)).tolist() if rng.random() < 0.8 else []
            spans.append((len(ids), len(ids) + size))
            ids, mask = ids + own + seen, mask + [1] * size + [0] * len(seen)
            told.append(round(float(rng.normal()), 3))
            states.append(STATES[int(rng.integers(len(STATES)))])
            steps.append(
                Step(
                    prompt_ids=context,
                    ids=own,
                    fresh=fresh and s == 0,
                    logp=[-0.5] * size,
                    reward=told[-1],
                    state=states[-1],
                )
            )
            context = seen
        rows.append(
            HostRow(
                group=group,
                id=name,
                index=k,
                prompt_ids=prompt,
                completion_ids=ids,
                mask=mask,
                spans=spans,
                step_rewards=told,
                states=states,
                reward=outcome if k == calls - 1 else None,
                logp=[-0.5] * len(ids),
            )
        )
        held, rest = prompt + ids, context
    steps[-1] = replace(steps[-1], reward=None)
    rows[-1] = replace(rows[-1], step_rewards=[*rows[-1].step_rewards[:-1], None])
    return rows, Trajectory(steps, group=group, id=name, outcome=outcome)


@st.composite
def worlds(draw, most_calls=3):
    """Rows and trajectories of some groups."""
    seed = draw(st.integers(0, 2**32 - 1))
    groups = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    rows, trajectories = [], []
    for g, size in enumerate(groups):
        for i in range(size):
            calls = draw(st.integers(1, most_calls))
            more, trajectory = rollout([seed, g, i], f"g{g}", f"g{g}/{i}", calls)
            rows += more
            trajectories.append(trajectory)
    return rows, Batch.from_trajectories(trajectories)
