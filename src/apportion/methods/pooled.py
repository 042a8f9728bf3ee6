"""Pooled: values of recurring states from the other trajectories and earlier batches, in a λ-return; no extra sample.

    V(s)  = (sum of the others' returns to go in s + memory's + κ b) / (n + κ)     b = mean return of the group's others
    l(s)  = 1 - (1 - λ) n / (n + κ)                                                n = visits by others, and remembered
    R[t]  = r[t] + γ ((1 - l(s[t+1])) V(s[t+1]) + l(s[t+1]) R[t+1])                 A[t] = R[t] - V(s[t])

Use       when states recur, over groups or over batches (games, pages, tools, tasks that come again). Where nothing
          recurs it is RLOO on the return to go: A[t] = G[t] - b.
Source    ours; the parts are from RLOO (arXiv:2402.14740), GiGPO's anchor states (arXiv:2505.10978) and TD(λ).
Compared  with plain loops from the formula, and on enumerable tasks with the exact advantage: docs/pooled.md.
Deviates  1. A state is (state, time) over all groups of the batch; GiGPO's is the state inside one group.
          2. Settings that are not given are chosen from the data, see `apportion.methods.pooled_choice`; one batch says
             too little about κ, λ and the decay, which need a memory of 4 batches.
          3. A lone member of a group has no b: where nobody else was, its credit is 0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError, DataError
from apportion.methods.groups import one_of
from apportion.methods.notes import group_notes
from apportion.methods.pooled_choice import COLUMNS, ROWS, choose, credit_of, evidence_of
from apportion.methods.pooled_estimate import view_of
from apportion.methods.pooled_keys import KINDS, actions_of, keys_of, numbered
from apportion.methods.pooled_memory import DECAYS, Memory, news_of
from apportion.methods.registry import register
from apportion.units import Units


def carry(
    units: Units,
    memory: Memory,
    *,
    gamma: float,
    key: str,
    shrinkage: float | None,
    lam: float | None,
    decay: float | None = None,
) -> tuple[Credit, Memory]:
    """The credit of a batch, and the news that it is for the memory.

    ``memory.merge(news).trimmed()`` is the memory of the next batch. Several workers may credit with one memory and
    merge their news in any order. ``decay`` fixes the memory's, for experiments; the rest is as for `pooled`.
    """
    one_of("pooled", ("auto", *KINDS), key=key)
    if decay is not None and decay != 0.0 and decay not in DECAYS:
        raise ConfigError(f"pooled: decay is {decay!r}; give 0 (no memory), {', '.join(map(str, DECAYS))}, or leave it")
    if shrinkage is not None and shrinkage < 0:
        raise ConfigError(f"pooled: shrinkage is {shrinkage!r}; give 0 or more, or leave it out")
    if memory.evidence.size and memory.evidence.shape != (len(ROWS), COLUMNS):
        raise DataError(f"pooled: the memory has evidence of shape {memory.evidence.shape}; start without it")
    memory.check_gamma(gamma)
    view, at = view_of(units, gamma)
    action = actions_of(units)
    hashes = {kind: hash_S[at] for kind, hash_S in keys_of(units, action).items()}
    keys = {kind: numbered(hash_S) for kind, hash_S in hashes.items()}
    now = memory.aged(memory.tick + 1)
    remembered = {kind: now.look_up(hash_S) for kind, hash_S in hashes.items()}
    given: dict[str, float | str | None] = {"key": key, "shrinkage": shrinkage, "lam": lam, "decay": decay}
    evidence = evidence_of(view, keys, remembered, numbered(action[at]), choose(now.evidence, given).key)
    news = news_of(now.tick, hashes, view.return_S, evidence, float(gamma))
    # what a state is, this batch may already tell; the other settings only earlier ones, lest it choose its own credit
    known = evidence if not now.evidence.size else now.evidence + evidence
    settings = replace(choose(now.evidence, given), key=choose(known, given).key)
    advantage, seen, _ = credit_of(view, keys[settings.key], remembered[settings.key], settings)
    advantage_S = np.zeros(len(units))
    advantage_S[at] = advantage
    alone = int(np.count_nonzero(seen.count_S == 0))
    notes: dict[str, int | float | str] = {
        **group_notes(units),
        "key": settings.key,
        "shrinkage": settings.shrinkage,
        "lam": settings.lam,
        "decay": settings.decay,
        "units_without_company": alone,
        "share_with_company": float((len(at) - alone) / len(at)) if len(at) else 0.0,
        "remembered_states": len(memory),
    }
    return Credit(advantage_S, units, notes=notes), news


@register(
    "pooled",
    unit="step",
    units=("step", "turn"),
    family="monte-carlo",
    reads=("reward_S", "state_S"),
    source="ours, docs/pooled.md",
    holds=("scale_equivariant",),
    chain=True,
    carry=carry,
)
def pooled(
    units: Units,
    *,
    gamma: float = 1.0,
    key: str = "auto",
    shrinkage: float | None = None,
    lam: float | None = None,
) -> Credit:
    """Credit every step from one batch, without memory. With one: `apportion.assign.assign_carrying`.

    Args:
        units: S steps or turns. Reads reward_S, outcome_N (reward units) and state_S.
        gamma: discount per unit, in [0, 1].
        key: what counts as one state: "state+time", "state", "task+state+time" (inside a group), "history" (all states
            and actions so far); "auto" = the first, until another predicts returns better beyond twice its error.
        shrinkage: κ, visits that the group's mean is worth; None = 1 until earlier batches say otherwise.
        lam: λ, weight of the sampled return against the value of a state with much company; None = 0.5 until then.
            The decay of a memory is 0.9 per batch until then, and then 0, 0.6, 0.9 or 0.97.

    Returns:
        Credit in reward units. The notes say which settings were used and how many units had company.

    Raises:
        ConfigError: a setting outside these.
    """
    return carry(units, Memory(), gamma=gamma, key=key, shrinkage=shrinkage, lam=lam)[0]
