"""MAPPA: a coach scores every action of every agent, and the scores are whitened over the batch.

    x[s] = (score - 5) / 5             of each action by itself: role, what it read, what it wrote, what came back
    A[s] = (x[s] - mean x) / std x     over the tokens of the batch (REINFORCE++ with global normalisation)

Use       for teams of agents with a capable coach and no outcome that tells their actions apart; it reads no reward.
Source    arXiv:2601.23228; scale and coach by the authors' code.
          A setting of `llm_critic`: template "coach", one call for each action, no outcome.
Compared  by reading, with ltjed/multiagent-coaching marti/verifiers/coach/external_coach.py.
Deviates  1. A reply that cannot be read is asked once more and then is no verdict; theirs is asked up to 300 times and
             then counts as 5.0.
          2. Each action has its own score only; rewards of later actions do not reach it.
          3. The coach is told the outcome by nobody; theirs is shown the ground truth in some roles (``privileged`` and
             a template of your own).
"""

from apportion.asks import Answer, Judge
from apportion.credit import Credit
from apportion.methods.critic import (
    SCALES,
    WEIGH,
    WITHIN,
    credit_of_verdicts,
    plan_verdicts,
    read_verdicts,
)
from apportion.methods.groups import one_of
from apportion.methods.registry import register
from apportion.numerics import BoolArray
from apportion.units import Units


def plan(units: Units, *, template: str, votes: int, calls: str, privileged: bool) -> list[Judge]:
    """One `Judge` for each action of a rollout that holds any and did not break, scored or not."""
    judged_S = _judged(units)
    return plan_verdicts(
        "mappa", units, template=template, votes=votes, privileged=privileged, calls=calls, judged_S=judged_S
    )


@register(
    "mappa",
    unit="step",
    family="judge",
    needs=("judge",),
    source="arXiv:2601.23228",
    holds=("shift_invariant",),
    chain=True,
    plan=plan,
)
def mappa(
    units: Units,
    answers: list[Answer],
    *,
    template: str = "coach",
    votes: int = 1,
    aggregate: str = "mean",
    calls: str = "unit",
    privileged: bool = False,
    within: str = "batch",
    weigh: str = "token",
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
) -> Credit:
    """Credit each action with its coach's score.

    Args:
        units: S actions along time. Rewards are not read: unscored rollouts get credit too.
        answers: one for each `Judge` of the plan.
        template: of the coach's prompt, by name or path.
        votes: scores of each action.
        aggregate: of the votes, as in `llm_critic`.
        calls: "unit" asks about each action by itself; "rollout" about all at once, for less (template "scores").
        privileged: the coach may see `Trajectory.reference`: for training only.
        within: actions are compared in the whole "batch" (the paper), or in their "group".
        weigh: what counts: every "token" (as REINFORCE++ whitens), every "unit", or every "rollout" once.
        scale: "std" divides by the std (no unit), "none" only subtracts the mean.
        ddof: of the std.
        epsilon: added to the std.

    Returns:
        Credit with the part "judge", unknown where there is no verdict.
    """
    one_of("mappa", WITHIN, within=within)
    one_of("mappa", WEIGH, weigh=weigh)
    one_of("mappa", SCALES, scale=scale)
    value_S, notes = read_verdicts(
        "mappa", units, answers, aggregate=aggregate, votes=votes, calls=calls, judged_S=_judged(units)
    )
    return credit_of_verdicts(
        units,
        value_S,
        weight=1.0,
        outcome_weight=0.0,
        mix="after",
        within=within,
        weigh=weigh,
        scale=scale,
        ddof=ddof,
        epsilon=epsilon,
        notes=notes,
    )


def _judged(units: Units) -> BoolArray:
    """Units of rollouts in which somebody acted and nothing broke."""
    batch = units.batch
    return (batch.has_tokens_N & ~batch.failed_N)[units.traj_of_S]
