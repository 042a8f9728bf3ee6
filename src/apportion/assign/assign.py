"""The front door: an expression and units in, credit out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Protocol

import numpy as np

from apportion.asks import Answer, asked_of
from apportion.assign.cost import free, most_asked, planned, price
from apportion.assign.expression import LONGEST, Leaf, Node, Pipe, each_leaf, leaves, parse, render
from apportion.credit import Cost, Credit
from apportion.data import Batch
from apportion.errors import ConfigError, DataError
from apportion.methods import MethodSpec, get
from apportion.methods.registry import numbered
from apportion.numerics import FloatArray
from apportion.resources import Asker, Quote, Speed
from apportion.units import Units, with_batch


class Predicts(Protocol):
    """A fitted model of `apportion.models`, or anything that fills columns of rollouts: values, log-probabilities, …"""

    def predict(self, batch: Batch) -> Batch:
        """The same rollouts with more columns."""


def assign(
    method: str, units: Units, *, ask: Asker | None = None, values: Predicts | None = None, **params: Any
) -> Credit:
    """Divide the credit for the outcomes among the units.

    Args:
        method: a name (``"gigpo"``), or an expression: ``"grpo + 0.5*anchor"``, ``"gae(lam=0.9) | whiten"``.
        units: what to credit, see `by_step` and its siblings.
        ask: who is asked, by methods that need more than the rollouts (`apportion.Asker`).
        values: a fitted model that predicts what the method reads, e.g. `apportion.models.ValueHead`; what it
            predicts takes the place of what the rollouts have. None = the rollouts as they are.
        params: parameters of the method; in an expression of several names, of the one that takes them. A parameter
            that several of them take is written inside.

    Returns:
        `Credit`: one number per unit, with parts, notes and what is needed to make it again.

    Raises:
        ConfigError: unknown name or parameter, or an expression that cannot be read.
        DataError: the units lack what the method reads.
        BudgetError: asking would cost more than allowed; nothing was asked.
        ResourceError: who is asked is not there, or cannot answer this.
    """
    node = check_expression(method, params)
    if not isinstance(units, Units):
        raise DataError(f"assign credits units, got {type(units).__name__}; cut the batch first, e.g. by_step(batch)")
    if values is not None:
        units = with_batch(units, values.predict(units.batch))
    for spec in _meets(node):  # all of them before the first one works, or asks
        spec.check_units(units)
    _check_asker(node, units, ask)
    return _credit(node, units, ask)


def check_expression(method: str, params: Mapping[str, Any] | None = None) -> Node:
    """Read an expression and check every name and parameter, before any work.

    Raises:
        ConfigError: as `assign`.
    """
    node = parse(method)
    for name, value in (params or {}).items():
        node = _given(method, node, name, value)
    _check(node)
    return node


def check_level(method: str, level: str) -> None:
    """Check that every name of the expression credits units of this level, before there are any.

    Raises:
        ConfigError: as `assign` would say of such units.
    """
    for spec in _meets(parse(method)):
        spec.check_level(level, ConfigError)


def remake(record: Mapping[str, Any], units: Units, *, ask: Asker | None = None) -> Credit:
    """Make a credit again from ``credit.record()`` and the units it was made of.

    A method that asked needs an ``ask`` with the same resource, seed and cache; then nothing is asked again.

    Raises:
        DataError: the units are of other rollouts or another cut than the record says.
    """
    if record["rollouts"] != units.batch.fingerprint():
        raise DataError("these are not the rollouts of the record (their digests differ); read the original file")
    cut = {"level": units.level, **units.options}
    if dict(record["cut"]) != cut:
        raise DataError(f"the record credits {dict(record['cut'])}, the units are {cut}; cut the batch the same way")
    params = record["params"]
    node = parse(record["method"])
    held = {node.name: params} if isinstance(node, Leaf) else dict(params)
    node = each_leaf(node, lambda leaf: Leaf(leaf.name, held.pop(_key(leaf, held))))
    _check(node)
    _check_asker(node, units, ask)
    return _credit(node, units, ask)


def cost(
    method: str,
    units: Units,
    *,
    ask: Asker | None = None,
    max_tokens: int | None = None,
    speed: Speed | None = None,
    **params: Any,
) -> Quote:
    """What `assign` would ask for, priced; nothing is asked.

    Args:
        method, units, params: as for `assign`.
        ask: whom `assign` would ask, for its own counts, its cache and its measured throughput; None = count tokens of
            the rollouts as they are.
        max_tokens: without ``ask``: generated tokens of one continuation at most; None = the longest that the rollouts
            themselves go on for.
        speed: a measured throughput, for the time; None = the one that the cache remembers.

    Returns:
        `Quote`: requests, prompt tokens, generated tokens at most and expected, seconds.

    Raises:
        ConfigError, DataError: as `assign`.
    """
    node = check_expression(method, params)
    asked = [(spec, spec.bind(leaf.params)) for leaf in leaves(node) if (spec := get(leaf.name)).plan is not None]
    if not asked:
        return free()
    return price(asked, units, ask=ask, max_tokens=max_tokens, speed=speed)


def required_cut(method: str) -> str:
    """Level that the first method of the expression is made for; the command line's default."""
    return get(next(leaves(parse(method))).name).unit


def required_needs(method: str) -> tuple[str, ...]:
    """Who may have to be asked by the methods of an expression; nobody, as a rule. For given units: `whom_asks`."""
    needs = [need for leaf in leaves(parse(method)) if (spec := get(leaf.name)).plan is not None for need in spec.needs]
    return tuple(dict.fromkeys(needs))


def whom_asks(method: str, units: Units, **params: Any) -> tuple[str, ...]:
    """Who has to be asked for these units ("policy", "judge", …); nobody, as a rule, or where the plan is empty.

    Raises:
        ConfigError, DataError: as `assign`.
    """
    asked = [(spec, leaf) for leaf in leaves(check_expression(method, params)) if (spec := get(leaf.name)).plan]
    found = [who for spec, leaf in asked for who in _whom(spec, units, spec.bind(leaf.params))]
    return tuple(dict.fromkeys(found))


def record_of(method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Method, parameters and version as ``credit.record()`` will hold them, before there are any rollouts.

    Raises:
        ConfigError: as `assign`.
    """
    from apportion import __version__

    node = check_expression(method, params)
    return {"method": render(node), "params": _params(node), "version": __version__}


def beyond_group(method: str, params: Mapping[str, Any] | None = None) -> str:
    """What in the expression looks beyond the group, so that it cannot be credited group by group; "" if nothing does.

    Raises:
        ConfigError: as `assign`.
    """
    found = (get(leaf.name).beyond_group(leaf.params) for leaf in leaves(check_expression(method, params)))
    return next((who for who in found if who), "")


def _check_asker(node: Node, units: Units, ask: Asker | None) -> None:
    """Somebody is there to be asked; nobody is needed where the plan is empty (siblings in the data, for instance)."""
    if ask is None:
        for leaf in leaves(node):
            spec = get(leaf.name)
            if spec.plan is not None and (asked := _whom(spec, units, spec.bind(leaf.params))):
                told = " and a ".join(who.replace("_", " ") for who in asked)
                raise ConfigError(
                    f"{spec.name} asks a {told}, and nobody was given to ask; pass ask=Asker(...) with a resource, or "
                    "see what it would cost with apportion.cost"
                )
    elif not isinstance(ask, Asker):
        raise ConfigError(f"ask is a {type(ask).__name__}; give an apportion.Asker around the resource")


def _whom(spec: MethodSpec, units: Units, bound: Mapping[str, Any]) -> list[str]:
    """Everybody whom a method would ask."""
    spec.check(units)
    return list(dict.fromkeys(map(asked_of, most_asked(spec, units, bound))))


def _credit(node: Node, units: Units, ask: Asker | None) -> Credit:
    return _run(node, units, ask).stamped(render(node), _params(node))


def _given(method: str, node: Node, name: str, value: Any) -> Node:
    """The expression with one parameter put where it belongs: to the only name, or to the only one that takes it."""
    every = list(leaves(node))
    takers = every if isinstance(node, Leaf) else [leaf for leaf in every if name in get(leaf.name).defaults]
    if not takers:
        whose = {key: leaf.name for leaf in every for key in get(leaf.name).defaults}
        near = get_close_matches(name, whose, 1)
        hint = f"did you mean {near[0]!r} of {whose[near[0]]}" if near else f"see `apportion describe {every[0].name}`"
        raise ConfigError(f"none of the names in {method!r} takes {name}; {hint}")
    if len(takers) > 1:
        raise ConfigError(f"{method!r} has several names, so {name} could belong to any; write it inside")
    (taker,) = takers
    return each_leaf(node, lambda leaf: Leaf(leaf.name, {**leaf.params, name: value}) if leaf is taker else leaf)


def _key(leaf: Leaf, params: Mapping[str, Any]) -> str:
    """Under which name the record of an expression holds the parameters of its next leaf of this name."""
    return next(k for k in (leaf.name, *(f"{leaf.name}#{n}" for n in range(2, LONGEST))) if k in params)


def _check(node: Node) -> None:
    if isinstance(node, Leaf):
        spec = get(node.name)
        spec.bind(node.params)
        if spec.kind == "transform":
            raise ConfigError(f"{spec.name} is a transform and needs credit to work on; write 'grpo | {spec.name}'")
    elif isinstance(node, Pipe):
        _check(node.left)
        spec = get(node.transform.name)
        spec.bind(node.transform.params)
        if spec.kind != "transform":
            raise ConfigError(f"{spec.name} is a method, not a transform; add it with +, a bar takes transforms")
    else:
        for _, term in node.terms:
            _check(term)


def _meets(node: Node) -> Iterator[MethodSpec]:
    """Whoever of the expression meets the units as they are; behind a transform they may be finer (`Credit.refine`)."""
    if isinstance(node, Leaf):
        yield get(node.name)
    elif isinstance(node, Pipe):
        yield from _meets(node.left)
        if all(get(leaf.name).kind == "method" for leaf in leaves(node.left)):
            yield get(node.transform.name)
    else:
        for _, term in node.terms:
            yield from _meets(term)


def _run(node: Node, units: Units, ask: Asker | None) -> Credit:
    if isinstance(node, Leaf):
        spec = get(node.name)
        return spec.call(units, **node.params) if spec.plan is None else _asked(spec, units, node.params, ask)
    if isinstance(node, Pipe):
        return get(node.transform.name).call(_run(node.left, units, ask), **node.transform.params)
    return _add([(weight, _label(term), _run(term, units, ask)) for weight, term in node.terms], units)


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


def _params(node: Node) -> dict[str, Any]:
    """Parameters with defaults: of the one method, or by name for each in an expression."""
    if isinstance(node, Leaf):
        return get(node.name).bind(node.params)
    out: dict[str, Any] = {}
    for leaf in leaves(node):
        out[numbered(leaf.name, out)] = get(leaf.name).bind(leaf.params)
    return out
