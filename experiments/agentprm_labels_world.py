"""The settings of `agentprm_labels`, its policies with their truth, and the labelled rollouts that a budget buys."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import apportion as ap
from apportion.bench.continuations import ExactPolicy, askable
from apportion.bench.demo.scorer import scorer
from apportion.bench.exact import Exact, Rollouts, exact, sample
from apportion.bench.tasks import task
from apportion.data import Batch, Step, Trajectory
from apportion.envs import make
from apportion.train import TrainConfig, train
from apportion.train.policy import Policy
from apportion.train.search import SearchSettings, run_config

OPTIONS = {"show_time": True}
K, LAM = 16, 0.95
MC = ("mc_hard", "mc_mean")
MC_BUDGETS = (4000, 16000, 64000)
NETWORKS = {"td": 4000, "mc_mean": 32000, "mc_hard": 32000}  # tokens: an eighth for td
STEPS = 250
TEST_ROLLOUTS = 400
SEARCH = SearchSettings(n=16, width=4, branch=4, tasks=16)


class World(NamedTuple):
    """A policy, its truth, and the folder that it was saved in."""

    policy: Policy
    truth: Exact
    folder: Path


def world(seed: int, work: Path) -> World:
    """The cloned policy of a seed; neither random nor good."""
    folder = work / f"policy-{seed}"
    config = TrainConfig(
        env="crafttree", env_options=OPTIONS, seed=seed, out=str(folder), method="grpo", clone_episodes=24,
        clone_epochs=6, clone_noise=0.3, iterations=0, eval_every=0, eval_tasks=0, tensorboard=False,
    )  # fmt: skip
    if not (folder / "policy").is_dir():
        train(config, resume=(folder / "checkpoints").is_dir())
    policy = Policy.from_config(run_config(folder), make("crafttree", **OPTIONS))
    return World(policy, exact(task("crafttree", **OPTIONS).table, scorer(policy)), folder)


def rollouts_of(here: World, tokens: float, rng: np.random.Generator) -> Rollouts:
    """Fresh rollouts of about so many actions, each of which the policy writes as one token; one at least."""
    some = sample(here.truth.table, here.truth.policy, groups=64, n=1, rng=rng)
    count = max(1, round(tokens / (len(some.slot_S) / 64)))
    return sample(here.truth.table, here.truth.policy, groups=count, n=1, rng=rng)


def step_of(here: World, t: int, slot: int, *, first: bool, reward: float = 0.0) -> Step:
    """An action as the policy writes it, in the context that the policy has."""
    table, prompts = here.truth.table, here.policy.prompts
    x = int(table.state_of_K[slot])
    action = table.actions[x][slot - int(table.first_slot_X[x])]
    context = prompts.start().see(table.text(x, t))[0]
    return Step(prompt_ids=context, ids=prompts.encode_action(action), fresh=not first, reward=reward)


def as_ids(here: World, drawn: Rollouts) -> Batch:
    """Rollouts in the ids of the policy."""
    steps: list[list[Step]] = [[] for _ in drawn.group_of_N]
    columns = (drawn.traj_of_S, drawn.time_S, drawn.slot_S, drawn.reward_S)
    for n, t, slot, reward in zip(*(column.tolist() for column in columns), strict=True):
        steps[n].append(step_of(here, t, slot, first=t == 0, reward=reward))
    return Batch.from_trajectories(Trajectory(s, group=str(n), outcome=None) for n, s in enumerate(steps))


def mc_labels(here: World, drawn: Rollouts, seed: int) -> tuple[dict[str, np.ndarray[Any, Any]], int]:
    """Labels of every step by K continuations behind it, of both kinds, and the tokens of these continuations."""
    player = ExactPolicy(here.truth)
    units = ap.by_step(askable(here.truth, drawn))
    with ap.Asker(player, seed=seed) as ask:
        labels = {
            f"mc_{kind}": ap.assign("agentprm_mc", units, ask=ask, k=K, credit="promise", label=kind).advantage_S
            for kind in ("hard", "mean")
        }
    return labels, player.decisions


def bought(here: World, budget: int, source: str, seed: int) -> tuple[Rollouts, dict[str, Any], int]:
    """What a budget buys: rollouts, given labels by kind, and the tokens that were really generated."""
    rng = np.random.default_rng([seed, budget, ord(source[0])])
    if source == "td":
        drawn = rollouts_of(here, budget, rng)
        return drawn, {}, len(drawn.slot_S)
    trial = rollouts_of(here, 200, rng)
    each = 1 + mc_labels(here, trial, seed + 1)[1] / len(trial.slot_S)
    drawn = rollouts_of(here, budget / each, rng)
    labels, more = mc_labels(here, drawn, seed)
    return drawn, labels, len(drawn.slot_S) + more
