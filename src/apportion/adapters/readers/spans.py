"""Spans of OpenTelemetry from the files that exporters write, whatever the exporter, as one plain shape.

{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId", "spanId", "parentSpanId", "startTimeUnixNano",
  "attributes": [{"key": "gen_ai.…", "value": {"stringValue": "…"}}], "events": […]}]}]}]}        OTLP, JSON
{"name", "context": {"trace_id", "span_id"}, "parent_id", "start_time": "…Z", "attributes": {…}}   SDK's console
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from apportion.adapters.readers.fields import kind
from apportion.errors import FormatError

DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Span:
    """One span.

    Attributes:
        trace, id, parent: ids; parent is "" for a root. name: of the span.
        start: sorts in time order inside one trace.
        attributes, resource: plain values by name. events: name and attributes of each.
        failed: its status is an error.
    """

    trace: str
    id: str
    parent: str
    name: str
    start: tuple[int, str]
    attributes: dict[str, Any]
    resource: dict[str, Any]
    events: tuple[tuple[str, dict[str, Any]], ...]
    failed: bool


def is_otlp(value: Any) -> bool:
    """An export of traces."""
    return isinstance(value, dict) and any(isinstance(value.get(n), list) for n in ("resourceSpans", "resource_spans"))


def is_console(value: Any) -> bool:
    """A span as the SDK's console exporter prints it."""
    context = value.get("context") if isinstance(value, dict) else None
    return isinstance(context, dict) and "trace_id" in context and "attributes" in value


def spans_of(value: Any, at: str) -> Iterator[Span]:
    """Every span of a value of the file.

    Raises:
        FormatError: the value is no export, or a span has no ids.
    """
    if is_console(value):
        yield _console(value, at)
        return
    if not is_otlp(value):
        raise FormatError(f"{at}: neither an OTLP export nor a span; remove it")
    for r, resource in enumerate(_list(value, "resourceSpans", "resource_spans", at)):
        about = _attributes(_get(resource, "resource").get("attributes"))
        scopes = next((n for n in ("scopeSpans", "scope_spans", "instrumentationLibrarySpans") if n in resource), "")
        for scope in _list(resource, scopes, scopes, f"{at}, resource {r}") if scopes else []:
            for s, span in enumerate(_list(scope, "spans", "spans", at)):
                yield _otlp(span, about, f"{at}, span {s}")


def _otlp(span: dict[str, Any], resource: dict[str, Any], at: str) -> Span:
    status = _get(span, "status").get("code")
    events = span.get("events")
    return Span(
        _id(span, "traceId", "trace_id", at),
        _id(span, "spanId", "span_id", at),
        str(span.get("parentSpanId") or span.get("parent_span_id") or ""),
        str(span.get("name", "")),
        _start(span.get("startTimeUnixNano", span.get("start_time_unix_nano"))),
        _attributes(span.get("attributes")),
        resource,
        tuple(_event(event) for event in events if isinstance(event, dict)) if isinstance(events, list) else (),
        status in (2, "STATUS_CODE_ERROR", "ERROR"),
    )


def _console(span: dict[str, Any], at: str) -> Span:
    context = span["context"]
    events = span.get("events")
    return Span(
        _id(context, "trace_id", "traceId", at),
        _id(context, "span_id", "spanId", at),
        str(span.get("parent_id") or ""),
        str(span.get("name", "")),
        _start(span.get("start_time")),
        _attributes(span["attributes"]),
        _attributes(_get(span, "resource").get("attributes")),
        tuple(_event(event) for event in events if isinstance(event, dict)) if isinstance(events, list) else (),
        _get(span, "status").get("status_code") == "ERROR",
    )


def _event(event: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return str(event.get("name", "")), _attributes(event.get("attributes"))


def _id(holder: dict[str, Any], name: str, other: str, at: str) -> str:
    value = holder.get(name, holder.get(other))
    if not isinstance(value, str) or not value:
        raise FormatError(f"{at}: {name} is {kind(value)}; give the id as a text")
    return value.removeprefix("0x")


def _start(value: Any) -> tuple[int, str]:
    """Nanoseconds, or a time as text, which sorts as it is; what is neither comes first."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value, ""
    if isinstance(value, str):
        return (int(value), "") if value.isascii() and value.isdigit() and len(value) < 30 else (0, value)
    return 0, ""


def _get(holder: dict[str, Any], name: str) -> dict[str, Any]:
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def _list(holder: Any, name: str, other: str, at: str) -> list[dict[str, Any]]:
    value = holder.get(name, holder.get(other, []))
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise FormatError(f"{at}: {name} is {kind(value)} that holds more than objects; give a list of objects")
    return value


def _attributes(value: Any) -> dict[str, Any]:
    """Attributes as an object, from OTLP's list of key and value or as they are."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list):
        return {}
    return {
        str(item["key"]): _value(item.get("value"))
        for item in value
        if isinstance(item, dict) and isinstance(item.get("key"), str)
    }


def _value(value: Any, depth: int = 0) -> Any:
    """A value of OTLP: {"stringValue": "a"}, {"arrayValue": {"values": […]}}, {"kvlistValue": …}."""
    if not isinstance(value, dict) or len(value) != 1 or depth > DEEPEST:
        return value
    name, inner = next(iter(value.items()))
    name = name.replace("_v", "V")
    if name == "intValue":
        return int(inner) if isinstance(inner, str) and inner.lstrip("-").isdigit() and len(inner) < 30 else inner
    if name == "arrayValue":
        listed = inner.get("values") if isinstance(inner, dict) else None
        return [_value(item, depth + 1) for item in listed] if isinstance(listed, list) else []
    if name == "kvlistValue":
        listed = inner.get("values") if isinstance(inner, dict) else None
        pairs = listed if isinstance(listed, list) else []
        return {str(pair.get("key")): _value(pair.get("value"), depth + 1) for pair in pairs if isinstance(pair, dict)}
    return inner if name in ("stringValue", "boolValue", "doubleValue", "bytesValue") else value


def structured(value: Any) -> Any:
    """An attribute that holds JSON as a text, as data; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
