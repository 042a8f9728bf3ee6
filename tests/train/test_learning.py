"""Does it learn? Slow, and with margins that a broken gradient, mask or baseline would not meet."""

import pytest

from apportion.envs import make
from apportion.train import TrainConfig, train
from apportion.train.clone import clone, demonstrate
from apportion.train.evaluate import evaluate
from apportion.train.rollout import Collector
from tests.train.make import small_policy


def test_demonstrations_are_the_experts_and_win():
    policy = small_policy(0)
    env = make("crafttree")
    shown = demonstrate(policy, env, range(6))
    assert len(shown) == 6
    for trajectory in shown:
        env.reset(seed=int(trajectory.group.split("/")[1]))
        for step in trajectory.steps:
            assert step.observation == env.state_key()
            _, reward, *_ = env.step(step.action)
        assert reward == 1


def test_noise_moves_the_player_and_not_the_label():
    policy, env = small_policy(0), make("crafttree", goal="torch", horizon=12, budget=5)
    shown = demonstrate(policy, env, range(12), noise=0.5, seed=1)
    lengths = {len(t.steps) for t in shown}
    assert max(lengths) > max(len(t.steps) for t in demonstrate(policy, env, range(12)))
    assert all(step.action in step.actions for t in shown for step in t.steps)


def test_cloning_follows_the_expert():
    config = TrainConfig(
        env="crafttree", hidden=32, layers=1, heads=2, vocabulary=300,
        clone_epochs=20, clone_batch=8, clone_lr=1e-2,
    )  # fmt: skip
    collector = Collector("crafttree", {})
    policy = small_policy(0, hidden=32)
    before = evaluate(policy, collector, 16)
    done = clone(policy, collector.env, config, range(8))
    after = evaluate(policy, collector, 16)
    assert before["success_greedy"] < 0.5
    assert after["success_greedy"] == 1
    assert done["demonstrations"] == 8
    assert done["last_loss"] < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["grpo", "gigpo"])
def test_success_on_crafttree_improves(method, tmp_path, record_property):
    config = TrainConfig(
        env="crafttree", method=method, clone_episodes=40, clone_epochs=6, clone_noise=0.3, lr=1e-3,
        iterations=80, eval_every=0, eval_tasks=256, tensorboard=False, out=str(tmp_path / "run"),
    )  # fmt: skip
    result = train(config)
    before, after = result.before["success_sampled"], result.after["success_sampled"]
    record_property("reported", f"CraftTree, {method}: sampled success {before:.2f} -> {after:.2f}")
    assert after > before + 0.15
    assert after > 0.7
