"""Runs of tokens inside a step: equal parts, lines, paragraphs, sentences, cutpoints, and what a parser says."""

import importlib.util
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError, MissingExtra
from apportion.units import by_segment, splitters
from apportion.units.merging import merge_small
from tests.make import random_batch


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
    for text in texts:
        if not text:  # nothing to see: with the token before it
            want.append(unit)
            continue
        lead = text[: len(text) - len(text.lstrip())]
        body = text.lstrip()
        if want and (pending or ("\n" in lead and body)):
            unit += 1
        want.append(unit)
        pending = "\n" in (body or text)
    assert lines(*texts) == want


def test_parts_of_one_length():
    assert lengths(by_segment(of_ids(10), "fixed", size=4)) == [4, 4, 2]
    assert by_segment(of_ids(2, 2), "fixed", size=3).unit_of_T.tolist() == [-1, 0, 0, -1, 1, 1]  # anew in each step


def cut_text(by, *actions, **options):
    """The segments of text-only steps, as texts."""
    batch = of_text(*actions)
    units = by_segment(batch, by, **options)
    pieces = np.array(batch.pieces(), dtype=object)
    return ["".join(pieces[units.unit_of_T == s]).strip() for s in range(len(units))]


def test_paragraphs():
    assert cut_text("paragraph", "a b\nc\n\nd\n \n\ne f") == ["a b\nc", "d", "e f"]
    assert cut_text("paragraph", "one\ntwo") == ["one\ntwo"]


SENTENCES = {
    "So x=2. Then y=3!\nHence z=5? Done": ["So x=2.", "Then y=3!", "Hence z=5?", "Done"],
    "It is 3.5 m. See Fig. 2 by J. Smith et al. for more.": ["It is 3.5 m.", "See Fig. 2 by J. Smith et al. for more."],
    "E.g. this, i.e. that. Next.": ["E.g. this, i.e. that.", "Next."],
    "Wait... really?! Yes.": ["Wait...", "really?!", "Yes."],
    'He said "go." Then (ok.) left.': ['He said "go."', "Then (ok.)", "left."],
    "1. First\n2. Second. Third": ["1. First", "2. Second.", "Third"],
    "We get 7. Then 8.": ["We get 7.", "Then 8."],
    "鍵を取る。扉を開ける！終わり": ["鍵を取る。", "扉を開ける！", "終わり"],
    "Let $f(x) = 2. y$ be. It costs $5. And $6 too.": ["Let $f(x) = 2. y$ be.", "It costs $5.", "And $6 too."],
    "Run:\n```\na. b\nc! d\n```\nDone. Bye": ["Run:", "```\na. b\nc! d\n```", "Done.", "Bye"],
}


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences_by_rules(text):
    assert cut_text("sentence", text) == SENTENCES[text]
    assert cut_text("parser", text, parser=splitters.sentences) == SENTENCES[text]


@given(st.text("ab. !?\n$`1。", max_size=40))
def test_sentences_of_anything(text):
    """Sorted offsets inside the text, each at something visible; nothing inside a formula or a fence matters here."""
    found = list(splitters.sentences(text))
    assert found == sorted(set(found))
    for offset in found:
        assert 0 < offset <= len(text)
        assert offset == len(text) or not text[offset].isspace()


@pytest.mark.parametrize("name", ["pysbd", "syntok"])
def test_sentences_by_a_package(name):
    text = "So x is two. Then y is three!\nHence z is five? Done"
    if importlib.util.find_spec(name) is None:
        message = rf"by_segment\('sentence', splitter='{name}'\) needs the package '{name}'.*'apportion\[text\]'"
        with pytest.raises(MissingExtra, match=message):
            cut_text("sentence", text, splitter=name)
        return
    want = ["So x is two.", "Then y is three!", "Hence z is five?", "Done"]
    got = cut_text("sentence", text, splitter=name)
    assert got == want or (name == "syntok" and got == [*want[:2], "Hence z is five? Done"])
    assert by_segment(of_text(text), "sentence", splitter=name).options == {"by": "sentence", "splitter": name}


def test_the_splitter_is_the_users_choice_and_recorded():
    assert by_segment(of_text("A. B"), "sentence").options == {"by": "sentence", "splitter": "rules"}
    with pytest.raises(ConfigError, match="no splitter named 'nltk'; there are 'rules', 'pysbd', 'syntok', and any"):
        cut_text("sentence", "A", splitter="nltk")


def test_a_parser_says_where_segments_begin():
    def clauses(text):
        return [k + 2 for k in range(len(text)) if text[k] == ","]

    assert cut_text("parser", "if a, then b, or c", parser=clauses) == ["if a,", "then b,", "or c"]
    assert by_segment(of_text("a, b"), "parser", parser=clauses).options == {"by": "parser", "parser": "clauses"}
    assert cut_text("parser", "abc", parser=lambda text: []) == ["abc"]
    assert cut_text("parser", "one two", parser=lambda text: [5, 1, 0, 7]) == ["one", "two"]  # a token is never cut
    with pytest.raises(DataError, match="the parser cuts 3 characters of text at 9; give offsets inside it"):
        cut_text("parser", "abc", parser=lambda text: [0, 9])
    with pytest.raises(DataError, match="the parser cuts 3 characters of text at -2; give offsets inside it"):
        cut_text("parser", "abc", parser=lambda text: [1, -2])
    with pytest.raises(ConfigError, match=r"by_segment\('parser'\) needs parser, a function from the text of a step"):
        cut_text("parser", "abc")


def test_the_end_of_a_text_that_is_a_token_of_its_own_stays_with_it():
    batch = Batch.from_trajectories([Trajectory([Step(ids=[0, 1, 2])], outcome=1.0)])
    units = by_segment(batch, "sentence", decode=decode_with(["Yes.", " ", ""]))
    assert lengths(units) == [3]


P = [0.99, 0.95, 0.6, 0.97, 0.85, 0.99, 0.3, 0.92, 0.7, 0.99, 0.5, 0.98]  # cutpoints 2 4 6 8 10


def of_logp(*steps, **column):
    built = [
        Step(prompt_ids=[9], ids=range(len(p)), logp=np.log(p), **{k: v[s] for k, v in column.items()})
        for s, p in enumerate(steps)
    ]
    return Batch.from_trajectories([Trajectory(built, outcome=1.0)])


def test_cutpoints_by_hand():
    assert lengths(by_segment(of_logp(P), "cutpoint", interval=2)) == [2, 4, 4, 2]  # [0,2) [2,6) [6,10) [10,12)
    assert lengths(by_segment(of_logp(P), "cutpoint", count=2)) == [8, 4]
    assert lengths(by_segment(of_logp(P), "cutpoint", count=3)) == [6, 4, 2]
    assert lengths(by_segment(of_logp(P), "cutpoint", count=3, rho=0.4)) == [12]  # one cutpoint, one segment
    units = by_segment(of_logp(P[:4], P[4:]), "cutpoint", interval=2)
    assert units.unit_of_T.tolist() == [-1, 0, 0, 1, 1, -1, 2, 2, 2, 2, 3, 3, 3, 3]  # a step's end ends a segment
    assert by_segment(of_logp(P), "cutpoint", interval=2, rho=0.5).options == {
        "by": "cutpoint",
        "interval": 2,
        "rho": 0.5,
    }


@pytest.mark.parametrize("seed", range(25))
def test_cutpoints_slow_reference(seed):
    batch = random_batch(seed, groups=3)
    for interval, rho in ((1, 0.9), (2, 0.5)):
        want, unit, low = [], -1, 0
        for trajectory in batch:
            for step in trajectory.steps:
                want += [-1] * len(step.prompt_ids)
                seen = 0
                for k, logp in enumerate(step.logp.tolist()):
                    low = math.exp(logp) < rho
                    unit += k == 0 or (low and seen % interval == 0)
                    seen += low
                    want.append(unit)
        assert by_segment(batch, "cutpoint", interval=interval, rho=rho).unit_of_T.tolist() == want


def test_cutpoints_by_entropy():
    # the two highest of ten entropies, as in the worked mask: threshold .96 at share .2
    entropy = [0.1, 0.2, 2.0, 0.05, 1.2, 0.3, 0.15, 0.9, 0.02, 0.4]
    batch = of_logp([0.5] * 10, entropy=[entropy])
    assert lengths(by_segment(batch, "entropy", interval=1)) == [2, 2, 6]
    assert lengths(by_segment(batch, "entropy", interval=1, share=0.1)) == [2, 8]
    assert lengths(by_segment(batch, "entropy", count=2)) == [4, 6]
    assert lengths(by_segment(batch, "entropy", count=10, share=1.0)) == [1] * 10
    certain = of_logp([0.5] * 10, entropy=[[0.0] * 9 + [0.5]])  # the quantile is 0, and nothing was open before the end
    assert lengths(by_segment(certain, "entropy", interval=1)) == [9, 1]
    assert lengths(by_segment(of_logp([1.0] * 4, entropy=[[0.0] * 4]), "entropy", count=3)) == [4]
    with pytest.raises(ConfigError, match=r"share is 0.0; give a share in \(0, 1\]"):
        by_segment(batch, "entropy", count=2, share=0.0)


def test_cutpoints_need_their_column():
    for by, field in (("cutpoint", "logp"), ("entropy", "entropy")):
        message = rf"by_segment\('{by}'\) reads {field}, which the batch lacks; give Step.{field} for every"
        with pytest.raises(DataError, match=message):
            by_segment(of_ids(3), by, count=2)


def test_small_segments_join_a_neighbour():
    batch = of_text("a b c d. e. f g. h i j k l")
    assert cut_text("sentence", "a b c d. e. f g. h i j k l", min_tokens=2) == ["a b c d.", "e. f g.", "h i j k l"]
    assert cut_text("sentence", "a b c d. e. f g. h i j k l", max_segments=2) == ["a b c d. e. f g.", "h i j k l"]
    assert lengths(by_segment(batch, "sentence", min_tokens=99)) == [12]
    assert by_segment(batch, "sentence", min_tokens=2).options["max_segments"] is None
    assert lengths(by_segment(of_text("a.", "b."), "sentence", max_segments=1)) == [1, 1]  # of a step


def slow_merge(sizes, least, most):
    sizes = list(sizes)
    while len(sizes) > 1 and (min(sizes) < least or len(sizes) > most):
        k = sizes.index(min(sizes))
        left = sizes[k - 1] if k else math.inf
        right = sizes[k + 1] if k + 1 < len(sizes) else math.inf
        first = k - 1 if left <= right else k
        sizes[first : first + 2] = [sizes[first] + sizes[first + 1]]
    return sizes


sizes_of_runs = st.lists(st.lists(st.integers(1, 6), max_size=7), min_size=1, max_size=4)


@given(sizes_of_runs, st.integers(1, 6), st.one_of(st.none(), st.integers(1, 5)))
def test_merging_slow_reference(runs, least, most):
    bounds = np.cumsum([0, *(sum(run) for run in runs)])
    starts = np.array([lo + sum(run[:k]) for lo, run in zip(bounds, runs, strict=False) for k in range(len(run))], int)
    got = merge_small(starts, bounds, least, most)
    want = []
    for lo, run in zip(bounds, runs, strict=False):
        sizes = slow_merge(run, least, math.inf if most is None else most)
        want += [int(lo) + sum(sizes[:k]) for k in range(len(sizes))]
    assert got.tolist() == want


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_a_whole_number_is_needed(count):
    for name in ("count", "size"):
        message = rf"by_segment\('fixed'\): {name} is .*; give a whole number from 1 on"
        with pytest.raises(ConfigError, match=message):
            by_segment(of_ids(3), "fixed", **{name: count})
    with pytest.raises(ConfigError, match=r"by_segment\('fixed'\): min_tokens is "):
        by_segment(of_ids(3), "fixed", count=1, min_tokens=count)


def test_one_way_of_cutting():
    with pytest.raises(ConfigError, match=r"\('fixed'\) needs count or size, one of them; got count None, size None"):
        by_segment(of_ids(3), "fixed")
    with pytest.raises(ConfigError, match=r"\('cutpoint'\) needs count or interval, one of them; got count 1, int"):
        by_segment(of_logp(P), "cutpoint", count=1, interval=1)


def test_arguments_out_of_place():
    with pytest.raises(ConfigError, match="takes no decode; drop it or cut by 'newline' or 'paragraph' or 'sentence'"):
        by_segment(of_ids(3), "fixed", count=2, decode=str)
    with pytest.raises(ConfigError, match="takes no count; drop it or cut by 'fixed' or 'cutpoint' or 'entropy'"):
        by_segment(of_ids(3), count=2)
    with pytest.raises(ConfigError, match="no criterion named 'word'; there are 'fixed', 'newline', 'paragraph', 'se"):
        by_segment(of_ids(3), "word")


def test_ids_need_their_texts():
    with pytest.raises(ConfigError, match=r"on token ids needs decode, e\.g\. units\.token_texts\(tokenizer\.decode\)"):
        by_segment(of_ids(3))
    with pytest.raises(DataError, match="decode gave 1 texts for 3 ids; one per id"):
        by_segment(of_ids(3), decode=lambda ids: ["x"])
    mixed = Batch.from_trajectories([Trajectory([Step(ids=[1])]), Trajectory([Step(action="go")])])
    with pytest.raises(DataError, match="mixes ids and text-only trajectories; cut them apart first"):
        by_segment(mixed)
