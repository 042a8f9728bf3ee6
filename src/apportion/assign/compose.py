"""A checked expression carried out: methods called, asked and added up, transforms put behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from apportion.asks import Answer
from apportion.assign.cost import planned
from apportion.assign.expression import Leaf, Node, Pipe, leaves
from apportion.credit import Cost, Credit
from apportion.methods import MethodSpec, get
from apportion.methods.registry import numbered
from apportion.numerics import FloatArray
from apportion.resources import Asker
from apportion.units import Units


def run(node: Node, units: Units, ask: Asker | None) -> Credit:
    """The credit of a checked expression; ``ask`` is there where it asks."""
    if isinstance(node, Leaf):
        spec = get(node.name)
        return spec.call(units, **node.params) if spec.plan is None else _asked(spec, units, node.params, ask)
    if isinstance(node, Pipe):
        return get(node.transform.name).call(run(node.left, units, ask), **node.transform.params)
    return _add([(weight, _label(term), run(term, units, ask)) for weight, term in node.terms], units)


def _asked(spec: MethodSpec, units: Units, params: Mapping[str, Any], ask: Asker | None) -> Credit:
    """Plan, ask, fold; the fold's credit with what the answers cost."""
    bound = spec.bind(params)
    spec.check(units)
    answers: list[Answer] = []
    rollouts = units.batch.trajectories
    if spec.most is not None and ask is not None:
        ask.admit(spec.most(units, **bound), rollouts, who=spec.name)
    while asks := planned(spec, units, answers, bound):
        assert ask is not None  # _check_asker
        answers += ask(asks, rollouts, who=spec.name)
        if not spec.adaptive:
            break
    credit = spec.call(units, answers, **params)
    failed = sum(answer.failed for answer in answers)
    cost = Cost(
        sum(len(answer.samples) for answer in answers),
        sum(answer.prompt_tokens for answer in answers),
        sum(answer.generated_tokens for answer in answers),
    )
    notes = {"asks": len(answers)} | ({"failed_asks": failed} if failed else {})
    return replace(credit, cost=credit.cost + cost, notes={**credit.notes, **notes})


def _label(node: Node) -> str:
    return "+".join(dict.fromkeys(leaf.name for leaf in leaves(node)))


def _add(terms: list[tuple[float, str, Credit]], units: Units) -> Credit:
    """The weighted sum; a unit is known, and trained on, where all summands say so.

    Where transforms have gone to finer units (`Credit.refine`), the others follow them.
    """
    finer = [credit.units for _, _, credit in terms if credit.units is not units]
    cut: dict[str, Any] = {"level": units.level, **units.options} if finer else {}
    if finer:
        units = max(finer, key=len)
        terms = [(w, label, c if c.units is units else c.refine(units)) for w, label, c in terms]
    total = np.zeros(len(units))
    known = np.ones(len(units), dtype=bool)
    train = np.ones(len(units), dtype=bool)
    train_T = None
    parts: dict[str, FloatArray] = {}
    notes: dict[str, int | float | str] = {}
    cost = Cost()
    for weight, label, credit in terms:
        if credit.train_T is not None:
            train_T = credit.train_T if train_T is None else train_T & credit.train_T
        total = total + weight * credit.advantage_S
        known, train = known & credit.known_S, train & credit.train_S
        for name, part in (credit.parts or {"": credit.advantage_S}).items():
            full = numbered(f"{label}.{name}" if name else label, parts)
            parts[full] = weight * part
        for name, note in credit.notes.items():
            notes[name if notes.get(name, note) == note else f"{label}.{name}"] = note
        cost = cost + credit.cost
    return Credit(
        total,
        units,
        known_S=known,
        train_S=train,
        train_T=train_T,
        parts=parts,
        notes=notes,
        cost=cost,
        cut=cut,
    )
