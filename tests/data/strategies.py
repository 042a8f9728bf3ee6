"""Hypothesis strategies for rollouts: everything that the format allows, also what nobody would write by hand."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from apportion.data import Row, Step, Trajectory

SPLIT_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")

texts = st.one_of(
    st.sampled_from(["", " ", "\ud83d", "a\udc00b", "\x00", "\u2028", "\r\n", "NaN", "null", "🦊", "é", "e\u0301"]),
    st.text(st.characters(exclude_categories=()), max_size=8).map(lambda text: SPLIT_PAIR.sub("?", text)),
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
maybe_text = st.none() | texts
maybe_number = st.none() | numbers
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
free = st.dictionaries(texts, json_values, max_size=2)
identifiers = st.sampled_from(["correct", "format", "länge", "_", "prm_logp"])
named = st.dictionaries(identifiers, numbers, max_size=2)
token_ids = st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 9), max_size=4)


@st.composite
def steps(draw: st.DrawFn, *, at: int, last: bool, ids: bool) -> Step:
    fields: dict = {}
    if ids:
        sampled = draw(token_ids)
        fields["ids"] = sampled
        fields["prompt_ids"] = draw(st.none() | token_ids)
        fields["action"] = draw(maybe_text)
        for name in ("logp", "ref_logp", "entropy", "token_values"):
            exactly = st.lists(numbers, min_size=len(sampled), max_size=len(sampled))
            fields[name] = draw(st.none() | exactly)
        fields["columns"] = draw(st.dictionaries(identifiers, exactly, max_size=2))
        fields["observation"] = draw(maybe_text) if fields["prompt_ids"] is not None else None
    else:
        fields["action"] = draw(texts)
        fields["observation"] = draw(maybe_text)
    if last:
        fields["terminated"] = draw(st.booleans())
        fields["truncated"] = draw(st.booleans())
    return Step(
        fresh=draw(st.booleans()),
        failed=draw(st.booleans()),
        value=draw(maybe_number),
        reward=draw(maybe_number),
        rewards=draw(named),
        state=draw(maybe_text),
        turn=draw(st.none() | st.integers(0, 5)),
        agent=draw(maybe_text),
        actions=draw(st.none() | st.lists(texts, max_size=2)),
        parent=draw(st.none() | st.integers(-1, at - 1)),
        extra=draw(free),
        **fields,
    )


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    size = draw(st.integers(1, 4))
    ids = draw(st.booleans())
    return Trajectory(
        [draw(steps(at=s, last=s == size - 1, ids=ids)) for s in range(size)],
        group=draw(maybe_text),
        id=draw(maybe_text),
        outcome=draw(maybe_number),
        outcomes=draw(named),
        final_observation=draw(maybe_text),
        final_value=draw(maybe_number),
        reference=draw(maybe_text),
        meta=draw(free),
    )


@st.composite
def row_sets(draw: st.DrawFn) -> list[Row]:
    """Rows of a few rollouts, sorted: prompts that extend, drift, shrink or have nothing in common."""
    small = st.lists(st.integers(0, 2), max_size=4)
    out: list[Row] = []
    for name in draw(st.lists(texts, min_size=1, max_size=3, unique=True)):
        whole = {"group": draw(maybe_text), "outcome": draw(maybe_number), "meta": draw(free), "outcomes": draw(named)}
        calls: list[Row] = []
        for index in range(draw(st.integers(1, 5))):
            parent = draw(st.none() | st.integers(-1, index - 1))
            before = index - 1 if parent is None else parent
            history = [*calls[before].prompt_ids, *calls[before].ids] if before >= 0 else []
            kept = draw(st.sampled_from([len(history), len(history), draw(st.integers(0, len(history)))]))
            sampled = draw(small)
            logp = draw(st.none() | st.lists(numbers, min_size=len(sampled), max_size=len(sampled)))
            prompt = [int(i) for i in history[:kept]] + draw(small)
            columns = draw(st.none() | st.lists(numbers, min_size=len(sampled), max_size=len(sampled)))
            fields: dict = {"columns": {} if columns is None else {"prm_logp": columns}, "rewards": draw(named)}
            fields |= {"logp": logp, "reward": draw(maybe_number), "parent": parent, "extra": draw(free)}
            calls.append(Row(name, index, prompt, sampled, **fields, **whole))
        out += calls
    return out
