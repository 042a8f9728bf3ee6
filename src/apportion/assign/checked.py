"""An expression and its parameters, checked before any work; and what can be known of it before that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from apportion.asks import asked_of
from apportion.assign.cost import most_asked
from apportion.assign.expression import Leaf, Node, Pipe, each_leaf, leaves, parse, render
from apportion.errors import ConfigError
from apportion.methods import MethodSpec, get
from apportion.methods.registry import numbered
from apportion.units import Units


def check_expression(method: str, params: Mapping[str, Any] | None = None) -> Node:
    """Read an expression and check every name and parameter, before any work.

    Raises:
        ConfigError: as `assign`.
    """
    node = parse(method)
    for name, value in (params or {}).items():
        node = _given(method, node, name, value)
    check_names(node)
    return node


def check_level(method: str, level: str) -> None:
    """Check that every name of the expression credits units of this level, before there are any.

    Raises:
        ConfigError: as `assign` would say of such units.
    """
    for spec in meets(parse(method)):
        spec.check_level(level, ConfigError)


def required_cut(method: str) -> str:
    """Level that an expression is credited at by default: the first that one of its methods is made for and all credit.

    "gae" by token, "grpo + 0.5*anchor" by step: grpo credits steps too, and anchor no episodes. Where no level suits
    all, the first method's, and `check_level` says who has none of it.
    """
    node = parse(method)
    own = [get(leaf.name).unit for leaf in leaves(node)]
    return next((one for one in own if all(not spec.units or one in spec.units for spec in meets(node))), own[0])


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
    found = [who for spec, leaf in asked for who in whom_of(spec, units, spec.bind(leaf.params))]
    return tuple(dict.fromkeys(found))


def record_of(method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Method, parameters and version as ``credit.record()`` will hold them, before there are any rollouts.

    Raises:
        ConfigError: as `assign`.
    """
    from apportion import __version__

    node = check_expression(method, params)
    return {"method": render(node), "params": params_of(node), "version": __version__}


def beyond_group(method: str, params: Mapping[str, Any] | None = None) -> str:
    """What in the expression looks beyond the group, so that it cannot be credited group by group; "" if nothing does.

    Raises:
        ConfigError: as `assign`.
    """
    found = (get(leaf.name).beyond_group(leaf.params) for leaf in leaves(check_expression(method, params)))
    return next((who for who in found if who), "")


def whom_of(spec: MethodSpec, units: Units, bound: Mapping[str, Any]) -> list[str]:
    """Everybody whom a method would ask."""
    spec.check(units)
    return list(dict.fromkeys(map(asked_of, most_asked(spec, units, bound))))


def params_of(node: Node) -> dict[str, Any]:
    """Parameters with defaults: of the one method, or by name for each in an expression."""
    if isinstance(node, Leaf):
        return get(node.name).bind(node.params)
    out: dict[str, Any] = {}
    for leaf in leaves(node):
        out[numbered(leaf.name, out)] = get(leaf.name).bind(leaf.params)
    return out


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


def check_names(node: Node) -> None:
    """Every name is known, a method where one is due and a transform where one is, and takes its parameters."""
    if isinstance(node, Leaf):
        spec = get(node.name)
        spec.bind(node.params)
        if spec.kind == "transform":
            raise ConfigError(f"{spec.name} is a transform and needs credit to work on; write 'grpo | {spec.name}'")
    elif isinstance(node, Pipe):
        check_names(node.left)
        spec = get(node.transform.name)
        spec.bind(node.transform.params)
        if spec.kind != "transform":
            raise ConfigError(f"{spec.name} is a method, not a transform; add it with +, a bar takes transforms")
    else:
        for _, term in node.terms:
            check_names(term)


def meets(node: Node) -> Iterator[MethodSpec]:
    """Whoever of the expression meets the units as they are; behind a transform they may be finer (`Credit.refine`)."""
    if isinstance(node, Leaf):
        yield get(node.name)
    elif isinstance(node, Pipe):
        yield from meets(node.left)
        if all(get(leaf.name).kind == "method" for leaf in leaves(node.left)):
            yield get(node.transform.name)
    else:
        for _, term in node.terms:
            yield from meets(term)
