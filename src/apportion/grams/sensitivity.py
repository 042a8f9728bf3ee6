"""How much hangs on single grams, and whether the list marks planning rather than anything frequent.

Random removal: take away a share of the grams, mark again, compare. Source: arXiv:2509.03646 removes 30 % at random and
replaces the list by random n-grams (placebo).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from apportion.data import Batch
from apportion.errors import ConfigError, DataError
from apportion.grams.lists import GramList
from apportion.grams.ngrams import ngrams
from apportion.numerics import BoolArray, IntArray, gram_table, mark_grams
from apportion.units.phrases import Phrases

FRAGILE = 0.5
"""Below this share of the marked tokens after the worst removal, the list hangs on few grams."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What marking a batch with a list of grams tells.

    Attributes:
        grams, found: grams in the list, and those that occur.
        tokens, planning_share: sampled tokens, and the share of them that the list marks.
        planning_share_of_successes, planning_share_of_failures: the same among rollouts above and not above the mean
            outcome of their group; None where there are none.
        per_thousand: places of grams per 1000 sampled tokens.
        largest_share: share of all places that the most frequent gram has.
        semantic_entropy: Shannon entropy of the grams' frequencies, nats; low means a few phrases over and over.
        remove, rounds: what was tried: this share of the grams taken away, so often.
        kept_mean, kept_worst: share of the marked tokens that stay marked, mean over rounds and worst round.
        placebo_share: share of the tokens that as many random n-grams of the same rollouts mark, None on token ids.
    """

    grams: int
    found: int
    tokens: int
    planning_share: float
    planning_share_of_successes: float | None
    planning_share_of_failures: float | None
    per_thousand: float
    largest_share: float
    semantic_entropy: float
    remove: float
    rounds: int
    kept_mean: float
    kept_worst: float
    placebo_share: float | None

    @property
    def findings(self) -> list[str]:
        """What should be looked at, one sentence each."""
        out = []
        if not self.found:
            return ["none of the grams occurs; build a list from solutions of this kind, in this language"]
        if self.kept_worst < FRAGILE:
            out.append(
                f"without {self.remove:.0%} of the grams only {self.kept_worst:.0%} of the marks are left in the worst "
                "round; the list hangs on few phrases, make it longer"
            )
        if self.placebo_share is not None and self.placebo_share >= self.planning_share:
            out.append(
                f"random n-grams mark as much ({self.placebo_share:.1%} of the tokens) as the list "
                f"({self.planning_share:.1%}); compare training with such a list before trusting this one"
            )
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain data, findings included."""
        return {**asdict(self), "findings": self.findings}


def check_removal(remove: float, rounds: int) -> None:
    """Raise unless the settings of `sensitivity` are in range; nothing is read for it."""
    if not 0.0 < remove < 1.0:
        raise ConfigError(f"grams: remove is {remove!r}; give a share between 0 and 1")
    if rounds < 1:
        raise ConfigError(f"grams: rounds is {rounds!r}; give a whole number from 1 on")


def sensitivity(batch: Batch, grams: GramList, *, remove: float = 0.3, rounds: int = 20, seed: int = 0) -> Sensitivity:
    """Mark a batch with a list, and with parts of it.

    Args:
        batch: rollouts, of token ids (then the list needs ids, see `encode`) or of text.
        grams: the list.
        remove: share of the grams taken away in each round, in (0, 1). rounds: how often.
        seed: of the removals and of the placebo.
    """
    check_removal(remove, rounds)
    rng = np.random.default_rng(seed)
    marker = _Marker(batch, grams)
    everything = np.arange(len(grams))
    mask, places = marker.mark(everything)
    marked = max(int(mask.sum()), 1)
    kept = []
    for _ in range(rounds):
        left = rng.permutation(len(grams))[: max(1, round((1 - remove) * len(grams)))] if len(grams) else everything
        kept.append(float((marker.mark(left)[0] & mask).sum() / marked) if mask.any() else 1.0)
    frequency = places[places > 0] / max(int(places.sum()), 1)
    own_N = batch.traj_of_T[batch.sampled_T]
    better = _better(batch)
    tokens = int(batch.sampled_T.sum())
    return Sensitivity(
        grams=len(grams),
        found=int(np.count_nonzero(places)),
        tokens=tokens,
        planning_share=float(mask.mean()) if tokens else 0.0,
        planning_share_of_successes=_share(mask, (better == 1)[own_N]),
        planning_share_of_failures=_share(mask, (better == 0)[own_N]),
        per_thousand=1000.0 * int(places.sum()) / max(tokens, 1),
        largest_share=float(frequency.max(initial=0.0)),
        semantic_entropy=float(-(frequency * np.log(frequency)).sum()) if len(frequency) else 0.0,
        remove=remove,
        rounds=rounds,
        kept_mean=float(np.mean(kept)),
        kept_worst=float(min(kept)),
        placebo_share=marker.placebo(rng),
    )


class _Marker:
    """Marks a batch with parts of a list."""

    def __init__(self, batch: Batch, grams: GramList) -> None:
        self.batch, self.grams = batch, grams
        self.own = np.flatnonzero(batch.sampled_T)
        step = batch.step_of_T[self.own]
        self.bounds = np.searchsorted(step, np.arange(len(batch.traj_of_S) + 1)).astype(np.int64)
        self.on_ids = batch.has_ids
        if not self.on_ids and batch.has_ids_N.any():
            raise DataError("grams: the batch mixes ids and text-only trajectories; check them apart")
        if self.on_ids and len(grams) and not any(gram.ids for gram in grams.grams):
            raise DataError(
                "grams: the batch has token ids and the list only phrases; `apportion grams encode` it first"
            )
        pieces = [] if self.on_ids else batch.pieces()
        spans = zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True)
        self.pieces = [] if self.on_ids else [[pieces[t] for t in self.own[lo:hi].tolist()] for lo, hi in spans]

    def mark(self, which: IntArray) -> tuple[BoolArray, IntArray]:
        """Marked sampled tokens, and places of each gram of the whole list."""
        places = np.zeros(len(self.grams), dtype=np.int64)
        chosen = [self.grams.grams[int(k)] for k in which]
        if self.on_ids:
            flat = [(int(k), ids) for k, gram in zip(which, chosen, strict=True) for ids in gram.ids]
            table = gram_table([ids for _, ids in flat])
            marks = mark_grams(self.batch.ids_T[self.own], self.bounds, table)
            owner = np.array([k for k, _ in flat], dtype=np.int64)
            np.add.at(places, owner[table.given_G], marks.places_G)
            return marks.mask_X, places
        phrases = Phrases([gram.text for gram in chosen])
        mask = np.concatenate([phrases.covered(own) for own in self.pieces] or [np.zeros(0, dtype=bool)])
        for own in self.pieces:
            for place in phrases.places("".join(own)):
                places[int(which[place.phrase])] += 1
        return mask, places

    def placebo(self, rng: np.random.Generator) -> float | None:
        """Share of the tokens that as many random n-grams of the same lengths mark."""
        if self.on_ids or not len(self.grams) or not self.pieces:
            return None
        sizes = [len(gram.text.split()) for gram in self.grams.grams]
        drawn: list[str] = []
        for n in sorted(set(sizes)):
            pool = sorted({gram for own in self.pieces for gram in ngrams("".join(own), n, n)})
            drawn += [pool[k] for k in rng.permutation(len(pool))[: sizes.count(n)].tolist()]
        if not drawn:
            return None
        phrases = Phrases(drawn)
        covered = [phrases.covered(own) for own in self.pieces]
        return float(np.concatenate(covered).mean()) if len(self.own) else 0.0


def _better(batch: Batch) -> IntArray:
    """1 above the mean outcome of its group, 0 not above it, -1 where nobody scored it."""
    count = np.bincount(batch.group_of_N, weights=batch.scored_N)
    total = np.bincount(batch.group_of_N, weights=np.where(batch.scored_N, batch.outcome_N, 0.0))
    mean_N = (total / np.maximum(count, 1))[batch.group_of_N]
    return np.where(batch.scored_N, (batch.outcome_N > mean_N).astype(np.int64), -1)


def _share(mask: BoolArray, where: BoolArray) -> float | None:
    return float(mask[where].mean()) if where.any() else None
