"""Rows of TRL's generation batch as `HostRow`s: what came out of generation, and what the rollout told about its steps.

The steps of a rollout come, in this order, from

    inputs[i]["steps"]          spans (first, last) in the completion: a list that `rollout_func` returned per row
    the mask                    maximal runs of policy tokens: tools and `environment_factory`

and what is known about each from the lists "step_rewards", "states", "agents", "turns" of the row, or from attributes
of these names on the row's environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from apportion.adapters.rows import HostRow, runs_of
from apportion.errors import DataError

STEP_LISTS = ("step_rewards", "states", "agents", "turns")
TOKEN_TENSORS = {"logp": ("sampling_per_token_logps", "old_per_token_logps"), "ref_logp": ("ref_per_token_logps",)}


def rows_of(
    out: Mapping[str, Any],
    inputs: Sequence[Mapping[str, Any]],
    environments: Sequence[Any] | None,
    eos: Sequence[int],
) -> list[dict[str, Any]]:
    """What crediting needs of this process's rows but rewards and groups, as plain values fit to be gathered.

    Args:
        out: what `_generate_and_score_completions` returned. inputs: its rows.
        environments: the environment of each row, or None.
        eos: ids that end a completion; one that ends otherwise was cut by a limit.
    """
    prompts, masks = _host(out["prompt_ids"]), _host(out["prompt_mask"]).astype(bool)
    completions = _host(out["completion_ids"])
    real = _host(out["completion_mask"]).astype(bool)
    policy = real & _host(out["tool_mask"]).astype(bool) if "tool_mask" in out else real
    tokens = {
        name: _host(out[key]).astype(np.float64)
        for name, keys in TOKEN_TENSORS.items()
        for key in [next((k for k in keys if out.get(k) is not None), None)]
        if key is not None
    }
    rows = []
    for i, row in enumerate(inputs):
        size = int(real[i].sum())
        ids = completions[i, :size]
        environment = None if environments is None else environments[i]
        told: dict[str, Any] = {name: _told(row, environment, name) for name in STEP_LISTS}
        rows.append(
            {
                "prompt_ids": prompts[i, masks[i]].astype(np.int32),
                "completion_ids": ids.astype(np.int32),
                "mask": policy[i, :size],
                "spans": row.get("steps"),
                "truncated": bool(size and int(ids[-1]) not in eos),
                **told,
                **{name: np.nan_to_num(column[i, :size]) for name, column in tokens.items()},
            }
        )
    return rows


def host_row(plain: Mapping[str, Any], *, group: str, id: str, reward: float | None) -> HostRow:
    """One gathered row with its group and its reward.

    The reward functions have the last word: the last step gets what their reward has beyond the other steps' rewards,
    and a rollout that none of them scored is not scored, whatever its steps earned. Lists that an environment kept may
    be shorter than the steps (a rollout ends without a tool call): what is missing at the end counts as not told.
    """
    fields = dict(plain)
    spans = fields.get("spans")
    count = len(spans) if spans is not None else len(runs_of(np.asarray(fields["mask"]).astype(bool)))
    for name in STEP_LISTS:
        values = fields[name]
        if values is not None:
            if len(values) > count:
                raise DataError(f"row {id!r}: {len(values)} {name} for {count} steps; give one per step")
            fields[name] = [*values, *[None] * (count - len(values))]
    if fields["step_rewards"] is not None:
        fields["step_rewards"] = None if reward is None else [*fields["step_rewards"][:-1], None]
    return HostRow(group=group, id=id, reward=reward, **fields)


def _told(row: Mapping[str, Any], environment: Any, name: str) -> list[Any] | None:
    values = row.get(name)
    if values is None and environment is not None:
        values = getattr(environment, name, None)
    return None if values is None else list(values)


def _host(tensor: Any) -> Any:
    """A tensor as an array in main memory."""
    return tensor.detach().float().cpu().numpy() if tensor.is_floating_point() else tensor.detach().cpu().numpy()
