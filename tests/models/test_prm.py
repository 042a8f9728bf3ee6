"""The process reward model: labels from anywhere, planted good and bad steps that it finds, and credit by `pure`."""

import math

import numpy as np
import pytest
import torch

import apportion as ap
from apportion.data import Batch, Step, Trajectory
from apportion.errors import CheckpointError, ConfigError, DataError
from apportion.models import Backbone, Settings, StepPRM, ValueHead, load
from apportion.models.prm_task import Labelled
from apportion.models.step_labels import labels_of
from apportion.models.step_measures import step_measures
from apportion.units import process_rewards


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def labelled(n, seed, *, part="rating", low=-1.0, scored=True):
    """A step is good where it says 1 and not 0; rollouts of 2 to 4 steps, groups of 4."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(n):
        steps = []
        for _ in range(int(rng.integers(2, 5))):
            shown, said = rng.integers(2, size=2).tolist()
            label = 1.0 if said else low
            told = {"reward": label} if not part else {"rewards": {part: label}}
            steps.append(Step(prompt_ids=[shown, 3], ids=[4, said], **told))
        outcome = float(all(s.ids[1] for s in steps)) if scored else None
        out.append(Trajectory(steps, group=f"g{i // 4}", id=f"r{i}", outcome=outcome))
    return Batch.from_trajectories(out)


def truth(batch):
    """Which steps are good."""
    return np.array([s.ids[1] == 1 for t in batch for s in t.steps])


FAST = Settings(epochs=4, lr=3e-3, batch_tokens=256, held_out=0.2)


def small():
    return Backbone("small", vocabulary=6)


@pytest.fixture(scope="module")
def fitted():
    torch.set_num_threads(1)
    return StepPRM.fit(labelled(120, 0), backbone=small(), labels="rating", settings=FAST)


def test_it_finds_good_steps_and_reads_nothing_that_follows(fitted):
    batch = labelled(40, 1)
    reward = fitted.rewards(batch)
    assert ((reward > 0) == truth(batch)).mean() > 0.95
    assert np.abs(reward).max() <= 1
    cut = Batch.from_trajectories(Trajectory(t.steps[:1], group=t.group, outcome=0.0) for t in batch)
    first = np.flatnonzero(np.diff(batch.traj_of_S, prepend=-1))
    np.testing.assert_allclose(fitted.rewards(cut), reward[first], atol=1e-6)


def test_measures_of_held_out_groups_and_of_other_rollouts(fitted):
    told = fitted.fitted.measures
    assert told["trajectories"] == 24
    assert told["auc"][0] > 0.97
    assert told["auc"][1] <= told["auc"][0] <= told["auc"][2]
    batch = labelled(40, 1)
    again = fitted.measure(batch)
    right = (fitted.rewards(batch) > 0) == truth(batch)
    assert again["accuracy"][0] == pytest.approx(right.mean())
    assert again["steps"] == len(right)
    assert again["first_error"][0] > 0.9
    turned = np.where(truth(batch), -1.0, 1.0)
    assert fitted.measure(batch, labels=turned)["accuracy"][0] == pytest.approx(1 - right.mean())


def test_pure_reads_what_it_predicts(fitted):
    batch = labelled(16, 2)
    units = ap.by_step(batch)
    for how in ({}, {"form": "sum", "outcome_weight": 0.0}):
        credit = ap.assign("pure", units, values=fitted, **how)
        want = ap.assign("pure", ap.by_step(fitted.predict(batch)), process="prm", **how)
        np.testing.assert_array_equal(credit.advantage_S, want.advantage_S)
        assert credit.parts["process"].any()
    np.testing.assert_allclose(fitted.predict(batch).reward_parts["prm"], fitted.rewards(batch))
    assert set(fitted.predict(batch).reward_parts) == {"rating", "prm"}  # nothing else was lost
    # named, the steps' own part still counts
    own = ap.assign("pure", units, values=fitted, process="rating")
    np.testing.assert_array_equal(own.advantage_S, ap.assign("pure", units, process="rating").advantage_S)


def test_the_losses_are_those_of_the_formulas():
    batch = labelled(3, 5)
    for form, want in (
        ("classify", lambda z, y: math.log1p(math.exp(-z if y > 0 else z))),
        ("soft", lambda z, y: -y * math.log(1 / (1 + math.exp(-z))) - (1 - y) * math.log(1 / (1 + math.exp(z)))),
        ("regress", lambda z, y: 0.5 * (z - y) ** 2),
    ):
        model = StepPRM(small(), form=form)
        torch.nn.init.normal_(model.head.weight, generator=torch.Generator().manual_seed(0))
        labels = np.linspace(0, 1, len(batch.traj_of_S)) if form == "soft" else batch.reward_parts["rating"]
        task = Labelled(model, batch, labels, Settings(held_out=0.0))
        total, weight = task.loss(np.arange(len(task.sizes)))
        rows = model.rows(batch)
        logit = model.values_at(rows, rows.row_of_S, rows.after_S)
        assert weight == len(labels)
        assert float(total.detach()) == pytest.approx(sum(map(want, logit, labels)), rel=1e-5)
        reward = model.rewards(batch)
        np.testing.assert_allclose(
            reward, logit if form == "regress" else 1 / (1 + np.exp(-logit)) - 1 / (1 + np.exp(logit)), atol=1e-12
        )


def test_regression_and_soft_labels_come_out_in_their_units():
    batch = labelled(80, 0, low=-3.0)
    model = StepPRM.fit(batch, backbone=small(), labels="rating", form="regress", settings=FAST, epochs=9)
    assert np.abs(model.rewards(batch) - np.where(truth(batch), 1.0, -3.0)).mean() < 0.4
    assert model.fitted.measures["explained_variance"][0] > 0.9
    share = np.where(truth(batch), 0.8, 0.3)
    model = StepPRM.fit(batch, backbone=small(), labels=share, form="soft", settings=FAST, epochs=9)
    assert np.abs((1 + model.rewards(batch)) / 2 - share).mean() < 0.08
    with pytest.raises(DataError, match="fitted to numbers that are not in the rollouts; give labels"):
        model.measure(batch)
    assert model.measure(batch, labels=share)["explained_variance"][0] > 0.8


def test_monte_carlo_labels_are_credit_of_the_steps(tmp_path):
    """What `agentprm_mc` gives with credit="promise" is credit; here a part stands in for the continuations."""
    batch = labelled(12, 0)
    units = ap.by_step(batch)
    promise = np.where(truth(batch), 1.0, 0.0)
    credit = ap.Credit(promise, units, known_S=np.arange(len(units)) % 3 > 0)
    want = np.where(np.arange(len(units)) % 3 > 0, promise, np.nan)
    ap.write(tmp_path / "mc.jsonl", credit)
    for given in (credit, tmp_path / "mc.jsonl", str(tmp_path / "mc.jsonl"), want):
        np.testing.assert_array_equal(labels_of(batch, given, who="it"), want)
    with pytest.raises(DataError, match="is credit of other rollouts"):
        labels_of(_other(batch), credit, who="it")
    with pytest.raises(DataError, match=r"labels is credit of 12 units \(episode\) and the rollouts have"):
        labels_of(batch, ap.assign("grpo", ap.by_episode(batch)), who="it")


def _other(batch):
    return Batch.from_trajectories(
        Trajectory([Step(prompt_ids=s.prompt_ids, ids=[5, 5]) for s in t.steps], group=t.group, id=t.id, outcome=0.0)
        for t in batch
    )


def test_labels_are_the_rewards_of_the_steps_by_default_and_unlabelled_steps_are_left_out():
    batch = labelled(24, 0, part="", scored=False)
    np.testing.assert_array_equal(labels_of(batch, "", who="it") > 0, truth(batch))
    labels = labels_of(batch, "", who="it")
    labels[::2] = np.nan
    task = Labelled(StepPRM(small()), batch, labels, Settings(held_out=0.0))
    np.testing.assert_array_equal(task.fit_S, np.flatnonzero(np.isfinite(labels)))
    model = StepPRM.fit(batch, backbone=small(), epochs=1)
    assert model.fitted.measures["steps"] > 0


def test_neutral_steps_are_bad_unless_they_are_said_to_be_good():
    batch = labelled(8, 0, low=0.0)
    assert not Labelled(StepPRM(small()), batch, batch.reward_parts["rating"], Settings()).target_K.all()
    with pytest.raises(DataError, match=r"every labelled step is good \(labels from 0 to 1, good above -0.5\)"):
        StepPRM.fit(batch, backbone=small(), labels="rating", above=-0.5)


def test_failed_rollouts_are_not_read():
    batch = labelled(8, 0)
    broken = [
        Trajectory([*t.steps[:-1], _failed(t.steps[-1])], group=t.group, id=t.id, outcome=t.outcome) if n == 0 else t
        for n, t in enumerate(batch)
    ]
    batch = Batch.from_trajectories(broken)
    task = Labelled(StepPRM(small()), batch, batch.reward_parts["rating"], Settings(held_out=0.0))
    assert set(batch.traj_of_S[task.fit_S]) == set(range(1, 8))


def _failed(step):
    return Step(prompt_ids=step.prompt_ids, ids=step.ids, rewards=step.rewards, failed=True)


def test_a_frozen_trunk_is_read_once_and_its_head_learns():
    frozen = Backbone("small", vocabulary=6, tune="none")
    before = [p.clone() for p in frozen.parameters()]
    model = StepPRM.fit(labelled(24, 0), backbone=frozen, labels="rating", epochs=2)
    assert all(torch.equal(a, b) for a, b in zip(before, model.backbone.parameters(), strict=True))
    assert model.fitted.losses[1] < model.fitted.losses[0]


def test_a_stopped_fit_ends_in_the_same_numbers(tmp_path):
    batch, kept = labelled(24, 0), labelled(8, 1)

    def fit(out, epochs, **more):
        return StepPRM.fit(batch, backbone=small(), labels="rating", epochs=epochs, out=tmp_path / out, **more)

    whole = fit("a", 3)
    fit("b", 1)
    rest = fit("b", 3, resume=True)
    assert rest.fitted.resumed == 1
    assert rest.fitted.losses == whole.fitted.losses
    np.testing.assert_array_equal(rest.rewards(kept), whole.rewards(kept))
    read = load(tmp_path / "b")
    assert (read.form, read.labels, read.above) == ("classify", "rating", 0.0)
    np.testing.assert_array_equal(read.rewards(kept), whole.rewards(kept))
    assert read.measure(kept) == whole.measure(kept)
    with pytest.raises(CheckpointError, match="holds a StepPRM, not a ValueHead"):
        ValueHead.load(tmp_path / "b")


def test_a_loss_that_is_not_finite_keeps_nothing(tmp_path):
    batch = labelled(12, 0)
    with pytest.raises(DataError, match="the loss is inf"):
        StepPRM.fit(
            batch, backbone=small(), labels=np.where(truth(batch), 1e30, 0.0), form="regress", out=tmp_path / "m"
        )
    assert not (tmp_path / "m" / "model.json").exists()


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"labels": "verdict"}, DataError, r"no step has a reward part named 'verdict' \(there are: 'rating'\)"),
        ({}, DataError, "StepPRM: no step has a label; give labels the name"),
        ({"labels": np.zeros(2)}, DataError, "2 labels for"),
        ({"labels": "rating", "form": "soft"}, DataError, "labels lie between -1 and 1, and form='soft' takes"),
        ({"labels": "rating", "form": "rank"}, ConfigError, "form is 'rank'; give one of classify, soft, regress"),
        ({"labels": "rating", "above": math.nan}, ConfigError, "above is nan; give the label"),
        ({"labels": "rating", "rate": 1}, ConfigError, "fitting has no setting 'rate'"),
    ],
)
def test_what_cannot_be_used_is_said(given, error, says):
    with pytest.raises(error, match=says):
        StepPRM.fit(labelled(8, 0), **{"backbone": small(), "epochs": 1, **given})


def slow_measures(score, good, traj):
    """By loops over pairs and trajectories."""
    pairs = [(a, b) for a, x in zip(score, good, strict=True) if x for b, y in zip(score, good, strict=True) if not y]
    auc = np.mean([1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs])
    hits = []
    for n in dict.fromkeys(traj.tolist()):
        own = np.flatnonzero(traj == n)
        bad = [k for k in own if not good[k]]
        if bad:
            said = [k for k in own if score[k] < 0]
            hits.append(bool(said) and said[0] == bad[0])
    return np.mean((score > 0) == good), auc, np.mean(good), np.mean(hits)


@pytest.mark.parametrize("seed", range(10))
def test_measures_against_loops(seed):
    rng = np.random.default_rng(seed)
    traj = np.sort(rng.integers(3, 12, size=30))
    score, good = np.round(rng.normal(size=30), 1), rng.random(30) < 0.6
    found = step_measures(score, good, traj)
    for name, want in zip(("accuracy", "auc", "good", "first_error"), slow_measures(score, good, traj), strict=True):
        value, low, high = found[name]
        assert value == pytest.approx(want)
        assert low <= value <= high


def test_measures_of_nothing_and_of_one_class():
    assert step_measures(np.zeros(0), np.zeros(0), np.zeros(0, dtype=int))["auc"] == [None] * 3
    found = step_measures(np.ones(4), np.ones(4), np.zeros(4, dtype=int))
    assert found["auc"][0] is found["first_error"][0] is None
    assert found["accuracy"] == [1.0, None, None]  # of one trajectory there is no interval


def test_steps_that_are_segments_of_one_response_are_rewarded_at_their_ends():
    """A model that was fitted to chains of steps scores one response cut into segments, and `pure` credits these."""
    chains = labelled(24, 0)
    model = StepPRM.fit(chains, backbone=small(), labels="rating", level="token", settings=FAST)
    one = Batch.from_trajectories(
        Trajectory(
            [Step(prompt_ids=[3], ids=[i for s in t.steps for i in s.ids])], group=t.group, id=t.id, outcome=t.outcome
        )
        for t in chains
    )
    told = model.predict(one)
    units = ap.by_segment(told, "fixed", size=2)
    assert len(units) == len(chains.traj_of_S)
    reward = process_rewards(units, "prm")
    at_end = told.columns_T["prm"][np.flatnonzero(told.sampled_T)][1::2]
    np.testing.assert_array_equal(reward, at_end)
    last = np.flatnonzero(np.append(np.diff(units.traj_of_S), 1))
    np.testing.assert_allclose(reward[last], model.rewards(one), atol=1e-6)
    for cut in (2, 4):  # what follows a segment is not seen
        short = Batch.from_trajectories(
            [Trajectory([Step(prompt_ids=[3], ids=one.trajectories[0].steps[0].ids[:cut])])]
        )
        np.testing.assert_allclose(reward[cut // 2 - 1], model.rewards(short)[0], atol=1e-6)
    credit = ap.assign("pure", ap.by_segment(one, "fixed", size=2), values=model)
    np.testing.assert_array_equal(credit.advantage_S, ap.assign("pure", units).advantage_S)
    assert len(np.unique(credit.advantage_S[credit.units.traj_of_S == 0])) > 1
    again = ap.remake(credit.record(), ap.by_segment(told, "fixed", size=2))
    np.testing.assert_array_equal(again.advantage_S, credit.advantage_S)
    steps = ap.assign("pure", ap.by_step(one), values=model)  # a coarser cut has the reward of the whole step
    np.testing.assert_allclose(process_rewards(steps.units, "prm"), model.rewards(one))


def test_words_of_text_are_read_to_their_ends():
    batch = Batch.from_trajectories(
        [Trajectory([Step("Sum it.", "one two three"), Step("Go on.", "four")], outcome=1.0)]
    )
    model = StepPRM(Backbone("small"), level="token")
    torch.nn.init.normal_(model.head.weight, generator=torch.Generator().manual_seed(0))
    reward = model.token_rewards(batch)[batch.sampled_T]
    for k, text in enumerate(("one", "one two", "one two three")):
        begun = Batch.from_trajectories([Trajectory([Step("Sum it.", text)])])
        assert reward[k] == pytest.approx(model.rewards(begun)[0], abs=1e-6)
    np.testing.assert_allclose(reward[2:], model.rewards(batch), atol=1e-6)
