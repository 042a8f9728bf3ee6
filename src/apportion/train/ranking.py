"""SWEET-RL's second stage, first half: turns that the policy could have taken, ranked by the critic, become pairs.

    at each turn   n candidates from the policy, which does not see the reference
                   scored by the critic, which does
                   chosen from the upper share of the scores, rejected from the lower, uniformly

What is handed on are the policy's own tokens and two numbers. Draws depend on the seed and the turn's number alone, so
a ranking that was stopped goes on to the same pairs.

Source    SWEET-RL (arXiv:2503.15478): 16 candidates, upper and lower half; the released command draws 4 pairs of each
          turn, of a tenth of the turns.
Deviates  A pair is never of equal scores (two draws of one action); a turn whose candidates are all alike gives none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from apportion.asks import Place
from apportion.data import Batch, Trajectory
from apportion.data.pairs import TurnPair, write_pairs
from apportion.errors import ConfigError, DataError
from apportion.numerics import FloatArray
from apportion.resources import Act
from apportion.train.candidates import candidate_rollouts, context_of, draw, turns_of
from apportion.train.part_file import PartFile
from apportion.train.player import TrainedPolicy, digest_of_weights
from apportion.train.policy import Policy

PAIR_STREAM = 13
TOGETHER = 128
"""Candidates that are drawn and scored at once."""


class Ranks(Protocol):
    """Who scores the last turn of rollouts, such as `apportion.models.SweetCritic`."""

    def last_turns(self, batch: Batch) -> FloatArray:
        """A number for the last turn of each rollout, (N,); higher is better, NaN is none."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a ranking gave.

    Attributes:
        pairs: in order of turns. turns: how many were looked at. tied: those of them that gave no pair, because the
            scores of their candidates are equal. candidates: turns that were drawn. tokens: that this took.
    """

    pairs: tuple[TurnPair, ...]
    turns: int
    tied: int
    candidates: int
    tokens: int


@dataclass(frozen=True, slots=True)
class RankSettings:
    """How turns are ranked.

    Attributes:
        candidates: drawn at each turn. pairs: made of each turn at most. quantile: share of the candidates that chosen
            ones are from, and rejected ones at the other end; 0.5 is halves. share: of the turns that are looked at.
        seed: of all draws.
    """

    candidates: int = 16
    pairs: int = 4
    quantile: float = 0.5
    share: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("candidates", 2), ("pairs", 1), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"ranking: {name} is {value!r}; give a whole number from {least} up")
        for name, most in (("quantile", 0.5), ("share", 1.0)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= most:
                raise ConfigError(f"ranking: {name} is {value!r}; give a number above 0 and up to {most}")


def rank(
    policy: Policy,
    critic: Ranks,
    batch: Batch,
    *,
    settings: RankSettings | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **named: Any,
) -> Ranking:
    """Draw candidate turns, rank them, and make pairs.

    Args:
        policy: who draws; its weights must not change meanwhile.
        critic: who ranks.
        batch: rollouts of this policy, with `Trajectory.reference` for a critic that sees it; outcomes are not read.
        settings: see `RankSettings`; single ones can be named as well.
        out: file of the pairs; a part file stands beside it until it is whole.
        resume: go on with that part. progress: called with turns done and turns in all.

    Raises:
        DataError: rollouts without text, or of another policy; what the critic refuses.
        ConfigError: a setting that cannot be used; a part file of another ranking, or one and no ``resume``.
    """
    try:
        chosen = replace(settings or RankSettings(), **named)
    except TypeError:
        raise ConfigError(
            f"ranking has no setting {next(n for n in named if n not in RankSettings.__slots__)!r}; "
            f"there are {', '.join(RankSettings.__slots__)}"
        ) from None
    places = turns_of(batch, share=chosen.share, seed=chosen.seed)
    who = TrainedPolicy(policy)
    named_by = {**{n: getattr(chosen, n) for n in RankSettings.__slots__}, "policy": who.identity}
    told = {**named_by, "critic": _digest(critic), "rollouts": _digest_of(batch)}
    part = PartFile(out, told, resume=resume)
    with part:
        at_once = max(1, TOGETHER // chosen.candidates)
        while len(part.rows) < len(places):
            first = len(part.rows)
            here = list(islice(places, first, first + at_once))
            acts = draw(who, batch, here, count=chosen.candidates, seed=chosen.seed, first=first)
            scores = _scored(critic, batch, here, acts)
            part.add(
                [
                    _turn(policy, batch, place, act, score, chosen, first + k)
                    for k, (place, act, score) in enumerate(zip(here, acts, scores, strict=True))
                ]
            )
            if progress is not None:
                progress(len(part.rows), len(places))
    pairs = tuple(TurnPair.from_row(row) for turn in part.rows for row in turn["pairs"])
    if not pairs:
        raise DataError(
            f"ranking: none of {len(places)} turns gave a pair, since the critic scores all candidates of a turn "
            "alike; draw more candidates, or fit the critic longer"
        )
    if out is not None:
        write_pairs(out, pairs)
        part.remove()
    return Ranking(
        pairs,
        turns=len(places),
        tied=sum(not turn["pairs"] for turn in part.rows),
        candidates=len(places) * chosen.candidates,
        tokens=sum(turn["tokens"] for turn in part.rows),
    )


def choose(score_C: FloatArray, *, pairs: int, quantile: float, random: np.random.Generator) -> list[tuple[int, int]]:
    """Pairs (chosen, rejected) of candidates, drawn without replacement.

    Args:
        score_C: of the candidates; NaN = left out. pairs: at most. quantile: see `RankSettings`. random: of the draws.
    """
    known = np.flatnonzero(np.isfinite(score_C))
    order = known[np.argsort(-score_C[known], kind="stable")]
    size = max(1, int(quantile * len(order))) if len(order) > 1 else 0
    better, worse = np.nonzero(score_C[order[:size], None] > score_C[order[len(order) - size :]][None])
    drawn = random.permutation(len(better))[:pairs]
    upper, lower = order[:size][better[drawn]], order[len(order) - size :][worse[drawn]]
    return list(zip(upper.tolist(), lower.tolist(), strict=True))


def _scored(critic: Ranks, batch: Batch, places: Sequence[Place], acts: Sequence[Sequence[Act]]) -> list[FloatArray]:
    """Scores of the candidates of each place; equal ones are scored once."""
    distinct = [list(dict.fromkeys(act.ids for act in of)) for of in acts]
    rollouts: list[Trajectory] = []
    for place, of, kinds in zip(places, acts, distinct, strict=True):
        first = {act.ids: act for act in reversed(of)}
        rollouts += candidate_rollouts(batch, place, [first[ids] for ids in kinds])
    told = iter(np.asarray(critic.last_turns(Batch.from_trajectories(rollouts)), dtype=np.float64).tolist())
    out = []
    for of, kinds in zip(acts, distinct, strict=True):
        score = dict(zip(kinds, islice(told, len(kinds)), strict=True))
        out.append(np.array([score[act.ids] for act in of]))
    return out


def _turn(
    policy: Policy,
    batch: Batch,
    place: Place,
    acts: Sequence[Act],
    score_C: FloatArray,
    settings: RankSettings,
    number: int,
) -> dict[str, Any]:
    """A row of the part file: the pairs of one turn."""
    random = np.random.default_rng([settings.seed, PAIR_STREAM, number])
    picked = choose(score_C, pairs=settings.pairs, quantile=settings.quantile, random=random)
    rollout, context = batch.trajectories[place.traj], context_of(batch, place)
    made = [
        TurnPair(
            prompt_ids=context,
            chosen_ids=acts[a].ids,
            rejected_ids=acts[b].ids,
            prompt=_text(policy, context, whole=True),
            chosen=_text(policy, acts[a].ids),
            rejected=_text(policy, acts[b].ids),
            chosen_score=float(score_C[a]),
            rejected_score=float(score_C[b]),
            actions=None if policy.free_text else rollout.steps[place.step].actions,
            group=rollout.group,
            place=f"{batch.names()[place.traj]}:{place.step}",
        ).to_row()
        for a, b in picked
    ]
    return {"pairs": made, "tokens": sum(act.generated for act in acts)}


def _text(policy: Policy, ids: tuple[int, ...], *, whole: bool = False) -> str:
    """Text that the policy's tokenizer reads again; a turn without the token that ends it, which TRL adds."""
    if not whole and ids[-1:] == (policy.prompts.stop_id,):
        ids = ids[:-1]
    return str(policy.tokenizer.decode(ids, skip_special_tokens=False))


def _digest(critic: Ranks) -> str:
    """Of the critic's weights; "" for one without."""
    return digest_of_weights(critic) if hasattr(critic, "state_dict") else ""


def _digest_of(batch: Batch) -> str:
    digest = hashlib.blake2b(batch.fingerprint().encode(), digest_size=16)
    for rollout in batch.trajectories:
        digest.update(b"\0" + (rollout.reference or "").encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
