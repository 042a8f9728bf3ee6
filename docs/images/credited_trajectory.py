"""Draw credited-trajectory.svg: one rollout of CraftTree under two methods, beside the exact answer.

    python docs/images/credited_trajectory.py [FILE]

The rollouts are drawn from a policy of known strength, so the exact advantage of every step is known by dynamic
programming. The rollout shown is the one with the largest exact credit on a step whose state at least COMPANY
other rollouts of the task passed through, because only there can a comparison of states say anything.
"""

import sys
from pathlib import Path

import numpy as np

from apportion.assign import assign
from apportion.bench.exact import Rollouts, advantage_of, exact, improve, sample, uniform
from apportion.bench.tasks import task
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.envs.table import Table
from apportion.report import report_model
from apportion.report.picture import picture
from apportion.units import Units, by_step

GROUPS, MEMBERS, STRENGTH, COMPANY, SEED = 4, 16, 4.0, 3, 5
HERE = Path(__file__).parent / "credited-trajectory.svg"


def trajectories(table: Table, rollouts: Rollouts) -> list[Trajectory]:
    """The sampled episodes as rollouts of text."""
    out = []
    for n, group in enumerate(rollouts.group_of_N.tolist()):
        steps = [
            Step(
                observation=table.text(rollouts.state_S[s], rollouts.time_S[s]),
                action=table.actions[rollouts.state_S[s]][rollouts.action_S[s]],
                reward=float(rollouts.reward_S[s]),
            )
            for s in np.flatnonzero(rollouts.traj_of_S == n)
        ]
        out.append(Trajectory(steps, group=f"task {group}", id=f"rollout {n}"))
    return out


def company(units: Units, s: int) -> int:
    """How many other rollouts of the group acted in the state of this unit."""
    assert units.state_S is not None
    same = (units.state_S == units.state_S[s]) & (units.group_of_S == units.group_of_S[s])
    return len(set(units.traj_of_S[same].tolist())) - 1


def decisive_step(units: Units, s: int) -> int:
    """Number of a unit inside its rollout, counted from 0."""
    return s - int(np.flatnonzero(units.traj_of_S == units.traj_of_S[s])[0])


def draw() -> str:
    """The picture as SVG."""
    table = task("crafttree").table
    policy = improve(table, uniform(table), STRENGTH)
    rollouts = sample(table, policy, groups=GROUPS, n=MEMBERS, rng=np.random.default_rng(SEED))
    units = by_step(Batch.from_trajectories(trajectories(table, rollouts)))
    truth = advantage_of(exact(table, policy), rollouts)
    credits = [assign("grpo", units), assign("gigpo", units), Credit(truth, units, method="exact advantage")]
    others_S = np.array([company(units, s) for s in range(len(units))])
    decisive = int(np.argmax(np.where(others_S >= COMPANY, np.abs(truth), -1.0)))
    which = int(units.traj_of_S[decisive])
    model = report_model(credits)
    shown = model["trajectories"][which]
    goal = model["texts"][shown["steps"][0]["context"]].split(".")[0]
    return picture(
        model,
        which,
        title=f"{goal}. The only reward comes at the end, and this rollout got {shown['outcome']:g}.",
        subtitle=f"Which step decided it? {MEMBERS} rollouts of the task are compared; "
        f"{others_S[decisive]} of the others passed through the state of step {decisive_step(units, decisive)}.",
        notes={
            "grpo": "outcome only",
            "gigpo": "outcome + same states",
            "exact advantage": "by dynamic programming",
        },
    )


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else HERE).write_text(draw(), encoding="utf-8")
