"""Bugs that were reported in public against other projects, as far as they touch rollouts: here they cannot happen.

Numbers are those of the shared list of cases; the last test compares them with it where it is at hand.
"""

import json

import numpy as np

from apportion.data import Batch, Row, Step, Trajectory, fold, prefix_report
from apportion.data.folding import Boundary
from apportion.numerics import centre

CASES = {
    "A1": {"ids": [5, 6, 2, 2, 2], "pad": 2, "eos": 2, "length": 3},
    "D1": {"group": ["a", "b", "a", "b"], "reward": [1, 5, 0, 3], "perm": [2, 0, 3, 1]},
    "D3": {"group": ["a", "a", "b", "b"], "reward": [1, 0, 1, 1], "splits": [[1, 3], [2, 2], [3, 1]]},
    "D5": {"prompts": 64, "samples": 8, "rows": 1032, "mini_batch_prompts": 32},
    "G1": {"prompt_ids": [[7, 7, 7]] * 6, "group_id": ["a", "a", "a", "b", "b", "b"], "reward": [0, 0, 0, 1, 1, 1]},
    "I1": {"vocab": {"hello": 10, "he": 11, "llo": 12}, "sampled_ids": [11, 12], "text": "hello"},
    "I7": {"prompt_ids": [1, 2], "response_ids": [3, 99, 4], "special": [99], "rerendered_ids": [1, 2, 3, 4, 7, 8]},
    "M1": {"group": ["g", "g", "g", "g"], "reward": [1.0, 0.0, None, -1.0]},
    "M4": {"group": ["g", "g", "g", "g"], "reward": [1, 0, 0, 1], "valid": [True, False, True, True]},
    "P2": {"length": [0, 3], "width": 3, "score": [7, 1], "group": ["g", "g"]},
    "R1": {"group": ["g", "g", "g", "g"], "traj": ["A", "B", "B", "B"], "reward": [1, 0, 0, 0]},
    "R4": {"group": ["g", "g", "g"], "reward": [40, 1, 0], "trainable_tokens": [0, 3, 3]},
    "R7": {"traj": ["A"] * 2 + ["B"] * 8, "reward": [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]},
    "T7": {"sampled": [5, 6, 7], "max_len": 3, "eos": 2},
}


def batch_of(group, outcome, tokens=None, **step):
    sizes = tokens if tokens is not None else [1] * len(group)
    return Batch.from_trajectories(
        Trajectory([Step(prompt_ids=[1], ids=range(n), **step)], group=g, outcome=r, id=str(i))
        for i, (g, r, n) in enumerate(zip(group, outcome, sizes, strict=True))
    )


def compared(batch):
    """Mean-only comparison inside the group, as the cases call it."""
    return centre(batch.outcome_N, batch.group_of_N, where=batch.valid_N)


def rows_of(case):
    """One row per call of a case; each prompt goes on from the tokens before it."""
    seen, rows = {}, []
    for n, (name, reward) in enumerate(zip(case["traj"], case["reward"], strict=True)):
        history = seen.setdefault(name, [])
        prompt = [token for row in history for token in (row.index, 100 + row.index)]
        group = case["group"][n] if "group" in case else "g"
        rows.append(Row(name, len(history), [*prompt, len(history)], [100 + len(history)], group=group, outcome=reward))
        history.append(rows[-1])
    return rows


def test_a1_masks_come_from_lengths_never_from_ids():
    c = CASES["A1"]
    batch = Batch.from_trajectories([Trajectory([Step(prompt_ids=[c["pad"]], ids=c["ids"][: c["length"]])])])
    assert batch.ids_T.tolist() == [c["pad"], 5, 6, c["eos"]]
    assert batch.sampled_T.tolist() == [False, True, True, True]


def test_d1_the_result_of_a_row_does_not_depend_on_the_order():
    c = CASES["D1"]
    assert compared(batch_of(c["group"], c["reward"])).tolist() == [0.5, 1.0, -0.5, -1.0]
    moved = batch_of([c["group"][i] for i in c["perm"]], [c["reward"][i] for i in c["perm"]])
    assert compared(moved).tolist() == [-0.5, 0.5, -1.0, 1.0]


def test_d3_a_batch_is_whole_before_it_is_split():
    c = CASES["D3"]
    advantage = compared(batch_of(c["group"], c["reward"]))
    for sizes in c["splits"]:
        parts = np.split(advantage, np.cumsum(sizes)[:-1])
        assert np.concatenate(parts).tolist() == [0.5, -0.5, 0.0, 0.0]


def test_d5_rows_per_prompt_may_vary():
    c = CASES["D5"]
    trajectories = c["prompts"] * c["samples"]
    sizes = [3 if i < 8 else 2 for i in range(trajectories)]
    assert sum(sizes) == c["rows"]
    rows = [Row(str(i), s, [i, s], [1], group=str(i // c["samples"])) for i, n in enumerate(sizes) for s in range(n)]
    batch = Batch.from_trajectories(fold(rows))
    assert len(batch) == trajectories
    assert np.bincount(batch.traj_of_S).tolist() == sizes
    assert len(batch.group_names) // c["mini_batch_prompts"] == 2


def test_g1_equal_prompts_are_not_one_group():
    c = CASES["G1"]
    rollouts = [
        Trajectory([Step(prompt_ids=p, ids=[1])], group=g, outcome=r)
        for p, g, r in zip(c["prompt_ids"], c["group_id"], c["reward"], strict=True)
    ]
    assert compared(Batch.from_trajectories(rollouts)).tolist() == [0.0] * 6


def test_i1_sampled_ids_are_kept_beside_their_text():
    c = CASES["I1"]
    assert [c["vocab"][c["text"]]] != c["sampled_ids"]  # encoding the text again would give other tokens
    batch = Batch.from_trajectories([Trajectory([Step(ids=c["sampled_ids"], action=c["text"])])])
    assert batch.ids_T.tolist() == [11, 12]
    assert batch.has_ids
    only_text = Batch.from_trajectories([Trajectory([Step(action=c["text"])])])
    assert not only_text.has_ids
    assert only_text.ids_T.tolist() == [-1]


def test_i7_the_new_context_is_cut_by_ids_with_a_prefix_check():
    c = CASES["I7"]
    rows = [Row("t", 0, c["prompt_ids"], c["response_ids"]), Row("t", 1, c["rerendered_ids"], [5])]
    (seam,) = prefix_report(rows).seams
    assert (seam.kind, seam.common, seam.before) == (Boundary.REWRITTEN, 3, 5)  # the response is no prefix
    assert seam.new_ids is None  # never [8], which a cut by length would give

    def without_special(ids):
        return " ".join(str(i) for i in ids if i not in c["special"])

    (seam,) = prefix_report(rows, decode=without_special).seams
    assert seam.kind is Boundary.DRIFT
    assert seam.new_ids.tolist() == [7, 8]
    assert fold(rows)[0].steps[1].fresh
    assert fold(rows)[0].steps[1].prompt_ids.tolist() == c["rerendered_ids"]


def test_m1_unscored_is_not_zero():
    batch = batch_of(CASES["M1"]["group"], CASES["M1"]["reward"])
    assert batch.scored_N.tolist() == [True, True, False, True]
    assert compared(batch).tolist() == [1.0, 0.0, 0.0, -1.0]


def test_m4_a_broken_verifier_is_not_a_zero():
    c = CASES["M4"]
    batch = batch_of(c["group"], [r if ok else None for r, ok in zip(c["reward"], c["valid"], strict=True)])
    np.testing.assert_allclose(compared(batch), [1 / 3, 0.0, -2 / 3, 1 / 3], atol=1e-6)


def test_p2_an_empty_response_is_nowhere():
    c = CASES["P2"]
    batch = batch_of(c["group"], c["score"], c["length"])
    assert batch.has_tokens_N.tolist() == [False, True]
    assert batch.sampled_T.sum() == 3
    assert compared(batch).tolist() == [0.0, 0.0]


def test_r1_a_trajectory_has_one_vote_however_many_rows():
    rows = rows_of(CASES["R1"])
    batch = Batch.from_trajectories(fold(rows))
    assert compared(batch)[batch.traj_of_S].tolist() == [0.5, -0.5, -0.5, -0.5]


def test_r4_without_a_token_no_vote():
    c = CASES["R4"]
    assert compared(batch_of(c["group"], c["reward"], c["trainable_tokens"])).tolist() == [0.0, 0.5, -0.5]


def test_r7_means_are_over_trajectories():
    batch = Batch.from_trajectories(fold(rows_of(CASES["R7"])))
    assert batch.outcome_N.mean() == 0.5


def test_t7_a_truncated_response_keeps_its_tokens():
    c = CASES["T7"]
    batch = Batch.from_trajectories([Trajectory([Step(ids=c["sampled"], truncated=True)])])
    assert batch.ids_T.tolist() == [5, 6, 7]
    assert batch.truncated_N.tolist() == [True]


def test_the_numbers_are_those_of_the_list(data_root):
    listed = {case["id"]: case["input"] for case in json.loads((data_root / "cases" / "cases.json").read_text())}
    for name, ours in CASES.items():
        theirs = {key: value for key, value in listed[name].items() if key != "estimator"}
        assert ours == theirs, name
