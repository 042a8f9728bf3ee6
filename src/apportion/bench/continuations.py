"""Continuations of enumerable tasks: a resource that plays the tabular policy whose value is known exactly."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np

from apportion.asks import Continuation, Continue, Move
from apportion.bench.agents import agents_of, without
from apportion.bench.exact import Exact, Rollouts
from apportion.bench.spelling import beginning
from apportion.bench.truth import to_batch
from apportion.data import Batch, Step
from apportion.envs.table import Floats
from apportion.resources import Refusal, Request, Table
from apportion.resources.context import path


def askable(truth: Exact, rollouts: Rollouts) -> Batch:
    """Sampled rollouts as `to_batch` makes them; `Step.state` is the position of the true state in the task's table, so
    that they can be played on from.
    """
    batch = to_batch(truth, rollouts)
    state = iter(rollouts.state_S.tolist())
    return Batch.from_trajectories(
        dataclasses.replace(t, steps=[dataclasses.replace(s, state=str(next(state))) for s in t.steps])
        for t in batch.trajectories
    )


class ExactPolicy(Table):
    """Answers `Continue` on the rollouts of `askable` under ``truth.policy``, whose V and Q are known.

    Plays from the beginning of a step, from behind its action, or on from another action (``first``, ``whole``). The
    mean return of its continuations is an unbiased estimate of ``truth.value_HX`` (of ``truth.q_HK`` behind an action)
    at discount ``truth.gamma``. ``without`` some agents, an episode is played anew from its start state, in which they
    do what the rules call absent.
    """

    def __init__(self, truth: Exact) -> None:
        policy = hashlib.blake2b(truth.policy.tobytes(), digest_size=12).hexdigest()
        identity = f"exact:{truth.table.rules!r}:{policy}"
        self._player = _Player(truth)
        super().__init__(self._player, kinds=["continue"], identity=identity, name="exact policy")

    @property
    def decisions(self) -> int:
        """Actions that the policy chose so far."""
        return self._player.decisions

    @property
    def words(self) -> int:
        """Words of these actions: its generated tokens."""
        return self._player.words

    def content(self, request: Request) -> bytes:
        """What was seen and done, and the state that it led to."""
        assert isinstance(request.ask, Continue)
        return super().content(request) + str(_state(request.trajectory.steps[request.ask.at.step])).encode()


class _Player:
    def __init__(self, truth: Exact) -> None:
        self.table = table = truth.table
        self.truth, self.decisions, self.words = truth, 0, 0
        self.pi_HK = np.broadcast_to(truth.policy, (table.horizon, table.slots))
        self.total_HK = np.cumsum(self.pi_HK, axis=1)
        self.total_M = np.cumsum(table.prob_M)
        self.first_M = np.searchsorted(table.slot_of_M, np.arange(table.slots + 1))

    def __call__(self, request: Request) -> Continuation:
        ask, rollout = request.ask, request.trajectory
        assert isinstance(ask, Continue)
        step = rollout.steps[ask.at.step]
        table, random = self.table, np.random.default_rng(request.seed)
        x, t, moves = _state(step), len(path(rollout, ask.at.step)) - 1, list[Move]()
        slot: int | None = None
        total_HK = self.total_HK
        if ask.without:
            x, t = _state(rollout.steps[0]), 0
            total_HK = self._without(ask.without)
        elif ask.first is not None or ask.at.token:
            if isinstance(ask.first, tuple):
                raise Refusal("the exact policy knows words, not token ids; make the rollouts without ids")
            action = ask.first if ask.first is not None and ask.whole else step.action or ""
            if action not in table.actions[x]:
                raise Refusal(f"{action!r} is none of the actions {', '.join(table.actions[x])}")
            slot = table.slot(x, action)
            if ask.first is None and ask.at.token < len(action.split()):  # in the middle of an action: it is finished
                here = beginning(table, x, action.split()[: ask.at.token])
                slot = int(random.choice(here, p=self.pi_HK[t, here] / self.pi_HK[t, here].sum()))
        while t < table.horizon:
            given = slot is not None
            if slot is None:
                self.decisions += 1
                slot = _draw(total_HK[t], table.first_slot_X[x], table.first_slot_X[x + 1], random)
                self.words += len(table.actions[x][slot - int(table.first_slot_X[x])].split())
            m = _draw(self.total_M, self.first_M[slot], self.first_M[slot + 1], random)
            after = int(table.next_M[m])
            over = after == len(table.states) or t + 1 == table.horizon
            moves.append(
                Move(
                    action="" if given else table.actions[x][slot - int(table.first_slot_X[x])],
                    reward=float(table.reward_M[m]),
                    observation=table.text(x, t) if moves else "",
                    state=str(x),
                    terminated=over,
                )
            )
            if over:
                break
            x, t, slot = after, t + 1, None
        return Continuation(tuple(moves))

    def _without(self, missing: tuple[str, ...]) -> Floats:
        if not agents_of(self.table)[0]:
            raise Refusal("the game has no agents, so nobody can be left out of it")
        pi = without(self.table, self.truth.policy, missing)
        return np.cumsum(np.broadcast_to(pi, (self.table.horizon, self.table.slots)), axis=1)


def _state(step: Step) -> int:
    if isinstance(known := step.extra.get("table_state"), int):
        return known
    if step.state is None or not step.state.isdecimal():
        raise Refusal("the step does not tell its state; make the rollouts with apportion.bench.continuations.askable")
    return int(step.state)


def _draw(
    total: np.ndarray[tuple[int], np.dtype[np.float64]], first: int, last: int, random: np.random.Generator
) -> int:
    """A position between first and last, drawn in proportion to the increments of ``total``."""
    low = total[first - 1] if first else 0.0
    at = int(np.searchsorted(total, low + random.random() * (total[last - 1] - low), side="right"))
    return min(max(at, int(first)), int(last) - 1)
