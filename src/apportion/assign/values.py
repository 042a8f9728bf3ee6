"""How good the values of states are that a credit stands on: a critic's, K samples', a judge's, against many rollouts.

A high share of small errors mostly says that most states are nearly lost or nearly won: read it with the strata of the
true value and with what sampling alone would give, and look at the ranking of actions, which is what credit needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion.asks import Answer
from apportion.assign.value_sources import Source, given, sampled, source_of
from apportion.errors import ConfigError
from apportion.methods.branching import Branches, branches
from apportion.methods.groups import position_S
from apportion.numerics import Array, BoolArray, FloatArray
from apportion.numerics.value_quality import (
    EDGES,
    Errors,
    Ranking,
    by_position,
    errors_of,
    explained_variance,
    ranking_of,
    sampled_within,
    sampling_error,
    strata,
)
from apportion.resources import Asker
from apportion.units import Units


@dataclass(frozen=True, slots=True)
class ValueQuality:
    """Quality of one source of values on the states where both it and the truth are known.

    Attributes:
        errors: against the truth, reward units. strata: the same by true value, ends of the strata in ``edges``.
        floor: mean squared error that the truth's own sampling leaves, for returns of 0 and 1; no source gets below.
        sampling: the same of the source, where it is K samples, else NaN. expected_within: share within the tolerance
            that K samples have; NaN likewise.
        explained: explained variance of the true values. explained_returns: of the rollouts' own returns, which is what
            trainers log, and which noise of the returns keeps low and a wide spread of states high.
        ranking: of the actions tried in one state, by reward and value of where they lead.
        positions: mean absolute error by position in the rollout.
    """

    errors: Errors
    strata: tuple[Errors, ...]
    floor: float
    sampling: float
    expected_within: float
    explained: float
    explained_returns: float
    ranking: Ranking
    positions: tuple[float, ...]
    edges: tuple[float, ...] = EDGES

    def to_dict(self) -> dict[str, Any]:
        """JSON values; NaN is None."""
        return {
            "errors": _plain(self.errors._asdict()),
            "strata": [_plain(part._asdict()) for part in self.strata],
            "edges": list(self.edges),
            "ranking": _plain(self.ranking._asdict()),
            "positions": [None if np.isnan(x) else x for x in self.positions],
            **_plain({name: getattr(self, name) for name in SCALARS}),
        }


SCALARS = ("floor", "sampling", "expected_within", "explained", "explained_returns")


def value_quality(
    units: Units,
    sources: Sequence[str] | Mapping[str, Array] = ("data",),
    *,
    ask: Asker | None = None,
    truth: int | Array = 256,
    states: int | Array | None = None,
    tolerance: float = 0.05,
    ties: str = "wrong",
    gap: float = 0.0,
    edges: tuple[float, ...] = EDGES,
    seed: int = 0,
) -> dict[str, ValueQuality]:
    """Compare values of states with the mean return of many continuations from them.

    Args:
        units: steps, segments or tokens along time. To rank actions, states need several: grow the rollouts with
            `apportion.resources.branch` first.
        sources: names, or arrays (S,) by name, NaN where unknown. "data" is `Step.value`; "samples:K" the mean of K
            continuations other than those of the truth; "model" a value model; "judge:TEMPLATE" a judge's mean verdict.
        ask: who is asked, for the truth and for sources that ask.
        truth: continuations of each state, or the true values (S,).
        states: at most so many states, drawn by ``seed``, or a mask (S,), are measured, and with them those that their
            actions lead to; None = all.
        tolerance: of "within".
        ties: equal values count as a "wrong" order, as in the authors' code, or as "half" right.
        gap: actions whose true values differ by no more are not ranked; above 0 it keeps noise of a sampled truth out.
        edges: strata of the true value.
        seed: of the choice of states.

    Raises:
        ConfigError: an unknown source, or nobody to ask. DataError: the data have no values.

    Source: arXiv:2410.01679, section 7 (shares within 0.05 of 256 rollouts, top-1 of 5 next steps).
    """
    tree = branches(units)
    chosen_S = _chosen(units, tree, states, seed)
    if isinstance(truth, int) and truth < 1:
        raise ConfigError(f"value_quality: truth is {truth}; give a number of continuations from 1 on, or values")
    ruler = sampled(units, chosen_S, truth, tag="truth") if isinstance(truth, int) else None
    named = sources if isinstance(sources, Mapping) else {name: name for name in sources}
    found = {name: source_of(units, chosen_S, name, source) for name, source in named.items()}
    true_S = np.zeros(0) if isinstance(truth, int) else given(units, truth, "truth")
    answers = _asked(units, ([] if ruler is None else [ruler]) + list(found.values()), ask)
    if ruler is not None:
        true_S = ruler.read(next(answers))
    out = {}
    for name, source in found.items():
        value_S = source.read(next(answers))
        both_S = chosen_S & np.isfinite(true_S) & np.isfinite(value_S)
        k, samples = source.samples, 0 if ruler is None else ruler.samples
        out[name] = _quality(units, tree, value_S, true_S, both_S, k, samples, tolerance, ties, gap, edges)
    return out


def _asked(units: Units, sources: Sequence[Source], ask: Asker | None) -> Iterator[list[Answer]]:
    """The answers of each source. All are asked for at once, so what does not fit the budget is refused before that."""
    asks = [one for source in sources for one in source.asks]
    if asks and ask is None:
        raise ConfigError("value_quality asks for continuations, and nobody was given to ask; pass ask=Asker(...)")
    answers = iter(ask(asks, units.batch.trajectories, who="value_quality") if ask is not None and asks else [])
    return iter([list(itertools.islice(answers, len(source.asks))) for source in sources])


def _quality(
    units: Units,
    tree: Branches,
    value_S: FloatArray,
    true_S: FloatArray,
    both_S: BoolArray,
    k: int,
    samples: int,
    tolerance: float,
    ties: str,
    gap: float,
    edges: tuple[float, ...],
) -> ValueQuality:
    # a state that several units share counts once
    first = np.zeros(len(units), dtype=np.bool_)
    shared = np.flatnonzero(both_S)
    first[shared[np.unique(tree.node_S[shared], return_index=True)[1]]] = True
    v, t = value_S[first], true_S[first]
    part = strata(t, edges)
    own_S = np.nan_to_num(_below(units))
    q_value, q_true, known_S = _of_actions(units, value_S, true_S, both_S)
    ranked = known_S & tree.counted_S
    nothing = float("nan")
    return ValueQuality(
        errors=errors_of(v, t, tolerance=tolerance),
        strata=tuple(errors_of(v[part == x], t[part == x], tolerance=tolerance) for x in range(len(edges) + 1)),
        floor=sampling_error(t, samples) if samples else 0.0,
        sampling=sampling_error(t, k) if k else nothing,
        expected_within=sampled_within(t, k, tolerance=tolerance) if k else nothing,
        explained=explained_variance(v, t),
        explained_returns=explained_variance(value_S[both_S], own_S[both_S]),
        ranking=ranking_of(q_value[ranked], q_true[ranked], tree.node_S[ranked], ties=ties, gap=gap),
        positions=tuple(by_position(v, t, position_S(units)[first]).tolist()),
        edges=edges,
    )


def _chosen(units: Units, tree: Branches, states: int | Array | None, seed: int) -> BoolArray:
    """The units that are measured: those drawn or given, all that act in their states, and what these lead to."""
    if states is None:
        return units.valid_S.copy()
    chosen_S = np.zeros(len(units), dtype=np.bool_)
    if isinstance(states, int):
        chosen_S[np.random.default_rng(seed).permutation(np.flatnonzero(units.valid_S))[:states]] = True
    else:
        chosen_S |= np.asarray(states, dtype=np.bool_)
    chosen_S = np.isin(tree.node_S, tree.node_S[chosen_S])
    led_to = (units.parent_S >= 0) & chosen_S[np.maximum(units.parent_S, 0)]
    return units.valid_S & (chosen_S | led_to)


def _of_actions(
    units: Units, value_S: FloatArray, true_S: FloatArray, both_S: BoolArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Reward plus value of where each unit leads, estimated and true, and where both are known; an end is worth 0."""
    out_v, out_t, count = units.reward_S.copy(), units.reward_S.copy(), np.zeros(len(units))
    known_S = units.valid_S.copy()
    children = np.flatnonzero(units.parent_S >= 0)
    parent = units.parent_S[children]
    np.add.at(count, parent, 1.0)
    for out, x_S in ((out_v, value_S), (out_t, true_S)):
        total = np.zeros(len(units))
        np.add.at(total, parent, np.nan_to_num(x_S[children]))
        out += np.where(count > 0, total / np.maximum(count, 1.0), 0.0)
    known_S[parent[~both_S[children]]] = False
    return out_v, out_t, known_S


def _below(units: Units) -> FloatArray:
    """Mean return from each unit on, over what follows it."""
    out, total, count = units.reward_S.copy(), np.zeros(len(units)), np.zeros(len(units))
    for s in range(len(units) - 1, -1, -1):
        out[s] += total[s] / count[s] if count[s] else 0.0
        if (parent := int(units.parent_S[s])) >= 0:
            total[parent] += out[s]
            count[parent] += 1
    return out


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(x, float) and np.isnan(x) else x for name, x in values.items()}
