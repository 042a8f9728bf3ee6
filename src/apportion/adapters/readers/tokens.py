"""Token ids for the turns of a chat, where a log has them beside the text.

A log that has ids has them per call of the model: the whole prompt, what was sampled, perhaps its log-probabilities.
A turn is then one step, because nothing says which ids belong to which of its tool calls.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from apportion.adapters.readers.registry import Context
from apportion.data import Step
from apportion.data.trajectory import LARGEST_ID


class Sampled(NamedTuple):
    """One call of the model: its whole prompt and what was sampled."""

    prompt_ids: list[int]
    ids: list[int]
    logp: list[float] | None


def sampled(prompt_ids: Any, ids: Any, logp: Any, context: Context) -> Sampled | None:
    """The call as numbers; None where they are not there or not what they should be."""
    if not prompt_ids or not ids:
        return None
    if not _ids(prompt_ids) or not _ids(ids):
        context.report.note("token ids that are none: left out, the text is kept")
        return None
    if not logp:
        return Sampled(prompt_ids, ids, None)
    if not _numbers(logp) or len(logp) != len(ids):
        context.report.note("log-probabilities that are none, or not one per token: left out")
        return Sampled(prompt_ids, ids, None)
    return Sampled(prompt_ids, ids, [float(x) for x in logp])


def of_messages(messages: Sequence[dict[str, Any]], context: Context) -> list[Sampled | None]:
    """The calls behind the assistant messages, which carry them under NeMo Gym's names."""
    own = [message for message in messages if message["role"] == "assistant"]
    names = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
    told = [tuple(message.get(name) for name in names) for message in own]
    return [sampled(prompt, ids, logp, context) for prompt, ids, logp in told]


def with_ids(steps: Sequence[Step], calls: Sequence[Sampled | None], context: Context) -> tuple[Step, ...]:
    """The same turns with their ids, if every turn has them; else the steps as they are.

    Args:
        steps: of one chat, in order. calls: one per turn.
        context: where it is told what could not be kept.
    """
    turns = [list(group) for _, group in itertools.groupby(steps, key=lambda step: step.turn)]
    if not any(calls):
        return tuple(steps)
    if len(turns) != len(calls) or not all(calls):
        context.report.note("token ids of some turns only: left out, the text is kept")
        return tuple(steps)
    has_logp = all(call is not None and call.logp is not None for call in calls)
    out: list[Step] = []
    before: list[int] = []
    for turn, call in zip(turns, calls, strict=True):
        assert call is not None
        extends = bool(before) and call.prompt_ids[: len(before)] == before
        if before and not extends:
            context.report.note("prompts that do not extend the tokens before them: rewritten or re-tokenised, fresh")
        out.append(
            replace(
                _merged(turn),
                prompt_ids=call.prompt_ids[len(before) :] if extends else call.prompt_ids,
                ids=call.ids,
                logp=call.logp if has_logp else None,
                fresh=bool(before) and not extends,
            )
        )
        before = [*call.prompt_ids, *call.ids]
    return tuple(out)


def _merged(turn: list[Step]) -> Step:
    if len(turn) == 1:
        return turn[0]
    last = turn[-1]
    return replace(
        turn[0],
        action="\n".join(step.action or "" for step in turn),
        extra={"tool_calls": [dict(step.extra) for step in turn]},
        truncated=last.truncated,
        terminated=last.terminated,
        failed=any(step.failed for step in turn),
    )


def _ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(x) is int and 0 <= x <= LARGEST_ID for x in value)


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(x) in (int, float) and math.isfinite(x) for x in value)
