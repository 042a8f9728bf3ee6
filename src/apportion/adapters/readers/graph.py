"""A graph of messages as steps: each sampled message one step, whose parent is the sampled message it descends from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from apportion.adapters.readers.chat import Fold
from apportion.adapters.readers.fields import kind
from apportion.adapters.readers.registry import Context
from apportion.data import Step
from apportion.errors import FormatError


@dataclass(slots=True)
class Graph:
    """Steps of a graph.

    Attributes:
        steps: in order of the nodes. first_user: text of the first user message.
        final_observation: what was observed behind the last step.
        leaf: for each step, that no step descends from it.
    """

    steps: list[Step]
    first_user: str | None
    final_observation: str | None
    leaf: list[bool]

    def ended(self, *, truncated: bool, failed: bool, terminated: bool) -> list[Step]:
        """The steps with the last one flagged; it says how the rollout ended, not how each branch did."""
        last = replace(self.steps[-1], truncated=truncated, failed=failed, terminated=terminated)
        return [*self.steps[:-1], last]


@dataclass(slots=True)
class _Node:
    step: int
    """Step that this node is, or else descends from; -1 where there is none."""
    heard: list[dict[str, Any]]
    """Messages since that step, this node's own included unless it is the step."""
    ids: list[int]
    """Their tokens."""


def steps_of(nodes: list[Any], at: str, context: Context, *, agent: str | None) -> Graph:
    """Steps of a list of nodes ``{parent, message, sampled, token_ids, mask, logprobs}``.

    Raises:
        FormatError: a node without a message, a parent that does not come before it, ids that do not fit.
    """
    has_ids = any(_own(node) and node.get("token_ids") for node in nodes) and all(
        bool(node.get("token_ids")) for node in nodes if _own(node)
    )
    has_logp = has_ids and all(bool(node.get("logprobs")) for node in nodes if _own(node))
    has_ref = has_ids and all(bool(node.get("reference_logprobs")) for node in nodes if _own(node))
    steps: list[Step] = []
    places: list[_Node] = []
    called: dict[str, str] = {}
    first_user: str | None = None
    for k, node in enumerate(nodes):
        where = f"{at}, node {k}"
        message = node.get("message") if isinstance(node, dict) else None
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise FormatError(f"{where}: no message with a role; remove it, or the trace")
        above = _parent(node, places, where)
        if not _own(node):
            ids = [*above.ids, *_ids(node, where)] if has_ids else []
            places.append(_Node(above.step, [*above.heard, message], ids))
            if first_user is None and message["role"] == "user" and isinstance(message.get("content"), str):
                first_user = message["content"]
            continue
        fold = Fold(where, context, steps=steps[above.step : above.step + 1] if above.step >= 0 else [])
        fold.called = called
        had = len(fold.steps)
        for seen in above.heard:
            fold.heard(seen, where)
        fold.said(message, where)
        step = _one(fold.steps[had:], agent)
        tail: list[int] = []
        if has_ids:
            step, tail = _with_ids(step, node, above.ids, where, logp=has_logp, ref=has_ref)
        steps.append(replace(step, turn=len(steps), parent=above.step if above.step != len(steps) - 1 else None))
        places.append(_Node(len(steps) - 1, [], tail))
    if not steps:
        context.report.note("traces without a sampled message: one empty action")
        steps = [Step(action="", agent=agent)]
        return Graph(steps, first_user, None, [True])
    final = places[-1]
    told = Fold(at, context.silent())
    for seen in final.heard if final.step == len(steps) - 1 else []:
        told.heard(seen, at)
    parents = {k - 1 if step.parent is None else step.parent for k, step in enumerate(steps)}
    return Graph(steps, first_user, "\n".join(told.waiting) or None, [k not in parents for k in range(len(steps))])


def _own(node: Any) -> bool:
    return isinstance(node, dict) and node.get("sampled") is True


def _parent(node: dict[str, Any], places: list[_Node], at: str) -> _Node:
    parent = node.get("parent")
    if parent is None:
        return _Node(-1, [], [])
    if type(parent) is not int or not 0 <= parent < len(places):
        raise FormatError(f"{at}: parent is {parent!r:.40}; give the index of an earlier node, or null for a root")
    return places[parent]


def _one(made: list[Step], agent: str | None) -> Step:
    """A message with several calls is one step here: what descends from it descends from all of it."""
    first = made[0]
    if len(made) > 1:
        calls = [dict(step.extra) for step in made]
        first = replace(first, action="\n".join(step.action or "" for step in made), extra={"tool_calls": calls})
    return replace(first, agent=first.agent or agent)


def _ids(node: dict[str, Any], at: str) -> list[int]:
    ids = node.get("token_ids") or []
    if not isinstance(ids, list) or not all(type(x) is int for x in ids):
        raise FormatError(f"{at}: token_ids is {kind(ids)} that holds more than integers; give token ids")
    return ids


def _with_ids(
    step: Step, node: dict[str, Any], before: list[int], at: str, *, logp: bool, ref: bool
) -> tuple[Step, list[int]]:
    """The step with its tokens, and those behind the sampled ones, which are context of what comes next."""
    ids, mask = _ids(node, at), node.get("mask")
    if not isinstance(mask, list) or len(mask) != len(ids) or not all(type(x) is bool for x in mask):
        raise FormatError(f"{at}: mask does not have one true or false for each of {len(ids)} tokens; repair it")
    if True not in mask:
        raise FormatError(f"{at}: a sampled node none of whose tokens was sampled; mark it sampled: false")
    first = mask.index(True)
    end = len(mask) - mask[::-1].index(True)
    if not all(mask[first:end]):
        raise FormatError(f"{at}: the mask has holes, tokens between sampled ones; give each stretch its own node")
    filled = replace(
        step,
        prompt_ids=[*before, *ids[:first]],
        ids=ids[first:end],
        logp=node["logprobs"] if logp else None,
        ref_logp=node["reference_logprobs"] if ref else None,
    )
    return filled, ids[end:]
