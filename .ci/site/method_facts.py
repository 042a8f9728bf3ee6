"""What declared facts of a method mean, in words: its columns, its laws, its kind, what it costs."""

from __future__ import annotations

import re
from functools import cache

from apportion.asks import Attend, Continue, Judge, Logprob, Score
from apportion.methods import MethodSpec
from apportion.testing import random_units

COLUMNS = {
    "reward_S": "rewards of units and outcomes",
    "state_S": "keys of the states that units act in",
    "agent_S": "who acted",
    "value_S": "a critic's values",
    "logp_S": "log-probabilities of the policy",
    "ref_logp_S": "log-probabilities of a reference",
    "entropy_S": "entropies of the policy",
    "reward_parts": "named parts of step rewards",
    "outcome_parts": "named parts of outcomes",
    "column:prm_logp": "log-probabilities of a process reward model",
    "column:prob_square": "sums of squared probabilities",
}
LAWS = {
    "scale_equivariant": "rewards times c give credit times c",
    "shift_invariant": "a constant added to the outcomes changes nothing",
    "local_to_group": "a group gets the same numbers without the others",
    "local_to_trajectory": "a rollout gets the same numbers without the others",
    "relabel_invariant": "names of states do not matter",
    "zero_mean_per_group": "the credit of a group has mean 0",
    "sums_to_outcome": "the credit of a rollout adds up to its outcome",
}
FAMILIES = {
    "monte-carlo": ("Own samples", "Rollouts compared with their siblings. Nothing else is needed."),
    "tree": ("Trees", "Rollouts that fork or begin alike: siblings say what a decision was worth."),
    "value": ("Values", "A critic's values are in the data; see [learned credit](../models.md) for one."),
    "process-reward": ("Process rewards", "Somebody scored every step."),
    "shaping": ("Shaping", "The score of the state is known after each turn."),
    "log-ratio": ("Log-ratios", "Two models' log-probabilities of the same tokens are a reward for nothing."),
    "extra samples": ("Extra rollouts", "The policy goes on from places of the rollout; see [asking](../asking.md)."),
    "extra scoring": ("Extra passes", "A model scores parts of what was sampled; see [asking](../asking.md)."),
    "judge": ("A judge", "A language model gives verdicts; see [judges](../judges.md)."),
    "multi-agent": ("Several agents", "The outcome is divided among those who acted."),
    "transform": ("Transforms", "Behind a bar: they change the credit of what stands before them."),
}
RESOURCES = {
    "policy": "the policy",
    "reward_model": "a reward model",
    "reference": "a reference model",
    "judge": "a judge",
}
PRICES = {
    Continue: "extra rollouts: it asks the policy to go on from places of the rollout",
    Judge: "judge calls: it asks a language model for verdicts",
    Score: "extra passes: it asks for scores of parts of what was sampled",
    Attend: "extra passes: it asks for one scored pass, with its attention",
    Logprob: "extra passes: it asks for probabilities of given tokens",
}


def columns_told(spec: MethodSpec) -> str:
    """What it reads, each with its meaning."""
    return "; ".join(f"`{column}`: {COLUMNS[column]}" for column in spec.reads)


def asked(spec: MethodSpec) -> str:
    """Whom it asks."""
    if spec.plan is None:
        return "nobody"
    return " and ".join(f"{RESOURCES[need]} (`{need}`)" for need in spec.needs) + ", through an [`Asker`](../asking.md)"


@cache
def kinds_of_asks(spec_name: str) -> frozenset[type]:
    """The kinds of questions that its plan has for a made-up batch."""
    from apportion.methods import get

    spec = get(spec_name)
    assert spec.plan is not None
    units = random_units(1, spec.unit)
    bound = spec.bind(dict(spec.example))
    asks = spec.plan(units, [], **bound) if spec.adaptive else spec.plan(units, **bound)
    return frozenset(type(ask) for ask in asks)


def cost_class(spec: MethodSpec) -> str:
    """What is paid beyond the rollouts, from what it asks and reads: a class, a colon, and what that means."""
    if spec.plan is not None:
        kinds = kinds_of_asks(spec.name)
        return "; ".join(price for kind, price in PRICES.items() if kind in kinds)
    if spec.kind == "transform":
        return "free: arithmetic on a credit"
    if "column:prm_logp" in spec.reads:
        return "a trained model: an implicit reward model's log-probabilities are read"
    if "value_S" in spec.reads or spec.family == "value":
        return "a trained model: a critic's numbers are read"
    if spec.family == "process-reward":
        return "a trained model: a process reward model's scores are read, or rules that score each step"
    if "ref_logp_S" in spec.reads:
        return "one extra pass: of the reference, where the trainer does not have it"
    return "free: the group's own samples"


def source_link(source: str) -> str:
    """arXiv numbers as links."""
    return re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", source).replace(
        "docs/pooled.md", "[pooled](../pooled.md)"
    )
