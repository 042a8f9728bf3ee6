"""Reading a judge's reply strictly: a verdict by the schema, or none. Never a default number.

No verdict at all       no JSON object (the last fenced block, or else the whole reply), other or repeated keys, another
                        code than was told, a unit that was not asked about or is named twice, a wrong unit in a set
No verdict on one unit  it is missing or null, a label that the template does not know, a score that is no number of
                        the scale
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from apportion.asks import Verdict
from apportion.resources.judge_template import Scale, Template

KEPT = 4000
"""Characters of a reply that are kept with the verdict."""
_THOUGHT = "</think>"


class NoVerdict(ValueError):
    """The reply is not one by the schema; says what is wrong, in our words only."""


def read_verdict(reply: str, template: Template, numbers: Sequence[int], code: str) -> Verdict:
    """The verdict on the units of these numbers, in their order.

    Raises:
        NoVerdict: see the module.
    """
    body = _object(reply, template.limits.reply)
    scale = template.scale
    if scale.kind == "wrong":
        _keys(body, {"code", "wrong"}, {"reason"})
        _code(body, code)
        wrong = _set(body["wrong"], numbers)
        return _verdict(scale, [-1.0 if n in wrong else 0.0 for n in numbers], [None] * len(numbers), reply)
    field = {"labels": "label", "range": "score"}[scale.kind]
    _keys(body, {"code", "verdicts"}, set())
    _code(body, code)
    found: dict[int, Any] = {}
    if not isinstance(body["verdicts"], list):
        raise NoVerdict("verdicts is no list")
    for entry in body["verdicts"]:
        if not isinstance(entry, dict):
            raise NoVerdict("a verdict is no object")
        _keys(entry, {"unit"}, {"reason", field})
        number = _asked(entry["unit"], numbers)
        if number in found:
            raise NoVerdict(f"unit {number} is named twice")
        found[number] = entry.get(field)
    said = [_said(scale, found.get(n)) for n in numbers]
    return _verdict(scale, [score for score, _ in said], [label for _, label in said], reply)


def read_probability(reply: str, template: Template, code: str) -> float:
    """The probability that a reply states.

    Raises:
        NoVerdict: it states none.
    """
    body = _object(reply, template.limits.reply)
    _keys(body, {"code", "probability"}, {"reason"})
    _code(body, code)
    p = body["probability"]
    if not _number(p) or not 0 <= p <= 1:
        raise NoVerdict("the probability is no number from 0 to 1")
    return float(p)


def no_verdict(template: Template, count: int, why: str, reply: str) -> Verdict:
    """The verdict that says nothing, with the reply that could not be read."""
    return _verdict(template.scale, [None] * count, [None] * count, f"no verdict: {why}\n{reply}")


def schema_of(template: Template, numbers: Sequence[int], code: str) -> dict[str, Any]:
    """JSON schema of a reply, for servers that can hold a model to one."""
    scale = template.scale
    fields: dict[str, Any] = {"code": {"type": "string", "enum": [code]}}
    reason = {"type": "string"}
    if scale.kind == "probability":
        return _closed(fields | {"reason": reason, "probability": {"type": "number", "minimum": 0, "maximum": 1}})
    number = {"type": "integer", "enum": list(numbers)}
    if scale.kind == "wrong":
        return _closed(fields | {"reason": reason, "wrong": {"type": "array", "items": number}})
    if scale.kind == "labels":
        field, said = "label", {"enum": [*(scale.labels or ()), None]}
    else:
        field, said = (
            "score",
            {"anyOf": [{"type": "number", "minimum": scale.low, "maximum": scale.high}, {"type": "null"}]},
        )
    entry = _closed({"unit": number, "reason": reason, field: said})
    return _closed(fields | {"verdicts": {"type": "array", "items": entry}})


def _closed(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def _object(reply: str, longest: int) -> dict[str, Any]:
    """The JSON object of a reply."""
    if len(reply) > longest:
        raise NoVerdict(f"the reply is longer than {longest} characters")
    text = reply.rpartition(_THOUGHT)[2]
    fenced = _last_fenced(text)
    try:
        body = json.loads(
            text.strip() if fenced is None else fenced, object_pairs_hook=_once, parse_constant=_no_constant
        )
    except NoVerdict:
        raise
    except (ValueError, RecursionError):
        raise NoVerdict("the reply is no JSON object") from None
    if not isinstance(body, dict):
        raise NoVerdict("the reply is no JSON object")
    return body


def _last_fenced(text: str) -> str | None:
    """Content of the last closed block between lines of three backticks, plain or json; None where there is none."""
    found, begun, lines = None, None, text.split("\n")
    for k, line in enumerate(lines):
        mark = line.strip()
        if not mark.startswith("```"):
            continue
        if begun is None:
            begun, plain = k, mark.removeprefix("```").strip().lower() in ("", "json")
        elif mark == "```":
            found, begun = ("\n".join(lines[begun + 1 : k]) if plain else found), None
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        raise NoVerdict("a key stands twice in one object")
    return body


def _no_constant(name: str) -> Any:
    raise NoVerdict(f"{name} is no JSON")


def _keys(body: Mapping[str, Any], needed: set[str], optional: set[str]) -> None:
    if not needed <= set(body) <= needed | optional:
        raise NoVerdict(f"an object has other keys than {', '.join(sorted(needed | optional))}")
    if not isinstance(body.get("reason", ""), str):
        raise NoVerdict("a reason is no text")


def _code(body: Mapping[str, Any], code: str) -> None:
    if body["code"] != code:
        raise NoVerdict("the code is not the one that was told")


def _asked(number: Any, numbers: Sequence[int]) -> int:
    if type(number) is not int or number not in numbers:
        raise NoVerdict("a unit is named that was not asked about")
    return number


def _set(value: Any, numbers: Sequence[int]) -> set[int]:
    if not isinstance(value, list):
        raise NoVerdict("wrong is no list")
    found = [_asked(number, numbers) for number in value]
    if len(set(found)) != len(found):
        raise NoVerdict("a unit is named twice")
    return set(found)


def _said(scale: Scale, value: Any) -> tuple[float | None, str | None]:
    """Score and label of one unit; None where the value is not of the scale."""
    if scale.kind == "labels":
        known = scale.labels or {}
        return (known[value], value) if isinstance(value, str) and value in known else (None, None)
    if _number(value) and scale.low <= value <= scale.high:
        return float(value), None
    return None, None


def _number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _verdict(scale: Scale, scores: list[float | None], labels: list[str | None], reply: str) -> Verdict:
    text = reply if len(reply) <= KEPT else reply[:KEPT] + "…"
    return Verdict(tuple(scores), tuple(labels), text, (scale.low, scale.high))
