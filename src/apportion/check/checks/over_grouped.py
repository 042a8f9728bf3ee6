"""Different states under one key."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from apportion.check.findings import Finding, Yields, count, places
from apportion.check.moves import Moves, distinct_per, short, step_name
from apportion.check.registry import register
from apportion.check.sampling import some_groups
from apportion.numerics import IntArray, labels
from apportion.units import Normalised, Units

DOMINANT = 0.5
"""Share of all steps that one key may hold."""
FUTURES = 0.1
"""Share of equal actions under one key that may lead to different states, beyond that of equal texts."""
NUMBERS = 0.05
"""Share of the keys whose texts may differ in numbers."""
LEAST = 5
"""Keys, or places, below which a share says nothing."""
_NUMBER = re.compile(r"[-+−]?\d+(?:[.,:/]\d+)*")


@register("over-grouped", on="units")
def over_grouped(units: Units) -> Yields:
    """Keys that stand for several states: degenerate ones, ones whose texts differ in numbers, whose actions or futures
    differ."""
    if units.state_S is None or not len(units):
        return
    moves = Moves(units)
    yield from _degenerate(moves)
    yield from _time_index(moves)
    yield from _actions(moves)
    if np.all(moves.seen_S < 0):
        return
    yield from _numbers(moves)
    yield from _futures(moves)


def _degenerate(moves: Moves) -> Yields:
    comparable = np.flatnonzero(moves.comparable_S)
    later = comparable[moves.time_S[comparable] > 0]
    if len(later) < 8:
        return
    size = np.bincount(moves.key_S[later])
    top = int(size.argmax())
    share = float(size[top] / len(later))
    held = later[moves.key_S[later] == top]
    texts = np.unique(moves.seen_S[held])
    if share <= DOMINANT or (len(texts) == 1 and texts[0] >= 0):  # everyone does see the same: no fault of the key
        return
    if len(texts) < LEAST and (texts >= 0).all():
        return
    yield Finding(
        "over-grouped/degenerate",
        "error",
        f"one key, {moves.key_text(int(held[0]))!r}, stands for {share:.0%} of the steps after the first"
        + (f" and for {len(texts)} different observations" if texts[0] >= 0 else "")
        + ": it does not tell states apart",
        "give a Step.state that tells states apart, or none, so that the observation is the key",
        {
            "key": moves.key_text(int(held[0])),
            "steps": len(held),
            "of": len(later),
            "share": share,
            "texts": len(texts),
        },
        places(step_name(moves.batch, int(s)) for s in held),
    )


def _time_index(moves: Moves) -> Yields:
    """The key is a function of the time alone, and the time of the key."""
    batch = moves.batch
    comparable = np.flatnonzero(moves.comparable_S)
    if not len(comparable) or int(moves.time_S[comparable].max(initial=0)) < 3:
        return
    group = moves.units.group_of_S[comparable]
    place = labels(group, moves.time_S[comparable])
    state = moves.state_S[comparable]
    _, keys_at = distinct_per(place, state)
    _, times_of = distinct_per(state, moves.time_S[comparable])
    _, texts_at = distinct_per(place, moves.seen_S[comparable])
    visits_at = np.bincount(place)
    shared = visits_at > 1
    if np.count_nonzero(shared) < LEAST or (keys_at > 1).any() or (times_of > 1).any():
        return
    varied = shared & (texts_at > 1)
    share = float(np.mean(varied[shared]))
    if share <= DOMINANT:
        return
    s = int(comparable[np.isin(place, np.flatnonzero(varied))][0])
    yield Finding(
        "over-grouped/time-index",
        "error",
        f"the key of a step is its number and nothing else (like {moves.key_text(s)!r}), while at {share:.0%} of the "
        "places the observations differ: unlike states are compared because they come at the same time",
        "give the state as Step.state, or leave it out so that the observation is the key",
        {"places": int(np.count_nonzero(shared)), "varied": int(np.count_nonzero(varied)), "share": share},
        places(batch.group_names[g] for g in dict.fromkeys(group[np.isin(place, np.flatnonzero(varied))].tolist())),
    )


def _actions(moves: Moves) -> Yields:
    told = np.flatnonzero([step.actions is not None for step in moves.steps])
    told = told[moves.comparable_S[told]]
    if not len(told):
        return
    lists = labels([tuple(sorted(moves.steps[s].actions or ())) for s in told.tolist()])
    states, kinds = distinct_per(moves.state_S[told], lists)
    wrong = states[kinds > 1]
    share = len(wrong) / len(states)
    if not len(wrong):
        return
    s, other = _differing(moves.state_S[told], lists, int(wrong[0]))
    a, b = (set(moves.steps[told[k]].actions or ()) for k in (s, other))
    yield Finding(
        "over-grouped/actions",
        "warning",
        f"{len(wrong)} of {count(len(states), 'state')} have different admissible actions under one key: "
        f"{moves.key_text(int(told[s]))!r} allows {short(sorted(a - b) or sorted(b - a))} in one place and not in "
        "another, so these are different states",
        "use a key that holds what decides about the actions",
        {
            "states": len(wrong),
            "of": len(states),
            "share": share,
            "only_in_one": [short(x) for x in sorted(a ^ b)[:5]],
        },
        places(step_name(moves.batch, int(told[k])) for k in (s, other)),
    )


def _numbers(moves: Moves) -> Yields:
    """Keys under which texts are equal but for numbers, once what is noise by its looks is out."""
    batch = some_groups(moves.batch)
    kept = np.flatnonzero(
        moves.comparable_S
        & (moves.seen_S >= 0)
        & np.isin(moves.batch.group_of_N, _groups(moves, batch))[moves.batch.traj_of_S]
    )
    states, texts = distinct_per(moves.state_S[kept], moves.seen_S[kept])
    if not (texts > 1).any():
        return
    several = kept[np.isin(moves.state_S[kept], states[texts > 1])]
    scrub = Normalised()
    raw = {int(moves.seen_S[s]): moves.steps[s].observation or "" for s in several.tolist()}
    plain = {text: scrub.key(body) for text, body in raw.items()}
    held = {text: tuple(_NUMBER.findall(body)) for text, body in plain.items()}
    frame = {text: _NUMBER.sub("#", body) for text, body in plain.items()}
    numbers = labels([held[int(moves.seen_S[s])] for s in several.tolist()])
    framed = labels(moves.state_S[several], [frame[int(moves.seen_S[s])] for s in several.tolist()])
    frames, kinds = distinct_per(framed, numbers)
    wrong = np.unique(moves.state_S[several][np.isin(framed, frames[kinds > 1])])
    share = len(wrong) / len(states)
    if not len(wrong) or share <= NUMBERS:
        return
    a, b = _differing(framed, numbers, int(frames[kinds > 1][0]))
    x, y = (held[int(moves.seen_S[several[k]])] for k in (a, b))
    differ = [f"{p} / {q}" for p, q in zip(x, y, strict=True) if p != q]
    yield Finding(
        "over-grouped/numbers",
        "warning",
        f"{len(wrong)} of {count(len(states), 'state')} hold observations that differ in numbers ({differ[0]}), like "
        f"{moves.key_text(int(several[a]))!r}: amounts, places and counts usually are the state",
        "use exact keys or states='near', which keeps numbers apart; loosen them only for ids, times and counters",
        {"states": len(wrong), "of": len(states), "share": share, "differ": differ[:5]},
        places(step_name(moves.batch, int(several[k])) for k in (a, b)),
    )


def _groups(moves: Moves, batch: object) -> IntArray:
    """Numbers, in the whole batch, of the groups that were chosen."""
    names = set(getattr(batch, "group_names", ()))
    return np.flatnonzero([name in names for name in moves.batch.group_names])


def _futures(moves: Moves) -> Yields:
    """Equal key and action, different next key; beyond what equal texts and actions do."""
    follows = np.flatnonzero((moves.next_S >= 0) & moves.comparable_S & (moves.seen_S >= 0))
    if not len(follows):
        return
    group = moves.units.group_of_S[follows]
    after = labels(moves.seen_S[moves.next_S[follows]], group)
    by_key = labels(moves.state_S[follows], moves.action_S[follows])
    by_text = labels(moves.seen_S[follows], group, moves.action_S[follows])
    _, texts = distinct_per(by_key, by_text)
    _, keyed = distinct_per(by_key, labels(moves.state_S[moves.next_S[follows]]))
    merged = texts > 1  # elsewhere the key is no coarser than the text
    if np.count_nonzero(merged) < LEAST:
        return
    wrong = merged & (keyed > 1)
    repeated = np.bincount(by_text) > 1
    _, ends = distinct_per(by_text, after)
    chance = float(np.mean(ends[repeated] > 1)) if repeated.any() else 0.0
    share = float(np.count_nonzero(wrong) / np.count_nonzero(merged))
    if share - chance <= FUTURES:
        return
    spot = int(np.flatnonzero(wrong)[0])
    a, b = _differing(by_key, moves.state_S[moves.next_S[follows]], spot)
    yield Finding(
        "over-grouped/future",
        "warning",
        f"at {np.count_nonzero(wrong)} of {np.count_nonzero(merged)} places where a key stands for several "
        f"observations, equal actions lead to different states ({share:.0%}; with equal observations {chance:.0%}): "
        f"in {moves.key_text(int(follows[a]))!r} the action {short(moves.steps[follows[a]].action)!r} leads to "
        f"{moves.key_text(int(moves.next_S[follows[a]]))!r} and to {moves.key_text(int(moves.next_S[follows[b]]))!r}",
        "use exact keys, or split the key by what decides about the future",
        {
            "places": int(np.count_nonzero(wrong)),
            "of": int(np.count_nonzero(merged)),
            "share": share,
            "share_with_equal_texts": chance,
        },
        places(step_name(moves.batch, int(follows[k])) for k in (a, b)),
    )


def _differing(of: IntArray, value: IntArray, which: int) -> tuple[int, int]:
    """Two positions of one bin that hold different values."""
    at = np.flatnonzero(of == which)
    order = at[np.argsort(value[at], kind="stable")]
    for a, b in pairwise(order.tolist()):
        if value[a] != value[b]:
            return a, b
    raise AssertionError("the bin holds one value")
