"""Dr. MAS: each agent against the same agent in the other members of its group.

    A[s] = (R[i] - mean_{g,a} R) / std_{g,a} R          a = agent of unit s; statistics over members in which a acted

Use       when agents of one system earn on different scales, or do not all act in every rollout: pooled statistics
          multiply the gradient of agent a by (var_a + (mean_a - mean)^2) / var.
Source    arXiv:2602.08847.
Compared  on recorded numbers, with the authors' core_algos.py: flag `group_by_agent_id`, ddof 1, epsilon 1e-6.
Deviates  1. An agent counts once per member of the group; the code counts each of its rows (``votes="row"``).
          2. No epsilon; the code adds 1e-6 (``epsilon``).
          3. An agent alone in its group gets 0; the code keeps its raw reward (``group_of_one="raw"``).
"""

import numpy as np

from apportion.credit import Credit
from apportion.methods.groups import LONE, VOTES, compared, one_of
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import labels, seg_count, seg_sum
from apportion.units import Units


@register(
    "dr_mas",
    unit="agent",
    units=("agent", "turn", "step"),
    family="multi-agent",
    reads=("reward_S", "agent_S"),
    source="arXiv:2602.08847",
    holds=("shift_invariant", "local_to_group"),
)
def dr_mas(
    units: Units,
    *,
    reward: str = "outcome",
    pool: str = "agent",
    votes: str = "trajectory",
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
    group_of_one: str = "zero",
) -> Credit:
    """Credit each agent's units with its place among the same agent's rollouts.

    Args:
        units: S units that have one agent each. Reads agent_S, outcome_N and reward_S, reward units.
        reward: "outcome" gives every agent the outcome of the trajectory, "own" the sum of the rewards of its units (of
            the unit alone with ``votes="row"``).
        pool: "agent" as above; "group" compares all agents of a group with each other, to see what that costs.
        votes: "trajectory" counts an agent once per trajectory, "row" once per unit.
        scale: "std" divides by the std, "none" keeps reward units.
        ddof: of the std.
        epsilon: added to the std.
        group_of_one: "zero", or "raw" for the reward of an agent without company.

    Returns:
        Credit; agents without company are counted in the notes.
    """
    one_of("dr_mas", ("outcome", "own"), reward=reward)
    one_of("dr_mas", ("agent", "group"), pool=pool)
    one_of("dr_mas", VOTES, votes=votes)
    one_of("dr_mas", ("std", "none"), scale=scale)
    one_of("dr_mas", LONE, group_of_one=group_of_one)
    # one row for each voter: an agent's share of a trajectory, or a unit
    row_of_S = labels(units.traj_of_S, units.agent_S) if votes == "trajectory" else np.arange(len(units))
    first_R = np.unique(row_of_S, return_index=True)[1]
    x_R = units.outcome_N[units.traj_of_S][first_R]
    if reward == "own":
        x_R = seg_sum(units.reward_S, row_of_S)
    pool_S = labels(units.group_of_S, units.agent_S) if pool == "agent" else units.group_of_S
    pool_R, valid_R = pool_S[first_R], units.valid_S[first_R]
    advantage_R = compared(
        x_R, pool_R, where=valid_R, scale=scale, ddof=ddof, epsilon=epsilon, group_of_one=group_of_one
    )
    alone = int(np.count_nonzero(seg_count(pool_R, where=valid_R) == 1))
    notes = {**group_notes(units), **({"agents_without_company": alone} if alone else {})}
    return Credit(advantage_R[row_of_S], units, notes=notes)
