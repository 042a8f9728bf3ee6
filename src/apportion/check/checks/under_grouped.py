"""States that are one, kept apart by a time, an id or a counter."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from apportion.check.findings import Finding, Yields, count, places
from apportion.check.moves import Moves, distinct_per, short, step_name
from apportion.check.registry import register
from apportion.check.sampling import some_groups
from apportion.numerics import IntArray, labels
from apportion.units import Normalised, Units, by_step, learn_rules

GAP = 0.1
"""Share of the states that vanish when ids, times and counters are taken out, from which on they are noise."""
AGREE = 0.8
"""Share of equal actions in such states that must lead to equal states; below, what was taken out was the state."""


@register("under-grouped", on="units")
def under_grouped(units: Units) -> Yields:
    """States that differ only by times, ids or counters, at the start of a task or anywhere."""
    batch = some_groups(units.batch)
    if batch is not units.batch:
        units = by_step(batch)
    if units.state_S is None or not len(units):
        return
    moves = Moves(units)
    rule = Normalised().extended(learn_rules(batch))
    texts, groups = units.state_S.tolist(), units.group_of_S.tolist()
    if all(text.startswith("ids:") for text in texts):
        return  # digests of token ids, in which nothing can be read
    keys = rule.keys(texts, groups)
    scrubbed_S = labels([text if text.startswith("ids:") else key for text, key in zip(texts, keys, strict=True)])
    state_S, merged_S = moves.state_S, labels(scrubbed_S, units.group_of_S)
    noise = [_described(one.name, one.examples[0]) for one in rule.report(texts, groups).rules if one.examples]
    yield from _starts(moves, state_S, merged_S, noise)
    yield from _anywhere(moves, state_S, merged_S, noise)


def _starts(moves: Moves, state_S: IntArray, merged_S: IntArray, noise: list[str]) -> Yields:
    batch = moves.batch
    first = np.flatnonzero((moves.time_S == 0) & moves.comparable_S)
    if not len(first):
        return
    groups, raw = distinct_per(moves.units.group_of_S[first], state_S[first])
    _, merged = distinct_per(moves.units.group_of_S[first], merged_S[first])
    split = np.flatnonzero((raw > 1) & (merged == 1))
    if not len(split):
        return
    order = split.tolist()
    worst = max(order, key=lambda g: int(raw[g]))
    members = first[moves.units.group_of_S[first] == groups[worst]]
    examples = list(dict.fromkeys(moves.key_text(int(s)) for s in members))[:3]
    names = [batch.group_names[int(groups[g])] for g in split]
    yield Finding(
        "under-grouped/start",
        "warning",
        f"{len(split)} of {count(len(groups), 'group')} start in states that differ only by {_listed(noise)}; in "
        f"{names[order.index(worst)]!r} {count(int(raw[worst]), 'key')} stand for one start, so its rollouts "
        "share no state",
        "cut with states='normalised' or 'learned' (`--states learned`), or log Step.state without what changes by "
        "itself",
        {
            "groups": len(split),
            "of": len(groups),
            "share": len(split) / len(groups),
            "example_group": names[order.index(worst)],
            "example_keys": int(raw[worst]),
            "noise": noise[:5],
            "examples": examples,
        },
        places(names),
    )


def _anywhere(moves: Moves, state_S: IntArray, merged_S: IntArray, noise: list[str]) -> Yields:
    later = np.flatnonzero(moves.comparable_S & (moves.time_S > 0))
    before, after = len(np.unique(state_S[later])), len(np.unique(merged_S[later]))
    if not before or 1 - after / before <= GAP:
        return
    gap = 1 - after / before
    agree, pairs = _same_future(moves, state_S, merged_S)
    if pairs and agree < AGREE:
        return
    apart: dict[int, dict[int, int]] = defaultdict(dict)
    for s in later.tolist():
        apart[int(merged_S[s])].setdefault(int(state_S[s]), s)
    widest = max(apart.values(), key=len)
    spots = list(widest.values())[:3]
    yield Finding(
        "under-grouped/volatile",
        "warning",
        f"{gap:.0%} of {count(before, 'state')} vanish without {_listed(noise)}: {len(widest)} keys, like "
        f"{moves.key_text(spots[0])!r} and {moves.key_text(spots[-1])!r}, are one state; steps in them have nobody to "
        "be compared with",
        "cut with states='normalised' or 'learned' (`--states learned`), or log Step.state without what changes by "
        "itself",
        {
            "states": before,
            "after": after,
            "share": gap,
            "same_future": agree if pairs else None,
            "pairs": pairs,
            "noise": noise[:5],
            "examples": [moves.key_text(s) for s in spots],
        },
        places(step_name(moves.batch, s) for s in spots),
    )


def _same_future(moves: Moves, state_S: IntArray, merged_S: IntArray) -> tuple[float, int]:
    """Of places where several of the merged states saw the same action, the share that led to one state."""
    follows = np.flatnonzero(moves.next_S >= 0)
    place = labels(merged_S[follows], moves.action_S[follows])
    _, states = distinct_per(place, state_S[follows])
    _, futures = distinct_per(place, merged_S[moves.next_S[follows]])
    seen = states > 1
    return (float(np.mean(futures[seen] == 1)) if seen.any() else 0.0), int(np.count_nonzero(seen))


def _described(rule: str, example: str) -> str:
    """``what follows 'id' ('id 559')``, ``the date ('2026-03-12 10:20')``."""
    learned = rule.removeprefix("learned after ")
    what = f"what follows {learned}" if learned != rule else f"the {rule}"
    return f"{what} ({short(example, 40)!r})"


def _listed(noise: list[str]) -> str:
    return short(" and ".join(noise[:3]) or "white space", 160)
