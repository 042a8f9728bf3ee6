"""Rows of TRL's generation batch as `HostRow`s: what came out of generation, and what the rollout told about its steps.

The steps of a rollout are

    inputs[i]["steps"]          spans (first, last) in the completion: a list that `rollout_func` returned per row; else
    the mask                    maximal runs of policy tokens: tools and `environment_factory`

and what is known about each comes from lists that `rollout_func` returned ("step_rewards", "states", …), or from lists
of these names that the row's environment keeps, see `apportion.adapters.trl.environment`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from apportion.adapters.rows import HostRow, runs_of
from apportion.adapters.trl.environment import Marks, kept_by
from apportion.errors import DataError
from apportion.numerics import FloatArray

STEP_LISTS = ("step_rewards", "states", "agents", "turns", "values", "step_parts")
TOKEN_TENSORS = {"logp": ("sampling_per_token_logps", "old_per_token_logps"), "ref_logp": ("ref_per_token_logps",)}


def with_whole_lists(rollout_func: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with a sentence where a list that it returns does not reach every row: TRL would go on without."""

    @functools.wraps(rollout_func)
    def checked(prompts: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        output = rollout_func(prompts, *args, **kwargs)
        for name, values in output.items():
            if isinstance(values, list) and 0 < len(values) < len(prompts):
                raise DataError(
                    f"rollout_func returned {len(values)} {name} for {len(prompts)} prompts; give one entry per row, "
                    "None where there is nothing to tell"
                )
        return output

    return checked


def rows_of(
    out: Mapping[str, Any],
    inputs: Sequence[Mapping[str, Any]],
    *,
    own_rollouts: bool,
    environments: Sequence[Any] | None,
    marks: Sequence[Marks],
    ends: Sequence[int],
    scores: Mapping[str, FloatArray],
) -> list[dict[str, Any]]:
    """What crediting needs of this process's rows but rewards and groups, as plain values fit to be gathered.

    Args:
        out: what `_generate_and_score_completions` returned. inputs: its rows.
        own_rollouts: a `rollout_func` made them, so that ``inputs`` holds what it told (else, columns of the dataset).
        environments: the environment of each row, or None. marks: how long their lists were at each generation.
        ends: ids that end a completion; one that ends otherwise was cut by a limit.
        scores: further numbers per completion token by name of `HostRow`, each (B, T).
    """
    prompts, masks = _host(out["prompt_ids"]), _host(out["prompt_mask"]).astype(bool)
    completions = _host(out["completion_ids"])
    real = _host(out["completion_mask"]).astype(bool)
    policy = real & _host(out["tool_mask"]).astype(bool) if "tool_mask" in out else real
    tokens = dict(scores)
    for name, keys in TOKEN_TENSORS.items():
        found = [_host(out[key]).astype(np.float64) for key in keys if out.get(key) is not None]
        if found:  # the engine's own number where it gave one, else the trainer's
            tokens[name] = found[0] if len(found) == 1 else np.where(np.isnan(found[0]), found[1], found[0])
    rows = []
    for i, row in enumerate(inputs):
        size = int(real[i].sum())
        ids, mask = completions[i, :size], policy[i, :size]
        plain: dict[str, Any] = dict.fromkeys((*STEP_LISTS, "spans", "token_values"))
        plain |= {
            "prompt_ids": prompts[i, masks[i]].astype(np.int32),
            "completion_ids": ids.astype(np.int32),
            "mask": mask,
            "truncated": bool(size and int(ids[-1]) not in ends),
            "columns": {},
        }
        for name, column in tokens.items():
            values = np.where(mask, column[i, :size], 0.0)
            plain[name] = None if np.isnan(values).any() else values
        if size and own_rollouts:  # of a completion that is masked out whole, nothing is left to tell about
            plain |= _told(row)
        elif size and environments is not None:
            plain |= kept_by(environments[i], [mark[i] for mark in marks], len(runs_of(mask)))
        rows.append(plain)
    return rows


def host_row(
    plain: Mapping[str, Any], *, group: str, id: str, reward: float | None, outcomes: Mapping[str, float]
) -> HostRow:
    """One gathered row with its group and its rewards.

    The reward functions have the last word: the last step gets what their reward has beyond the other steps' rewards,
    and a rollout that none of them scored is not scored, whatever its steps earned. Lists may be shorter than the steps
    (a rollout ends without a tool call): what is missing at the end counts as not told.
    """
    fields = dict(plain)
    spans = fields["spans"]
    count = len(spans) if spans is not None else len(runs_of(np.asarray(fields["mask"]).astype(bool)))
    for name in STEP_LISTS:
        values = fields[name]
        if values is not None:
            if len(values) > count:
                raise DataError(f"row {id!r}: {len(values)} {name} for {count} steps; give one per step")
            empty: Any = {} if name == "step_parts" else None
            fields[name] = [*values, *[empty] * (count - len(values))]
    if fields["step_rewards"] is not None:
        fields["step_rewards"] = None if reward is None else [*fields["step_rewards"][:-1], None]
    return HostRow(group=group, id=id, reward=reward, outcomes=outcomes, **fields)


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    """What `rollout_func` returned beside the tokens."""
    told: dict[str, Any] = {name: list(row[name]) for name in STEP_LISTS if row.get(name) is not None}
    for name, key in (("spans", "steps"), ("token_values", "token_values"), ("columns", "columns")):
        if row.get(key) is not None:
            told[name] = row[key]
    if not isinstance(told.get("columns", {}), Mapping):
        raise DataError(
            f"rollout_func returned columns of the kind {type(told['columns']).__name__} for a row; give each row a "
            "dict of lists, like {'planning': [one number per completion token]}"
        )
    if row.get("truncated") is not None:
        told["truncated"] = bool(row["truncated"])
    return told


def _host(tensor: Any) -> Any:
    """A tensor as an array in main memory."""
    return tensor.detach().float().cpu().numpy() if tensor.is_floating_point() else tensor.detach().cpu().numpy()
