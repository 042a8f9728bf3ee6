"""Games with exact truth for `value_models`: a policy on one, episodes as token ids, actions tried in its states."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from apportion.bench.exact import Exact, Rollouts, exact, improve, sample, uniform
from apportion.bench.tasks import task
from apportion.data import Batch, Step, Trajectory

TASKS: dict[str, dict[str, Any]] = {
    "crafttree": {"show_time": True},
    "hidden_object": {"show_time": True},
    "ice": {"show_time": True},
    "chain": {"show_time": True, "horizon": 12, "decisive": (2, 5, 9)},
}
STATES, ACTIONS = 40, 5
NOISE = 0.5  # of the policy's logits, so that seeds differ in their policy too


class Tried(NamedTuple):
    """Actions in states: time, slot, the state they led to (-1: the end), reward, and number of the state."""

    time: Any
    slot: Any
    after: Any
    reward: Any
    set_of: Any


class Game:
    """A policy on a game, with its truth, and the ids of its words."""

    def __init__(self, name: str, seed: int) -> None:
        chosen = task(name, **TASKS[name])
        table, rng = chosen.table, np.random.default_rng([seed, 0])
        pi = improve(table, uniform(table), float(np.sqrt(np.prod(chosen.strengths)))) * np.exp(
            NOISE * rng.normal(size=table.slots)
        )
        self.truth: Exact = exact(table, pi / table.sum_by_state(pi)[..., table.state_of_K])
        self.table = table
        self.pi_HK = np.broadcast_to(self.truth.policy, (table.horizon, table.slots))
        self.first_M = np.searchsorted(table.slot_of_M, np.arange(table.slots + 1))
        self.said_K = [a for x in range(len(table.states)) for a in table.actions[x]]
        self.words_K = np.array([len(a.split()) for a in self.said_K])
        self.ids: dict[str, int] = {}
        for t, x in zip(*np.nonzero(table.reached_HX), strict=True):
            self.encode(table.text(int(x), int(t)))
        for said in self.said_K:
            self.encode(said)

    def encode(self, text: str) -> list[int]:
        """One id a word."""
        return [self.ids.setdefault(word, len(self.ids)) for word in text.split()]

    def act(self, x: int, t: int, rng: np.random.Generator) -> int:
        """The slot of an action of the policy."""
        lo, hi = self.table.first_slot_X[x], self.table.first_slot_X[x + 1]
        p = self.pi_HK[t, lo:hi]
        return int(lo + rng.choice(hi - lo, p=p / p.sum()))

    def move(self, slot: int, t: int, rng: np.random.Generator) -> tuple[float, int]:
        """Reward and the state that follows, -1 for none."""
        lo, hi = self.first_M[slot], self.first_M[slot + 1]
        p = self.table.prob_M[lo:hi]
        m = int(lo + rng.choice(hi - lo, p=p / p.sum()))
        after = int(self.table.next_M[m])
        over = after == len(self.table.states) or t + 1 == self.table.horizon
        return float(self.table.reward_M[m]), -1 if over else after

    def play_on(self, x: int, t: int, rng: np.random.Generator) -> tuple[float, int]:
        """Return of a continuation and its words."""
        total, words = 0.0, 0
        while x >= 0:
            slot = self.act(x, t, rng)
            words += int(self.words_K[slot])
            reward, x = self.move(slot, t, rng)
            total, t = total + reward, t + 1
        return total, words

    def episodes(self, words: float, rng: np.random.Generator) -> tuple[Rollouts, int]:
        """Fresh episodes of so many words, and how many words they have."""
        drawn = sample(self.table, self.truth.policy, groups=64, n=1, rng=rng)
        each = self.words_K[drawn.slot_S].sum() / 64
        drawn = sample(self.table, self.truth.policy, groups=max(2, round(words / each)), n=1, rng=rng)
        return drawn, int(self.words_K[drawn.slot_S].sum())

    def batch(self, drawn: Rollouts) -> Batch:
        """Episodes as token ids; each step has a context of its own, which tells the whole state."""
        out: list[Trajectory] = []
        steps: list[Step] = []
        for s in range(len(drawn.slot_S)):
            steps.append(self.step(int(drawn.time_S[s]), int(drawn.slot_S[s]), float(drawn.reward_S[s])))
            if s + 1 == len(drawn.slot_S) or drawn.traj_of_S[s + 1] != drawn.traj_of_S[s]:
                out.append(Trajectory(steps, group=str(len(out))))
                steps = []
        return Batch.from_trajectories(out)

    def step(self, t: int, slot: int, reward: float = 0.0) -> Step:
        """An action as a step."""
        text = self.table.text(int(self.table.state_of_K[slot]), t)
        return Step(prompt_ids=self.encode(text), ids=self.encode(self.said_K[slot]), reward=reward, fresh=True)


def tried(game: Game, rng: np.random.Generator) -> Tried:
    """Distinct actions that the policy samples in states that it visits; states in which it has a choice."""
    drawn = sample(game.table, game.truth.policy, groups=STATES, n=1, rng=rng)
    rows = []
    for n in range(STATES):
        s = int(rng.choice(np.flatnonzero(drawn.traj_of_S == n)))
        x, t = int(drawn.state_S[s]), int(drawn.time_S[s])
        for slot in sorted({game.act(x, t, rng) for _ in range(ACTIONS)}):
            reward, after = game.move(slot, t, rng)
            rows.append((t, slot, after, reward, n))
    return Tried(*(np.array(column) for column in zip(*rows, strict=True)))


def labelled(game: Game, drawn: Rollouts, k: int, rng: np.random.Generator) -> tuple[Any, int]:
    """Mean return of k continuations behind each step, at the end the outcome; and the words of the continuations."""
    label, words = np.zeros(len(drawn.slot_S)), 0
    for s in range(len(label)):
        if s + 1 == len(label) or drawn.traj_of_S[s + 1] != drawn.traj_of_S[s]:
            label[s] = drawn.return_N[drawn.traj_of_S[s]]
            continue
        played = [game.play_on(int(drawn.state_S[s + 1]), int(drawn.time_S[s + 1]), rng) for _ in range(k)]
        label[s], words = np.mean([total for total, _ in played]), words + sum(w for _, w in played)
    return label, words
