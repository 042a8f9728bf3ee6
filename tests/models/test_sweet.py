"""SWEET-RL's critic: what it sees and nobody else, the loss by hand, and what the hidden artefact is worth."""

import numpy as np
import pytest
import torch

import apportion as ap
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.models import Settings, SweetCritic, TokenModel, load
from apportion.models.implicit_task import Outcomes
from tests.models.test_implicit import planted


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def hidden(n, seed, *, reference=True):
    """The outcome is the share of turns that say the hidden letter, which no prompt tells; fillers vary in length."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(n):
        secret = "ab"[int(np.random.default_rng(i // 6).integers(2))]
        said = ["ab"[int(rng.integers(2))] for _ in range(2)]
        steps = [
            Step(observation=f"turn {k}", action=" " + letter + " x" * int(rng.integers(3)), turn=k)
            for k, letter in enumerate(said)
        ]
        outcome = sum(letter == secret for letter in said) / 2
        out.append(Trajectory(steps, group=f"g{i // 6}", outcome=outcome, reference=secret if reference else None))
    return Batch.from_trajectories(out)


QUICK = Settings(epochs=2, lr=1e-3, batch_tokens=1500, held_out=0.0)


@pytest.fixture(scope="module")
def critics():
    torch.set_num_threads(1)
    return {sees: SweetCritic.fit(hidden(48, 0), settings=QUICK, sees_reference=sees) for sees in (True, False)}


def right_turns(critic, batch):
    """Share of turns whose advantage has the sign of whether the hidden letter was said."""
    told = critic.advantages(batch)
    said = [step.action.split()[0] == rollout.reference for rollout in batch.trajectories for step in rollout.steps]
    return np.mean((told > np.median(told)) == np.array(said))


@pytest.mark.slow
def test_the_artefact_tells_good_turns_from_bad_ones():
    """Chance is one half. Preferences tell only the sum of two turns, so it takes many of them."""
    settings, fresh = Settings(epochs=10, lr=1e-3, batch_tokens=1500, held_out=0.0), hidden(120, 1)
    right = [
        right_turns(SweetCritic.fit(hidden(960, 0), settings=settings, sees_reference=sees, beta=1.0), fresh)
        for sees in (True, False)
    ]
    assert right[0] > 0.65
    assert right[1] < 0.6


def test_nothing_of_the_artefact_reaches_the_rollouts(critics):
    """Whatever is hidden, the predicted rollouts hold the same texts and ids, and other numbers at most."""
    batch = hidden(12, 2)
    marked = Batch.from_trajectories(
        Trajectory(t.steps, group=t.group, outcome=t.outcome, reference="SECRET-b") for t in batch
    )
    seen, other = critics[True].predict(batch), critics[True].predict(marked)
    for a, b, given in zip(seen, other, marked, strict=True):
        for x, y, z in zip(a.steps, b.steps, given.steps, strict=True):
            assert (x.observation, x.action, x.ids, x.prompt_ids) == (y.observation, y.action, y.ids, y.prompt_ids)
            assert (y.observation, y.action, y.ids, y.prompt_ids) == (z.observation, z.action, z.ids, z.prompt_ids)
            assert "SECRET" not in f"{y.observation}{y.action}{y.state}{y.extra}"
            assert set(y.rewards) == {"advantage"}
    np.testing.assert_array_equal(seen.ids_T, marked.ids_T)
    assert not np.array_equal(seen.reward_parts["advantage"], other.reward_parts["advantage"])
    blind = [critics[False].advantages(x) for x in (batch, marked)]
    np.testing.assert_array_equal(*blind)


def test_the_reference_stands_before_everything_and_belongs_to_no_token():
    batch, model = hidden(3, 0), SweetCritic(TokenModel("small"))
    rows = model.rows(batch)
    start = model.backbone.start
    for n, rollout in enumerate(batch.trajectories):
        row = rows.ids[n].tolist()
        assert row[:3] == [start, ord(rollout.reference), start]
        first = int(np.flatnonzero(batch.traj_of_T == n)[0])
        assert rows.at_T[first] == 3
        assert bytes(row[3:]).decode() == "".join(s.observation + s.action for s in rollout.steps)


def test_the_loss_is_equation_two():
    batch, beta = hidden(12, 3), 0.1
    model = SweetCritic(TokenModel("small"))
    torch.nn.init.normal_(model.backbone.trunk.transformer.wte.weight, std=0.2)
    task = Outcomes(model, batch, Settings(held_out=0.0), loss="dpo", beta=beta)
    told = model.advantages(batch)
    score = np.bincount(batch.traj_of_S, weights=told)
    want = pairs = 0.0
    for i, a in enumerate(batch):
        for j, b in enumerate(batch):
            if a.group == b.group and a.outcome > b.outcome:
                want += np.log1p(np.exp(-beta * (score[i] - score[j])))
                pairs += 1
    got, weight = task.loss(np.arange(len(task.items)))
    assert weight == pairs
    assert float(got.detach()) == pytest.approx(want, rel=1e-4)


def stirred(**build):
    """A critic whose weights moved away from its start."""
    model = SweetCritic(TokenModel("small"), **build)
    torch.nn.init.normal_(
        model.backbone.trunk.transformer.wte.weight, std=0.2, generator=torch.Generator().manual_seed(1)
    )
    return model


def test_without_the_division_a_turn_is_the_sum_of_its_tokens():
    """As it was fitted: what ranks turns must be what the loss summed."""
    batch = hidden(6, 5)
    mean, total = (stirred(score=score).advantages(batch) for score in ("turn_means", "sum"))
    size = np.bincount(batch.step_of_T[batch.sampled_T], minlength=len(mean))
    np.testing.assert_allclose(total, mean * size, rtol=1e-6)
    assert len(set(size)) > 1


@pytest.mark.parametrize("score", ["turn_means", "sum", "mean"])
def test_last_turns_are_the_last_of_the_advantages(score):
    batch, model = hidden(8, 6), stirred(score=score)
    last = np.flatnonzero(np.append(np.diff(batch.traj_of_S) != 0, True))
    np.testing.assert_allclose(model.last_turns(batch), model.advantages(batch)[last], atol=1e-6)
    one = Batch.from_trajectories([Trajectory([Step(observation="o", action="")], reference="r")])
    assert np.isnan(model.last_turns(one)).all()


@pytest.mark.parametrize("score", ["turn_means", "sum", "mean"])
def test_pairs_in_order_are_counted_on_the_score_of_the_loss(score):
    batch, model = hidden(24, 7), stirred(score=score)
    task = Outcomes(model, batch, Settings(held_out=0.0), loss="dpo", beta=1.0)
    scores = task._scores(np.arange(len(batch))).detach().numpy()
    np.testing.assert_allclose(model._scores(batch), scores, atol=1e-5)
    right = [
        (scores[i] > scores[j]) + (scores[i] == scores[j]) / 2
        for i, a in enumerate(batch)
        for j, b in enumerate(batch)
        if a.group == b.group and a.outcome > b.outcome
    ]
    value, low, high = model.measure(batch)["pairs"]
    assert value == pytest.approx(np.mean(right))
    assert low <= value <= high
    same = Batch.from_trajectories(Trajectory(t.steps, group="g", outcome=1.0, reference="r") for t in batch)
    assert model.measure(same)["pairs"] == [None, None, None]


def test_it_is_saved_and_credits(critics, tmp_path):
    critics[True].save(tmp_path / "m")
    batch = hidden(12, 4)
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.advantages(batch), critics[True].advantages(batch))
    credit = ap.assign("sweet_rl", ap.by_turn(batch), values=again)
    np.testing.assert_allclose(credit.advantage_S, again.advantages(batch))


def test_what_cannot_be_used_is_said():
    with pytest.raises(DataError, match="a rollout has no reference, which is what the critic shall see"):
        SweetCritic.fit(hidden(12, 0, reference=False), epochs=1)
    with pytest.raises(ConfigError, match="has no tokenizer to read the reference with"):
        SweetCritic.fit(planted(8, 0), epochs=1)
    with pytest.raises(ConfigError, match="normalise is 'step'; give one of turn, rollout, none"):
        SweetCritic.fit(hidden(12, 0), normalise="step")
    same = Batch.from_trajectories(
        Trajectory(t.steps, group=t.group, outcome=1.0, reference=t.reference) for t in hidden(12, 0)
    )
    with pytest.raises(DataError, match="no group has a better and a worse rollout"):
        SweetCritic.fit(same, epochs=1)
    long = Trajectory([Step(observation="x" * 1100, action="y")], outcome=1.0, reference="r", group="g")
    with pytest.raises(DataError, match="behind its reference has 1104 tokens and the backbone takes 1024"):
        SweetCritic(TokenModel("small")).advantages(Batch.from_trajectories([long]))
