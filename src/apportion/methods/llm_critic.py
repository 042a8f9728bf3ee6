"""LLM critic: a judge's verdict on each unit, compared in the group, beside the outcome.

    x[s] = verdicts on unit s on the scale from -1 to 1, votes aggregated
    A[s] = outcome_weight * (R[i] - mean_group R) / std_group R + weight * (x[s] - mean x) / std x      mix="after"
    A[s] = (r[s] - mean r) / std r                 r[s] = outcome_weight * R[i] + weight * x[s]         mix="before"

Use       when a capable model can tell good units from bad ones and nothing measured can. A judge errs and has tastes:
          watch its value error before trusting it, and mind that it reads what the policy wrote.
Source    arXiv:2508.02298 (`capo`), arXiv:2511.12159 (`critic_search`), arXiv:2601.23228 (`mappa`): one contract, of
          which these are settings, registered under their own names because their defaults differ in nearly everything.
Compared  by the worked numbers of the settings; none of the three has public code for its credit.
Deviates  1. A reply that cannot be read is no verdict and its units are unknown; others put a middle score in.
          2. Sets are built from the votes that say something: with a vote missing, "majority" is of the rest.
          3. One judge call sees the whole rollout; ``calls="unit"`` asks about each unit, showing nothing later.
"""

from apportion.asks import Answer, Judge
from apportion.credit import Credit
from apportion.methods.critic import SCALES, WEIGH, WITHIN, credit_of_verdicts, plan_verdicts, read_verdicts
from apportion.methods.groups import one_of
from apportion.methods.registry import register
from apportion.units import Units

MIXES = ("after", "before")


def plan(units: Units, *, template: str, votes: int, calls: str, privileged: bool) -> list[Judge]:
    """One `Judge` for each valid rollout, or for each of its units."""
    return plan_verdicts("llm_critic", units, template=template, votes=votes, privileged=privileged, calls=calls)


@register(
    "llm_critic",
    unit="step",
    family="judge",
    reads=("reward_S",),
    needs=("judge",),
    source="arXiv:2508.02298",
    holds=("shift_invariant", "local_to_group"),
    chain=True,
    plan=plan,
)
def llm_critic(
    units: Units,
    answers: list[Answer],
    *,
    template: str = "labels",
    votes: int = 1,
    aggregate: str = "mean",
    calls: str = "rollout",
    privileged: bool = False,
    weight: float = 1.0,
    outcome_weight: float = 1.0,
    mix: str = "after",
    within: str = "group",
    weigh: str = "unit",
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
) -> Credit:
    """Credit each unit with what a judge says of it.

    Args:
        units: S units along time. Reads outcome_N, reward units.
        answers: one for each `Judge` of the plan.
        template: of the judge's prompt, by name ("labels", "scores", "wrong_steps", …) or the path of a .toml file. Its
            scale says how a verdict becomes a number: good, neutral, bad are 1, 0, -1; 0 to 10 are (s - 5) / 5; a wrong
            step is -1 and any other 0.
        votes: opinions on each rollout.
        aggregate: of the votes: "mean" or "median"; or -1 where the judge found fault with a unit in all votes
            ("intersection"), in half of them or more ("majority") or in one ("union"), and 0 elsewhere.
        calls: "rollout" shows the judge the whole rollout once per vote; "unit" asks about each unit by itself, with
            what came before it and its result.
        privileged: the judge may see `Trajectory.reference` (and the template shows it): for training only.
        weight: of the verdicts.
        outcome_weight: of the outcome; 0 leaves the verdicts alone.
        mix: "after" compares outcomes and verdicts each by itself and adds; "before" adds and compares the sum.
        within: units are compared in their "group", or in the whole "batch".
        weigh: what counts in that comparison: every "unit" once; every "token", so that long units and rollouts count
            more; every "rollout" once, its tokens sharing its vote.
        scale: "std" divides by the std (no unit), "none" only subtracts the mean.
        ddof: of the std.
        epsilon: added to the std.

    Returns:
        Credit with the parts "outcome" and "judge", unknown where there is no verdict. Verdicts, missing ones and
        units without any are counted.
    """
    one_of("llm_critic", MIXES, mix=mix)
    one_of("llm_critic", WITHIN, within=within)
    one_of("llm_critic", WEIGH, weigh=weigh)
    one_of("llm_critic", SCALES, scale=scale)
    value_S, notes = read_verdicts("llm_critic", units, answers, aggregate=aggregate, votes=votes, calls=calls)
    return credit_of_verdicts(
        units,
        value_S,
        weight=weight,
        outcome_weight=outcome_weight,
        mix=mix,
        within=within,
        weigh=weigh,
        scale=scale,
        ddof=ddof,
        epsilon=epsilon,
        notes=notes,
    )
