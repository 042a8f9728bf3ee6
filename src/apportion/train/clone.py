"""Warm start: imitate the environment's expert.

Demonstrations are trajectories like any other; cloning is the loss "reinforce" with credit 1 on every token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.envs import DETERMINISTIC, TextEnv
from apportion.errors import ConfigError
from apportion.train.config import TrainConfig
from apportion.train.examples import Examples
from apportion.train.policy import Policy
from apportion.train.prompt import Dialogue
from apportion.train.update import Objective, Tally, minimise
from apportion.units import by_episode

WARM_UP, FLOOR = 0.05, 0.1  # shares of the updates with a rising rate, of the peak rate at the end


def demonstrate(
    policy: Policy, env: TextEnv, seeds: Sequence[int], *, noise: float = 0.0, seed: int = 0
) -> list[Trajectory]:
    """Play tasks with the expert; tasks that it gives up on are left out.

    Args:
        policy: whose prompts and tokens the trajectories are written in.
        env: the environment.
        seeds: tasks.
        noise: probability that a random admissible action is played; what is recorded is the expert's.
        seed: of that noise.
    """
    random = np.random.default_rng([seed, 3])
    out = []
    for task in seeds:
        steps = _demonstration(policy, env, task, noise, random)
        if steps:
            out.append(Trajectory(steps, group=f"{env.spec.name}/{task}", id=f"expert/{task}", outcome=1.0))
    return out


def clone(
    policy: Policy,
    env: TextEnv,
    config: TrainConfig,
    seeds: Sequence[int],
    on_update: Callable[[int, int, float], None] | None = None,
) -> dict[str, float]:
    """Train the policy on demonstrations; returns what was done."""
    demonstrations = demonstrate(policy, env, seeds, noise=config.clone_noise, seed=config.seed)
    if not demonstrations:
        raise ConfigError(f"{env.spec.name} has no expert for these tasks; set clone_episodes to 0")
    units = by_episode(Batch.from_trajectories(demonstrations))
    examples = Examples.of(Credit(np.ones(len(units)), units).to_tokens(), policy)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=config.clone_lr, betas=(0.9, 0.95), weight_decay=0.01)
    objective = Objective(loss="reinforce")
    size = min(config.clone_batch, len(examples))
    per_epoch = math.ceil(len(examples) / size)
    total = per_epoch * config.clone_epochs
    random = np.random.default_rng([config.seed, 4])
    loss, done = 0.0, 0
    for _ in range(config.clone_epochs):
        for part in np.array_split(random.permutation(len(examples)), per_epoch):
            tally = Tally()
            for group in optimizer.param_groups:
                group["lr"] = config.clone_lr * _rate(done, total)
            minimise(
                policy,
                optimizer,
                examples,
                np.sort(part),
                objective,
                reference=None,
                micro_tokens=config.micro_tokens,
                clip_grad=config.clip_grad,
                tally=tally,
            )
            done += 1
            loss = tally.loss
            if on_update is not None:
                on_update(done, total, loss)
    return {
        "demonstrations": len(demonstrations),
        "demonstrated_steps": sum(len(t.steps) for t in demonstrations),
        "updates": done,
        "last_loss": loss,
    }


def _demonstration(policy: Policy, env: TextEnv, task: int, noise: float, random: np.random.Generator) -> list[Step]:
    certain = env.spec.noise == DETERMINISTIC
    text, _ = env.reset(seed=task)
    dialogue, steps, plan = Dialogue(policy.prompts), list[Step](), list[str]()
    while True:
        if not plan:
            advice = env.expert()
            if not advice:
                return []
            plan = list(advice)
        action = plan.pop(0)
        listed = None if policy.free_text else env.actions()
        if listed is None:
            ids = (*policy.prompts.encode_action(action), policy.prompts.stop_id)
        else:
            ids = policy.choices(listed).ids_of(action)
        context, fresh = dialogue.see(text)
        steps.append(
            Step(
                observation=text,
                action=action,
                prompt_ids=context,
                ids=ids,
                fresh=fresh,
                logp=np.zeros(len(ids)),
                actions=listed,
            )
        )
        dialogue.act(ids)
        played = action
        if noise and random.random() < noise:
            played = str(random.choice(np.array(env.actions() or (action,), dtype=object)))
        text, _, terminated, truncated, _ = env.step(played)
        if terminated or truncated:
            return steps
        if not certain or played != action:
            plan = []


def _rate(done: int, total: int) -> float:
    """Up in a straight line, then down in a straight line."""
    rising = max(1, round(WARM_UP * total))
    if done < rising:
        return (done + 1) / rising
    return 1 - (1 - FLOOR) * (done - rising) / max(1, total - rising)
