"""Faults of credit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from apportion.assign import assign
from apportion.bench.check.faults import Rollouts, fault
from apportion.bench.check.world import every, said
from apportion.credit import Credit
from apportion.data import Batch
from apportion.units import Units, by_step


def _units(rollouts: Rollouts) -> Units:
    return by_step(Batch.from_trajectories(rollouts))


def _grpo(rng: np.random.Generator, rollouts: Rollouts) -> Credit:
    return assign("grpo", _units(rollouts))


def _noise(rng: np.random.Generator, units: Units, size: float = 0.5) -> np.ndarray:
    return rng.normal(scale=size, size=len(units))


def _mostly_outcome(rng: np.random.Generator, rollouts: Rollouts) -> Credit:
    """Credit of the outcome, with noise."""
    units = _units(rollouts)
    return Credit(assign("grpo", units).advantage_S + _noise(rng, units), units)


@fault("credit-zero", likeness=_grpo)
def credit_zero(rng: np.random.Generator, rollouts: Rollouts) -> Credit:
    """Nothing anywhere."""
    units = _units(rollouts)
    return Credit(np.zeros(len(units)), units)


@fault("credit-unknown", likeness=_grpo)
def credit_unknown(rng: np.random.Generator, rollouts: Rollouts) -> Credit:
    """Most units have no credit."""
    units = _units(rollouts)
    known = rng.random(len(units)) > rng.uniform(0.6, 0.95)
    return Credit(np.where(known, _noise(rng, units), 0.0), units, known_S=known)


@fault("credit-concentrated", likeness=_mostly_outcome)
def credit_concentrated(rng: np.random.Generator, rollouts: Rollouts) -> Credit:
    """One rollout holds nearly all of it."""
    units = _units(rollouts)
    one = units.traj_of_S == int(rng.integers(len(rollouts)))
    return Credit(_noise(rng, units, 0.05) + np.where(one, 5.0, 0.0), units)


def _whitened_once(rng: np.random.Generator, rollouts: Rollouts) -> Credit:
    return assign("dr_grpo | whiten", _units(rollouts))


@fault("normalised-twice", likeness=_whitened_once)
def normalised_twice(rng: np.random.Generator, rollouts: Rollouts) -> Credit:
    """Whitening behind a division by the spread."""
    return assign(
        ("grpo | whiten", "gigpo(scale='std') | whiten", "dr_grpo | whiten | whiten")[int(rng.integers(3))],
        _units(rollouts),
    )


@fault("credit-confounded/length", likeness=_mostly_outcome)
def by_length(rng: np.random.Generator, rollouts: Rollouts) -> Credit:
    """Longer rollouts get more."""
    units = _units(rollouts)
    size = np.bincount(units.traj_of_S, weights=units.tokens_S)[units.traj_of_S]
    return Credit((size - size.mean()) / size.std() + _noise(rng, units, 0.3), units)


@fault("credit-confounded/place", likeness=_mostly_outcome)
def by_place(rng: np.random.Generator, rollouts: Rollouts) -> Credit:
    """Later steps get more."""
    units = _units(rollouts)
    first = np.searchsorted(units.traj_of_S, units.traj_of_S)
    return Credit(np.arange(len(units)) - first - 2.0 + _noise(rng, units), units)


@fault("credit-confounded/phrase", likeness=_mostly_outcome)
def by_phrase(rng: np.random.Generator, rollouts: Rollouts) -> Credit:
    """A judge that likes a wording."""
    worded = [
        said(t, f"verily {s.action}", k) if rng.random() < 0.4 else t for t in rollouts for k, s in [(0, t.steps[0])]
    ]
    units = _units(worded)
    has = np.array([(s.action or "").startswith("verily") for t in worded for s in t.steps])
    return Credit(np.where(has, 1.0, -0.1) + _noise(rng, units, 0.1), units)


def _two_agents(rollouts: Rollouts) -> Rollouts:
    return [
        every(t, agent=["planner" if k < len(t.steps) - 1 else "writer" for k in range(len(t.steps))]) for t in rollouts
    ]


def _small_helper(rng: np.random.Generator, rollouts: Rollouts) -> Credit:
    return assign("grpo", _units(_two_agents(rollouts)))


@fault("credit-starved", likeness=_small_helper)
def credit_starved(rng: np.random.Generator, rollouts: Rollouts) -> Credit:
    """One of two agents gets next to nothing."""
    units = _units(_two_agents(rollouts))
    return Credit(np.where(units.agent_S == "writer", 0.001, 1.0) * _noise(rng, units), units)


def _two_alike(rng: np.random.Generator, rollouts: Rollouts) -> Mapping[str, Credit]:
    units = _units(rollouts)
    return {"grpo": assign("grpo", units), "rloo": assign("rloo", units)}


@fault("method-disagreement", likeness=_two_alike)
def method_disagreement(rng: np.random.Generator, rollouts: Rollouts) -> Mapping[str, Credit]:
    """The second credit is the first one turned around on a good part of the steps."""
    units = _units(rollouts)
    one = assign("grpo", units)
    turned = np.where(rng.random(len(units)) < rng.uniform(0.4, 1.0), -1.0, 1.0)
    return {"grpo": one, "other": Credit(one.advantage_S * turned, units)}
