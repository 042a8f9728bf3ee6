"""Credit with a memory of earlier batches, which goes in and comes out as a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apportion.assign.checked import check_expression
from apportion.assign.expression import Leaf, Node, Pipe, render
from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods import get
from apportion.methods.pooled_memory import Memory
from apportion.units import Units


def remembers(method: str, params: Mapping[str, Any] | None = None) -> bool:
    """Whether `assign_carrying` takes the expression: a method that remembers, with transforms behind it or none.

    Raises:
        ConfigError: as `assign`.
    """
    node = check_expression(method, params)
    while isinstance(node, Pipe):
        node = node.left
    return isinstance(node, Leaf) and get(node.name).carry is not None


def assign_carrying(method: str, units: Units, memory: Memory | None = None, **params: Any) -> tuple[Credit, Memory]:
    """Divide the credit as `assign` does, with a memory of earlier batches.

        credit, memory = assign_carrying("pooled", units, memory)

    Args:
        method: a method that remembers, and transforms behind it: ``"pooled | whiten"``.
        units, params: as for `assign`.
        memory: what came back for the batch before; None = none yet.

    Returns:
        The credit, and the memory for the next batch, of bounded size. The one that was given is unchanged. For several
        workers see `news_and_credit`.

    Raises:
        ConfigError: the method does not remember, or stands in a sum.
        DataError: as `assign`.
    """
    before = memory if memory is not None else Memory()
    credit, news = news_and_credit(method, units, before, **params)
    return credit, before.merge(news).trimmed()


def news_and_credit(method: str, units: Units, memory: Memory, **params: Any) -> tuple[Credit, Memory]:
    """The credit, and only what this batch adds to the memory.

    Workers may credit with one memory at the same time; ``memory.merge(news)`` of all, in any order, is the next.
    """
    node = check_expression(method, params)
    if params:
        node = _with(node, params)
    return _run(node, units, memory)


def _with(node: Node, params: Mapping[str, Any]) -> Node:
    """Parameters belong to the method at the front; `check_expression` has refused what it does not take."""
    if isinstance(node, Leaf):
        return Leaf(node.name, {**node.params, **params})
    if isinstance(node, Pipe):
        return Pipe(_with(node.left, params), node.transform)
    return node


def _run(node: Node, units: Units, memory: Memory) -> tuple[Credit, Memory]:
    if isinstance(node, Pipe):
        credit, news = _run(node.left, units, memory)
        return get(node.transform.name).call(credit, **node.transform.params), news
    if not isinstance(node, Leaf) or (spec := get(node.name)).carry is None:
        raise ConfigError(
            f"{render(node)!r} does not remember earlier batches; give a method that does, with transforms behind it, "
            "such as 'pooled | whiten', or use assign"
        )
    bound = spec.bind(node.params)
    spec.check(units)
    credit, news = spec.carry(units, memory, **bound)
    return credit.stamped(node.name, bound), news
