"""rLLM: advantages stamped onto the steps of its episodes, one per response token.

    credit = stamp(episodes, "gigpo", gamma=0.95)        in the workflow, after the rollouts
    algorithm.use_precomputed_advantage=true             in rLLM's configuration

Episode > Trajectory > Step(prompt_ids, response_ids, logprobs, reward), as objects or as the dicts of its JSON files.
rLLM counts every response token in its loss: a token that a method drops, or a rollout that nobody scored, gets
advantage 0 and stays in the counts. Leave such rollouts out of what you hand over; `credit.weight_S` says which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from apportion.adapters.crediting import Crediting
from apportion.adapters.rows import HostRow, batch_of, per_row
from apportion.adapters.told import field, numbers, put
from apportion.credit import Credit
from apportion.errors import DataError
from apportion.resources import Asker

StateOf = Callable[[Any], str | None]


def stamp(
    episodes: Sequence[Any],
    method: str,
    *,
    unit: str = "",
    states: str = "exact",
    state_of: StateOf | None = None,
    ask: Asker | None = None,
    **params: Any,
) -> Credit:
    """Set ``step.advantage`` of every step to a list of floats, one per response token.

    Args:
        episodes: all rollouts of the tasks, whole groups. Trajectories of the same name in episodes of one task are
            compared. The task of an episode is its `task_id`, or what stands before the first colon of its `id`.
        method, unit, states, ask, params: as for `apportion.assign` and `apportion.units.STATES`.
        state_of: text by which a step's state is compared; default ``step.info["state"]``, else an observation of text.

    Returns:
        The credit, with its notes. The outcome of a trajectory is its `reward`; step rewards count where any is not 0
        (rLLM's default), and the last step has what the outcome has beyond the others.

    Raises:
        DataError: an episode without steps or token ids.
    """
    crediting = Crediting(method, unit, states, params, ask)
    rows: list[HostRow] = []
    steps: list[Any] = []
    for episode in episodes:
        name = str(field(episode, "id"))
        task = str(field(episode, "task_id", None) or name.split(":")[0])
        for k, trajectory in enumerate(field(episode, "trajectories")):
            own = list(field(trajectory, "steps"))
            if not own:
                raise DataError(f"episode {name!r}: trajectory {k} has no steps; leave it out")
            told = [field(step, "reward", None) for step in own]
            outcome = field(trajectory, "reward", None)
            earned = any(told) or outcome is None
            for s, step in enumerate(own):
                last = s == len(own) - 1
                reward = told[s] if earned and not (last and outcome is not None) else None
                rows.append(
                    HostRow(
                        group=f"{task}/{field(trajectory, 'name', '')}",
                        id=f"{name}/{k}",
                        index=s,
                        prompt_ids=_ids(step, "prompt_ids", f"{name}/{k}", s),
                        completion_ids=_ids(step, "response_ids", f"{name}/{k}", s),
                        reward=None if outcome is None else float(outcome),
                        step_rewards=None if reward is None else [float(reward)],
                        states=[(state_of or _state)(step)],
                        agents=[str(field(trajectory, "name", "")) or None],
                        logp=_logp(step),
                        spans=[(0, len(field(step, "response_ids")))],
                    )
                )
            steps += own
    credit = crediting.credit(batch_of(rows))
    for step, (advantage, weight) in zip(steps, per_row(credit.to_tokens(), rows), strict=True):
        put(step, "advantage", np.where(weight > 0, advantage, 0.0).tolist())
    return credit


def _ids(step: Any, name: str, where: str, s: int) -> Any:
    ids = numbers(field(step, name, []))
    if name == "response_ids" and not len(ids):
        raise DataError(f"rollout {where!r}, step {s} has no response_ids; use an engine that returns token ids")
    return ids.astype(np.int64)


def _logp(step: Any) -> Any:
    logp = field(step, "logprobs", None)
    return None if logp is None or not len(logp) else numbers(logp)


def _state(step: Any) -> str | None:
    info = field(step, "info", None) or {}
    if "state" in info:
        return str(info["state"])
    seen = field(step, "observation", None)
    return seen if isinstance(seen, str) else None
