"""The collapse monitor: planted collapses end a run in the right batch, healthy runs do not, and it survives a stop."""

import json
from dataclasses import replace

import numpy as np
import pytest

import apportion as ap
from apportion.bench.check.world import ids, report
from apportion.check import CollapseMonitor
from apportion.check.degenerate import clipped, degenerate, response_scores
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, StopRun
from apportion.numerics.repetition import repetition

LOOP = "So x is 2. Then we think again about it. "


def batch_of(rng, *, n=40, right=0.5, cut=(0.0, 0.0), loop=(0.0, 0.0), praise=0.0, prm=True):
    """Rollouts of three steps; ``cut``, ``loop``: share of the right and of the wrong ones; ``praise``: share of the
    wrong ones in which the process reward sees nothing bad."""
    out = []
    won = rng.permutation(n) < round(right * n)
    for k in range(n):
        texts = [report(rng, words=20, paragraphs=1) for _ in range(3)]
        if rng.random() < loop[not won[k]]:
            texts[2] = LOOP * 12
        scores = [1.0, 0.8, 0.6] if won[k] or rng.random() < praise else [0.9, -0.7, 0.4]
        steps = [
            Step("go on", text, prompt_ids=[1], ids=ids(text), rewards={"prm": score} if prm else {})
            for text, score in zip(texts, scores, strict=True)
        ]
        steps[2] = replace(steps[2], truncated=rng.random() < cut[not won[k]])
        out.append(Trajectory(steps, group=f"g{k // 4}", id=str(k), outcome=float(won[k])))
    return Batch.from_trajectories(out)


def credit_of(rng, **how):
    return ap.assign("pure", ap.by_step(batch_of(rng, **how)))


def run(monitor, batches, *, seed=0):
    """Step and reason at which it ends, None where it does not."""
    rng = np.random.default_rng(seed)
    for step, how in enumerate(batches):
        try:
            monitor(credit_of(rng, **how), step)
        except StopRun as stop:
            return step, str(stop), stop.numbers
    return None


HEALTHY = [{"right": 0.3 + 0.02 * k} for k in range(25)]


# --- planted collapses ----------------------------------------------------------------------------------------------


def test_thinking_on_for_ever_is_caught_in_the_third_batch():
    """The sum form: responses reach the limit, the process reward is happy, nothing is solved."""
    lost = {"right": 0.05, "cut": (0.0, 0.9), "praise": 0.9}
    step, reason, numbers = run(CollapseMonitor(), [*HEALTHY[:6], lost, lost, lost, lost])
    assert step == 8
    assert reason.startswith("stopped at step 8 by clip_rate, 0.")
    assert (
        "of 40 responses were cut off at the limit, more than 0.5 since step 6 while right answers fell from 0.3"
        in (reason)
    )
    assert "to 0.05; go back to a checkpoint before step 6, and count the worst step and not the sum" in reason
    assert numbers["collapse/clip_rate"] > 0.5


def test_stopping_at_once_is_caught_by_praise_for_what_is_wrong():
    lost = {"right": 0.0, "praise": 1.0}
    step, reason, _ = run(CollapseMonitor(), [*HEALTHY[:4], lost, lost, lost])
    assert step == 6
    assert "by praised_failures, 1.00: 40 of 40 responses are wrong though the process reward finds no bad" in reason


def test_loops_of_what_is_wrong_are_caught_once_answers_are_lost():
    lost = {"right": 0.1, "loop": (0.0, 0.9)}
    step, reason, _ = run(CollapseMonitor(), [*HEALTHY[:4], lost, lost, lost])
    assert step == 6
    assert "by repetitive, 0." in reason
    assert "repeat themselves (score above 0.2)" in reason


@pytest.mark.parametrize("how", [{"cut": (0.3, 0.0)}, {"loop": (0.3, 0.0)}])
def test_pseudo_positives_after_twenty_batches_without(how):
    """PURE's iteration 361: right answers that are degenerate, before anything else is to be seen."""
    bad = {"right": 0.6, **how}
    step, reason, numbers = run(CollapseMonitor(), [{"right": 0.6}] * 20 + [bad] * 4)
    assert step == 22
    name = "clip_rate_right" if "cut" in how else "repetitive_right"
    assert f"stopped at step 22 by {name}" in reason
    assert "of 24 right responses" in reason
    assert "more than 0 since step 20; go back to a checkpoint before step 20" in reason
    assert 0 < numbers[f"collapse/{name}"] < 1


# --- healthy runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        (HEALTHY * 2, "noise"),
        ([{"right": 0.02 + 0.02 * k, "cut": (0.0, 0.9), "loop": (0.0, 0.9)} for k in range(40)], "begins badly"),
        (
            HEALTHY + [{"right": 0.6, "cut": (0.0, 0.9), "loop": (0.0, 0.9)}] * 8,
            "wrong ones grow, as before PURE's 360",
        ),
        (HEALTHY + [{"right": 0.55, "cut": (1.0, 1.0)}] * 2 + HEALTHY, "two batches only"),
        (HEALTHY + [{"right": 0.6, "loop": (0.4, 0.0)}, {"right": 0.6}] * 6, "pseudo-positives now and then"),
        ([{"right": 0.6, "loop": (0.4, 0.1)}] * 40, "an agent that always repeats itself"),
        (([{"right": 0.6}] * 9 + [{"right": 0.6, "loop": (0.4, 0.0)}] * 4) * 4, "never quiet for twenty batches"),
        ([{"right": 0.3, "praise": 0.5 + 0.01 * k} for k in range(40)], "a poor process reward, and no fall"),
        ([{"right": 0.5}, *[{"right": 0.35, "cut": (0.0, 1.0)}] * 10], "longer, and a little worse"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_healthy_run_is_not_ended(batches, why, seed):
    assert run(CollapseMonitor(), batches, seed=seed) is None, why


def test_without_anybody_who_says_what_is_right_text_alone_can_end_a_run():
    rng, monitor = np.random.default_rng(0), CollapseMonitor()

    def credit(loop):
        bare = [replace(t, outcome=None) for t in batch_of(rng, loop=(loop, loop))]
        rated = [replace(t, steps=[replace(s, reward=s.rewards["prm"], rewards={}) for s in t.steps]) for t in bare]
        return ap.assign("pure", ap.by_step(Batch.from_trajectories(rated)))

    numbers = monitor(credit(0.0), 0)
    assert "collapse/verdict" not in numbers
    assert "collapse/praised_failures" not in numbers
    assert numbers["collapse/process"] > 0
    monitor(credit(0.9), 1)
    monitor(credit(0.9), 2)
    with pytest.raises(StopRun, match=r"by repetitive, .* more than 0.5 since step 1; go back"):
        monitor(credit(0.9), 3)


def test_rules_can_be_moved_and_taken_off():
    lost = [{"right": 0.5}] * 2 + [{"right": 0.05, "cut": (0.0, 0.9), "praise": 1.0}] * 6
    assert run(CollapseMonitor(stop=None), lost) is None
    assert run(CollapseMonitor(stop={"clip_rate": 1.0}), lost)[1].count("praised_failures")
    assert run(CollapseMonitor(patience=1), lost)[0] == 2
    off = {"clip_rate": 1.0, "praised_failures": 1.0}
    assert run(CollapseMonitor(stop=off), lost) is None
    early = [{"right": 0.6}] * 3 + [{"right": 0.6, "cut": (0.5, 0.0)}] * 3
    assert run(CollapseMonitor(), early) is None
    assert run(CollapseMonitor(quiet=3), early)[0] == 5


@pytest.mark.parametrize("at", range(1, 9))
def test_what_it_remembers_survives_an_interruption(at):
    lost = {"right": 0.05, "cut": (0.0, 0.9)}
    batches = [{"right": 0.5}] * 4 + [lost] * 2 + [{"right": 0.5}] + [lost] * 3
    rng = np.random.default_rng(3)
    credits = [credit_of(rng, **how) for how in batches]

    def outcome(monitor, first, last):
        told = []
        for step in range(first, last):
            try:
                told.append(monitor(credits[step], step))
            except StopRun as stop:
                told.append(str(stop))
        return told

    whole = outcome(CollapseMonitor(), 0, 10)
    assert isinstance(whole[9], str)
    assert not any(isinstance(one, str) for one in whole[:9])
    before, after = CollapseMonitor(), CollapseMonitor()
    told = outcome(before, 0, at)
    after.restore(json.loads(json.dumps(before.state())))
    assert after.state() == before.state()
    assert told + outcome(after, at, 10) == whole


# --- the numbers ----------------------------------------------------------------------------------------------------


def test_the_numbers_of_a_batch_by_hand():
    batch = batch_of(np.random.default_rng(0), n=8, right=0.5, cut=(0.0, 1.0), loop=(1.0, 0.0), praise=1.0)
    found = degenerate(ap.by_step(batch))
    assert found.shares == {
        "clip_rate": 0.5, "repetitive": 0.5, "clip_rate_right": 0.0, "repetitive_right": 1.0, "clip_rate_wrong": 1.0,
        "repetitive_wrong": 0.0, "praised_failures": 0.5,
    }  # fmt: skip
    assert found.of["clip_rate"] == 8
    assert found.of["clip_rate_right"] == 4
    assert found.means["verdict"] == 0.5
    assert found.means["steps"] == 3.0
    assert found.means["process"] == pytest.approx(0.8)
    assert found.means["tokens"] == len(batch.ids_T[batch.sampled_T]) / 8


def test_a_response_is_all_that_was_written_and_short_ones_are_not_scored():
    def rollout(*texts, **more):
        return Trajectory([Step("o", text, prompt_ids=[1], ids=[2], **more) for text in texts], outcome=1.0)

    batch = Batch.from_trajectories([rollout(*["take the lamp from the desk"] * 8), rollout("aaaa"), rollout("a b c")])
    chosen, score = response_scores(batch)
    np.testing.assert_array_equal(chosen, range(3))
    assert score[0] == pytest.approx(repetition(["\n".join(["take the lamp from the desk"] * 8)])[0])
    assert score[0] > 0.7
    assert score[1] == score[2] == 0
    only_ids = Batch.from_trajectories([Trajectory([Step(prompt_ids=[1], ids=[5, 6, 7] * 20)], outcome=1.0)])
    assert response_scores(only_ids)[1][0] == pytest.approx(repetition([np.array([5, 6, 7] * 20)])[0])


def test_a_limit_is_a_number_of_tokens_of_one_action():
    steps = [Step("o", "x", prompt_ids=[1], ids=[2] * k) for k in (3, 4, 5)]
    batch = Batch.from_trajectories(
        [Trajectory(steps[:2], outcome=1.0), Trajectory(steps, outcome=1.0), Trajectory(steps[:1], outcome=1.0)]
    )
    assert clipped(batch).tolist() == [False] * 3
    assert clipped(batch, 5).tolist() == [False, True, False]
    assert clipped(batch, 4).tolist() == [True, True, False]


def test_rewards_of_an_environment_are_no_process_rewards():
    batch = batch_of(np.random.default_rng(0), prm=False)
    paid = [replace(t, outcome=None, steps=[replace(s, reward=1.0) for s in t.steps]) for t in batch]
    found = degenerate(ap.by_step(Batch.from_trajectories(paid)), process="prm")
    assert "process" not in found.means
    assert "praised_failures" not in found.shares
    assert found.means["verdict"] == 1.0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"stop": {"clip-rate": 0.5}}, "no share is named 'clip-rate'; there are clip_rate_right, repetitive_right"),
        ({"stop": {"clip_rate": 1.5}}, "shares in stop lie between 0 and 1"),
        ({"stop": {"clip_rate": float("nan")}}, "shares in stop"),
        ({"patience": 0}, "patience is 0; give a whole number from 1 on"),
        ({"quiet": True}, "quiet is True"),
        ({"limit": 0}, "limit is 0"),
    ],
)
def test_wrong_settings(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        CollapseMonitor(**options)
