"""A small game as flat index arrays: walked once, then every question is arithmetic on arrays.

Letters here: H times (steps done), X states, K slots (one action of one state), M outcomes of slots.

    q_t[k] = sum over the outcomes m of slot k of prob[m] * (reward[m] + gamma * v_{t+1}[next[m]])

Source    backward induction for finite horizons (Bellman); layers by breadth-first reachability.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from apportion.errors import ConfigError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

State = TypeVar("State", bound=Hashable)

TIE = 1e-9  # values closer than this are one value


class Enumerable(Protocol[State]):
    """The rules of a game small enough to be walked, as pure functions; instances are hashable.

    `step` lists the outcomes of an action as (probability, next state, reward, done).
    """

    def __hash__(self) -> int:
        """Equal rules share one table."""

    @property
    def horizon(self) -> int:
        """Steps of an episode."""

    @property
    def show_time(self) -> bool:
        """Whether `text` depends on the steps left."""

    def starts(self) -> Sequence[tuple[float, State]]:
        """Start states with their probabilities."""

    def text(self, state: State, left: int) -> str:
        """What the player reads in this state with so many steps left."""

    def actions(self, state: State) -> tuple[str, ...]:
        """The admissible actions, at least one."""

    def step(self, state: State, action: str) -> Sequence[tuple[float, State, float, bool]]:
        """Every outcome of the action."""

    def won(self, state: State, action: str) -> bool:
        """Whether this action, if it ends the game here, reaches the goal."""


MEMBERS = ("horizon", "show_time", "starts", "text", "actions", "step", "won")
"""What `Enumerable` has, for the sentence about what is missing."""


@dataclass(frozen=True, eq=False)
class Table:
    """The game as arrays. `next_M` is X (one past the last state) where the game is over or time is up."""

    rules: Enumerable[Any]
    states: tuple[Any, ...]
    actions: tuple[tuple[str, ...], ...]
    index: dict[Any, int]
    first_slot_X: Ints
    state_of_K: Ints
    slot_of_M: Ints
    next_M: Ints
    prob_M: Floats
    reward_M: Floats
    start_X: Floats
    reached_HX: Bools

    @property
    def horizon(self) -> int:
        """H, the number of decision times."""
        return len(self.reached_HX)

    @property
    def slots(self) -> int:
        """K, the number of (state, action) pairs."""
        return len(self.state_of_K)

    @property
    def pairs(self) -> int:
        """How many (time, state) pairs can be reached."""
        return int(self.reached_HX.sum())

    def slot(self, state: int, action: int | str) -> int:
        """The slot of an action of a state, by position or by text."""
        at = self.actions[state].index(action) if isinstance(action, str) else action
        return int(self.first_slot_X[state]) + at

    def text(self, state: int, time: int) -> str:
        """What the player reads in this state after so many steps."""
        return self.rules.text(self.states[state], self.horizon - time)

    def sum_by_state(self, x_K: Floats) -> Floats:
        """Sum over the actions of each state; [..., K] to [..., X]."""
        return np.asarray(np.add.reduceat(x_K, self.first_slot_X[:-1], axis=-1), dtype=np.float64)

    def max_by_state(self, x_K: Floats) -> Floats:
        """Largest over the actions of each state; [..., K] to [..., X]."""
        return np.asarray(np.maximum.reduceat(x_K, self.first_slot_X[:-1], axis=-1), dtype=np.float64)

    def look_ahead(self, value_X: Floats, gamma: float = 1.0, reward: bool = True) -> Floats:
        """q[k]: expected reward of each slot plus gamma times the value of where it leads."""
        after_M = gamma * np.append(value_X, 0.0)[self.next_M]
        gain_M = self.reward_M + after_M if reward else after_M
        weighted_M: Floats = self.prob_M * gain_M
        return np.bincount(self.slot_of_M, weights=weighted_M, minlength=self.slots).astype(np.float64)


@lru_cache(maxsize=32)
def tabulate(rules: Enumerable[Any], *, cap: int = 200_000) -> Table:
    """Walk a game once; equal rules share one table.

    Raises:
        ConfigError: more than `cap` states, a state without actions, probabilities that do not sum to 1, rules that
            lack something, or a text that tells the steps left where ``show_time`` denies it.
    """
    _check_rules(rules)
    starts = rules.starts()
    _sums_to_one(p for p, _ in starts)
    layer: dict[Any, None] = dict.fromkeys(x for _, x in starts)
    index: dict[Any, int] = {}
    actions: list[tuple[str, ...]] = []
    outcomes: list[tuple[int, Any, float, float, bool]] = []
    successors: list[list[Any]] = []
    state_of_slot: list[int] = []
    layers: list[list[int]] = []
    for _ in range(rules.horizon):
        following: dict[Any, None] = {}
        for x in layer:
            if x not in index:
                if len(index) == cap:
                    raise ConfigError(f"{rules}: more than {cap} states; take smaller options or raise cap")
                _expand(rules, x, index, actions, outcomes, successors, state_of_slot)
            following.update(dict.fromkeys(successors[index[x]]))
        layers.append([index[x] for x in layer])
        layer = following
    n = len(index)
    reached_HX = np.zeros((rules.horizon, n), dtype=bool)
    for t, members in enumerate(layers):
        reached_HX[t, members] = True
    start_X = np.zeros(n)
    for p, x in starts:
        start_X[index[x]] += p
    columns = list(zip(*outcomes, strict=True))
    return Table(
        rules=rules,
        states=tuple(index),
        actions=tuple(actions),
        index=index,
        first_slot_X=np.cumsum([0] + [len(a) for a in actions]).astype(np.int64),
        state_of_K=np.array(state_of_slot, dtype=np.int64),
        slot_of_M=np.array(columns[0], dtype=np.int64),
        next_M=np.array([n if done else index.get(y, n) for _, y, _, _, done in outcomes], dtype=np.int64),
        prob_M=np.array(columns[2], dtype=np.float64),
        reward_M=np.array(columns[3], dtype=np.float64),
        start_X=start_X,
        reached_HX=reached_HX,
    )


def _check_rules(rules: Enumerable[Any]) -> None:
    who = type(rules).__name__
    if lacking := [name for name in MEMBERS if not hasattr(rules, name)]:
        raise ConfigError(f"{who} has no {lacking[0]}; rules of a game that can be listed have {', '.join(MEMBERS)}")
    if rules.show_time or rules.horizon < 2:
        return
    for _, x in rules.starts():
        if rules.text(x, rules.horizon) != rules.text(x, 1):  # policies would be asked about one time for all
            raise ConfigError(f"{who}: the text of state {x!r} tells the steps left; set show_time = True")


def _expand(
    rules: Enumerable[Any],
    x: Any,
    index: dict[Any, int],
    actions: list[tuple[str, ...]],
    outcomes: list[tuple[int, Any, float, float, bool]],
    successors: list[list[Any]],
    state_of_slot: list[int],
) -> None:
    available = rules.actions(x)
    if not available:
        raise ConfigError(f"{rules}: state {x!r} has no actions; give every unfinished state at least one")
    onward: list[Any] = []
    for action in available:
        listed = rules.step(x, action)
        _sums_to_one(p for p, *_ in listed)
        slot = len(state_of_slot)
        state_of_slot.append(len(index))
        outcomes.extend((slot, y, p, r, done) for p, y, r, done in listed)
        onward.extend(y for _, y, _, done in listed if not done)
    index[x] = len(index)
    actions.append(available)
    successors.append(onward)


def _sums_to_one(probabilities: Any) -> None:
    total = sum(probabilities)
    if abs(total - 1.0) > TIE:
        raise ConfigError(f"the probabilities of the listed outcomes sum to {total!r}; they must sum to 1")


@lru_cache(maxsize=32)
def optimal_values(table: Table, gamma: float = 1.0) -> tuple[Floats, Floats]:
    """V*[H, X] and Q*[H, K] by backward induction, for every pair, reachable or not."""
    value_HX = np.zeros((table.horizon, len(table.states)))
    q_HK = np.zeros((table.horizon, table.slots))
    after_X = np.zeros(len(table.states))
    for t in range(table.horizon - 1, -1, -1):
        q_HK[t] = table.look_ahead(after_X, gamma)
        value_HX[t] = after_X = table.max_by_state(q_HK[t])
    return value_HX, q_HK


@lru_cache(maxsize=32)
def best_actions(table: Table) -> Ints:
    """The optimal slot at each time and state [H, X]; among equals the soonest end, then the first listed.

    Without that second criterion an optimal player may idle for as long as there is time to spare.
    """
    value_HX, q_HK = optimal_values(table)
    best_HX = np.zeros(value_HX.shape, dtype=np.int64)
    length_X = np.zeros(len(table.states))
    for t in range(table.horizon - 1, -1, -1):
        length_K = 1.0 + table.look_ahead(length_X, reward=False)
        length_K[q_HK[t] < value_HX[t][table.state_of_K] - TIE] = np.inf
        length_X = -table.max_by_state(-length_K)
        slots = np.flatnonzero(length_K <= length_X[table.state_of_K] + TIE)[::-1]
        best_HX[t, table.state_of_K[slots]] = slots  # written backwards, so the first listed stays
    return best_HX
