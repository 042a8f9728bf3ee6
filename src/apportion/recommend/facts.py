"""What the guide asks of rollouts, as numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from apportion.check.checks.own_repeats import own_repeats
from apportion.check.measures.state_groups import company
from apportion.check.moves import Moves
from apportion.check.phrasing import starter_phrases, words_covered
from apportion.check.sampling import evenly
from apportion.check.texts import sampled_sizes
from apportion.data import Batch
from apportion.errors import ConfigError
from apportion.numerics import labels, seg_count, seg_std
from apportion.units import Units, prefix_tree

RESOURCES = ("policy", "environment", "reward_model", "judge", "reference_model", "training")
"""What a user may have besides the rollouts: the policy, to go on or to say probabilities; an environment that can be
set back; a reward model; a judge; a reference model; and the will to train a further model."""

FACTS = {
    "rollouts": "rollouts",
    "scored": "share of the rollouts with an outcome",
    "groups_compared": "groups with several rollouts that count",
    "group": "median size of those groups",
    "varied_groups": "share of those groups whose outcomes differ",
    "steps": "median steps of a rollout",
    "tokens": "median sampled tokens of a rollout",
    "length_spread": "standard deviation of the number of steps, over its mean",
    "recurring": "share of the steps after the first in a state that another rollout of the group visits",
    "own_repeats": "share of the steps in states that one rollout fills",
    "step_rewards": "share of the rollouts of several steps with a reward before the last step",
    "reward_parts": "named parts of step rewards, those that fitted models leave aside (prm, promise, advantage, q, v)",
    "outcome_parts": "named parts of outcomes",
    "process_model": "1 where steps have a part of their reward named prm",
    "promises": "1 where steps have a part of their reward named promise",
    "critic_advantages": "1 where they have one named advantage",
    "utterance_values": "1 where they have parts named q and v",
    "agents": "agents that act in a rollout, in the median",
    "writers": "authors of a group, in the median: of a rollout its one speaker (Step.agent), or its meta['model']",
    "pairs": "share of the rollouts that count whose outcome only says that a preference pair has chosen them or not",
    "forks": "rollouts that fork",
    "shared_prefix": "share of the sampled tokens that some rollouts of the group share, and not all, with all before",
    "texts": "share of the steps whose action has text, not token ids alone",
    "references": "share of the rollouts with a right answer or another artefact for training time",
    "truncated": "share of the rollouts that a limit cut off",
    "truncated_wins": "share of those with a positive outcome",
    "bare_ends": "rollouts that were cut off and have no value behind their end",
    "planning": "share of the words in planning phrases",
    "values": "1 where every step has a value",
    "token_values": "1 where every token has one",
    "logp": "1 where every sampled token has a log-probability",
    "ref_logp": "1 where it has one under a reference",
    "log_ratio": "mean size of the log-ratio of policy and reference, nats per sampled token; 0 where one is not told",
    "entropy": "1 where it has an entropy",
    "process_logp": "1 where it has a log-probability under a process reward model (column prm_logp)",
    "prob_square": "1 where it has the sum of squared probabilities (column prob_square)",
} | {f"have_{name}": f"1 where you have said --{name.replace('_', '-')}" for name in RESOURCES}
"""Every fact, with what it means."""

TEXTS = 500
"""Rollouts in which texts and planning phrases are looked for."""
FITTED = frozenset({"prm", "promise", "advantage", "q", "v"})
"""Parts of rewards that are a fitted model's numbers: each has a method that reads it, and none is to be weighed."""


def facts_of(units: Units, have: Iterable[str] = ()) -> dict[str, float]:
    """Every fact of `FACTS` about rollouts that were cut by step.

    Raises:
        ConfigError: a resource that is none of `RESOURCES`.
    """
    given = set(have)
    if unknown := given - set(RESOURCES):
        raise ConfigError(f"recommend: no resource named {sorted(unknown)[0]!r}; there are {', '.join(RESOURCES)}")
    batch = units.batch
    steps_N = np.bincount(batch.traj_of_S, minlength=len(batch))
    cut_N = batch.truncated_N & batch.scored_N
    facts: dict[str, float] = {
        "rollouts": len(batch),
        "scored": float(np.mean(batch.scored_N)),
        **_groups(batch),
        "steps": float(np.median(steps_N)),
        "tokens": float(np.median(sampled_sizes(batch))),
        "length_spread": float(steps_N.std() / steps_N.mean()),
        **_states(units),
        "step_rewards": _step_rewards(batch, steps_N),
        "reward_parts": len(set(batch.reward_parts) - FITTED),
        "outcome_parts": len(batch.outcome_parts),
        "process_model": int("prm" in batch.reward_parts),
        "promises": int("promise" in batch.reward_parts),
        "critic_advantages": int("advantage" in batch.reward_parts),
        "utterance_values": int("q" in batch.reward_parts and "v" in batch.reward_parts),
        "agents": _agents(batch),
        "writers": _writers(batch),
        "pairs": _pairs(batch),
        "forks": _forks(batch),
        "shared_prefix": _shared_prefix(batch),
        "texts": _texts(batch),
        "references": float(np.mean([t.reference is not None for t in batch.trajectories])),
        "truncated": float(np.mean(batch.truncated_N)),
        "truncated_wins": float(np.mean(batch.outcome_N[cut_N] > 0)) if cut_N.any() else 0.0,
        "bare_ends": int(np.count_nonzero(batch.truncated_N & np.isnan(batch.final_value_N))),
        "planning": _planning(batch),
        "values": int(batch.value_S is not None),
        "token_values": int(batch.token_value_T is not None),
        "logp": int(batch.logp_T is not None),
        "ref_logp": int(batch.ref_logp_T is not None),
        "log_ratio": _log_ratio(batch),
        "entropy": int(batch.entropy_T is not None),
        "process_logp": int("prm_logp" in batch.columns_T),
        "prob_square": int("prob_square" in batch.columns_T),
    }
    return facts | {f"have_{name}": int(name in given) for name in RESOURCES}


def _groups(batch: Batch) -> dict[str, float]:
    groups = len(batch.group_names)
    size_G = seg_count(batch.group_of_N, where=batch.valid_N, n=groups)
    std_G = seg_std(batch.outcome_N, batch.group_of_N, where=batch.valid_N, n=groups)
    several = size_G > 1
    return {
        "groups_compared": int(np.count_nonzero(several)),
        "group": float(np.median(size_G[several])) if several.any() else 0.0,
        "varied_groups": float(np.mean(std_G[several] > 0)) if several.any() else 0.0,
    }


def _states(units: Units) -> dict[str, float]:
    moves = Moves(units)
    later = np.flatnonzero(moves.comparable_S & (moves.time_S > 0))
    repeated = [float(finding.evidence["share"]) for finding in own_repeats(units)]
    return {
        "recurring": float(np.mean(company(moves)[later])) if len(later) else 0.0,
        "own_repeats": repeated[0] if repeated else 0.0,
    }


def _step_rewards(batch: Batch, steps_N: np.ndarray) -> float:
    several = steps_N > 1
    last_S = np.append(batch.traj_of_S[1:] != batch.traj_of_S[:-1], True)
    early = np.bincount(batch.traj_of_S[batch.scored_S & ~last_S & (batch.reward_S != 0)], minlength=len(batch)) > 0
    return float(np.mean(early[several])) if several.any() else 0.0


def _agents(batch: Batch) -> float:
    named = batch.agent_S != ""
    pairs = np.unique(labels(batch.traj_of_S[named], batch.agent_S[named].tolist()), return_index=True)[1]
    return float(np.median(np.bincount(batch.traj_of_S[named][pairs], minlength=len(batch))))


def _writers(batch: Batch) -> float:
    """Rollouts in which several act are of no one author, unless their model is named."""
    named: dict[int, set[str]] = {}
    for n in np.flatnonzero(batch.valid_N).tolist():
        trajectory = batch.trajectories[n]
        speakers = {step.agent for step in trajectory.steps if step.agent}
        model = trajectory.meta.get("model")
        if isinstance(model, str) and model:
            speakers = {model}
        if len(speakers) == 1:
            named.setdefault(int(batch.group_of_N[n]), set()).update(speakers)
    return float(np.median([len(names) for names in named.values()])) if named else 0.0


def _pairs(batch: Batch) -> float:
    """As the reader of preference pairs leaves them; pairs with scores have outcomes that measure."""
    chosen = [(batch.trajectories[n].meta.get("preferred"), batch.outcome_N[n]) for n in np.flatnonzero(batch.valid_N)]
    ranked = [isinstance(preferred, bool) and outcome == preferred for preferred, outcome in chosen]
    return float(np.mean(ranked)) if ranked else 0.0


def _forks(batch: Batch) -> int:
    """Rollouts in which two steps have one parent."""
    child = np.flatnonzero(batch.parent_S >= 0)
    parents, times = np.unique(batch.parent_S[child], return_counts=True)
    return len(np.unique(batch.traj_of_S[parents[times > 1]]))


def _shared_prefix(batch: Batch) -> float:
    """As the methods that use it see it, and more strictly: an answer to another prompt, or behind another observation,
    is no common beginning. Nor does what the whole group says tell its members apart: a template is no tree."""
    tree = prefix_tree(batch, batch.valid_N, prompts=True)
    sampled_T = np.concatenate(([0], np.cumsum(batch.sampled_T)))
    size_R = sampled_T[tree.stop_R] - sampled_T[tree.start_R]
    siblings_G = seg_count(batch.group_of_N, where=batch.valid_N, n=len(batch.group_names))
    compared_R = (batch.valid_N & (siblings_G[batch.group_of_N] > 1))[tree.traj_of_R]
    total = int(size_R[compared_R].sum())
    some_R = (tree.members_R > 1) & (tree.members_R < siblings_G[batch.group_of_N][tree.traj_of_R])
    return int(size_R[compared_R & some_R].sum()) / total if total else 0.0


def _log_ratio(batch: Batch) -> float:
    if batch.logp_T is None or batch.ref_logp_T is None or not batch.sampled_T.any():
        return 0.0
    return float(np.mean(np.abs(batch.logp_T - batch.ref_logp_T)[batch.sampled_T]))


def _texts(batch: Batch) -> float:
    looked = [step.action is not None for n in evenly(len(batch), TEXTS) for step in batch.trajectories[int(n)].steps]
    return float(np.mean(looked))


def _planning(batch: Batch) -> float:
    _, finder = starter_phrases()
    covered = total = 0
    for n in evenly(len(batch), TEXTS).tolist():
        for step in batch.trajectories[n].steps:
            text = step.action or ""
            total += len(text.split())
            covered += words_covered(text, finder.places(text))
    return covered / total if total else 0.0
