"""Implicit Q: the log-ratio of a preference-tuned policy to its reference *is* a credit per token.

    beta log pi(a|s) / pi_ref(a|s)  =  r(s,a) + V*(s a) - V*(s)  =  Q*(s,a) - V*(s)          at the optimum

Use       to read the credit that a DPO-trained policy already holds; for rollouts sampled by that very policy.
Source    arXiv:2404.12358 (From r to Q*).
Compared  not: there is no code to compare with; on the worked token tree of the specification.
Deviates  1. Environment tokens carry no log-ratio here. Where they are random the ratios do not telescope: their sum is
             then the outcome minus V* minus the luck of the environment.
"""

from apportion.credit import Credit
from apportion.methods.process_reward import from_start, one_of
from apportion.methods.registry import register
from apportion.numerics import to_go
from apportion.units import Units

FORMS = ("advantage", "q", "to_go")


@register(
    "implicit_q",
    unit="token",
    family="log-ratio",
    reads=("logp_S", "ref_logp_S"),
    source="arXiv:2404.12358",
    holds=("shift_invariant", "local_to_trajectory", "local_to_group"),
    chain=True,
)
def implicit_q(units: Units, *, beta: float = 0.1, form: str = "advantage") -> Credit:
    """Credit each unit with its scaled log-ratio.

    Args:
        units: S units, tokens as a rule. Reads logp_S and ref_logp_S, nats. Rewards are not read: unscored rollouts get
            credit too.
        beta: the temperature that the policy was tuned with, reward units per nat.
        form: "advantage" is Q* - V*; "q" sums it from the start, V*(after s) - V*(start) for an outcome at the end;
            "to_go" sums it to the end, outcome - V*(before s).

    Returns:
        Credit in reward units. Only differences are identified: a constant per prompt is lost.
    """
    one_of("implicit_q", "form", form, FORMS)
    assert units.logp_S is not None
    assert units.ref_logp_S is not None
    credit_S = beta * (units.logp_S - units.ref_logp_S)
    if form == "q":
        credit_S = from_start(credit_S, units)
    elif form == "to_go":
        credit_S = to_go(credit_S, units.traj_of_S)
    known_N = units.batch.has_tokens_N & ~units.batch.failed_N
    return Credit(credit_S, units, known_S=known_N[units.traj_of_S])
