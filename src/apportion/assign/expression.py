"""Composition in words: ``grpo + 0.5*anchor | whiten(over='unit')``.

    sum        a + b, a - b, 2*a          methods, each with its own parameters
    transform  a | t                      binds looser than +, so it takes the whole sum on its left; () group

The text is read by Python's own parser and walked node by node; nothing is evaluated.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from apportion.errors import ConfigError, UnknownName

LONGEST = 2000
LARGEST = 1e100


@dataclass(frozen=True, slots=True)
class Leaf:
    """A name with parameters."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sum:
    """Weighted methods."""

    terms: tuple[tuple[float, Node], ...]


@dataclass(frozen=True, slots=True)
class Pipe:
    """A transform of what stands left of the bar."""

    left: Node
    transform: Leaf


Node = Leaf | Sum | Pipe


def parse(text: str) -> Node:
    """Read an expression.

    Raises:
        ConfigError: with the place that cannot be read. UnknownName: a method is written as papers write it, not by its
            name.
    """
    try:
        node = _read(text)
    except ConfigError:
        _check_written(text)
        raise
    if isinstance(node, Sum):  # dr-grpo reads as dr less grpo
        _check_written(text)
    return node


def _check_written(text: str) -> None:
    from apportion.methods.registry import written_as

    if isinstance(text, str) and len(text) <= LONGEST and (meant := written_as(text)):
        raise UnknownName(f"no credit method named {text.strip()!r}; did you mean {meant!r}?")


def _read(text: str) -> Node:
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"a method is a name like 'gigpo' or an expression like 'grpo | whiten', got {text!r}")
    if len(text) > LONGEST:
        raise ConfigError(f"the expression has {len(text)} characters; at most {LONGEST} are read")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return _node(tree.body, text)
    except SyntaxError as problem:
        at = f" at {(problem.text or text)[max((problem.offset or 1) - 1, 0) :][:20]!r}" if problem.offset else ""
        raise ConfigError(f"cannot read {_short(text)!r}{at}; write e.g. 'grpo + 0.5*anchor | whiten'") from None
    except ConfigError:
        raise
    except (RecursionError, MemoryError, ValueError):  # ValueError: null bytes, enormous integers
        raise ConfigError(f"cannot read {text[:40]!r}…; it is nested too deeply") from None


def leaves(node: Node) -> Iterator[Leaf]:
    """Every name of the expression, left to right."""
    if isinstance(node, Leaf):
        yield node
    elif isinstance(node, Sum):
        for _, term in node.terms:
            yield from leaves(term)
    else:
        yield from leaves(node.left)
        yield node.transform


def each_leaf(node: Node, change: Callable[[Leaf], Leaf]) -> Node:
    """The same expression with every name changed, in the order of `leaves`."""
    if isinstance(node, Leaf):
        return change(node)
    if isinstance(node, Sum):
        return Sum(tuple((weight, each_leaf(term, change)) for weight, term in node.terms))
    left = each_leaf(node.left, change)
    return Pipe(left, change(node.transform))


def render(node: Node) -> str:
    """The expression as text, names only; parameters travel beside it."""
    if isinstance(node, Leaf):
        return node.name
    if isinstance(node, Pipe):
        return f"{render(node.left)} | {node.transform.name}"
    out = ""
    for k, (weight, term) in enumerate(node.terms):
        sign = "-" if weight < 0 else "+"
        size = "" if abs(weight) == 1 else f"{abs(weight)!r}*"
        body = f"({render(term)})" if isinstance(term, Pipe | Sum) else render(term)
        out += (f" {sign} " if k else ("-" if weight < 0 else "")) + size + body
    return out


def _node(tree: ast.expr, text: str) -> Node:
    match tree:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            transform = _node(right, text)
            if not isinstance(transform, Leaf):
                raise _cannot(right, text, "right of a bar stands one transform, like 'whiten' or 'clip(limit=5)'")
            return Pipe(_node(left, text), transform)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return Sum((*_terms(_node(left, text)), *_terms(_node(right, text))))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return Sum((*_terms(_node(left, text)), *_scaled(_node(right, text), -1.0)))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            if _is_number(left):
                return Sum(tuple(_scaled(_node(right, text), _value(left, text))))
            if _is_number(right):
                return Sum(tuple(_scaled(_node(left, text), _value(right, text))))
            raise _cannot(tree, text, "multiply a method by a number, like '0.5*anchor'")
        case ast.BinOp(left=ast.Name(id=package), op=ast.Div(), right=right):
            inner = _node(right, text)
            if isinstance(inner, Leaf) and "/" not in inner.name:
                return Leaf(f"{package}/{inner.name}", inner.params)
            raise _cannot(tree, text, "a slash stands between a package and its method, like 'mine/method'")
        case ast.BinOp(left=ast.BinOp(left=factor, op=ast.Mult(), right=package), op=ast.Div(), right=right):
            # Python reads 0.5*mine/method as (0.5*mine)/method
            return _node(ast.BinOp(factor, ast.Mult(), ast.BinOp(package, ast.Div(), right)), text)
        case ast.BinOp(left=ast.UnaryOp(op=ast.USub(), operand=package), op=ast.Div(), right=right):
            return _node(ast.UnaryOp(ast.USub(), ast.BinOp(package, ast.Div(), right)), text)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Sum(tuple(_scaled(_node(operand, text), -1.0)))
        case ast.Name(id=name):
            return Leaf(name)
        case ast.Call(func=function, args=args, keywords=keywords):
            inner = _node(function, text)
            if not isinstance(inner, Leaf) or inner.params:
                raise _cannot(function, text, "parameters follow a name, like 'clip(limit=5)'")
            if args:
                raise _cannot(args[0], text, f"parameters have names, like '{inner.name}(name=value)'")
            params: dict[str, Any] = {}
            for keyword in keywords:
                if keyword.arg is None:
                    raise _cannot(keyword.value, text, f"parameters have names, like '{inner.name}(name=value)'")
                if keyword.arg in params:
                    raise _cannot(tree, text, f"{keyword.arg} is given twice; keep one")
                params[keyword.arg] = _value(keyword.value, text)
            return Leaf(inner.name, params)
    raise _cannot(tree, text, "use names, numbers, + - * | and (name=value)")


def _terms(node: Node) -> tuple[tuple[float, Node], ...]:
    return node.terms if isinstance(node, Sum) else ((1.0, node),)


def _scaled(node: Node, factor: float) -> Iterator[tuple[float, Node]]:
    for weight, term in _terms(node):
        if not abs(factor) <= LARGEST / max(abs(weight), 1e-300):
            raise ConfigError(f"a weight is too large; give numbers whose product is at most {LARGEST:g}")
        yield weight * factor, term


def _is_number(tree: ast.expr) -> bool:
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        tree = tree.operand
    return isinstance(tree, ast.Constant) and isinstance(tree.value, int | float) and not isinstance(tree.value, bool)


def _value(tree: ast.expr, text: str) -> Any:
    """A literal: number, text, True, False, None, or a list or tuple of those."""
    match tree:
        case ast.Constant(value=None | bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return tuple(_value(item, text) for item in items)
        case ast.Name(id=name):
            raise _cannot(tree, text, f"put text in quotes, like '{name}' in quotes")
    raise _cannot(tree, text, "a value is a number, a quoted text, True, False, None or a list of those")


def _cannot(tree: ast.AST, text: str, instead: str) -> ConfigError:
    place = _short(ast.get_source_segment(text.strip(), tree) or text)
    return ConfigError(f"cannot read {place!r} in {_short(text)!r}; {instead}")


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"
