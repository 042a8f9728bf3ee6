"""What the trainer follows is the policy gradient: its parameter gradient against the exact one on CraftTree."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from apportion.assign import assign  # noqa: E402
from apportion.bench.demo.scorer import scorer  # noqa: E402
from apportion.bench.exact import exact, policy_gradient  # noqa: E402
from apportion.bench.tasks import task  # noqa: E402
from apportion.data import Batch  # noqa: E402
from apportion.train import TrainConfig, train  # noqa: E402
from apportion.train.examples import Examples  # noqa: E402
from apportion.train.policy import Policy  # noqa: E402
from apportion.train.rollout import Collector  # noqa: E402
from apportion.train.update import Objective, Tally, minimise  # noqa: E402
from apportion.units import by_step  # noqa: E402


class Still:
    """An optimizer that leaves the gradient where it is."""

    def __init__(self, parameters):
        self.param_groups = [{"params": list(parameters)}]

    def zero_grad(self, set_to_none=True):
        for p in self.param_groups[0]["params"]:
            p.grad = None

    def step(self):
        pass


def flat_gradient(policy):
    return torch.cat(
        [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in policy.model.parameters()]
    )


def exact_gradient(policy, table):
    """Gradient of -J in the parameters: sum over slots of the exact logit gradient times grad log pi."""
    truth = exact(table, scorer(policy))
    weight_K = policy_gradient(truth)
    total = torch.zeros(())
    for x in np.flatnonzero(truth.visit_HX.sum(axis=0) > 1e-6):
        prompt, _ = policy.prompts.start().see(table.text(int(x), 0))
        choices = policy.choices(table.actions[x])
        for j, ids in enumerate(choices.ids):
            weight = float(weight_K[table.first_slot_X[x] + j])
            for k in range(len(ids)):
                logits = policy.logits([(*prompt, *ids[:k])])
                total = total - weight * policy.log_probs(logits, [choices.allowed(ids[:k])])[0, ids[k]]
    policy.model.zero_grad(set_to_none=True)
    total.backward()
    return flat_gradient(policy), truth.J


@pytest.mark.slow
def test_the_trainers_gradient_points_where_the_exact_one_does(tmp_path):
    config = TrainConfig(env="crafttree", clone_episodes=24, clone_epochs=6, clone_noise=0.3, tensorboard=False)
    train(replace(config, iterations=0, eval_tasks=0, out=str(tmp_path / "run")))
    collector = Collector("crafttree", {})
    policy = Policy.from_config(replace(config, start=str(tmp_path / "run" / "start")), collector.env)
    goal, value = exact_gradient(policy, task("crafttree").table)
    assert 0.1 < value < 0.6  # neither hopeless nor solved

    total = torch.zeros_like(goal)
    for batch in range(12):
        seeds = range(1000 + 8 * batch, 1008 + 8 * batch)
        played = collector.collect(policy, seeds, rollouts=8, stream=(0, 1, batch))
        units = by_step(Batch.from_trajectories(played.trajectories))
        examples = Examples.of(assign("dr_grpo", units).to_tokens(), policy)
        minimise(
            policy,
            Still(policy.model.parameters()),
            examples,
            np.arange(len(examples)),
            Objective(aggregation="seq-mean-token-sum"),
            reference=None,
            micro_tokens=8192,
            clip_grad=1e9,
            tally=Tally(),
            tolerance=0.01,
        )
        total += flat_gradient(policy)
    cosine = float(torch.nn.functional.cosine_similarity(total, goal, dim=0))
    assert cosine > 0.5  # a random direction of as many parameters has 0 +- 0.003; a flipped sign has -cosine
