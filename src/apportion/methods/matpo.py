"""MATPO: the planner against the planners of its group; its workers inherit the planner's credit.

    R[i] = accuracy[i] + format_weight * (f[i] + mean of the workers' f) / 2
    A[i] = (R[i] - mean_group R) / std_group R          for the planner's units and for those of every worker

Use       when one model plays a planner and the workers it calls, and only the whole answer can be judged.
Source    arXiv:2510.04678.
Compared  on recorded numbers, with the authors' subagent_tool.py and ray_trainer.py (epsilon 1e-6).
Deviates  1. No epsilon; the code adds 1e-6 (``epsilon``).
          2. A group of one gets 0; the code keeps the raw reward (``group_of_one="raw"``).
          3. Workers without a format score stay out of their mean; without any worker the planner's score stands alone.
          4. The code divides the loss by the number of planners: use ``seq-mean-token-sum`` over trajectories.
"""

import numpy as np

from apportion.credit import Credit
from apportion.methods.groups import LONE, compared, one_of
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import FloatArray, labels, seg_count, seg_mean, seg_sum
from apportion.units import Units


@register(
    "matpo",
    unit="agent",
    units=("agent", "turn", "step"),
    family="multi-agent",
    reads=("reward_S", "agent_S", "reward_parts"),
    source="arXiv:2510.04678",
    holds=("shift_invariant", "local_to_group", "zero_mean_per_group"),
)
def matpo(
    units: Units,
    *,
    planner: str = "planner",
    accuracy: str | None = None,
    format: str = "format",
    format_weight: float = 0.1,
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
    group_of_one: str = "zero",
) -> Credit:
    """Credit every unit of a rollout with the planner's place in its group.

    Args:
        units: S units that have one agent each. Reads agent_S, outcome_N and reward_parts (Step.rewards), reward units.
        planner: name of the agent that plans; every other name is one worker.
        accuracy: name of the outcome part that judges the answer; default the outcome itself.
        format: name of the reward part that holds the format scores; an agent's scores in a rollout add up.
        format_weight: of the format scores; 0.1 in the paper.
        scale: "std" divides by the std, "none" keeps reward units.
        ddof: of the std.
        epsilon: added to the std.
        group_of_one: "zero", or "raw" for a group of one's own reward.

    Returns:
        Credit; rollouts that lack the accuracy part are unknown. Those in which nobody of the planner's name acted are
        counted in the notes.
    """
    one_of("matpo", ("std", "none"), scale=scale)
    one_of("matpo", LONE, group_of_one=group_of_one)
    units.require("matpo", f"reward_parts:{format}", *([] if accuracy is None else [f"outcome_parts:{accuracy}"]))
    accuracy_N = units.outcome_N if accuracy is None else units.outcome_parts[accuracy]
    known_N = units.valid_N & np.isfinite(accuracy_N)
    reward_N = np.where(known_N, accuracy_N, 0.0) + format_weight * _format(units, planner, format)
    advantage_N = compared(
        reward_N, units.group_of_N, where=known_N, scale=scale, ddof=ddof, epsilon=epsilon, group_of_one=group_of_one
    )
    known_S = known_N[units.traj_of_S]
    plans_N = np.zeros(len(units.group_of_N), dtype=bool)
    plans_N[units.traj_of_S[units.agent_S == planner]] = True
    leaderless = int(np.count_nonzero(known_N & ~plans_N))
    notes = {**group_notes(units), **({"trajectories_without_planner": leaderless} if leaderless else {})}
    return Credit(advantage_N[units.traj_of_S], units, known_S=known_S, notes=notes)


def _format(units: Units, planner: str, name: str) -> FloatArray:
    """Mean of the planner's score and of the workers' mean, (N,); of one of them where the other is missing."""
    score_S, n = units.reward_parts[name], len(units.group_of_N)
    told_S = np.isfinite(score_S)
    # one row for each agent of a trajectory
    row_of_S = labels(units.traj_of_S, units.agent_S)
    first_R = np.unique(row_of_S, return_index=True)[1]
    traj_of_R, plans_R = units.traj_of_S[first_R], units.agent_S[first_R] == planner
    score_R = seg_sum(score_S, row_of_S, where=told_S)
    told_R = seg_count(row_of_S, where=told_S) > 0
    total_N, halves_N = np.zeros(n), np.zeros(n)
    for is_R in (told_R & plans_R, told_R & ~plans_R):
        total_N += seg_mean(score_R, traj_of_R, where=is_R, n=n)
        halves_N += seg_count(traj_of_R, where=is_R, n=n) > 0
    mean_N: FloatArray = total_N / np.maximum(halves_N, 1.0)
    return mean_N
