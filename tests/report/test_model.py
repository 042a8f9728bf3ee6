"""The report's dict says what the credit says: numbers, pieces of text, states and groups, checked the slow way."""

import json
import math

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.errors import DataError
from apportion.report import SCHEMA, report_model
from apportion.report.model import step_values
from apportion.units import CUTS, by_episode, by_segment, by_step, by_token
from tests.make import random_batch, random_units, traj


def noisy(units, seed=0, parts=False):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=len(units))
    return Credit(
        values,
        units,
        known_S=rng.random(len(units)) < 0.8,
        train_S=rng.random(len(units)) < 0.8,
        parts={"a": values / 4, "b": values * 3 / 4} if parts else {},
        method="noise",
    )


def steps_of(batch):
    return [(n, s, step) for n, t in enumerate(batch) for s, step in enumerate(t.steps)]


@pytest.mark.parametrize("level", list(CUTS))
@pytest.mark.parametrize("ids", [True, False])
def test_the_value_of_a_step_is_the_mean_over_its_known_tokens(level, ids):
    batch = random_batch(1, ids=ids, values=ids)
    options = {"by": "fixed", "count": 2} if level == "segment" else {}
    units = CUTS[level](batch, **options)
    credit = noisy(units)
    model = report_model(credit)
    got = [value for t in model["trajectories"] for value in step_values(t["credit"]["0"])]
    for place, (s, value) in enumerate(zip(range(len(batch.traj_of_S)), got, strict=True)):
        unit_of_T = units.unit_of_T[batch.step_of_T == s]
        own = [u for u in unit_of_T.tolist() if u >= 0]
        if not own:  # an empty action: its own unit, where the cut gives it one
            own = [u for u in range(len(units)) if units.tokens_S[u] == 0 and units.step_of_S[u] == s]
        known = [credit.advantage_S[u] for u in own if credit.known_S[u]]
        if known:
            assert value == pytest.approx(sum(known) / len(known), rel=1e-5, abs=2e-5), place
        else:
            assert value is None, place


def test_parts_unknown_and_dropped_units_are_the_credits():
    credit = noisy(random_units(2), parts=True)
    model = report_model(credit)
    at = 0
    for trajectory in model["trajectories"]:
        entry = trajectory["credit"]["0"]
        size = len(entry["units"])
        s = slice(at, at + size)
        assert entry["units"] == pytest.approx(credit.advantage_S[s], rel=1e-5)
        assert entry["parts"][1] == pytest.approx(credit.parts["b"][s], rel=1e-5)
        assert entry.get("unknown", []) == np.flatnonzero(~credit.known_S[s]).tolist()
        assert entry.get("dropped", []) == np.flatnonzero(~credit.train_S[s]).tolist()
        at += size
    assert at == len(credit.units)
    assert model["credits"][0]["known"] == credit.known_S.sum()
    assert model["credits"][0]["trained"] == (credit.known_S & credit.train_S).sum()


def test_a_mask_of_tokens_cuts_the_runs():
    batch = Batch.from_trajectories([Trajectory([Step(observation="o o", action="a b c d", reward=1.0)])])
    train_T = np.array([False, False, True, False, False, True])
    model = report_model(Credit(np.ones(1), by_step(batch), train_T=train_T))
    entry = model["trajectories"][0]["credit"]["0"]
    assert entry["runs"] == [[[0, 1, 1], [0, 4, 2, 0], [0, 2, 1]]]
    assert step_values(entry) == [1.0]


def test_the_pieces_of_a_step_add_up_to_its_text_as_a_browser_counts():
    texts = ["go 🦊 north\n now", "größe\nnaïve 鍵を取る", "one"]
    batch = Batch.from_trajectories([Trajectory([Step(observation="x", action=t, reward=0.0) for t in texts])])
    model = report_model(noisy(by_token(batch)))
    (trajectory,) = model["trajectories"]
    runs = trajectory["credit"]["0"]["runs"]
    for k, text in enumerate(texts[:2]):
        assert sum(chars for _, chars, _ in runs[k]) == len(text.encode("utf-16-le")) // 2
    assert [size for _, _, size in runs[0]] == [1, 1, 1, 1]
    assert [chars for _, chars, _ in runs[0]] == [2, 3, 6, 5]  # the fox counts twice
    assert runs[2] == [[len(trajectory["credit"]["0"]["units"]) - 1, None, 1]]  # one run is the whole text


def test_ids_are_shown_as_ids_unless_decode_is_given():
    step = Step(prompt_ids=[1, 2], ids=[3, 4, 5], reward=1.0)
    batch = Batch.from_trajectories([Trajectory([step])])
    plain = report_model(noisy(by_token(batch)))
    assert plain["texts"][plain["trajectories"][0]["steps"][0]["action"]] == "⟨3⟩⟨4⟩⟨5⟩"
    read = report_model(noisy(by_token(batch)), decode=lambda ids: [f"w{i} " for i in ids])
    shown = read["trajectories"][0]
    assert read["texts"][shown["steps"][0]["action"]] == "w3 w4 w5 "
    assert read["texts"][shown["steps"][0]["context"]] == "w1 w2 "
    assert [chars for _, chars, _ in shown["credit"]["0"]["runs"][0]] == [3, 3, 3]
    with pytest.raises(DataError, match="report: decode gave 1 texts for 3 ids; give one per id"):
        report_model(noisy(by_token(batch)), decode=lambda ids: ["x"])


def test_text_of_tokens_that_are_ids_with_text_beside_is_not_guessed():
    batch = Batch.from_trajectories([Trajectory([Step(action="hello world", prompt_ids=[1], ids=[3, 4], reward=1.0)])])
    model = report_model(noisy(by_token(batch)))
    shown = model["trajectories"][0]
    assert model["texts"][shown["steps"][0]["action"]] == "hello world"
    assert [chars for _, chars, _ in shown["credit"]["0"]["runs"][0]] == [None, None]


def test_states_are_the_ones_seen_twice_in_a_group():
    units = random_units(3, states=2)
    batch = units.batch
    model = report_model(assign("grpo", units))
    want = {}
    for place, (n, s, _) in enumerate(steps_of(batch)):
        want.setdefault((int(batch.group_of_N[n]), batch.state_S[place]), []).append([n, s])
    want = {key: visits for key, visits in want.items() if len(visits) > 1}
    got = {(state["group"], model["texts"][state["text"]]): state["visits"] for state in model["states"]}
    assert got == want
    assert len(got) > 2
    for t, trajectory in enumerate(model["trajectories"]):
        for s, step in enumerate(trajectory["steps"]):
            if "state" in step:
                assert [t, s] in model["states"][step["state"]]["visits"]


def test_states_follow_the_users_own_key():
    batch = Batch.from_trajectories(
        [traj(("Room 1", 0.0), ("Room 2", 1.0), group="g"), traj(("room 1", 0.0), ("ROOM 1", 1.0), group="g")]
    )
    assert len(report_model(assign("gigpo", by_step(batch)))["states"]) == 0
    (state,) = report_model(assign("gigpo", by_step(batch, state=str.lower)))["states"]
    assert state["visits"] == [[0, 0], [1, 0], [1, 1]]


def test_groups_outcomes_and_flags():
    batch = random_batch(6)
    model = report_model(assign("grpo", by_step(batch)))
    for n, trajectory in enumerate(model["trajectories"]):
        assert trajectory["id"] == batch.names()[n]
        assert (trajectory["outcome"] is None) == (not batch.scored_N[n])
        assert trajectory.get("truncated", False) == batch.truncated_N[n]
        assert model["groups"][trajectory["group"]]["name"] == batch.trajectories[n].group
        assert n in model["groups"][trajectory["group"]]["members"]
    for g, group in enumerate(model["groups"]):
        outcomes = [batch.outcome_N[n] for n in range(len(batch)) if batch.group_of_N[n] == g and batch.valid_N[n]]
        assert group["valid"] == len(outcomes)
        assert group["mean"] == (pytest.approx(np.mean(outcomes), rel=1e-5, abs=1e-9) if outcomes else None)


def test_the_histogram_counts_every_known_unit_once():
    units = random_units(4)
    for credit in (noisy(units), assign("grpo", units), Credit(np.zeros(len(units)), units)):
        histogram = report_model(credit)["credits"][0]["histogram"]
        assert sum(histogram["counts"]) + histogram["zeros"] == credit.known_S.sum()
        assert len(histogram["edges"]) == len(histogram["counts"]) + 1
        assert histogram["edges"][0] == pytest.approx(-histogram["edges"][-1])


def test_the_scale_leaves_outliers_out():
    units = random_units(4)
    values = np.full(len(units), 0.5)
    values[0] = 1000.0
    assert report_model(Credit(values, units, known_S=np.ones(len(units), bool)))["credits"][0]["scale"] < 500


def test_credits_of_equal_rollouts_share_them_and_others_do_not():
    one, two = random_batch(1, rich=False), random_batch(2, rich=False)
    again = random_batch(1, rich=False)
    credits = [assign("grpo", by_step(one)), assign("gigpo", by_step(again)), assign("rloo", by_episode(two))]
    model = report_model(credits)
    assert len(model["trajectories"]) == len(one) + len(two)
    assert [credit["source"] for credit in model["credits"]] == [0, 0, 1]
    assert set(model["trajectories"][0]["credit"]) == {"0", "1"}
    assert set(model["trajectories"][-1]["credit"]) == {"2"}
    assert model["groups"][-1]["members"][-1] == len(model["trajectories"]) - 1
    assert all(model["groups"][t["group"]]["name"] for t in model["trajectories"])


def test_labels_tell_credits_apart():
    units = random_units(1, rich=False)
    labels = [
        credit["label"]
        for credit in report_model(
            [
                assign("gigpo", units, gamma=0.9),
                assign("gigpo", units, gamma=1.0),
                assign("grpo", units),
                Credit(np.zeros(len(units)), units),
                Credit(np.zeros(len(units)), units),
            ]
        )["credits"]
    ]
    assert len(set(labels)) == 5
    assert "gamma=0.9" in labels[0]
    assert labels[2:] == ["grpo", "unnamed #1", "unnamed #2"]


@pytest.mark.parametrize("ids", [True, False])
def test_the_model_is_json_and_nothing_else(ids):
    batch = random_batch(8, ids=ids, values=ids)
    credits = [noisy(by_token(batch)), noisy(by_episode(batch), parts=True), noisy(by_segment(batch, "fixed", count=3))]
    model = report_model(credits)
    assert model["schema"] == SCHEMA
    assert json.loads(json.dumps(model, allow_nan=False)) == model
    assert len(set(model["texts"])) == len(model["texts"])


def test_parameters_that_json_lacks_are_shown_as_text():
    units = random_units(1)
    credit = Credit(np.zeros(len(units)), units, method="mine/m", params={"limit": math.inf, "of": (1, len)})
    assert report_model(credit)["credits"][0]["record"]["params"] == {"limit": "inf", "of": [1, repr(len)]}


def test_what_is_not_credit_is_named():
    with pytest.raises(DataError, match=r"a report is made of Credit, got Units; call apportion\.assign first"):
        report_model([random_units(1)])
    with pytest.raises(DataError, match="a report needs at least one Credit"):
        report_model([])
