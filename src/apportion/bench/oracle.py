"""Everybody who can be asked about an enumerable task, exactly: the policy, and a reward model that knows the values.

The reward model says of a whole rollout what the same actions pay on average over the game's chances; up to a moment,
the value of that moment; and with agents masked, what the actions of the others pay while the masked ones do what the
rules call absent. It is the best reward model that there is, so methods that ask one are seen at their best.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import numpy as np

from apportion.asks import Place, Score
from apportion.bench.agents import agents_of
from apportion.bench.continuations import askable
from apportion.bench.exact import Exact, Rollouts, uniform
from apportion.bench.spelling import beginning, spelled
from apportion.data import Batch, Trajectory
from apportion.envs.table import Floats
from apportion.resources import Refusal, Request, Table


def told(truth: Exact, rollouts: Rollouts, *, ids: bool = True) -> Batch:
    """The rollouts of `askable` with all that methods read.

    That is agents, admissible actions and, with token ids (one for each word), log-probabilities (reference: the
    uniform policy), entropies, sums of squared probabilities and the values before each word, see `spelled`.

    `ExactPolicy` plays other actions on from rollouts without ids only, since it knows words.
    """
    table, (names, turn_X) = truth.table, agents_of(truth.table)
    batch, vocabulary, memo = askable(truth, rollouts), dict[str, int](), dict[tuple[int, int], dict[str, Any]]()
    pi_HK, reference_K = np.broadcast_to(truth.policy, truth.q_HK.shape), uniform(table)

    def numbered(text: str) -> list[int]:
        return [vocabulary.setdefault(word, len(vocabulary)) for word in text.split()]

    def tokens(t: int, k: int) -> dict[str, Any]:
        if (t, k) not in memo:
            own = spelled(table, k, pi_HK[t], truth.q_HK[t])
            memo[t, k] = {
                "logp": own.logp,
                "ref_logp": spelled(table, k, reference_K, truth.q_HK[t]).logp,
                "entropy": own.entropy,
                "token_values": own.value,
                "columns": {"prob_square": own.square},
            }
        return memo[t, k]

    at, trajectories = 0, []
    for trajectory in batch.trajectories:
        steps = []
        for step in trajectory.steps:
            x, t, k = int(rollouts.state_S[at]), int(rollouts.time_S[at]), int(rollouts.slot_S[at])
            at += 1
            more: dict[str, Any] = {}
            if ids:
                more = {"prompt_ids": numbered(step.observation or ""), "ids": numbered(step.action or "")}
                more |= tokens(t, k)
            steps.append(
                dataclasses.replace(
                    step,
                    **more,
                    agent=names[turn_X[x]] if names and turn_X[x] >= 0 else None,
                    actions=table.actions[x],
                    state=step.observation,
                    extra={"table_state": x},
                )
            )
        trajectories.append(dataclasses.replace(trajectory, steps=steps))
    return Batch.from_trajectories(trajectories)


class ExactReward(Table):
    """Answers `Score` on the rollouts of `told`. An action of which words are taken out is an action not taken."""

    def __init__(self, truth: Exact) -> None:
        policy = hashlib.blake2b(truth.policy.tobytes(), digest_size=12).hexdigest()
        identity = f"exact reward:{truth.table.rules!r}:{policy}"
        super().__init__(_Scorer(truth), kinds=["score"], identity=identity, name="exact reward model")

    def content(self, request: Request) -> bytes:
        """What was seen and done, and the states, which a text may not tell."""
        return super().content(request) + str([_state(s) for s in _places(request.trajectory)]).encode()


class _Scorer:
    def __init__(self, truth: Exact) -> None:
        self.truth = truth
        self.names, self.turn_X = agents_of(truth.table)
        self.first_M = np.searchsorted(truth.table.slot_of_M, np.arange(truth.table.slots + 1))

    def __call__(self, request: Request) -> float:
        ask = request.ask
        assert isinstance(ask, Score)
        if ask.agents and not self.names:
            raise Refusal("the game has no agents; score whole rollouts, or parts of them in time")
        if ask.upto is not None:
            return self._upto(request.trajectory, ask.upto)
        return self._replayed(request.trajectory, ask.agents, {span.step for span in ask.absent})

    def _upto(self, rollout: Trajectory, upto: Place) -> float:
        """Rewards so far and the value of the moment, in the middle of an action too."""
        table = self.truth.table
        steps = rollout.steps
        paid = sum(step.reward or 0.0 for step in steps[: upto.step])
        x, t, words = _state(steps[upto.step]), upto.step, (steps[upto.step].action or "").split()
        if upto.token >= len(words):
            return paid + float(self.truth.q_HK[t, table.slot(x, " ".join(words))])
        here = beginning(table, x, words[: upto.token])
        pi = np.broadcast_to(self.truth.policy, self.truth.q_HK.shape)[t, here]
        return paid + float(pi @ self.truth.q_HK[t, here] / pi.sum())

    def _replayed(self, rollout: Trajectory, missing: tuple[str, ...], absent: set[int]) -> float:
        """Expected return when each agent there repeats its actions in order, but for those that are absent."""
        table = self.truth.table
        script: dict[str, list[str]] = {}
        for t, step in enumerate(rollout.steps):
            script.setdefault(step.agent or "", []).append("" if t in absent else step.action or "")
        # (state, how many actions each agent has used up): with turns that alternate there are few of them
        live: dict[tuple[int, tuple[int, ...]], float] = {(_state(rollout.steps[0]), (0,) * len(self.names)): 1.0}
        total = 0.0
        for t in range(table.horizon):
            following: dict[tuple[int, tuple[int, ...]], float] = {}
            for (x, used), p in live.items():
                slot, after = self._act(x, used, t, script, missing)
                for m in range(*self.first_M[slot : slot + 2].tolist()):
                    q = p * float(table.prob_M[m])
                    total += q * float(table.reward_M[m])
                    if table.next_M[m] < len(table.states):
                        key = (int(table.next_M[m]), after)
                        following[key] = following.get(key, 0.0) + q
            live = following
        return total

    def _act(
        self, x: int, used: tuple[int, ...], t: int, script: dict[str, list[str]], missing: tuple[str, ...]
    ) -> tuple[int, tuple[int, ...]]:
        table = self.truth.table
        if not self.names:
            actions = script.get("", [])
            at, after = t, used
        else:
            m = int(self.turn_X[x])
            actions, at = script.get(self.names[m], []), used[m]
            after = (*used[:m], used[m] + 1, *used[m + 1 :])
            if self.names[m] in missing:
                actions = []
        if at < len(actions) and actions[at] in table.actions[x]:
            return table.slot(x, actions[at]), after
        return table.slot(x, self._otherwise(x)), after

    def _otherwise(self, x: int) -> int | str:
        """What is done where the script has nothing that can be done here."""
        if self.names:
            return str(self.truth.table.rules.absent(self.truth.table.states[x]))  # type: ignore[attr-defined]
        first, last = self.truth.table.first_slot_X[x], self.truth.table.first_slot_X[x + 1]
        pi: Floats = self.truth.policy if self.truth.policy.ndim == 1 else self.truth.policy[0]
        return int(np.argmax(pi[first:last]))


def _places(rollout: Trajectory) -> list[object]:
    return list(rollout.steps)


def _state(step: object) -> int:
    x = getattr(step, "extra", {}).get("table_state")
    if not isinstance(x, int):
        raise Refusal("the step does not tell its state; make the rollouts with apportion.bench.oracle.told")
    return x
