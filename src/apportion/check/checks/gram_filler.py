"""Phrases that plan, used as filler."""

from __future__ import annotations

from collections import Counter

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.phrasing import starter_phrases, words_covered
from apportion.check.registry import register
from apportion.check.sampling import evenly
from apportion.check.solved import solved
from apportion.data import Batch

DENSE = 0.25
"""Share of a rollout's words that lie in planning phrases, from which on they are filler."""
SAME = 4
"""Uses of one phrase, per 100 words, from which on it is."""
WORDS = 40
"""Words below which a rollout is not judged."""
MANY = 0.05
LEAST = 2
ROLLOUTS = 4000
"""Rollouts that are looked at, spread evenly."""


@register("gram-filler", on="batch")
def gram_filler(batch: Batch) -> Yields:
    """Rollouts packed with planning phrases ("let me check that again"), as a bonus on such phrases breeds them."""
    phrases, finder = starter_phrases()
    looked: list[int] = []
    density: list[float] = []
    worst: list[tuple[str, float]] = []
    for n in evenly(len(batch), ROLLOUTS).tolist():
        text = "\n".join(step.action for step in batch.trajectories[n].steps if step.action)
        size = len(text.split())
        if size < WORDS:
            continue
        places_of = finder.places(text)
        uses = Counter(place.phrase for place in places_of)
        top, times = max(uses.items(), key=lambda item: (item[1], -item[0]), default=(0, 0))
        looked.append(n)
        density.append(words_covered(text, places_of) / size)
        worst.append((phrases[top], 100 * times / size))
    if not looked:
        return
    dense = np.array(density)
    same = np.array([rate for _, rate in worst])
    bad = np.flatnonzero((dense >= DENSE) | (same >= SAME))
    share = len(bad) / len(looked)
    if len(bad) < LEAST or share < MANY:
        return
    at = np.array(looked)
    names = batch.names()
    won_N = solved(batch)
    k = int(bad[np.argmax(dense[bad])])
    ratio = None
    if won_N is not None and won_N[at].any() and not won_N[at].all():
        ratio = [float(dense[won_N[at]].mean()), float(dense[~won_N[at]].mean())]
    told = "" if ratio is None else f"; {ratio[0]:.0%} of the words of solved rollouts, {ratio[1]:.0%} of the others"
    yield Finding(
        "gram-filler",
        "warning",
        f"{len(bad)} of {count(len(looked), 'rollout')} are packed with planning phrases: in {names[at[k]]!r} they are "
        f"{dense[k]:.0%} of the words, {worst[k][0]!r} alone {worst[k][1]:.1f} times in 100 words "
        f"({named((names[n] for n in at[bad]), len(bad))}{told})",
        "lower the bonus (`hicra(alpha=...)`), count a phrase once per rollout, or take phrases off the list that say "
        "nothing (`apportion grams sensitivity`)",
        {
            "rollouts": len(bad),
            "of": len(looked),
            "share": share,
            "density": float(dense[k]),
            "mean_density": float(dense.mean()),
            "phrase": worst[k][0],
            "per_100_words": float(worst[k][1]),
            "density_solved_and_not": ratio,
        },
        places(names[n] for n in at[bad]),
    )
