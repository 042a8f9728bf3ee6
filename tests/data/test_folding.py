import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from apportion.data import Row, Step, Trajectory, fold, prefix_report, unfold
from apportion.data.folding import Boundary
from apportion.errors import DataError
from tests.make import random_trajectories

WORDS = {1: "he", 2: "llo", 3: "hello", 4: " you", 5: "<sep>", 6: " there", 7: "hell", 8: "o you"}


def decode(ids):
    """Text of toy tokens; like most tokenizers it drops special ones (5)."""
    return "".join(WORDS[i] for i in ids if i != 5)


def rows_of(*calls, traj="t", **whole):
    return [Row(traj, index, prompt, ids, **whole) for index, (prompt, ids) in enumerate(calls)]


def kinds(rows, **options):
    return [seam.kind.name for seam in prefix_report(rows, **options).seams]


class TestFolding:
    def test_only_new_tokens_stay(self):
        (t,) = fold(rows_of(([1, 2], [3]), ([1, 2, 3, 4], [5, 6]), ([1, 2, 3, 4, 5, 6], [7])))
        assert [s.prompt_ids.tolist() for s in t.steps] == [[1, 2], [4], []]
        assert [s.ids.tolist() for s in t.steps] == [[3], [5, 6], [7]]
        assert [s.fresh for s in t.steps] == [False, False, False]

    @pytest.mark.parametrize(
        "prompt",
        [
            [1, 2],  # the sampled tokens are gone
            [1, 2, 9],  # replaced
            [1, 2, 9, 3],  # pushed back
            [9, 1, 2, 3],  # something in front
            [1],  # shorter than the prompt before
            [],
            [1, 9, 3, 4],
        ],
    )
    def test_anything_else_is_fresh_with_the_whole_prompt(self, prompt):
        (t,) = fold(rows_of(([1, 2], [3]), (prompt, [7])))
        assert t.steps[1].fresh
        assert t.steps[1].prompt_ids.tolist() == prompt

    def test_the_comparison_goes_on_after_a_fresh_prompt(self):
        (t,) = fold(rows_of(([1, 2], [3]), ([9], [8]), ([9, 8, 7], [6])))
        assert [s.fresh for s in t.steps] == [False, True, False]
        assert t.steps[2].prompt_ids.tolist() == [7]

    def test_a_branch_is_compared_with_its_parent(self):
        rows = rows_of(([1], [2]), ([1, 2, 3], [4]), ([1, 2, 5], [6]), ([9], [9]))
        rows[2] = Row("t", 2, [1, 2, 5], [6], parent=0)
        rows[3] = Row("t", 3, [9], [9], parent=-1)
        (t,) = fold(rows)
        assert [s.prompt_ids.tolist() for s in t.steps] == [[1], [3], [5], [9]]
        assert [s.fresh for s in t.steps] == [False, False, False, False]
        assert unfold(t) == rows

    def test_interleaved_and_out_of_order(self):
        a, b = rows_of(([1], [2]), ([1, 2], [3]), traj="a"), rows_of(([4], [5]), ([4, 5], [6]), traj="b")
        folded = fold([b[1], a[1], b[0], a[0]])
        assert [t.id for t in folded] == ["b", "a"]
        assert [row for t in folded for row in unfold(t)] == [*b, *a]

    def test_an_empty_response_and_an_empty_prompt(self):
        (t,) = fold(rows_of(([], []), ([1], []), ([1, 2], [3])))
        assert [(s.prompt_ids.tolist(), s.fresh) for s in t.steps] == [([], False), ([1], False), ([2], False)]

    def test_everything_else_is_carried(self):
        fields = {
            "observation": "o",
            "action": "a",
            "logp": [-1.0],
            "reward": 0.5,
            "state": "s",
            "failed": True,
            "agent": "x",
            "actions": ("l", "r"),
            "extra": {"k": 1},
        }
        (t,) = fold([Row("t", 0, [1], [2], group="g", outcome=1, meta={"m": 2}, **fields)])
        assert (t.id, t.group, t.outcome, t.meta) == ("t", "g", 1.0, {"m": 2})
        (s,) = t.steps
        assert s.logp.tolist() == [-1.0]
        assert {name: getattr(s, name) for name in fields if name != "logp"} | {"logp": [-1.0]} == fields

    def test_a_row_has_every_field_of_a_step_and_of_a_trajectory(self):
        names = {f.name for f in dataclasses.fields(Row)}
        steps = {f.name for f in dataclasses.fields(Step)} - {"fresh"}
        whole = {f.name for f in dataclasses.fields(Trajectory)} - {"id", "steps"}
        assert names == steps | whole | {"traj", "index"}

    def test_nothing(self):
        assert fold([]) == []


class TestWrongRows:
    @pytest.mark.parametrize(
        ("indices", "why"),
        [
            ([0, 2], r"^trajectory 't': row 1 is missing; give each call of the rollout once, from index 0 on$"),
            ([1, 2], r"^trajectory 't': row 0 is missing; "),
            ([0, 1, 1], r"^trajectory 't': row 1 comes twice; give each call"),
            ([0, 0], r"^trajectory 't': row 0 comes twice; "),
            ([2, 0, 1, 4], r"^trajectory 't': row 3 is missing; "),
        ],
    )
    def test_holes_and_repeats(self, indices, why):
        with pytest.raises(DataError, match=why):
            fold([Row("t", i, [1], [2]) for i in indices])

    @pytest.mark.parametrize(
        ("name", "one", "other"),
        [
            ("group", "g", None),
            ("outcome", 1.0, 0.0),
            ("outcome", None, 0.0),
            ("meta", {}, {"a": 1}),
            ("reference", "x", "y"),
        ],
    )
    def test_what_belongs_to_the_rollout_must_agree(self, name, one, other):
        rows = [Row("t", 0, [1], [2], **{name: one}), Row("t", 1, [1, 2], [3], **{name: other})]
        with pytest.raises(DataError, match=rf"^trajectory 't': {name} is .* in row 0 and .* in row 1; it belongs to"):
            fold(rows)

    @pytest.mark.parametrize("parent", [1, 2, -2])
    def test_a_parent_that_does_not_come_before(self, parent):
        rows = [Row("t", 0, [1], [2]), Row("t", 1, [1, 2], [3], parent=parent)]
        with pytest.raises(
            DataError, match=rf"^trajectory 't', row 1: parent is {parent}; give an earlier row, or -1$"
        ):
            fold(rows)

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            ((1, 0, [1], [2]), r"^traj is 1; give the id of the rollout as a string$"),
            (("t", -1, [1], [2]), r"^row of 't': index is -1; give the position of the call, from 0 on$"),
            (("t", True, [1], [2]), r"^row of 't': index is True; "),
            (("t", 0, None, [2]), r"^row 0 of 't' has no prompt_ids; folding compares token ids, not text$"),
            (("t", 0, [1], None), r"^row 0 of 't' has no ids; folding compares token ids, not text$"),
            (("t", 0, [1], ["a"]), r"^row 0 of 't': ids must be integers, got <U1; give token ids"),
            (("t", 0, [-1], [1]), r"^row 0 of 't': prompt_ids holds -1; token ids lie between"),
        ],
    )
    def test_a_row_that_is_none(self, arguments, why):
        with pytest.raises(DataError, match=why):
            Row(*arguments)

    def test_unfolding_needs_ids_and_a_name(self):
        with pytest.raises(DataError, match=r"^a trajectory without an id cannot be unfolded; give it one"):
            unfold(Trajectory([Step(ids=[1])]))
        with pytest.raises(DataError, match=r"^trajectory 't', step 0 has only text; unfolding needs token ids$"):
            unfold(Trajectory([Step(action="go")], id="t"))
        with pytest.raises(DataError, match=r"^trajectory 't', step 0: parent is 0; give the index of an earlier step"):
            unfold(Trajectory([Step(ids=[1], parent=0)], id="t"))


class TestEquality:
    def test_of_rows(self):
        row = Row("t", 0, [1], [2], logp=[0.5])
        assert row == Row("t", np.int64(0), np.array([1]), np.array([2], dtype=np.int32), logp=np.array([0.5]))
        for other in (
            Row("t", 0, [1], [2]),
            Row("t", 0, [1], [2], logp=[0.25]),
            Row("t", 0, [1, 2], [], logp=[0.5]),
            Row("t", 1, [1], [2], logp=[0.5]),
            Row("t", 0, [1], [2], logp=[0.5], reward=0.0),
        ):
            assert row != other
        assert row != "t"
        with pytest.raises(TypeError, match="unhashable"):
            hash(row)


def slow_kind(before, row):
    """The rule as printed, on plain lists."""
    full = [*before.prompt_ids.tolist(), *before.ids.tolist()]
    prompt = row.prompt_ids.tolist()
    n = 0
    while n < min(len(full), len(prompt)) and full[n] == prompt[n]:
        n += 1
    if n == len(full):
        return "EXTENDS", n
    return ("DRIFT" if decode(prompt).startswith(decode(full)) else "REWRITTEN"), n


class TestReport:
    def test_the_three_kinds(self):
        rows = rows_of(
            ([3], [4]),
            ([3, 4, 6], [3]),  # goes on
            ([1, 2, 4, 6, 3, 4], [6]),  # the same text, cut into other tokens
            ([6], [3]),  # history thrown away
        )
        assert kinds(rows, decode=decode) == ["EXTENDS", "DRIFT", "REWRITTEN"]
        assert kinds(rows) == ["EXTENDS", "REWRITTEN", "REWRITTEN"]
        report = prefix_report(rows, decode=decode)
        assert report.counts == {Boundary.EXTENDS: 1, Boundary.DRIFT: 1, Boundary.REWRITTEN: 1}
        assert str(report) == "3 boundaries: 1 extends, 1 drift, 1 rewritten"
        assert [seam.index for seam in report.seams] == [1, 2, 3]
        assert [None if s.new_ids is None else s.new_ids.tolist() for s in report.seams] == [[6], [4], None]

    def test_a_token_across_the_boundary(self):
        # "hello" was sampled; the next prompt says "hell" + "o you": the same text, and no id where to cut
        (seam,) = prefix_report(rows_of(([], [3]), ([7, 8], [4])), decode=decode).seams
        assert seam.kind is Boundary.DRIFT
        assert seam.new_ids is None

    def test_special_tokens_after_the_old_text_are_new(self):
        (seam,) = prefix_report(rows_of(([], [3]), ([1, 2, 5, 4], [4])), decode=decode).seams
        assert seam.new_ids.tolist() == [5, 4]

    @pytest.mark.parametrize("seed", range(200))
    def test_equals_the_slow_reference(self, seed):
        rng = np.random.default_rng(seed)
        rows = []
        for index in range(4):
            prompt = rng.integers(1, 9, size=rng.integers(0, 4)).tolist()
            if rows and rng.random() < 0.7:
                prompt = [*rows[-1].prompt_ids, *rows[-1].ids, *prompt]
                if rng.random() < 0.5:  # the same text in other tokens, or one token off
                    prompt = [i for x in prompt for i in ([1, 2] if x == 3 else [x])]
                if prompt and rng.random() < 0.3:
                    prompt[int(rng.integers(len(prompt)))] = 6
            rows.append(Row("t", index, prompt, rng.integers(1, 9, size=rng.integers(0, 3))))
        expected = [slow_kind(a, b) for a, b in pairwise(rows)]
        report = prefix_report(rows, decode=decode)
        assert [(seam.kind.name, seam.common) for seam in report.seams] == expected
        assert [not step.fresh for step in fold(rows)[0].steps[1:]] == [kind == "EXTENDS" for kind, _ in expected]

    def test_the_text_is_only_asked_for_where_the_ids_differ(self):
        def forbidden(ids):
            raise AssertionError("decoded")

        assert kinds(rows_of(([1], [2]), ([1, 2, 3], [4])), decode=forbidden) == ["EXTENDS"]

    def test_a_rollout_of_one_call_has_no_boundary(self):
        assert prefix_report(rows_of(([1], [2]))).seams == ()

    def test_decode_gets_plain_integers(self):
        def strict(ids):
            assert all(type(i) is int for i in ids)
            return decode(ids)

        assert kinds(rows_of(([3], [4]), ([1, 2, 4], [6])), decode=strict) == ["DRIFT"]


def test_ids_only_never_text():
    # the same words under other ids are another context
    rows = [Row("t", 0, [1], [2], action="hello"), Row("t", 1, [1, 3], [4], observation="hello")]
    assert fold(rows)[0].steps[1].fresh


def test_a_long_rollout():
    rows, history = [], np.zeros(0, dtype=np.int64)
    for index in range(64):
        new = np.full(250, index)
        rows.append(Row("t", index, np.concatenate((history, new)), new))
        history = np.concatenate((history, new, new))
    (folded,) = fold(rows)
    assert [len(step.prompt_ids) for step in folded.steps] == [250] * 64
    assert unfold(folded) == rows


@pytest.mark.parametrize("seed", range(5))
def test_the_whole_prompt_is_what_the_sampler_saw(seed):
    # by a walk over the trajectory that keeps its own history
    for trajectory in random_trajectories(seed):
        seen = {-1: []}
        for s, (step, row) in enumerate(zip(trajectory.steps, unfold(trajectory), strict=True)):
            before = [] if step.fresh else seen[s - 1 if step.parent is None else step.parent]
            prompt = before + step.prompt_ids.tolist()
            assert row.prompt_ids.tolist() == prompt
            seen[s] = prompt + step.ids.tolist()
