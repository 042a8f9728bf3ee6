"""`Units`: the decisions that credit is divided among, one cut of the sampled tokens.

    unit_of_T   (T,)  unit that wrote each token, -1 where the policy wrote nothing (prompt, tool, environment)
    traj_of_S   (S,)  trajectory of each unit, non-decreasing; units of a trajectory stand in time order
    group_of_N  (N,)  group (same task, same start state) of each trajectory

Methods read these columns and nothing else: no masks, no padding, no text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from apportion.data import Batch
from apportion.errors import DataError
from apportion.numerics import Array, BoolArray, FloatArray, IntArray, seg_sum
from apportion.units.lacking import first_gap
from apportion.units.runs import Runs, runs_of

COLUMNS = {
    "reward_S": "rewards: give Step.reward or Trajectory.outcome",
    "state_S": "states: cut with by_step or by_turn and give Step.state or Step.observation",
    "value_S": "values of the states: give Step.value (or Step.token_values for by_token)",
    "logp_S": "log-probabilities: give Step.logp for every sampled token",
    "ref_logp_S": "reference log-probabilities: give Step.ref_logp for every sampled token",
    "entropy_S": "entropies: give Step.entropy for every sampled token",
    "agent_S": "agents: give Step.agent",
    "reward_parts": "named parts of the rewards: give Step.rewards",
    "outcome_parts": "named parts of the outcomes: give Trajectory.outcomes",
}
"""Columns that a method may declare in ``reads``, each with where it comes from; ``column:NAME`` is one more form."""

NAMED = {"columns": "S", "reward_parts": "S", "outcome_parts": "N"}
"""Fields that hold arrays by name, and their axis."""

BY_NAME = {
    "column": ("columns", "Step.columns[{!r}], one number for every sampled token"),
    "reward_parts": ("reward_parts", "Step.rewards[{!r}]"),
    "outcome_parts": ("outcome_parts", "Trajectory.outcomes[{!r}]"),
}
"""Forms ``kind:NAME`` that a method may require: the field of `Units`, and where its arrays come from."""

BLOCK = 1 << 15
"""Units that are looked at together, so that what is computed of them stays in the cache."""

WORTH_KEEPING = 4
"""Tokens per run, on average, from which runs are kept: below, they would be as large as the tokens themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """S units of N trajectories in G groups. Build it with a cut: `by_step`, `by_turn`, `by_token`, …

    Attributes:
        batch: the rollouts that were cut.
        level: "episode", "turn", "step", "segment", "token", "agent" or the name of your own cut.
        unit_of_T, traj_of_S, group_of_N: the maps, see the module.
        reward_S: reward that arrives with each unit, reward units. Where the last step has none of its own, the
            last unit gets what the outcome has beyond the step rewards.
        outcome_N: return of each episode, reward units. 0 where `valid_N` is False.
        valid_N: trajectories that take part: scored, with sampled tokens, without broken infrastructure.
        tokens_S: sampled tokens in each unit; 0 for an empty action.
        step_of_S: first step of each unit. turn_S: its turn index. agent_S: who acted, "" when not told.
        parent_S: previous unit, -1 at a root.
        state_S: key of the state each unit acts in; None where the cut has no states.
        value_S: value of the state before each unit, reward units; None where the data have none.
        logp_S, ref_logp_S: log-probability of the whole unit, nats (a sum). entropy_S: mean per token, nats.
        final_value_N: value after the last action, NaN where not given. truncated_N: a limit ended it.
        columns: sums over each unit's tokens of the named per-token columns (`Step.columns`), each (S,).
        reward_parts: named parts of the rewards, placed as reward_S is, each (S,); NaN where nobody told one.
        outcome_parts: named parts of the outcomes, each (N,); NaN where nobody told one.
        options: arguments of the cut, for the record.
        runs: stretches of tokens of one unit; None where they are hardly longer than a token. Made here, as is
            what `first_interrupted` gives, so that no method has to read T tokens for it.
    """

    batch: Batch
    level: str
    unit_of_T: IntArray
    traj_of_S: IntArray
    group_of_N: IntArray
    reward_S: FloatArray
    outcome_N: FloatArray
    valid_N: BoolArray
    tokens_S: IntArray
    step_of_S: IntArray
    turn_S: IntArray
    agent_S: Array
    parent_S: IntArray
    final_value_N: FloatArray
    truncated_N: BoolArray
    state_S: Array | None = None
    value_S: FloatArray | None = None
    logp_S: FloatArray | None = None
    ref_logp_S: FloatArray | None = None
    entropy_S: FloatArray | None = None
    columns: Mapping[str, FloatArray] = field(default_factory=dict)
    reward_parts: Mapping[str, FloatArray] = field(default_factory=dict)
    outcome_parts: Mapping[str, FloatArray] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    runs: Runs | None = field(default=None, init=False, repr=False)
    interrupted: int = field(default=-1, init=False, repr=False)

    def __post_init__(self) -> None:
        s, n = len(self.traj_of_S), len(self.group_of_N)
        for name, axis, array in self.arrays():
            want = {"S": s, "N": n, "T": len(self.batch.ids_T)}[axis]
            if len(array) != want:
                raise DataError(f"units.{name} has {len(array)} entries, expected {want}; one per {axis}")
            if array.dtype.kind == "f":
                # elsewhere NaN says "not told"
                partial = name == "final_value_N" or name.startswith(("reward_parts.", "outcome_parts."))
                bad_X = np.isinf(array) if partial else ~np.isfinite(array)
                if bad_X.any():
                    bad = int(np.flatnonzero(bad_X)[0])
                    raise DataError(f"units.{name} is {array[bad]} at {bad}; give finite numbers")
            array.flags.writeable = False
        if s and (np.any(np.diff(self.traj_of_S) < 0) or self.traj_of_S[0] < 0 or self.traj_of_S[-1] >= n):
            raise DataError("units.traj_of_S must be sorted and point at trajectories; sort the units in time order")
        runs = runs_of(self.unit_of_T)
        self._check_tokens(runs)
        object.__setattr__(self, "runs", runs if WORTH_KEEPING * len(runs.unit_R) <= len(self.unit_of_T) else None)
        object.__setattr__(self, "interrupted", runs.first_interrupted())

    def _check_tokens(self, runs: Runs) -> None:
        """Every token of a unit was sampled, in the unit's own trajectory."""
        s, batch, own_R = len(self.traj_of_S), self.batch, runs.own_R
        if (runs.unit_R < -1).any() or (runs.unit_R >= s).any():
            raise DataError(f"units.unit_of_T must lie between -1 and {s - 1}, one less than the number of units")
        astray = (self.unit_of_T >= 0) > batch.sampled_T
        if astray.any():
            bad = int(np.argmax(astray))
            raise DataError(
                f"units.unit_of_T gives token {bad} to unit {int(self.unit_of_T[bad])}, but the policy did not sample "
                f"it; give -1"
            )
        start, unit = runs.start_R[own_R], runs.unit_R[own_R]
        last = start + runs.size_R[own_R] - 1
        # trajectories stand in order, so a run whose ends lie in one lies in it whole
        ends = batch.traj_of_S[batch.step_of_T[np.stack((start, last))]]
        away = (ends != self.traj_of_S[unit]).any(axis=0)
        if away.any():
            first = int(np.argmax(away))
            within = slice(int(start[first]), int(last[first]) + 1)
            foreign = batch.traj_of_S[batch.step_of_T[within]] != self.traj_of_S[unit[first]]
            raise DataError(
                f"units.unit_of_T gives token {within.start + int(np.argmax(foreign))} to unit {int(unit[first])} of "
                f"another trajectory; cut each apart"
            )

    def arrays(self) -> Iterator[tuple[str, str, Array]]:
        """Every array by name and axis letter; a named column is ``columns.NAME``."""
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                yield name, name[-1], value
            elif name in NAMED:
                for key, array in value.items():
                    yield f"{name}.{key}", NAMED[name], array

    @property
    def group_of_S(self) -> IntArray:
        """Group of each unit."""
        return self.group_of_N[self.traj_of_S]

    @property
    def valid_S(self) -> BoolArray:
        """Units of trajectories that take part in statistics."""
        return np.ones(len(self), dtype=np.bool_) if self.valid_N.all() else self.valid_N[self.traj_of_S]

    @property
    def last_S(self) -> BoolArray:
        """Last unit of each trajectory."""
        return np.append(self.traj_of_S[1:] != self.traj_of_S[:-1], True)[: len(self.traj_of_S)]

    @property
    def is_chain(self) -> bool:
        """Every unit follows the one before it: no forks, and no unit goes on after another has begun."""
        return self.first_fork() < 0 and self.first_interrupted() < 0

    def first_fork(self) -> int:
        """First unit whose parent is not the unit before it in its trajectory; -1 when there is none."""
        for lo in range(0, len(self), BLOCK):
            traj = self.traj_of_S[lo : lo + BLOCK]
            before = np.arange(lo - 1, lo - 1 + len(traj))
            before[1:][traj[1:] != traj[:-1]] = -1
            if lo and traj[0] != self.traj_of_S[lo - 1]:
                before[0] = -1
            if (fork := self.parent_S[lo : lo + BLOCK] != before).any():
                return lo + int(fork.argmax())
        return -1

    def first_interrupted(self) -> int:
        """First unit that goes on after a later one has begun (agents that take turns); -1 when there is none."""
        return self.interrupted

    def require(self, who: str, *columns: str) -> None:
        """Raise one sentence for the first column that ``who`` reads and these units lack."""
        for column in columns:
            kind, _, name = column.partition(":")
            if kind in BY_NAME and name:
                holder, source = BY_NAME[kind]
                if name not in getattr(self, holder):
                    raise DataError(
                        f"{who} reads {column}, which the units (cut by {self.level}) lack; give "
                        f"{source.format(name)}{first_gap(self.batch, column)}"
                    )
                continue
            if column not in COLUMNS:
                raise DataError(
                    f"{who}: no unit column is named {column!r}; there are {', '.join(COLUMNS)} and column:NAME"
                )
            value = getattr(self, column)
            nobody = column == "agent_S" and len(self) > 0 and not any(value)
            absent = value is None or nobody or (column in NAMED and not value)
            if absent or (column == "reward_S" and not self.batch.scored_N.any()):
                raise DataError(
                    f"{who} reads {column}, which the units (cut by {self.level}) lack; {COLUMNS[column]}"
                    f"{first_gap(self.batch, column)}"
                )

    def with_reward(self, reward_S: Array) -> Units:
        """The same units with other rewards; outcomes become their sums.

        Raises:
            DataError: not one reward for each unit.
        """
        reward = np.array(reward_S, dtype=np.float64)
        if reward.shape != (len(self),):
            raise DataError(
                f"with_reward: {reward.size} rewards for {len(self)} {self.level}s; give one for each, and where they "
                f"come from labels, look whether the cut found as many ends as there are labels"
            )
        outcome = seg_sum(reward, self.traj_of_S, n=len(self.group_of_N))
        return replace(self, reward_S=reward, outcome_N=np.where(self.valid_N, outcome, 0.0))

    def __len__(self) -> int:
        return len(self.traj_of_S)

    def __repr__(self) -> str:
        groups = int(self.group_of_N.max()) + 1 if len(self.group_of_N) else 0
        return f"Units({len(self)} {self.level}s of {len(self.group_of_N)} trajectories in {groups} groups)"
