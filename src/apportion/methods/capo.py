"""CAPO: the outcome, less a penalty on steps that critics call wrong, compared over all tokens of the group.

    r[s] = whole_weight * R[i] - process_weight * [s is wrong]
    A[s] = (r[s] - mean r) / std r             over the tokens of all rollouts of the task

Use       for solutions that are right or wrong, with a critic that finds wrong steps: a wrong step in a correct rollout
          gets less for it, a sound step in a wrong rollout stands apart from the mistakes.
Source    arXiv:2508.02298, by its reviews and reading notes; weights 2 and 1, 4 critiques of Qwen2.5-72B-Instruct.
          A setting of `llm_critic`: template "wrong_steps", mix "before", tokens as votes.
Compared  by worked numbers; the authors' repository holds no code.
Deviates  1. The sample std (ddof 1); the paper does not say which (``ddof=0`` for the population's).
          2. Normalising over tokens weighs long rollouts more, as its reviewers read it; ``weigh="rollout"`` gives each
             rollout one vote.
          3. A rollout whose critiques cannot be read is unknown and in no mean; sets are of the votes that came.
"""

from apportion.asks import Answer, Judge
from apportion.credit import Credit
from apportion.methods.critic import SCALES, WEIGH, credit_of_verdicts, plan_verdicts, read_verdicts
from apportion.methods.groups import one_of
from apportion.methods.registry import register
from apportion.units import Units


def plan(units: Units, *, template: str, votes: int, privileged: bool) -> list[Judge]:
    """One `Judge` for each valid rollout."""
    return plan_verdicts("capo", units, template=template, votes=votes, privileged=privileged)


@register(
    "capo",
    unit="step",
    family="judge",
    reads=("reward_S",),
    needs=("judge",),
    source="arXiv:2508.02298",
    holds=("shift_invariant", "local_to_group"),
    chain=True,
    plan=plan,
)
def capo(
    units: Units,
    answers: list[Answer],
    *,
    template: str = "wrong_steps",
    votes: int = 4,
    aggregate: str = "intersection",
    privileged: bool = False,
    whole_weight: float = 2.0,
    process_weight: float = 1.0,
    weigh: str = "token",
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
) -> Credit:
    """Credit each step with its rollout's outcome and what critics found in it.

    Args:
        units: S steps of solutions (paragraphs: ``by_segment(by="paragraph")``; steps of an agent). Reads outcome_N,
            reward units; the paper's is 1 for a correct answer and 0 for a wrong one.
        answers: one for each `Judge` of the plan.
        template: of the critic's prompt, by name or path; with a scale other than a set of wrong steps, a step below
            the middle is wrong ("mean" and "median" take the scale as it is). "wrong_steps_reference" shows the critic
            the reference.
        votes: critiques of each rollout.
        aggregate: a step is wrong where all critiques say so ("intersection", for small policies), half of them or more
            ("majority", for larger ones), or one ("union"); "mean" takes the share that does.
        privileged: the critic may see `Trajectory.reference`: for training only.
        whole_weight: of the outcome.
        process_weight: of a wrong step.
        weigh: what counts in the group: every "token" (the paper), every "unit", or every "rollout" once.
        scale: "std" divides by the std (no unit), "none" only subtracts the mean.
        ddof: of the std.
        epsilon: added to the std.

    Returns:
        Credit with the parts "outcome" and "judge", unknown where there is no verdict.
    """
    one_of("capo", WEIGH, weigh=weigh)
    one_of("capo", SCALES, scale=scale)
    value_S, notes = read_verdicts("capo", units, answers, aggregate=aggregate, votes=votes)
    return credit_of_verdicts(
        units,
        value_S,
        weight=process_weight,
        outcome_weight=whole_weight,
        mix="before",
        within="group",
        weigh=weigh,
        scale=scale,
        ddof=ddof,
        epsilon=epsilon,
        notes=notes,
    )
