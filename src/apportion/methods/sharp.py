"""SHARP: each worker by what the score falls by without it, with the outcome and its tools, against the same agent.

    D[i,m] = r(i) - r(i with m masked)                                           leave-one-out, no Shapley value
    R[i,m] = outcome[i] + loo_weight * D[i,m] + tool_weight * tool[i,m]
    A[i,m] = (R[i,m] - mean_{g,m} R) / std_{g,m} R          over members of the group in which m acted

Use       for a planner with workers whose rollout can be scored with one of them masked: one score per worker. Two
          workers who can stand in for each other both get 0, two who need each other both get all; `shapley` shares.
Source    arXiv:2602.08335, its structure by the abstract, the terms by notes (no code found).
Compared  with worked numbers.
Deviates  1. The paper calls D motivated by Shapley; it is leave-one-out, and does not sum to the outcome.
          2. Its weights, its placeholder and whether a masked rollout is played again could not be recovered.
          3. The planner is never masked: without it there is nothing to score (``planner``).
          4. Sample std, no epsilon; an agent alone in its group gets 0.
"""

import numpy as np

from apportion.asks import Answer, Ask, Score
from apportion.credit import Credit
from apportion.methods.groups import LONE, compared, one_of
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.methods.told import Once, askable_N, count, numbers
from apportion.numerics import FloatArray, labels, seg_count, seg_sum
from apportion.units import Units

WHOLES = ("score", "outcome")


def plan(units: Units, *, planner: str, whole: str) -> list[Ask]:
    """The score of every rollout as it is, if it is not told, and without each of its workers."""
    one_of("sharp", WHOLES, whole=whole)
    once = Once()
    for traj, name in _workers(units):
        if name != planner:
            if whole == "score":
                once.add(Score(traj))
            once.add(Score(traj, agents=(name,)))
    return once.asks


@register(
    "sharp",
    unit="agent",
    units=("agent", "turn", "step"),
    family="multi-agent",
    reads=("reward_S", "agent_S"),
    needs=("reward_model",),
    source="arXiv:2602.08335",
    holds=("shift_invariant", "local_to_group"),
    plan=plan,
)
def sharp(
    units: Units,
    answers: list[Answer],
    *,
    planner: str = "planner",
    loo_weight: float = 1.0,
    tool: str | None = None,
    tool_weight: float = 1.0,
    whole: str = "score",
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
    group_of_one: str = "zero",
) -> Credit:
    """Credit each agent's units with its place among the same agent's rollouts.

    Args:
        units: S units that have one agent each. Reads agent_S and outcome_N, reward units.
        answers: one for each `Score` of the plan.
        planner: name of the agent that is never masked; it gets the outcome, and the reward of its tools.
        loo_weight: of what the score falls by (the paper's λ_s).
        tool: name of the reward part (Step.rewards) that holds the reward of tool calls; an agent's add up. None: none.
        tool_weight: of that (λ_p).
        whole: what is compared with the masked score: "score", that of the whole rollout by the same model, or
            "outcome", the rollout's own, where the model is the task's reward; saves one request per rollout.
        scale: "std" divides by the std, "none" keeps reward units.
        ddof: of the std.
        epsilon: added to the std.
        group_of_one: "zero", or "raw" for the reward of an agent without company.

    Returns:
        Credit; an agent whose masked score could not be had is unknown and takes no part in the statistics.
    """
    one_of("sharp", ("std", "none"), scale=scale)
    one_of("sharp", LONE, group_of_one=group_of_one)
    told = dict(zip(plan(units, planner=planner, whole=whole), numbers(answers).tolist(), strict=True))
    row_of_S = labels(units.traj_of_S, units.agent_S)
    first_R = np.unique(row_of_S, return_index=True)[1]
    traj_R, agent_R = units.traj_of_S[first_R], units.agent_S[first_R]
    fall_R = np.zeros(len(first_R))
    for row, (traj, name) in enumerate(zip(traj_R.tolist(), agent_R.tolist(), strict=True)):
        if units.valid_N[traj] and name and name != planner:
            full = float(units.outcome_N[traj]) if whole == "outcome" else told[Score(traj)]
            fall_R[row] = full - told[Score(traj, agents=(name,))]
    reward_R = units.outcome_N[traj_R] + loo_weight * fall_R + tool_weight * _tool(units, row_of_S, tool)
    named_R = units.valid_N[traj_R] & (agent_R != "")
    known_R = named_R & np.isfinite(reward_R)
    pool_R = labels(units.group_of_N[traj_R], agent_R)
    advantage_R = compared(
        np.where(known_R, reward_R, 0.0),
        pool_R,
        where=known_R,
        scale=scale,
        ddof=ddof,
        epsilon=epsilon,
        group_of_one=group_of_one,
    )
    notes = {
        **group_notes(units),
        **count(
            agents_without_company=int(np.count_nonzero(seg_count(pool_R, where=known_R) == 1)),
            agents_without_score=int(np.count_nonzero(named_R & ~known_R)),
            units_without_agent=int(np.count_nonzero(units.agent_S == "")),
        ),
    }
    return Credit(advantage_R[row_of_S], units, known_S=known_R[row_of_S], notes=notes)


def _workers(units: Units) -> list[tuple[int, str]]:
    """Trajectory and name of each agent, in time order; of valid rollouts only."""
    pairs = zip(units.traj_of_S.tolist(), units.agent_S.tolist(), strict=True)
    asked_N = units.valid_N & askable_N(units)
    return [(traj, name) for traj, name in dict.fromkeys(pairs) if asked_N[traj] and name]


def _tool(units: Units, row_of_S: np.ndarray, tool: str | None) -> FloatArray | float:
    """Sum of the named part over each agent's units, 0 where nobody told one."""
    if tool is None:
        return 0.0
    units.require("sharp", f"reward_parts:{tool}")
    part_S = units.reward_parts[tool]
    return seg_sum(part_S, row_of_S, where=np.isfinite(part_S))
