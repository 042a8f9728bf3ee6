"""Rollouts that fork: continuations from a step become branches of it, so every token is held and credited once.

A branch begins with a step whose parent is the step before the fork and whose prompt is written out (`Step.fresh`), so
a trainer reads each branch under its own context. The outcome of a rollout that forks is the mean over its leaves; what
a leaf got stands in its rewards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apportion.asks import Continuation, Continue, Move, Place
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.resources.asker import Asker
from apportion.resources.context import context_ids
from apportion.resources.past import has_ids


def branch(ask: Asker, batch: Batch, places: Iterable[Place], *, k: int = 4, who: str = "branch") -> Batch:
    """Let ``k`` other ways of going on be played from each place, and attach them as branches.

    Args:
        ask: who plays.
        batch: the rollouts.
        places: beginnings of steps (``token`` 0).
        k: branches of each. One that failed or was not scored is left out.

    Raises:
        ConfigError: a place inside an action.
        BudgetError, ResourceError: as `Asker`.
    """
    asks = [Continue(place, k) for place in places]
    for asked in asks:
        if asked.at.token:
            raise ConfigError(f"{who}: {asked.at} is inside an action; fork at the beginning of a step (token=0)")
    grown = [_with_rewards(t) for t in batch.trajectories]
    for answer in ask(asks, batch.trajectories, who=who):
        at = answer.ask.at  # type: ignore[union-attr]
        for sample in answer.samples:
            if sample.scored:
                grown[at.traj] = attach(grown[at.traj], at.step, sample)
    return Batch.from_trajectories(_with_outcome(t) for t in grown)


def fork(ask: Asker, batch: Batch, *, n: int = 16, choose: str = "entropy", seed: int = 0, who: str = "fork") -> Batch:
    """CARL's second phase: ``n`` more rollouts of each group, each from the state in which the policy hesitated most.

        next state = argmax h / visits,     h: mean over its visits of -(1/|a|) Σ log p(tokens of the action a)

    States are told apart by exact prefix. A fork counts as a visit of the state that it begins in and of those that it
    leads to. What failed counts as a visit too, so that nobody asks for ever.

    Args:
        ask: who plays.
        batch: rollouts of the first phase, one or several per group, with log-probabilities.
        n: forks per group (the authors': 16 after 1 or 8 rollouts).
        choose: "entropy" as above, or "random", any state with equal probability (their ablation).
        seed: of the random choice.

    Returns:
        The rollouts, grown by branches; credit them with `carl`.

    Raises:
        DataError: log-probabilities are missing.
        ConfigError: n or choose cannot be used.

    Source: arXiv:2512.04949.
    """
    if n < 0 or choose not in ("entropy", "random"):
        raise ConfigError(f"{who}: n={n}, choose={choose!r}; give n from 0 on, choose 'entropy' or 'random'")
    grown = [_with_rewards(t) for t in batch.trajectories]
    forests: dict[int, _Forest] = {}
    for i, group in enumerate(batch.group_of_N.tolist()):
        if batch.valid_N[i]:
            forests.setdefault(group, _Forest(measured=choose == "entropy")).add(i, grown[i], 0, None)
    random = np.random.default_rng(seed)
    for _ in range(n):
        chosen = [(forest, forest.next(choose, random)) for forest in forests.values()]
        asks = [Continue(spot.place, 1, tag=f"fork {spot.forks}") for _, spot in chosen]
        for (forest, spot), answer in zip(chosen, ask(asks, grown, who=who), strict=True):
            spot.forks += 1
            i = spot.place.traj
            if answer.one is not None and answer.one.scored:
                first = len(grown[i].steps)
                grown[i] = attach(grown[i], spot.place.step, answer.one)
                forest.add(i, grown[i], first, spot)
            else:
                spot.visits += 1
    return Batch.from_trajectories(_with_outcome(t) for t in grown)


def attach(rollout: Trajectory, step: int, way: Continuation) -> Trajectory:
    """A rollout with one more branch, which begins in the state that ``step`` acted in.

    Raises:
        ConfigError: the rollout has token ids and the continuation has not.
    """
    at = rollout.steps[step]
    ids = has_ids(rollout)
    parent = step - 1 if at.parent is None else at.parent
    steps = list(rollout.steps)
    for j, move in enumerate(way.moves):
        fields = _of_move(move, ids, rollout)
        if not j:
            fields |= {"observation": at.observation, "parent": parent, "agent": at.agent, "turn": at.turn}
            fields |= {"state": at.state, "fresh": ids or at.fresh}
            fields["prompt_ids"] = context_ids(rollout, Place(0, step)) if ids else None
            fields["extra"] = {} if move.noise is None else {"noise_seed": move.noise}
        steps.append(Step(**fields))
    return replace(rollout, steps=steps)


def _of_move(move: Move, ids: bool, rollout: Trajectory) -> dict[str, Any]:
    if ids and not move.ids and move.action:
        raise ConfigError(
            f"rollout {rollout.id!r} has token ids and the continuation is text; ask the policy that sampled it"
        )
    return {
        "observation": move.observation,
        "action": move.action,
        "prompt_ids": move.prompt_ids if ids else None,
        "ids": move.ids if ids else None,
        "logp": move.logp if ids else None,
        "fresh": move.fresh,
        "reward": move.reward,
        "state": move.state,
        "terminated": move.terminated,
        "truncated": move.truncated,
        "actions": move.actions,
    }


def _with_rewards(rollout: Trajectory) -> Trajectory:
    """What the outcome has beyond the step rewards arrives with the last step, as `Units` reads it."""
    last = rollout.steps[-1]
    if rollout.outcome is None or last.reward is not None:
        return rollout
    told = sum(step.reward for step in rollout.steps if step.reward is not None)
    return replace(rollout, steps=[*rollout.steps[:-1], replace(last, reward=rollout.outcome - told)])


def _with_outcome(rollout: Trajectory) -> Trajectory:
    """The mean return over the leaves that somebody scored, as the outcome; unchanged where nothing forks."""
    total: list[float] = []
    parents = [s - 1 if step.parent is None else step.parent for s, step in enumerate(rollout.steps)]
    for step, parent in zip(rollout.steps, parents, strict=True):
        total.append((step.reward or 0.0) + (total[parent] if parent >= 0 else 0.0))
    leaves = set(range(len(parents))) - set(parents)
    if len(leaves) == 1 and all(s - 1 == parent for s, parent in enumerate(parents)):
        return rollout
    got = [total[s] for s in sorted(leaves) if rollout.steps[s].reward is not None]
    return replace(rollout, outcome=float(np.mean(got)) if got else None, final_value=None)


@dataclass(slots=True)
class _Spot:
    """A state: where it was first met, how uncertain its actions were, how often it was visited and forked."""

    place: Place
    entropy: float
    visits: int = 1
    forks: int = 0

    def visit(self, entropy: float) -> None:
        self.entropy = (entropy + self.entropy * self.visits) / (self.visits + 1)
        self.visits += 1


class _Forest:
    """The states of one group by exact prefix."""

    def __init__(self, *, measured: bool) -> None:
        self.measured = measured
        self.spots: dict[Any, _Spot] = {}
        self._key_of: dict[tuple[int, int], Any] = {}  # of each step of each rollout

    def add(self, i: int, rollout: Trajectory, first: int, origin: _Spot | None) -> None:
        """Visit the states of a rollout from step ``first`` on; ``origin`` is the state that a branch begins in."""
        for s in range(first, len(rollout.steps)):
            step = rollout.steps[s]
            if origin is not None and s == first:
                key = self._key_of[origin.place.traj, origin.place.step]
            else:
                parent = s - 1 if step.parent is None else step.parent
                key = () if parent < 0 else (self._key_of[i, parent], _done(rollout.steps[parent]), _seen(step))
            self._key_of[i, s] = key
            if not _size(step):
                continue
            entropy = _surprise(step, rollout, s) if self.measured else 0.0
            if key in self.spots:
                self.spots[key].visit(entropy)
            else:
                self.spots[key] = _Spot(Place(i, s), entropy)

    def next(self, choose: str, random: np.random.Generator) -> _Spot:
        """Where to fork; of equals the one that was met first."""
        spots = list(self.spots.values())
        if choose == "random":
            return spots[int(random.integers(len(spots)))]
        return max(spots, key=lambda spot: spot.entropy / spot.visits)


def _done(step: Step) -> Any:
    return step.action if step.ids is None else tuple(np.asarray(step.ids).tolist())


def _seen(step: Step) -> Any:
    return step.observation if step.prompt_ids is None else tuple(np.asarray(step.prompt_ids).tolist())


def _size(step: Step) -> int:
    return len(step.action or "") if step.ids is None else len(step.ids)


def _surprise(step: Step, rollout: Trajectory, s: int) -> float:
    """Length-normalised negative log-probability of the action, nats per token."""
    logp: Sequence[float] | None = None if step.logp is None else np.asarray(step.logp).tolist()
    if not logp:
        raise DataError(
            f"rollout {rollout.id!r}, step {s} has no log-probabilities, so nobody knows where the policy hesitated; "
            "record Step.logp, or fork with choose='random'"
        )
    return -sum(logp) / len(logp)
