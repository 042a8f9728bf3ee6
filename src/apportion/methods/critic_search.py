"""CriticSearch: GRPO's outcome plus a label on each turn by a judge that knows the answer.

    A[k] = (R[i] - mean_group R) / std_group R + weight * (x[k] - mean x) / std x      over all turns of the group
    x[k] = 1 for a turn that the judge calls good, -1 for a bad one

Use       for agents that search, where a gold answer is at hand in training: in hindsight it is plain which query found
          what was needed.
Source    arXiv:2511.12159, known from its abstract; how labels and outcome are mixed is our reading.
          A setting of `llm_critic`: template "search_turns", privileged.
Compared  by worked numbers; the authors have published no code.
Deviates  1. The mixing above, with weight 1, stands in for one that is not public.
          2. All turns of a group are one set, so a rollout of many turns moves its mean more; ``weigh="rollout"`` gives
             each rollout one vote.
          3. Turns without a verdict are unknown.
"""

from apportion.asks import Answer, Judge
from apportion.credit import Credit
from apportion.methods.critic import SCALES, WEIGH, credit_of_verdicts, plan_verdicts, read_verdicts
from apportion.methods.groups import one_of
from apportion.methods.registry import register
from apportion.units import Units


def plan(units: Units, *, template: str, votes: int, privileged: bool) -> list[Judge]:
    """One `Judge` for each valid rollout."""
    return plan_verdicts("critic_search", units, template=template, votes=votes, privileged=privileged)


@register(
    "critic_search",
    unit="turn",
    family="judge",
    reads=("reward_S",),
    needs=("judge",),
    source="arXiv:2511.12159",
    holds=("shift_invariant", "local_to_group"),
    chain=True,
    plan=plan,
)
def critic_search(
    units: Units,
    answers: list[Answer],
    *,
    template: str = "search_turns",
    votes: int = 1,
    aggregate: str = "mean",
    privileged: bool = True,
    weight: float = 1.0,
    weigh: str = "unit",
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
) -> Credit:
    """Credit each turn with its rollout's outcome and its label.

    Args:
        units: S turns (or steps). Reads outcome_N, reward units, and by its template `Trajectory.reference`.
        answers: one for each `Judge` of the plan.
        template: of the judge's prompt, by name or path.
        votes: opinions on each rollout.
        aggregate: of the votes, as in `llm_critic`.
        privileged: the judge may see the reference, which makes the credit one for training only.
        weight: of the labels.
        weigh: what counts in the group: every "unit" (turn), every "token", or every "rollout" once.
        scale: "std" divides both comparisons by their std (no unit), "none" only subtracts the means.
        ddof: of the std.
        epsilon: added to the std.

    Returns:
        Credit with the parts "outcome" and "judge", unknown where there is no verdict.
    """
    one_of("critic_search", WEIGH, weigh=weigh)
    one_of("critic_search", SCALES, scale=scale)
    value_S, notes = read_verdicts("critic_search", units, answers, aggregate=aggregate, votes=votes)
    return credit_of_verdicts(
        units,
        value_S,
        weight=weight,
        outcome_weight=1.0,
        mix="after",
        within="group",
        weigh=weigh,
        scale=scale,
        ddof=ddof,
        epsilon=epsilon,
        notes=notes,
    )
