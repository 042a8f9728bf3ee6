"""OpenTelemetry spans of generative AI: calls of models (``gen_ai.*``), grouped by trace into rollouts.

Read: OTLP as JSON (one export a line, or one document) and what the SDKs' console exporter prints. Every call of a
model is one turn, in time order; its agent is ``gen_ai.agent.name`` of the call or of the nearest span around it. A
call shows its whole history: what an agent saw or said before is not told again, and a history that was rewritten is
told whole and flagged ``fresh``. What tools returned is read from the history of the next call, and behind the last
call from their own spans.

One rollout per trace, named by its id. The conventions know neither reward nor task: results of evaluations
(``gen_ai.evaluation.result``) are the named parts of the outcome, and the outcome itself if there is one alone; the
group is asked for with ``--group-by NAME``, an attribute of the root span. Where content was not captured (the
default of most instrumentation) there is no text to credit, and the trace is left out with that reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import Fold
from apportion.adapters.readers.genai import exchange, is_call
from apportion.adapters.readers.json_stream import LONGEST, stream_json
from apportion.adapters.readers.records import all_of
from apportion.adapters.readers.registry import Context, Format, Head, Path, Trajectories, register
from apportion.adapters.readers.spans import Span, is_console, is_otlp, spans_of
from apportion.data import Trajectory
from apportion.errors import FormatError

EVALUATION = "gen_ai.evaluation.result"


def sniff(head: Head) -> tuple[float, str]:
    """An OTLP export or a span of a console exporter."""
    for record in head.records:
        if is_otlp(record):
            return 0.9, "an OTLP export ('resourceSpans')"
        if is_console(record):
            return 0.85, "spans with 'context' and 'attributes'"
    return 0.0, ""


def read(path: Path, context: Context) -> Trajectories:
    """One rollout per trace; spans of one trace may be spread over the file, so they are collected first."""
    traces: dict[str, list[Span]] = {}
    held = 0
    for item in stream_json(path):
        if isinstance(item, FormatError):
            yield item
            continue
        try:
            for span in spans_of(item.value, item.at):
                if not _speaks(span):
                    context.report.note("spans that say nothing of generative AI: left out")
                    continue
                traces.setdefault(span.trace, []).append(span)
                held += _size(span)
                if held > LONGEST:
                    raise FormatError(f"{path}: spans of more than {LONGEST >> 20} MiB; split the file by trace")
        except FormatError as error:
            if held > LONGEST:
                raise
            yield error
    for name, spans in traces.items():
        yield from all_of(_convert, spans, f"{path}, trace {name[:40]}", context)


def _speaks(span: Span) -> bool:
    return any(name.startswith(("gen_ai.", "llm.")) for name in span.attributes) or any(
        name.startswith("gen_ai.") for name, _ in span.events
    )


def _size(span: Span) -> int:
    return 500 + sum(
        len(str(value)) for held in (span.attributes, *(e for _, e in span.events)) for value in held.values()
    )


def _convert(spans: Any, at: str, context: Context) -> Trajectory:
    spans = sorted(spans, key=lambda span: span.start)
    by_id = {span.id: span for span in spans}
    calls = [span for span in spans if is_call(span)]
    told = [(span, found) for span in calls if (found := exchange(span)).said]
    if not told:  # some agents are logged from outside alone
        outside = [span for span in spans if span.attributes.get("gen_ai.operation.name") == "invoke_agent"]
        told = [(span, found) for span in outside if (found := exchange(span)).said]
        context.report.note("agents logged without their calls of models: one turn per invocation", len(told))
    if not told:
        missing = "no call of a model" if not calls else "no message content: it was not captured"
        raise FormatError(f"{at}: {missing}; turn content capture on in the instrumentation and record again")
    context.report.note("calls of models without content: left out", max(0, len(calls) - len(told)))
    fold = Fold(at, context)
    seen: dict[str, list[str]] = {}
    for span, (asked, said) in told:
        agent = _agent(span, by_id)
        before, keys = seen.get(agent or "", []), [_key(message) for message in asked]
        shown = keys[: len(before)] == before
        context.report.note("histories that do not extend what the agent saw before: told whole, fresh", not shown)
        for message in asked[len(before) :] if shown else asked:
            fold.heard(message, at)
        had = len(fold.steps)
        for message in said[:1]:
            fold.said({"name": agent, **{k: v for k, v in message.items() if k != "name"}}, at)
        context.report.note("further choices of one call: left out", len(said) - 1)
        if not shown:
            fold.steps[had] = replace(fold.steps[had], fresh=True)
        seen[agent or ""] = [*keys, _key(said[0])]
    for span in spans:  # of what tools returned, only what no later call shows
        result = span.attributes.get("gen_ai.tool.call.result")
        if result is not None and span.start > told[-1][0].start:
            name = span.attributes.get("gen_ai.tool.name")
            text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
            fold.heard({"role": "tool", "name": name, "content": text}, at)
    chat = fold.close(truncated=False, terminated=False)
    root = next((span for span in spans if span.parent not in by_id), spans[0])
    outcomes = dict(_evaluations(spans, at))
    outcome = next(iter(outcomes.values())) if len(outcomes) == 1 else None
    record = {**root.resource, **root.attributes}
    if context.outcome is not None:
        outcome = fields.outcome(record, at, context)
    else:
        context.report.note("reward missing: not scored, which is not 0", outcome is None)
    group = fields.group(record, at, context, chat.first_user)
    short = {name: value for name, value in record.items() if len(str(value)) < 500}
    return Trajectory(
        chat.steps,
        group=group,
        id=context.unique(root.trace),
        outcome=outcome,
        outcomes=fields.parts(outcomes, context) if len(outcomes) > 1 or context.outcome is not None else {},
        final_observation=chat.final_observation,
        meta=fields.kept({"attributes": short}, at, context),
    )


def _agent(span: Span, by_id: dict[str, Span]) -> str | None:
    """Name of the agent that the call, or the nearest span around it, belongs to."""
    passed: set[str] = set()
    while span.id not in passed:
        name = span.attributes.get("gen_ai.agent.name")
        if isinstance(name, str) and name:
            return name
        passed.add(span.id)
        span = by_id.get(span.parent, span)
    return None


def _key(message: dict[str, Any]) -> str:
    """What a message is compared by: who said what, however it is wrapped."""
    content = message.get("content")
    if isinstance(content, list):
        texts = [part.get("text", part) if isinstance(part, dict) else part for part in content]
        content = texts[0] if len(texts) == 1 else texts
    calls = message.get("tool_calls")
    return json.dumps([message.get("role"), content or None, calls or None], sort_keys=True)


def _evaluations(spans: list[Span], at: str) -> Iterator[tuple[str, float]]:
    for span in spans:
        for name, given in (*span.events, (EVALUATION, span.attributes)):
            score = given.get("gen_ai.evaluation.score.value")
            if name == EVALUATION and score is not None:
                label = given.get("gen_ai.evaluation.name")
                yield str(label or "evaluation"), fields.number(score, f"{at}: gen_ai.evaluation.score.value")


register(Format("otel-genai", "OpenTelemetry GenAI spans: OTLP as JSON, console exporters", sniff, read))
