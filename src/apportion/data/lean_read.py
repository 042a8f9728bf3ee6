"""From a record batch of rollouts to a `LeanBatch`; every precondition that its columns show is looked at."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from apportion.data.columnar import STEP_COLUMNS
from apportion.data.lean import PER_TOKEN, LeanBatch, NotLean, unread
from apportion.numerics import Array, BoolArray, FloatArray, IntArray

ALWAYS = ("ids", "reward", "failed", "terminated", "truncated", "agent", "turn", "parent")
TEXTS = ("action", "observation")
"""Read only where a step has no ids, or no state of its own."""
ROW_COLUMNS = ("id", "group", "outcome", "final_value", "exact_json")
OF_READS = {
    "state_S": "state",
    "value_S": "value",
    "logp_S": "logp",
    "ref_logp_S": "ref_logp",
    "entropy_S": "entropy",
}


def lean_columns(reads: Sequence[str], more: Collection[str]) -> list[str]:
    """Names of step columns to read for a method that reads these columns of units; ``more`` was found to be needed."""
    return [*ALWAYS, *(OF_READS[name] for name in OF_READS if name in reads), *(name for name in TEXTS if name in more)]


def lean_batch(pa: ModuleType, rows: Any, reads: Sequence[str]) -> LeanBatch:
    """The lean batch of a record batch with the columns id, group, outcome, final_value, exact_json and steps.

    Raises:
        NotLean: they hold something that only the ordinary way can judge, above all what it would refuse.
    """
    try:
        return _Reader(pa, rows).batch(reads)
    except pa.ArrowException as error:
        raise NotLean(str(error)) from None


class _Reader:
    def __init__(self, pa: ModuleType, rows: Any) -> None:
        self.pa, self.rows = pa, rows
        steps = rows.column("steps")
        flat = steps.flatten()
        need(not steps.null_count and not flat.null_count, "a row or a step that is null")
        self.length_N = steps.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
        need(len(self.length_N) > 0 and int(self.length_N.min()) > 0, "a row without steps")
        self.step = dict(zip([field.name for field in flat.type], flat.flatten(), strict=True))
        self.size = int(self.length_N.sum())

    def batch(self, reads: Sequence[str]) -> LeanBatch:
        n = len(self.length_N)
        need(self.of_row("exact_json", "json").null_count == n, "a text that UTF-8 cannot hold")
        first_N = np.cumsum(self.length_N) - self.length_N
        last_N = first_N + self.length_N - 1
        traj_of_S = np.repeat(np.arange(n, dtype=np.int64), self.length_N)
        terminated_S, truncated_S, failed_S = map(self.flag, ("terminated", "truncated", "failed"))
        ends_S = terminated_S | truncated_S
        need(np.count_nonzero(ends_S) == np.count_nonzero(ends_S[last_N]), "an end before the last step")
        need(self.of_step("parent").null_count == self.size, "parents")
        reward_S, scored_S = self.numbers(self.of_step("reward"))
        outcome_N, told_N = self.numbers(self.of_row("outcome", "double"))
        outcome_N, scored_N = _totals(outcome_N, told_N, reward_S, scored_S, first_N, last_N)
        final_N, final_told_N = self.numbers(self.of_row("final_value", "double"))
        turn_S, turns_told = self.turns()
        size_S, spoke_S = self.sampled()
        spoken = np.flatnonzero(spoke_S)
        index = np.arange(-1, self.size - 1, dtype=np.int64)
        index[first_N] = -1
        return LeanBatch(
            ids_T=np.zeros(len(spoken), dtype=np.int64),
            sampled_T=np.ones(len(spoken), dtype=np.bool_),
            step_of_T=spoken,
            traj_of_S=traj_of_S,
            reward_S=reward_S,
            scored_S=scored_S,
            value_S=None,
            turn_S=turn_S,
            turns_told=turns_told,
            agent_S=self.agents(),
            parent_S=index,
            group_of_N=self.groups(),
            outcome_N=outcome_N,
            scored_N=scored_N,
            final_value_N=np.where(final_told_N, final_N, np.nan),
            truncated_N=(truncated_S & ~terminated_S)[last_N],
            failed_N=np.logical_or.reduceat(failed_S, first_N),
            has_tokens_N=np.logical_or.reduceat(spoke_S, first_N),
            size_S=size_S,
            code_S=self.states() if "state_S" in reads else None,
            value_told_S=self.values() if "value_S" in reads else None,
            flat={name: self.per_token(OF_READS[name]) for name in PER_TOKEN if name in reads},
        )

    def of_row(self, column: str, kind: str) -> Any:
        if column not in self.rows.schema.names:
            return self.pa.nulls(self.rows.num_rows, _type(self.pa, kind))
        return self.rows.column(column).cast(_type(self.pa, kind))

    def of_step(self, column: str) -> Any:
        kind = _type(self.pa, STEP_COLUMNS[column])
        return self.step[column].cast(kind) if column in self.step else self.pa.nulls(self.size, kind)

    def numbers(self, array: Any) -> tuple[FloatArray, BoolArray]:
        """Values, 0 where null, and where they are told."""
        if not array.null_count:
            values, told = array.to_numpy(), np.ones(len(array), dtype=np.bool_)
        else:
            told = array.is_valid().to_numpy(zero_copy_only=False)
            values = array.fill_null(0.0).to_numpy()
        need(bool(np.isfinite(values).all()), "a number that is not finite")
        return values, told

    def flag(self, name: str) -> BoolArray:
        array = self.of_step(name)
        filled: BoolArray = (array.fill_null(False) if array.null_count else array).to_numpy(zero_copy_only=False)
        return filled

    def turns(self) -> tuple[IntArray, bool]:
        array = self.of_step("turn")
        if array.null_count:
            return np.zeros(self.size, dtype=np.int64), False
        turn_S: IntArray = array.to_numpy()
        need(int(turn_S.min()) >= 0, "a turn below 0")
        return turn_S, True

    def sampled(self) -> tuple[IntArray, BoolArray]:
        """Sampled tokens of each step, and whether there are any."""
        ids = self.of_step("ids")
        if ids.null_count == self.size:
            return self.spoken()
        need(not ids.null_count, "ids in some steps only")
        values = ids.flatten()
        need(not values.null_count, "an id that is null")
        need(not len(values) or int(values.to_numpy().min()) >= 0, "an id below 0")
        size_S = ids.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
        return size_S, size_S > 0

    def spoken(self) -> tuple[IntArray, BoolArray]:
        if "action" not in self.step:
            raise NotLean("a text-only log", "action")
        import pyarrow.compute as pc

        action = self.of_step("action")
        need(not action.null_count, "a step without action")
        return unread(self.size), pc.binary_length(action).to_numpy() > 0

    def agents(self) -> Array:
        return _texts(self.pa, self.of_step("agent"))

    def groups(self) -> IntArray:
        """Dense ids; a row without a group is one of its own."""
        coded = self.of_row("group", "string").dictionary_encode()
        told = coded.indices.is_valid().to_numpy(zero_copy_only=False)
        out = np.empty(len(told), dtype=np.int64)
        out[told] = coded.indices.drop_null().to_numpy()
        out[~told] = len(coded.dictionary) + np.arange(len(told) - np.count_nonzero(told))
        return out

    def states(self) -> IntArray:
        state = self.of_step("state")
        if state.null_count:
            if "observation" not in self.step:
                raise NotLean("steps without a state of their own", "observation")
            import pyarrow.compute as pc

            state = pc.coalesce(state, self.of_step("observation"))
            need(not state.null_count, "states that are token ids")
        codes: IntArray = state.dictionary_encode().indices.to_numpy().astype(np.int64)
        return codes

    def values(self) -> FloatArray:
        value_S, told_S = self.numbers(self.of_step("value"))
        need(bool(told_S.all()), "steps without a value")
        return value_S

    def per_token(self, column: str) -> FloatArray:
        lists, ids = self.of_step(column), self.of_step("ids")
        need(not lists.null_count and lists.value_lengths().equals(ids.value_lengths()), f"{column} in some steps only")
        values, told = self.numbers(lists.flatten())
        need(bool(told.all()), f"a null in {column}")
        return values


def need(condition: bool, why: str) -> None:
    """Raise NotLean unless the condition holds."""
    if not condition:
        raise NotLean(why)


def _totals(
    outcome_N: FloatArray, told_N: BoolArray, reward_S: FloatArray, scored_S: BoolArray, first_N: Array, last_N: Array
) -> tuple[FloatArray, BoolArray]:
    """`Trajectory.total` of each (0 where unknown), and where it is known."""
    summed_N = ~told_N & scored_S[last_N]
    if summed_N.any():
        outcome_N, rewards = outcome_N.copy(), reward_S.tolist()
        for n, lo, hi in zip(np.flatnonzero(summed_N).tolist(), first_N[summed_N], last_N[summed_N] + 1, strict=True):
            outcome_N[n] = sum(rewards[lo:hi])  # as Python adds them; an unscored step is 0 here
    return outcome_N, told_N | summed_N


def _texts(pa: ModuleType, array: Any) -> Array:
    """Texts as one object per distinct text, "" where null."""
    out = np.empty(len(array), dtype=object)
    if array.null_count == len(array):
        out.fill("")
        return out
    coded = array.fill_null("").dictionary_encode()
    names = np.empty(len(coded.dictionary), dtype=object)
    names[:] = coded.dictionary.to_pylist()
    out[:] = names[coded.indices.to_numpy()]
    return out


def _type(pa: ModuleType, kind: str) -> Any:
    return {
        "string": pa.string(),
        "json": pa.string(),
        "double": pa.float64(),
        "int64": pa.int64(),
        "bool": pa.bool_(),
        "ids": pa.list_(pa.int64()),
        "floats": pa.list_(pa.float64()),
    }[kind]
