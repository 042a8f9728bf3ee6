"""The numbers in the evidence, on rollouts small enough to count by hand."""

from dataclasses import replace

import numpy as np
import pytest

from apportion.bench.check.world import rollouts
from apportion.check import check
from apportion.data import Step, Trajectory
from tests.make import traj


def the(findings, code):
    (finding,) = findings.of(code)
    return finding


def tasks(groups, starts):
    """One-step rollouts with these starts, in these groups."""
    return [
        Trajectory([Step(observation=f"task {s}", prompt_ids=[1], ids=[n])], group=g, id=str(n), outcome=float(n % 2))
        for n, (g, s) in enumerate(zip(groups, starts, strict=True))
    ]


@pytest.mark.parametrize(
    ("groups", "starts", "pattern"),
    [
        ("abcabcabc", "111222333", "interleaved groups"),
        ("aaabbbccc", "123123123", "interleaved starts"),
        ("aaabbbccc", "311122233", "shifted"),
        ("aaabbbccc", "113122233", "none"),
    ],
)
def test_groups_by_position_are_named_for_what_they_are(groups, starts, pattern):
    finding = the(check(tasks(groups, starts)), "group-mixing")
    assert finding.evidence["pattern"] == pattern
    assert finding.severity == "error"
    first, second = (int(name) for name in finding.evidence["example"])
    assert starts[first] == starts[second]
    assert groups[first] != groups[second]


def test_a_rollout_that_fills_its_state():
    # 0: A B B B B C    1: A C B        state B: 5 visits, 4 of them by 0; 5 of 9 steps
    made = [
        traj(*((s, 0.0) for s in "ABBBBC"), group="g", id="0", outcome=1.0),
        traj(*((s, 0.0) for s in "ACB"), group="g", id="1", outcome=0.0),
    ]
    evidence = the(check(made), "own-repeats").evidence
    assert [evidence[key] for key in ("states", "alone", "steps", "of", "visits", "visits_of_all")] == [
        1,
        0,
        5,
        9,
        4,
        5,
    ]
    assert the(check(made), "own-repeats").where == ("rollout '0', step 1",)


def test_rewards_on_what_nobody_sampled():
    made = rollouts(np.random.default_rng(0), groups=2, members=2)
    last = Step(observation="end", action="", prompt_ids=[5], ids=[], reward=3.0, terminated=True)
    body = [replace(s, terminated=False, reward=0.5) for s in made[0].steps]
    finding = the(check([replace(made[0], outcome=None, steps=[*body, last]), *made[1:]]), "reward-unsampled")
    assert finding.evidence["steps"] == 1
    assert finding.evidence["share"] == pytest.approx(3 / (3 + 0.5 * len(body)))
    assert finding.where == (f"rollout '0/0', step {len(body)}",)


def call(prompt, ids, fresh=False):
    return Step(prompt_ids=prompt, ids=ids, fresh=fresh, observation="o")


@pytest.mark.parametrize(
    ("second", "code", "at"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 20], "extends", 9),
        ([1, 2, 3, 40, 41, 5, 6, 7, 8, 9, 20], "drift", 3),  # one id came back as two, inside what was sampled
        ([1, 2, 3, 45, 6, 7, 8, 9, 20], "drift", 3),  # two as one
        ([1, 2, 3, 4, 5, 6, 7, 8, 90, 91], "drift", 8),  # the last id, as two
        ([1, 2, 20, 21], "rewritten", 2),  # what was said is gone
        ([50, 51, 52, 53, 54, 55], "rewritten", 0),
    ],
)
def test_where_a_prompt_leaves_the_tokens_so_far(second, code, at):
    steps = [call([1, 2, 3], [4, 5, 6, 7, 8, 9]), call(second, [30], fresh=True)]
    made = [Trajectory(steps, group="g", id="a", outcome=1.0), Trajectory(steps, group="g", id="b", outcome=0.0)]
    found = [f for f in check(made) if f.code.startswith("prefix-drift")]
    assert [f.code for f in found] == [f"prefix-drift/{code}"]
    evidence = found[0].evidence
    assert (evidence["steps"], evidence["first_at"], evidence["first_of"]) == (2, at, 9)
    assert evidence["in_sampled_tokens"] == (2 if code == "drift" else 0)


def test_a_prompt_is_compared_with_what_is_behind_the_last_fresh_one():
    steps = [call([1], [2]), call([7, 8], [9], fresh=True), call([7, 8, 9, 10], [11], fresh=True)]
    made = [Trajectory(steps, group="g", id=name, outcome=float(k)) for k, name in enumerate("ab")]
    evidence = the(check(made), "prefix-drift/extends").evidence
    assert (evidence["steps"], evidence["of"], evidence["first_of"]) == (2, 4, 3)


def test_states_that_differ_by_an_id_are_counted_before_and_after():
    def page(n, k):
        return Step(
            observation=f"start {n}" if k == 0 else f"Session {n}{k}a{n}: page {k % 2}",
            action="go",
            prompt_ids=[1],
            ids=[2],
        )

    made = [
        Trajectory(
            [replace(page(n, k), observation="start") if k == 0 else page(n, k) for k in range(5)],
            group="g",
            id=str(n),
            outcome=float(n % 2),
        )
        for n in range(3)
    ]
    evidence = the(check(made), "under-grouped/volatile").evidence
    assert (evidence["states"], evidence["after"]) == (12, 2)
    assert evidence["same_future"] == 1.0


def test_amounts_that_decide_what_follows_are_no_noise():
    """Ids by their looks, and yet the state: equal actions lead to different places."""

    def walk(n):
        door = f"run id {n}7"
        texts = ["start", f"at door {door}", f"room {n}", "end"]
        return Trajectory(
            [Step(observation=t, action="on", prompt_ids=[1], ids=[2]) for t in texts],
            group="g",
            id=str(n),
            outcome=n % 2,
        )

    assert not check([walk(n) for n in range(6)]).of("under-grouped/volatile")


def test_overlapping_phrases_count_once():
    from apportion.check.phrasing import words_covered
    from apportion.units.phrases import Phrases

    text = "let me check that again and go on"
    places = Phrases(["let me check", "check that again", "me"]).places(text)
    assert words_covered(text, places) == 5
