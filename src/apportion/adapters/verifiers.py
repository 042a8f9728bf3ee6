"""verifiers (version 1) and prime-rl: advantages written onto the nodes of message graphs.

    stamp(traces, "gigpo", gamma=0.95)         in an algorithm's score_group, or on traces.jsonl read as dicts

A trace holds nodes ``{parent, sampled, token_ids, mask, logprobs}``; each that the policy sampled is one step. Its
context are the tokens of the nodes it descends from, so rewritten and branched histories are what they were. Like
`logprobs`, `advantages` is compact: one number per sampled token of the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apportion.adapters.crediting import Crediting
from apportion.adapters.rows import HostRow, batch_of, per_row
from apportion.adapters.told import field, numbers, put, steps_told
from apportion.credit import Credit
from apportion.errors import DataError
from apportion.numerics import BoolArray, FloatArray
from apportion.resources import Asker


def stamp(
    traces: Sequence[Any],
    method: str,
    *,
    groups: Sequence[str] | None = None,
    unit: str = "",
    states: str = "exact",
    ask: Asker | None = None,
    **params: Any,
) -> Credit:
    """Set ``node.advantages`` of every sampled node.

    Args:
        traces: rollouts, whole groups, as objects or dicts. ``info`` may hold lists with one entry per sampled node:
            "step_rewards" (or "turn_rewards") and "states".
        method, unit, states, ask, params: as for `apportion.assign` and `apportion.units.STATES`.
        groups: name of the group of each trace; default, they are all of one group, as prime-rl hands them over.

    Returns:
        The credit, with its notes. What is unknown or dropped gets 0, and a trace without any credit is pruned by
        prime-rl.

    Raises:
        DataError: a trace without sampled nodes or token ids, or lists of another length.
    """
    if groups is not None and len(groups) != len(traces):
        raise DataError(
            f"{len(groups)} groups for {len(traces)} traces; give one name per trace, or None for one group"
        )
    crediting = Crediting(method, unit, states, params, ask)
    rows, nodes = [], []
    for k, trace in enumerate(traces):
        more = _rows(trace, f"trace {k}", "group" if groups is None else groups[k])
        rows += [row for row, _ in more]
        nodes += [node for _, node in more]
    credit = crediting.credit(batch_of(rows))
    for node, row, (advantage, weight) in zip(nodes, rows, per_row(credit.to_tokens(), rows), strict=True):
        put(node, "advantages", np.where(weight > 0, advantage, 0.0)[row.sampled()].tolist())
    return credit


def _rows(trace: Any, where: str, group: str) -> list[tuple[HostRow, Any]]:
    nodes = list(field(trace, "nodes"))
    ids = [numbers(field(node, "token_ids")).astype(np.int64) for node in nodes]
    masks = [_mask(node, len(own), f"{where}, node {k}") for k, (node, own) in enumerate(zip(nodes, ids, strict=True))]
    own = [
        k
        for k, (node, mask) in enumerate(zip(nodes, masks, strict=True))
        if field(node, "sampled", False) and mask.any()
    ]
    if not own:
        raise DataError(
            f"{where} has no node with sampled tokens; leave it out, or use a client that returns token ids"
        )
    info = field(trace, "info", None)
    rewards = steps_told(info, "step_rewards", len(own), where) or steps_told(info, "turn_rewards", len(own), where)
    states = steps_told(info, "states", len(own), where)
    outcome, parts = _reward(trace)
    if rewards is not None and outcome is not None:
        rewards[-1] = None  # it has what the outcome has beyond the other steps
    out = []
    for place, k in enumerate(own):
        first = int(np.argmax(masks[k]))
        path: list[int] = []
        parent = field(nodes[k], "parent", None)
        while parent is not None:
            path.append(parent)
            parent = field(nodes[parent], "parent", None)
        context = [*(ids[p] for p in reversed(path)), ids[k][:first]]
        row = HostRow(
            group=group,
            id=str(field(trace, "id", None) or where),
            index=place,
            prompt_ids=np.concatenate(context),
            completion_ids=ids[k][first:],
            mask=masks[k][first:],
            reward=outcome,
            outcomes=parts,
            step_rewards=None if rewards is None else [rewards[place]],
            states=None if states is None else [states[place]],
            spans=None,
            logp=_logp(nodes[k], masks[k])[first:] if len(field(nodes[k], "logprobs", None) or ()) else None,
            truncated=bool(field(trace, "is_truncated", False)),
        )
        out.append((row, nodes[k]))
    return out


def _mask(node: Any, size: int, where: str) -> BoolArray:
    mask = numbers(field(node, "mask")).astype(bool)
    if len(mask) != size:
        raise DataError(f"{where}: mask has {len(mask)} entries for {size} tokens; give one per token")
    return mask


def _logp(node: Any, mask: BoolArray) -> FloatArray:
    """Compact numbers, on the node's tokens."""
    told = numbers(field(node, "logprobs")).astype(np.float64)
    if len(told) != int(mask.sum()):
        raise DataError(
            f"a node has {len(told)} logprobs for {int(mask.sum())} sampled tokens; give one per sampled token"
        )
    out = np.zeros(len(mask))
    out[mask] = told
    return out


def _reward(trace: Any) -> tuple[float | None, dict[str, float]]:
    """The weighted sum of the named rewards, and their scores; ``reward`` where none has a name. Broken: not scored."""
    if not field(trace, "ok", True):
        return None, {}
    named = field(trace, "rewards", None) or {}
    told = {name: reward for name, reward in named.items() if reward is not None and field(reward, "score") is not None}
    if told:
        parts = {name: float(field(reward, "score")) for name, reward in told.items() if name.isidentifier()}
        return sum(float(field(r, "score")) * float(field(r, "weight", 1.0)) for r in told.values()), parts
    reward = None if named else field(trace, "reward", None)
    return (None if reward is None else float(reward)), {}
