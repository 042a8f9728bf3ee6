"""A language of expressions over one integer x, read and run by us alone; nothing else can be said in it.

    if x >= 4 then 3 * x else max(x - 2, 0)

Numbers, x, + - *, min and max of two, comparisons, if-then-else and parentheses. A program has no loops, so it ends;
its length and depth are bounded, so it cannot exhaust anything.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from apportion.errors import DataError

TOKEN = re.compile(r"\s*(\d{1,6}|[a-z]+|<=|>=|==|[-+*(),<>])")
LONGEST = 400  # characters
DEEPEST = 30  # expressions within expressions

Program = Callable[[int], int]

ARITHMETIC: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
}  # fmt: skip


def parse(text: str) -> Program:
    """The function that an expression describes.

    Raises:
        DataError: it is none; says where reading stopped.
    """
    if len(text) > LONGEST:
        raise DataError(f"the expression has {len(text)} characters; {LONGEST} are allowed")
    tokens, at = [], 0
    text = text.strip()
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise DataError(f"the expression cannot be read at {text[at : at + 12]!r}")
        tokens.append(found[1])
        at = found.end()
    reader = _Reader(tokens)
    program = reader.expression(0)
    if reader.tokens:
        raise DataError(f"the expression goes on after its end, at {reader.tokens[0]!r}")
    return program


class _Reader:
    """Reads from the left; each method takes what it understands off the tokens."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens

    def take(self, *wanted: str) -> str:
        token = self.tokens.pop(0) if self.tokens else "the end"
        if wanted and token not in wanted:
            raise DataError(f"the expression has {token!r} where {' or '.join(wanted)} is due")
        return token

    def expression(self, depth: int) -> Program:
        if self.tokens[:1] == ["if"]:
            self.take("if")
            left = self.sum(depth + 1)
            compare = COMPARE[self.take(*COMPARE)]
            right = self.sum(depth + 1)
            self.take("then")
            yes = self.expression(depth + 1)
            self.take("else")
            no = self.expression(depth + 1)
            return lambda x: yes(x) if compare(left(x), right(x)) else no(x)
        return self.sum(depth)

    def sum(self, depth: int) -> Program:
        return self.chain(("+", "-"), lambda: self.chain(("*",), lambda: self.atom(depth)))

    def chain(self, signs: tuple[str, ...], part: Callable[[], Program]) -> Program:
        out = part()
        while self.tokens and self.tokens[0] in signs:
            out = _both(ARITHMETIC[self.take()], out, part())
        return out

    def atom(self, depth: int) -> Program:
        if depth > DEEPEST:
            raise DataError(f"the expression is more than {DEEPEST} levels deep")
        token = self.take()
        if token == "x":
            return lambda x: x
        if token.isdigit():
            number = int(token)
            return lambda _: number
        if token == "-":
            inner = self.atom(depth + 1)
            return lambda x: -inner(x)
        if token in ("min", "max"):
            self.take("(")
            left = self.expression(depth + 1)
            self.take(",")
            right = self.expression(depth + 1)
            self.take(")")
            return _both(min if token == "min" else max, left, right)
        if token == "(":
            inside = self.expression(depth + 1)
            self.take(")")
            return inside
        raise DataError(f"the expression has {token!r} where a number, x, min, max or ( is due")


def _both(join: Callable[[int, int], int], left: Program, right: Program) -> Program:
    return lambda x: join(left(x), right(x))
