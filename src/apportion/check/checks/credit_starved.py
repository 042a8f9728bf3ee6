"""Agents that act and get no credit."""

from __future__ import annotations

from apportion.check.findings import Finding, Yields, places
from apportion.check.measures.credit_mass import by_agent
from apportion.check.registry import register
from apportion.credit import Credit

ACTS, GETS = 0.1, 0.05
"""An agent that wrote a tenth of the tokens or more should have at least a twentieth of its share in them as credit."""


@register("credit-starved", on="credit", cheap=True)
def credit_starved(credit: Credit) -> Yields:
    """An agent that writes a good part of the tokens and holds next to none of the credit mass."""
    shares = by_agent(credit)
    starved = {
        name: own for name, own in shares.items() if own["tokens"] >= ACTS and own["mass"] < GETS * own["tokens"]
    }
    if len(shares) < 2 or not starved:
        return
    name, own = max(starved.items(), key=lambda item: item[1]["tokens"])
    yield Finding(
        "credit-starved",
        "warning",
        f"the agent {name!r} writes {own['tokens']:.0%} of the tokens and holds {own['mass']:.1%} of the credit mass: "
        "training hardly reaches it",
        "give each agent statistics of its own (`dr_mas`), or ask what the outcome is without it (`ccpo`, `sharp`)",
        {
            "agents": len(starved),
            "of": len(shares),
            "share": own["tokens"],
            "mass": own["mass"],
            "tokens": own["tokens"],
        },
        places(starved),
    )
