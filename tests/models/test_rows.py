"""Rows and places: which token stands where, against a plain walk over the rollouts."""

import numpy as np
import pytest

from apportion.data import Batch, Step, Trajectory
from apportion.errors import DataError
from apportion.models.places import places
from apportion.models.rows import rows_of

START = 99


def ids_batch(seed=0):
    """Rollouts with rewritten contexts, empty prompts and empty actions."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(6):
        steps = [
            Step(
                prompt_ids=rng.integers(0, 50, size=rng.integers(0, 4)).tolist(),
                ids=rng.integers(0, 50, size=rng.integers(0, 4)).tolist(),
                fresh=bool(rng.random() < 0.3),
            )
            for _ in range(rng.integers(1, 5))
        ]
        steps.append(Step(prompt_ids=[1], ids=[2]))
        out.append(Trajectory(steps, outcome=1.0))
    return Batch.from_trajectories(out)


@pytest.mark.parametrize("seed", range(8))
def test_every_token_is_where_a_plain_walk_puts_it(seed):
    batch = ids_batch(seed)
    rows = rows_of(batch, start=START, encode=None)
    t = k = 0
    for n, rollout in enumerate(batch.trajectories):
        context = [START]
        for step in rollout.steps:
            if step.fresh:
                context = [START]
            for part, is_action in ((step.prompt_ids, False), (step.ids, True)):
                if is_action:
                    assert rows.ids[rows.row_of_S[k]][: rows.at_S[k]].tolist() == context
                for token in part.tolist():
                    row = rows.ids[rows.row_of_T[t]]
                    assert row[: rows.at_T[t]].tolist() == context
                    assert row[rows.at_T[t]] == token
                    context.append(token)
                    t += 1
            assert rows.ids[rows.row_of_S[k]][: rows.after_S[k]].tolist() == context
            k += 1
        assert rows.ids[rows.row_of_N[n]][: rows.at_N[n]].tolist() == context


def test_words_are_encoded_one_by_one_and_the_last_observation_is_seen():
    rollout = Trajectory(
        [Step(observation="a door", action="open it"), Step(observation=" ok", action="go")],
        outcome=1.0,
        final_observation="done",
    )
    batch = Batch.from_trajectories([rollout])
    rows = rows_of(batch, start=256, encode=lambda text: list(text.encode()))
    (row,) = rows.ids
    assert bytes(row[1:].tolist()) == b"a dooropen it okgodone"
    for t, word in enumerate(["a", " door", "open", " it", " ok", "go"]):
        assert bytes(row[rows.at_T[t] :].tolist()).startswith(word.encode())
    assert rows.at_N[0] == len(row)
    assert bytes(row[1 : rows.at_S[1]].tolist()) == b"a dooropen it ok"


def test_what_cannot_be_a_row_is_said():
    text = Batch.from_trajectories([Trajectory([Step(observation="a", action="b")], outcome=1.0)])
    with pytest.raises(DataError, match="trajectory 0 has only text; give a backbone that has a tokenizer"):
        rows_of(text, start=0, encode=None)
    ids = Batch.from_trajectories([Trajectory([Step(prompt_ids=[1], ids=[7])], outcome=1.0)])
    with pytest.raises(DataError, match="trajectory 0 has token id 7 and the backbone knows 7 ids"):
        rows_of(ids, start=0, encode=None, vocabulary=7)
    tree = Trajectory([Step(ids=[1]), Step(ids=[2]), Step(ids=[3], parent=0)], outcome=1.0)
    with pytest.raises(DataError, match="trajectory 0 branches"):
        rows_of(Batch.from_trajectories([tree]), start=0, encode=None)


@pytest.mark.parametrize("longest", [2, 5, 8, 64])
@pytest.mark.parametrize("seed", range(4))
def test_each_place_keeps_between_half_and_all_of_what_a_model_takes(seed, longest):
    batch = ids_batch(seed)
    rows = rows_of(batch, start=START, encode=None)
    rng = np.random.default_rng(seed)
    which = rng.permutation(len(rows.row_of_T))[:20]
    row_K, at_K = rows.row_of_T[which], rows.at_T[which]
    found = places(rows, row_K, at_K, longest=longest)
    assert len(found) == len(which)
    for k in range(len(which)):
        window, before = found.windows[found.window_K[k]], found.before_K[k]
        whole = rows.ids[row_K[k]][: at_K[k]]
        assert len(window) <= longest
        assert window[:before].tolist() == whole[len(whole) - before :].tolist()
        assert before == len(whole) or before > longest - max(longest // 2, 1)
    seen = np.concatenate([found.of(w) for w in range(len(found.windows))])
    assert sorted(seen.tolist()) == list(range(len(which)))
    assert all((found.window_K[found.of(w)] == w).all() for w in range(len(found.windows)))
