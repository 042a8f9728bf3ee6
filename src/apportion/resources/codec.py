"""Answers as JSON and back. What a cache or a server holds is untrusted: anything off the schema is no answer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from apportion.asks import Attended, Continuation, Move, Verdict

Reader = Callable[[Any], Any]
_STILL = Move()


class Malformed(ValueError):
    """Not an answer of this kind."""


def encode(kind: str, value: Any) -> str:
    """One sample as JSON text."""
    if kind == "continue":
        body: Any = {
            "moves": [_move(m) for m in value.moves],
            "scored": value.scored,
            "finished": value.finished,
        }
    elif kind == "judge":
        body = {
            "scores": list(value.scores),
            "labels": list(value.labels),
            "text": value.text,
            "scale": list(value.scale),
        }
    elif kind == "attend":
        body = {"score": value.score, "weights": list(value.weights)}
    else:
        body = list(value) if kind == "logprob" else value
    return json.dumps(body, allow_nan=False, ensure_ascii=True, separators=(",", ":"))


def decode(kind: str, text: str) -> Any:
    """The sample that `encode` wrote.

    Raises:
        Malformed: the text is anything else.
    """
    try:
        body = json.loads(text)
        if kind == "continue":
            moves = tuple(_read_move(m) for m in _list(body["moves"]))
            return Continuation(moves, _bool(body["scored"]), _bool(body["finished"]))
        if kind == "judge":
            scores = tuple(None if x is None else _number(x) for x in _list(body["scores"]))
            labels = tuple(None if x is None else _text(x) for x in _list(body["labels"]))
            low, high = (_number(x) for x in _list(body["scale"]))
            return Verdict(scores, labels, _text(body["text"]), (low, high))
        if kind == "attend":
            return Attended(_number(body["score"]), tuple(_number(x) for x in _list(body["weights"])))
        if kind == "logprob":
            return tuple(_number(x) for x in _list(body))
        return _number(body)
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise Malformed(f"not a {kind} answer: {problem}") from None


def _move(move: Move) -> dict[str, Any]:
    told = ((name, getattr(move, name)) for name in Move.__slots__)
    return {name: list(x) if isinstance(x, tuple) else x for name, x in told if x != getattr(_STILL, name)}


def _read_move(body: Any) -> Move:
    if not isinstance(body, dict) or not set(body) <= set(Move.__slots__):
        raise Malformed("a move has other fields")
    reads: dict[str, Reader] = {
        "ids": _ids,
        "prompt_ids": _ids,
        "logp": _numbers,
        "reward": _number,
        "terminated": _bool,
        "truncated": _bool,
        "fresh": _bool,
        "noise": _seed,
        "actions": _texts,
    }
    told: dict[str, Any] = {}
    for name, value in body.items():
        read: Reader = reads.get(name, _text)
        told[name] = read(value)
    return Move(**told)


def _numbers(value: Any) -> tuple[float, ...]:
    return tuple(_number(x) for x in _list(value))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(x) for x in _list(value))


def _ids(value: Any) -> tuple[int, ...]:
    if not all(type(x) is int and x >= 0 for x in _list(value)):
        raise Malformed("ids are whole numbers from 0 on")
    return tuple(value)


def _seed(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise Malformed("a seed is a whole number from 0 on")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Malformed(f"{value!r} is no finite number")
    return float(value)


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Malformed(f"{value!r} is not true or false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Malformed(f"{value!r} is no text")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Malformed(f"{value!r} is no list")
    return value
