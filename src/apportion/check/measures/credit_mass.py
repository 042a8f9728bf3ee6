"""Who holds the credit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from apportion.check.moves import short, step_name, steps_of
from apportion.check.registry import measure
from apportion.check.sampling import evenly
from apportion.credit import Credit
from apportion.numerics import FloatArray

TOP, UNITS = 5, 20_000
"""Units and phrases that are named; units whose phrases are counted."""


@measure("credit-mass", on="credit")
def credit_mass(credit: Credit) -> Mapping[str, Any]:
    """Shares of the credit mass (absolute credit times tokens) of units, agents and phrases; and how many hold half.

    The mass of a phrase is that of the units that contain it, so the shares of phrases do not add up.
    """
    mass_S = _mass(credit)
    total = float(mass_S.sum())
    if not total:
        return {}
    order = np.argsort(-mass_S, kind="stable")
    running = np.cumsum(mass_S[order]) / total
    units = credit.units
    top = [
        {"unit": _name(credit, int(s)), "mass": float(mass_S[s] / total), "credit": float(credit.advantage_S[s])}
        for s in order[:TOP]
    ]
    out: dict[str, Any] = {
        "level": units.level,
        "units": len(units),
        "units_with_half": int(np.searchsorted(running, 0.5) + 1),
        "positive": float(mass_S[credit.advantage_S > 0].sum() / total),
        "top": top,
    }
    agents = by_agent(credit)
    if len(agents) > 1:
        out["agents"] = agents
    if phrases := _phrases(credit, mass_S / total):
        out["phrases"] = phrases
    return out


def by_agent(credit: Credit) -> dict[str, dict[str, float]]:
    """Shares of the mass and of the counted tokens of each agent."""
    mass_S = _mass(credit)
    tokens_S: FloatArray = np.asarray(credit.units.tokens_S * credit.weight_S, dtype=np.float64)
    mass, tokens = float(mass_S.sum()), float(tokens_S.sum())
    if not mass or not tokens:
        return {}
    names, number = np.unique(credit.units.agent_S.astype(str), return_inverse=True)
    held = np.bincount(number, weights=mass_S).tolist()
    wrote = np.bincount(number, weights=tokens_S).tolist()
    return {str(name): {"mass": held[k] / mass, "tokens": wrote[k] / tokens} for k, name in enumerate(names)}


def _mass(credit: Credit) -> FloatArray:
    return np.where(credit.weight_S, np.abs(credit.advantage_S) * credit.units.tokens_S, 0.0)


def _name(credit: Credit, s: int) -> str:
    level, step = credit.units.level, step_name(credit.units.batch, int(credit.units.step_of_S[s]))
    return step if level == "step" else f"{step} ({level} {s} of all)"  # "step 1 (step 4)" names none


def _phrases(credit: Credit, share_S: FloatArray) -> list[dict[str, Any]]:
    """Pairs of words whose units hold most beyond what their number would give."""
    if credit.units.level in ("token", "episode"):
        return []
    steps = steps_of(credit.units.batch)
    held: Counter[str] = Counter()
    size: Counter[str] = Counter()
    mass: dict[str, float] = {}
    chosen = evenly(len(share_S), UNITS)
    for s in chosen.tolist():
        words = (steps[int(credit.units.step_of_S[s])].action or "").lower().split()[:200]
        for pair in {f"{a} {b}" for a, b in pairwise(words)}:
            held[pair] += 1
            size[pair] += int(credit.units.tokens_S[s])
            mass[pair] = mass.get(pair, 0.0) + float(share_S[s])
    tokens, total = float(credit.units.tokens_S[chosen].sum()), float(share_S[chosen].sum())
    often = [pair for pair, times in held.items() if times >= max(3, 0.01 * len(chosen))]
    if not tokens or not total:
        return []
    often.sort(key=lambda pair: (-(mass[pair] / total - size[pair] / tokens), pair))
    return [
        {"phrase": short(pair), "mass": mass[pair] / total, "tokens": size[pair] / tokens, "units": held[pair]}
        for pair in often[:TOP]
    ]
