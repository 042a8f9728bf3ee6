"""ArCHer's critic: its losses by hand, the values it finds of a problem that is known, and runs that stop and go on."""

import dataclasses
import random

import numpy as np
import pytest
import torch

import apportion as ap
from apportion.data import Batch, Step, Trajectory
from apportion.errors import CheckpointError, ConfigError, DataError
from apportion.models import ArCHerCritic, Backbone, load
from apportion.models.replay import Drawn
from apportion.models.twins import Twins, expectile_loss, q_targets
from tests.models.test_value_head import coin
from tests.tree import TREE, q, value, whole_batch

ID = {word: i for i, word in enumerate((*TREE, *"LRlrm"))}
GAMMA = 0.9


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small():
    return Backbone("small", vocabulary=12)


def tree(times):
    """The whole distribution of the tree, so many times."""
    return Batch.from_trajectories(
        Trajectory(
            [Step(prompt_ids=[ID[s]], ids=[ID[a]], reward=r, turn=k) for k, (s, a, r) in enumerate(path)], group=f"g{i}"
        )
        for i, path in enumerate(whole_batch() * times)
    )


MOVES = [(s, a) for path in whole_batch() for s, a, _ in path]


def of_moves(model):
    """Mean of the twins for each (state, action) and each state."""
    found_q, found_v = (x.mean(axis=1) for x in model.both(tree(1)))
    return dict(zip(MOVES, found_q, strict=True)), dict(zip([s for s, _ in MOVES], found_v, strict=True))


def test_the_worked_targets():
    slow = torch.tensor([[-8.0, -7.6]] * 2, dtype=torch.float64)
    got = q_targets(torch.tensor([-1.0, -1.0]), torch.tensor([1.0, 0.0]), slow, 0.95)
    np.testing.assert_allclose(got, [[-8.60, -8.22], [-1.0, -1.0]])


def test_the_worked_expectiles():
    value_, target = torch.zeros(2), torch.tensor([0.5, -0.5])
    np.testing.assert_allclose(expectile_loss(value_, target, 0.9), [0.225, 0.025], rtol=1e-6)
    np.testing.assert_allclose(expectile_loss(value_, target, None), [0.25, 0.25])


def noisy(model, seed):
    """Heads and copies that all differ."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for p in (*model.pairs.parameters(), *model.slow.parameters()):
            p.data.add_(0.05 * torch.randn_like(p))
    return model


@pytest.mark.parametrize("expectile", [None, 0.8])
def test_losses_are_those_of_a_loop_over_transitions_read_alone(expectile):
    model = noisy(ArCHerCritic(small(), gamma=GAMMA, expectile=expectile), 0)
    model.replay.add(model.transitions(tree(1)))
    assert len(model.replay) == len(MOVES)
    got = model.losses(model.replay.read(np.arange(len(MOVES)))).detach().numpy()

    def seen(net, name, ids):
        return net.on(name, net.backbone([np.array(ids)], np.array([0]), np.array([len(ids)])))[0].detach().numpy()

    start, k = model.backbone.start, 0
    for path in whole_batch():
        row = [start]
        for t, (s, a, r) in enumerate(path):
            before, behind = [*row, ID[s]], [*row, ID[s], ID[a]]
            row = behind
            aim = r + (GAMMA * seen(model.slow, "v", [*row, ID[path[t + 1][0]]]) if t + 1 < len(path) else 0.0)
            want_q = (seen(model.pairs, "q", behind) - aim) ** 2
            error = seen(model.slow, "q", behind) - seen(model.pairs, "v", before)
            weight = 1.0 if expectile is None else np.where(error < 0, 1 - expectile, expectile)
            np.testing.assert_allclose(got[k], [*want_q, *(weight * error**2)], rtol=1e-3, atol=1e-6)
            k += 1


def test_no_gradient_reaches_the_copies_and_they_follow_by_tau():
    model = noisy(Twins(small(), tau=0.25), 1)
    before = {n: p.detach().clone() for n, p in model.slow.named_parameters()}
    assert not any(p.requires_grad for p in model.slow.parameters())
    model.follow()
    learned = dict(model.pairs.named_parameters())
    for name, p in model.slow.named_parameters():
        torch.testing.assert_close(p, 0.75 * before[name] + 0.25 * learned[name])


def test_the_twins_are_two_learners():
    model = ArCHerCritic(small())
    model.update(tree(2), steps=3, draws=16)
    found_q, found_v = model.both(tree(1))
    assert np.abs(found_q[:, 0] - found_q[:, 1]).min() > 1e-6
    assert np.abs(found_v[:, 0] - found_v[:, 1]).min() > 1e-6


FIT = {"gamma": GAMMA, "epochs": 24, "lr": 2e-3, "batch_tokens": 256, "held_out": 0.0, "tau": 0.2}


@pytest.fixture(scope="module")
def fitted():
    torch.set_num_threads(1)
    return ArCHerCritic.fit(tree(16), backbone=small(), **FIT)


def test_it_finds_values_that_are_known(fitted):
    found_q, found_v = of_moves(fitted)
    for (s, a), x in found_q.items():
        assert x == pytest.approx(q(s, a, GAMMA), abs=0.1), (s, a)
    for s, x in found_v.items():
        assert x == pytest.approx(value(s, GAMMA), abs=0.1), s


def expectile_of(numbers, shares, tau):
    """By its definition: tau E(x - m)+ = (1 - tau) E(m - x)+."""
    low, high = min(numbers), max(numbers)
    for _ in range(60):
        m = (low + high) / 2
        up = sum(p * max(x - m, 0) for x, p in zip(numbers, shares, strict=True)) * tau
        down = sum(p * max(m - x, 0) for x, p in zip(numbers, shares, strict=True)) * (1 - tau)
        low, high = (m, high) if up > down else (low, m)
    return m


def exact_expectile(state, tau):
    """V and Q of the offline variant, to its fixed point."""
    if state is None:
        return 0.0
    actions = TREE[state].values()
    numbers = [r + GAMMA * exact_expectile(after, tau) for _, r, after in actions]
    return expectile_of(numbers, [float(p) for p, _, _ in actions], tau)


def test_an_expectile_leans_to_the_better_action():
    model = ArCHerCritic.fit(tree(16), backbone=small(), expectile=0.9, **FIT)
    _, found = of_moves(model)
    for s, x in found.items():
        assert x == pytest.approx(exact_expectile(s, 0.9), abs=0.12), s
    assert found["left"] > value("left", GAMMA) + 0.2


def test_predictions_are_minima_and_stand_where_the_method_reads_them(fitted, tmp_path):
    batch = tree(1)
    found_q, found_v = fitted.both(batch)
    credit = ap.assign("archer", ap.by_turn(batch), values=fitted)
    np.testing.assert_allclose(credit.advantage_S, found_q.min(axis=1) - found_v.min(axis=1))
    told = fitted.predict(fitted.predict(batch))
    np.testing.assert_array_equal(told.reward_parts["q"], found_q.min(axis=1))
    np.testing.assert_array_equal(told.reward_parts["v"], found_v.min(axis=1))
    fitted.save(tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(batch).reward_parts["q"], told.reward_parts["q"])
    assert (again.gamma, again.tau, again.level) == (GAMMA, 0.2, "turn")
    found = fitted.measure(tree(4))
    assert found["explained_variance"][0] > 0.1
    assert found["disagreement"][0] == pytest.approx(np.mean((found_q[:, 0] - found_q[:, 1]) ** 2), rel=1e-4)


def test_a_turn_of_several_steps_is_one_utterance():
    steps = [Step(prompt_ids=[2], ids=[7], reward=0.5, turn=0), Step(prompt_ids=[3], ids=[8], reward=1.0, turn=0)]
    steps.append(Step(prompt_ids=[4], ids=[9], reward=2.0, turn=1))
    batch = Batch.from_trajectories([Trajectory(steps, group="g")])
    model = ArCHerCritic(small())
    model.replay.add(model.transitions(batch))
    drawn = model.replay.read(np.arange(2))
    assert drawn.rows[0].tolist() == [11, 2, 7, 3, 8, 4, 9]
    assert [x[1].tolist() for x in (drawn.state, drawn.pair, drawn.next)] == [[2, 6], [5, 7], [6, 0]]
    assert drawn.reward.tolist() == [1.5, 2.0]
    parts = [sorted(step.rewards) for step in model.predict(batch).trajectories[0].steps]
    assert parts == [[], ["q", "v"], ["q", "v"]]
    by_step = ArCHerCritic(small(), level="step")
    assert len(by_step.transitions(batch)) == 3


@pytest.mark.parametrize(("timeout", "live"), [("bootstrap", [1, 1, 1]), ("terminal", [1, 1, 0])])
def test_a_time_out_is_an_end_only_where_that_is_asked_for(timeout, live):
    model = ArCHerCritic(small(), timeout=timeout)
    model.replay.add(model.transitions(coin(1, 0, truncated=True)))
    assert model.replay.read(np.arange(3)).live.tolist() == live
    model = ArCHerCritic(small(), timeout=timeout)
    model.replay.add(model.transitions(coin(1, 0)))
    assert model.replay.read(np.arange(3)).live.tolist() == [1, 1, 0]


def test_rewritten_contexts_and_long_rows_are_read_as_the_trunk_takes_them():
    steps = [Step(prompt_ids=[2] * 600, ids=[7] * 300, turn=0), Step(prompt_ids=[3] * 300, ids=[8] * 40, turn=1)]
    steps.append(Step(prompt_ids=[5], ids=[9], turn=2, fresh=True))
    model = ArCHerCritic(small())
    batch = Batch.from_trajectories([Trajectory(steps, group="g", outcome=1.0)])
    model.replay.add(model.transitions(batch))
    drawn = model.replay.read(np.arange(3))
    assert max(map(len, drawn.rows)) <= model.backbone.longest
    for what, want in (("state", [2, 3, 5]), ("pair", [7, 8, 9])):
        row, at = getattr(drawn, what)
        assert [drawn.rows[r][a - 1] for r, a in zip(row, at, strict=True)] == want
    row, at = drawn.next[:, :2]
    assert [drawn.rows[r][a - 1] for r, a in zip(row, at, strict=True)] == [3, 5]
    found_q, _ = model.both(batch)
    assert found_q.shape == (3, 2)


def test_a_stopped_fit_goes_on_to_the_same_numbers(tmp_path):
    how = {"lr": 1e-2, "batch_tokens": 128}
    whole = ArCHerCritic.fit(tree(4), backbone=small(), epochs=3, out=tmp_path / "a", **how)
    ArCHerCritic.fit(tree(4), backbone=small(), epochs=1, out=tmp_path / "b", **how)
    rest = ArCHerCritic.fit(tree(4), backbone=small(), epochs=3, out=tmp_path / "b", resume=True, **how)
    assert rest.fitted.losses == whole.fitted.losses
    assert all(torch.equal(x, y) for x, y in zip(rest.parameters(), whole.parameters(), strict=True))
    kept = {path.name: path.read_bytes() for path in (tmp_path / "b" / "buffer").iterdir()}
    with pytest.raises(ConfigError, match="holds checkpoints of an earlier run"):
        ArCHerCritic.fit(tree(1), backbone=small(), epochs=1, out=tmp_path / "b")
    assert {path.name: path.read_bytes() for path in (tmp_path / "b" / "buffer").iterdir()} == kept


def online(folder, **more):
    return ArCHerCritic(small(), gamma=GAMMA, capacity=20, folder=folder, **more)


STEPS = {"steps": 4, "draws": 8}


def test_a_killed_run_goes_on_from_its_save_to_the_same_numbers(tmp_path):
    whole = online(tmp_path / "a")
    told = [whole.update(coin(4, seed), **STEPS) for seed in range(4)]
    assert [x["buffer"] for x in told] == [12, 20, 20, 20]

    part = online(tmp_path / "b")
    for seed in range(2):
        part.update(coin(4, seed), **STEPS)
    part.save(tmp_path / "b")
    part.update(coin(4, 7), **STEPS)  # lost: it was killed before the next save
    del part
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    random.seed(3)
    drawn = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist(), random.getstate()  # noqa: NPY002
    rest = load(tmp_path / "b")
    assert [rest.update(coin(4, seed), **STEPS) for seed in (2, 3)] == told[2:]
    for (name, x), y in zip(rest.named_parameters(), whole.parameters(), strict=True):
        assert torch.equal(x, y), name
    assert (np.random.get_state()[1].tolist(), torch.get_rng_state().tolist(), random.getstate()) == drawn  # noqa: NPY002
    rest.save(tmp_path / "b")
    names = sorted(path.name for path in (tmp_path / "b" / "buffer").iterdir())
    assert names == [f"00000{k}.{part}.npy" for k in (2, 3) for part in ("ids", "records")]


def test_a_fit_is_gone_on_with(tmp_path):
    model = ArCHerCritic.fit(coin(8, 0), backbone=small(), epochs=1, out=tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.update(coin(4, 1), **STEPS) == model.update(coin(4, 1), **STEPS)
    assert all(torch.equal(x, y) for x, y in zip(again.parameters(), model.parameters(), strict=True))


def test_what_was_saved_and_is_gone_is_said(tmp_path):
    model = online(tmp_path / "m")
    model.update(coin(4, 0), **STEPS)
    model.save(tmp_path / "m")
    with pytest.raises(ConfigError, match="holds a critic already; load it to go on"):
        online(tmp_path / "m").update(coin(4, 0), **STEPS)
    (tmp_path / "m" / "buffer" / "000000.ids.npy").write_bytes(b"x")
    again = load(tmp_path / "m")
    assert again.predict(coin(1, 0)).reward_parts["q"].shape == (3,)
    with pytest.raises(CheckpointError, match=r"transitions 000000 are missing or damaged"):
        again.update(coin(4, 0), **STEPS)


def test_a_fresh_action_of_the_policy_is_the_target_of_v():
    model, asked = noisy(ArCHerCritic(small()), 2), []

    def propose(contexts):
        asked.extend(contexts)
        return [[9, 10] for _ in contexts]

    model.replay.add(model.transitions(tree(1)))
    drawn = model.replay.read(np.array([0, 1]))
    got = model.losses(drawn, propose).detach().numpy()
    assert [x.tolist() for x in asked] == [[11, ID["root"]], [11, ID["root"], ID["L"], ID["left"]]]
    for k, context in enumerate(asked):
        ids = np.array([*context, 9, 10])
        fresh = model.slow.on("q", model.slow.backbone([ids], np.array([0]), np.array([len(ids)])))
        here = model.pairs.on("v", model.pairs.backbone([context], np.array([0]), np.array([len(context)])))
        np.testing.assert_allclose(got[k, 2:], ((here - fresh) ** 2)[0].detach().numpy(), rtol=1e-3)
    with pytest.raises(DataError, match="0 fresh actions for 2 states; give one for each"):
        model.losses(drawn, lambda contexts: [])


def test_parameters_beside_the_critic_enter_its_norm():
    alone, beside = ArCHerCritic(small()), ArCHerCritic(small())
    other = torch.nn.Parameter(torch.zeros(2))
    other.grad = torch.tensor([300.0, 400.0])
    one = alone.update(coin(4, 0), steps=1, draws=8)
    both = beside.update(coin(4, 0), steps=1, draws=8, beside=[other])
    assert both["grad_norm"] == pytest.approx(np.hypot(one["grad_norm"], 500.0))
    assert float(other.grad.norm()) == pytest.approx(500.0 / both["grad_norm"], rel=1e-3)


def test_micro_batches_change_nothing_but_rounding():
    a, b = ArCHerCritic(small()), ArCHerCritic(small())
    one, other = a.update(coin(6, 0), steps=1, draws=32), b.update(coin(6, 0), steps=1, draws=32, micro_tokens=20)
    assert one == pytest.approx(other, rel=1e-5)


@pytest.mark.parametrize("tune", ["none", "lora"])
def test_trunks_that_do_not_learn_are_shared_and_those_with_lora_are_copied(tune, tmp_path):
    if tune == "lora":
        pytest.importorskip("peft")
    trunk = Backbone("small", vocabulary=12, tune=tune, lora={"fan_in_fan_out": True} if tune == "lora" else None)
    model = ArCHerCritic.fit(coin(8, 0), backbone=trunk, epochs=2, hidden=4, out=tmp_path / "m")
    assert (model.slow.backbone is model.pairs.backbone) is (tune == "none")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.both(coin(2, 1))[0], model.both(coin(2, 1))[0])
    assert again.update(**STEPS) == model.update(**STEPS)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"level": "token"}, "level is 'token'; give one of turn, step"),
        ({"timeout": "done"}, "timeout is 'done'; give one of bootstrap, terminal"),
        ({"gamma": 1.5}, "gamma is 1.5; give a number from 0 to 1"),
        ({"gamma": "high"}, "gamma is 'high'; give a number from 0 to 1"),
        ({"expectile": "x"}, "expectile is 'x'; give a number between 0 and 1, or None"),
        ({"tau": 0.0}, "tau is 0.0; give a number above 0 and up to 1"),
        ({"expectile": 1.0}, "expectile is 1.0; give a number between 0 and 1, or None"),
        ({"capacity": 0}, "capacity is 0; give a whole number of transitions from 1 up"),
        ({"hidden": -1}, "hidden is -1; give a width, or 0"),
    ],
)
def test_what_cannot_be_used_is_said(given, says):
    with pytest.raises(ConfigError, match=says):
        ArCHerCritic.fit(coin(8, 0), **given)


def test_an_update_says_what_it_cannot_use():
    model = ArCHerCritic(small())
    for given, says in (
        ({"steps": 0}, "steps is 0"), ({"draws": 1.5}, "draws is 1.5"), ({"lr": "x"}, "lr is 'x'")
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=says):
            model.update(coin(4, 0), **given)
    with pytest.raises(DataError, match="the buffer is empty; give a batch"):
        model.update()
    unscored = Batch.from_trajectories(dataclasses.replace(t, outcome=None) for t in coin(4, 0))
    for read in (model.update, model.measure, ArCHerCritic.fit):
        with pytest.raises(DataError, match="no rollout is scored"):
            read(unscored)
    before = [p.detach().clone() for p in model.parameters()]
    huge = Batch.from_trajectories(dataclasses.replace(t, outcome=1e200) for t in coin(4, 0))
    with pytest.raises(DataError, match="the loss is inf in step 1, which was not made; lower lr"):
        model.update(huge)
    assert all(torch.equal(x, y) for x, y in zip(before, model.parameters(), strict=True))


def test_draws_are_uniform_over_what_the_buffer_holds():
    model = ArCHerCritic(small(), capacity=7)
    for seed in range(3):
        model.replay.add(model.transitions(coin(1, seed)))
    drawn = model.replay.draw(7000, np.random.default_rng(0))
    count = np.bincount(drawn, minlength=7)
    assert len(count) == 7
    assert np.abs(count - 1000).max() < 150  # 5 standard deviations
    everything: Drawn = model.replay.read(np.arange(7))
    want = [t for seed in range(3) for t in _rewards(coin(1, seed))][-7:]
    assert everything.reward.tolist() == want


def test_every_step_draws_anew(monkeypatch):
    model, drawn = ArCHerCritic(small()), []
    draw = model.replay.draw
    monkeypatch.setattr(model.replay, "draw", lambda *a: drawn.append(draw(*a)) or drawn[-1])
    model.update(coin(6, 0), **STEPS)
    model.update(**STEPS)
    assert len({tuple(x.tolist()) for x in drawn}) == 8


def _rewards(batch):
    return ap.by_step(batch).reward_S.tolist()
