"""The comparison of values: its own play against the exact truth, and that what is counted is what was generated."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from experiments import archer_vs_ppo, value_models
from experiments import value_models_page as page
from experiments.value_models_world import TASKS, Game, labelled, tried


@pytest.mark.parametrize("name", TASKS)
def test_continuations_are_worth_the_exact_value(name):
    game, rng = Game(name, 0), np.random.default_rng(0)
    at = tried(game, rng)
    i = int(np.flatnonzero(at.after >= 0)[0])
    played = [game.play_on(int(at.after[i]), int(at.time[i]) + 1, rng) for _ in range(1500)]
    got = np.array([total for total, _ in played])
    want = game.truth.value_HX[at.time[i] + 1, at.after[i]]
    assert abs(got.mean() - want) < 4 * got.std() / np.sqrt(len(got)) + 1e-9
    assert all(0 < words <= game.table.horizon * game.words_K.max() for _, words in played)


def test_labels_are_mean_returns_behind_the_step_and_the_outcome_at_the_end():
    game, rng = Game("crafttree", 1), np.random.default_rng(1)
    drawn, words = game.episodes(60, rng)
    assert words == sum(len(game.said_K[k].split()) for k in drawn.slot_S)
    label, spent = labelled(game, drawn, 100, rng)
    last = np.append(np.diff(drawn.traj_of_S) != 0, True)
    np.testing.assert_array_equal(label[last], drawn.return_N)
    after = np.flatnonzero(~last)
    want = game.truth.value_HX[drawn.time_S[after + 1], drawn.state_S[after + 1]]
    assert np.abs(label[after] - want).max() < 5 * 0.5 / np.sqrt(100)
    assert spent > 0


def test_a_row_of_the_batch_tells_the_state_and_nothing_of_the_action():
    game = Game("ice", 0)
    drawn, _ = game.episodes(40, np.random.default_rng(0))
    batch = game.batch(drawn)
    assert len(batch) == len(drawn.group_of_N)
    np.testing.assert_allclose(batch.outcome_N, drawn.return_N)
    words = {k: word for word, k in game.ids.items()}
    s = 3
    step = [step for t in batch.trajectories for step in t.steps][s]
    x, t = int(drawn.state_S[s]), int(drawn.time_S[s])
    assert " ".join(words[k] for k in step.prompt_ids) == game.table.text(x, t)
    assert " ".join(words[k] for k in step.ids) == game.said_K[drawn.slot_S[s]]


def test_the_exact_source_ranks_best_where_nothing_is_left_to_luck():
    game = Game("crafttree", 0)
    at = tried(game, np.random.default_rng(3))
    q = game.truth.q_HK[at.time, at.slot]
    assert value_models.quality(q, q, q, q, at)["pairwise"] == 1.0
    assert value_models.quality(q, q, -q, q, at)["pairwise"] == 0.0


def test_the_verdict_follows_the_intervals():
    gaps = {"a:3 - samples:3, error": [-0.1, -0.2, -0.01], "b:3 - samples:3, pairwise": [-0.1, -0.2, -0.01]}
    told = page.verdict(gaps | {"c:3 - samples:3, error": [0.1, -0.1, 0.3]})
    assert "better, with an interval beside 0, for a:3 (error)" in told
    assert "worse, likewise, for b:3 (pairwise)" in told
    assert "not told apart for c:3 (error)" in told


def test_episodes_to_a_level_and_the_ratio_of_planted_curves(monkeypatch):
    monkeypatch.setattr(archer_vs_ppo, "WINDOW", 2)
    assert archer_vs_ppo.reached([0.0, 0.4, 0.6, 0.0], 0.5) == 3 * archer_vs_ppo.BATCH
    assert archer_vs_ppo.reached([0.0, 0.4, 0.6, 0.0], 0.55) is None
    slow, fast = [0.0] * 40 + [1.0] * 10, [0.0] * 3 + [1.0] * 10
    runs = {
        seed: {arm: {"return": x, "seconds": 1.0} for arm, x in (("ppo", slow), ("archer", fast))} for seed in range(3)
    }
    found = archer_vs_ppo.summary(runs, 1.0)
    row = next(row for row in found["levels"] if row["level"] == 0.9)
    assert row["ratio"] == pytest.approx([42 / 5] * 3, abs=1e-3)
    assert found["equal"]["archer - ppo"] == [1.0, 1.0, 1.0]
    assert (
        "| 0.9 | 672 (672 to 672) | 3 of 3 | 80 (80 to 80) | 3 of 3 | 8.40 (8.40 to 8.40) |"
        in archer_vs_ppo.markdown(found)
    )
