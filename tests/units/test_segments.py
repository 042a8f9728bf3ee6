"""Runs of tokens inside a step: nearly equal parts, and lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_segment


def of_ids(*sizes):
    steps = [Step(prompt_ids=[9], ids=list(range(size))) for size in sizes]
    return Batch.from_trajectories([Trajectory(steps, outcome=1.0)])


def of_text(*actions):
    steps = [Step(observation="go", action=action) for action in actions]
    return Batch.from_trajectories([Trajectory(steps, outcome=1.0)])


def lengths(units):
    return units.tokens_S.tolist()


def test_equal_parts_longer_ones_first():
    assert lengths(by_segment(of_ids(10), "fixed", count=4)) == [3, 3, 2, 2]
    assert lengths(by_segment(of_ids(3), "fixed", count=4)) == [1, 1, 1]
    assert lengths(by_segment(of_ids(10), "fixed", count=1)) == [10]
    assert lengths(by_segment(of_ids(5, 0, 2, 1), "fixed", count=2)) == [3, 2, 1, 1, 1]
    assert by_segment(of_ids(2), "fixed", count=2).options == {"by": "fixed", "count": 2}


@given(st.lists(st.integers(0, 12), min_size=1, max_size=5), st.integers(1, 8))
def test_equal_parts_slow_reference(sizes, count):
    want = []
    for size in sizes:
        parts = min(count, size)
        want += [len(range(p, size, parts)) for p in range(parts)]  # every parts-th token: as equal as it gets
    assert lengths(by_segment(of_ids(*sizes), "fixed", count=count)) == want


def decode_with(texts):
    return lambda ids: [texts[i] for i in ids]


def lines(*texts, size=None):
    """Segment of each token, from token texts."""
    batch = Batch.from_trajectories([Trajectory([Step(ids=list(range(len(texts))))], outcome=1.0)])
    return by_segment(batch, decode=decode_with(texts)).unit_of_T.tolist()


def test_a_line_break_ends_the_segment_on_its_left():
    assert lines("So", " x", "=2", ".\n", "Then", " y") == [0, 0, 0, 0, 1, 1]
    assert lines("A.\nB", " c") == [0, 1]  # the second line starts inside the first token, which belongs to the first
    assert lines("a", "\n", "b") == [0, 0, 1]
    assert lines("a", "\n\n", "b") == [0, 0, 1]
    assert lines("a", "\nb", "c") == [0, 1, 1]  # the break stands in front of the word
    assert lines("a", "b") == [0, 0]
    assert lines("a\n") == [0]


def test_lines_of_a_text_only_log():
    units = by_segment(of_text("one two\nthree four\n\nfive", "six"))
    assert lengths(units) == [2, 2, 1, 1]
    assert units.unit_of_T.tolist() == [-1, 0, 0, 1, 1, 2, -1, 3]


def test_scripts_without_spaces_are_cut_at_their_lines():
    units = by_segment(of_text("鍵を取る\n扉を開ける。", "한국어 텍스트\n🦊 fox"))
    assert lengths(units) == [4, 6, 6, 2]


def test_a_segment_never_crosses_a_step():
    batch = of_ids(2, 2)
    units = by_segment(batch, decode=lambda ids: ["x"] * len(ids))
    assert units.unit_of_T.tolist() == [-1, 0, 0, -1, 1, 1]


@given(st.lists(st.text("a \n字", max_size=4), min_size=1, max_size=8))
def test_lines_slow_reference(texts):
    # a new segment where the break lies before this token's first visible character and after the last one's
    want, unit, pending = [], 0, False
    for k, text in enumerate(texts):
        lead = text[: len(text) - len(text.lstrip())]
        body = text.lstrip()
        if k and (pending or ("\n" in lead and body)):
            unit += 1
        want.append(unit)
        pending = "\n" in (body or text)
    assert lines(*texts) == want


@pytest.mark.parametrize("count", [None, 0, -1, 1.5, True, "2"])
def test_a_count_is_needed(count):
    with pytest.raises(ConfigError, match=r"by_segment\('fixed'\) needs count, a whole number from 1 on; got "):
        by_segment(of_ids(3), "fixed", count=count)


def test_arguments_out_of_place():
    with pytest.raises(ConfigError, match="counts tokens and takes no decode"):
        by_segment(of_ids(3), "fixed", count=2, decode=str)
    with pytest.raises(ConfigError, match="takes no count; drop it or cut by 'fixed'"):
        by_segment(of_ids(3), count=2)
    with pytest.raises(ConfigError, match="no criterion named 'word'; there are 'fixed' and 'newline'"):
        by_segment(of_ids(3), "word")


def test_ids_need_their_texts():
    with pytest.raises(ConfigError, match="on token ids needs decode, the text of each token id"):
        by_segment(of_ids(3))
    with pytest.raises(DataError, match="decode gave 1 texts for 4 ids; one per id"):
        by_segment(of_ids(3), decode=lambda ids: ["x"])
    mixed = Batch.from_trajectories([Trajectory([Step(ids=[1])]), Trajectory([Step(action="go")])])
    with pytest.raises(DataError, match="mixes ids and text-only trajectories; cut them apart first"):
        by_segment(mixed)
