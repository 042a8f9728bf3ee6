"""Turns that a policy could have taken: actions drawn at one place of a rollout, without a step of an environment.

The policy is shown what it was shown in the rollout and nothing else: observations and its own actions. Its prompt is
built anew from them and must be the one that the rollout was sampled under. `Trajectory.reference` is not read here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from apportion.asks import Place
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.resources import Act, EnvPolicy, Past, Scene

PLACE_STREAM, DRAW_STREAM = 11, 12
_PLAYS = itertools.count()  # a policy that remembers plays must not take a new one for one that it knows


def turns_of(batch: Batch, *, share: float = 1.0, seed: int = 0) -> list[Place]:
    """Where turns begin, in order; of more than a share of them, so many drawn.

    Args:
        batch: rollouts. share: of their turns, above 0 and up to 1; at least one turn. seed: of the draw.

    Raises:
        ConfigError: a share that is none.
    """
    if not 0 < share <= 1:
        raise ConfigError(f"candidates: share is {share!r}; give a number above 0 and up to 1")
    new_traj = np.append(True, np.diff(batch.traj_of_S) != 0)
    first_S = np.maximum.accumulate(np.where(new_traj, np.arange(len(new_traj)), 0))
    begins = np.flatnonzero(np.append(True, np.diff(batch.turn_S) != 0) | new_traj)
    kept = np.random.default_rng([seed, PLACE_STREAM]).permutation(len(begins))[: max(1, round(share * len(begins)))]
    return [Place(int(batch.traj_of_S[s]), int(s - first_S[s])) for s in begins[np.sort(kept)].tolist()]


def draw(
    who: EnvPolicy, batch: Batch, places: Sequence[Place], *, count: int = 16, seed: int = 0, first: int = 0
) -> list[list[Act]]:
    """Actions that the policy draws at each place; what it draws at one does not depend on the others.

    Args:
        who: the policy, such as `apportion.train.player.TrainedPolicy`.
        batch: the rollouts. places: see `turns_of`. count: draws at each.
        seed: of the draws. first: number of the first place, where these are a part of more.

    Raises:
        DataError: a rollout without text, or one that this policy did not sample.
    """
    scenes = []
    for k, place in enumerate(places):
        rollout = batch.trajectories[place.traj]
        past = tuple(_past(batch, Place(place.traj, s)) for s in range(place.step))
        step = rollout.steps[place.step]
        if step.observation is None:
            raise DataError(f"{_at(batch, place)}: no observation, so the policy cannot be asked again; log its text")
        for n in range(count):
            random = np.random.default_rng([seed, DRAW_STREAM, first + k, n])
            prompt = None if step.prompt_ids is None else tuple(int(i) for i in step.prompt_ids)
            scenes.append(
                Scene(next(_PLAYS), past, step.observation, step.actions, random, prompt_ids=prompt, fresh=step.fresh)
            )
    acts: list[Act] = []
    for k, act in enumerate(who.act(scenes)):
        if not isinstance(act, Act):
            raise DataError(f"{_at(batch, places[k // count])}: {act}")
        acts.append(act)
    return [acts[k * count : (k + 1) * count] for k in range(len(places))]


def candidate_rollouts(batch: Batch, place: Place, acts: Sequence[Act]) -> list[Trajectory]:
    """Each candidate as the last step of a rollout with the same history, and the reference beside it."""
    rollout = batch.trajectories[place.traj]
    step, name = rollout.steps[place.step], f"{batch.names()[place.traj]}:{place.step}"
    same = Step(
        observation=step.observation, prompt_ids=step.prompt_ids, fresh=step.fresh, actions=step.actions, turn=step.turn
    )
    return [
        Trajectory(
            (*rollout.steps[: place.step], replace(same, action=act.action, ids=act.ids or None, logp=act.logp)),
            group=name,
            id=f"{name}/{k}",
            reference=rollout.reference,
        )
        for k, act in enumerate(acts)
    ]


def context_of(batch: Batch, place: Place) -> tuple[int, ...]:
    """Ids that stand before a step: from the last rewritten context to it."""
    out: list[int] = []
    for s, step in enumerate(batch.trajectories[place.traj].steps[: place.step + 1]):
        ids = () if s == place.step else step.ids
        if step.prompt_ids is None or ids is None:
            raise DataError(f"trajectory {place.traj}, step {s}: no token ids; rank rollouts that this policy sampled")
        out = [*([] if step.fresh else out), *step.prompt_ids, *ids]
    return tuple(int(i) for i in out)


def _past(batch: Batch, place: Place) -> Past:
    step = batch.trajectories[place.traj].steps[place.step]
    if step.observation is None or step.action is None:
        raise DataError(f"{_at(batch, place)}: no text of it, so the policy cannot be shown it; log texts")
    return Past(step.observation, step.action, None if step.ids is None else tuple(int(i) for i in step.ids))


def _at(batch: Batch, place: Place) -> str:
    return f"trajectory {place.traj} ({batch.names()[place.traj]!r}), step {place.step}"
