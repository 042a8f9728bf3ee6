"""Does SWEET-RL's critic need the artefact, and does it need to divide by the length?

ColBench's stand-in (`colspec`) in short words, with two questions only: somebody wants a function and has told one of
its points; ask for others in a short or a long wording, then write it. What is wanted is hidden from the actor. One
small language model, made here, has read dialogues; every second one is of somebody who was told what is wanted, and
that stands in front of it, so that it has learned to read such a text. It is the actor, and what every critic starts
from. Its rollouts, paired by outcome, fit three critics, for as many tokens each:

    with the artefact       `SweetCritic`, behind what is wanted
    without it              the same, ``sees_reference=False``, with more passes
    not divided by length   as the first, ``normalise="none"``

Each ranks the same draws of 16 candidate turns, and the actor is trained on its pairs (`rank`, `prefer`); so it is on
pairs of the exact values, which are known here.

    python -m experiments.sweet_artefact [--seeds 5] [--tasks 48,96] [--work runs/sweet_artefact]

One JSON file per seed and size; a stopped experiment goes on. Settings were chosen on seeds 100 and 101.
"""

from __future__ import annotations

import copy
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from apportion.data import Batch
from apportion.models import SweetCritic, TokenModel
from apportion.train.candidates import candidate_rollouts, draw, turns_of
from apportion.train.player import TrainedPolicy
from apportion.train.policy import Policy
from apportion.train.preference import prefer
from apportion.train.ranking import rank
from apportion.train.rollout import Collector, Rollouts
from experiments.command import options
from experiments.stored import kept, write_results
from experiments.sweet_page import markdown, summary
from experiments.sweet_world import ENV, Exact, asked, language_model, reads

TEST = 5_000_000  # tasks from here on are of the split that no rollout was of
MODELS = {48: (1200, 6), 96: (1600, 8)}
"""Dialogues and passes of the language model, by the number of tasks that its critics are fitted to."""
TASKS, ROLLOUTS, CRITIC_PASSES = tuple(MODELS), 6, 8
FRESH, RANKED, JUDGED, PLAYED = 24, 48, 24, 400
CRITIC = {"beta": 1.0, "lr": 1e-3, "batch_tokens": 4096, "held_out": 0.0}
POLICY = {"lr": 5e-4, "batch_tokens": 2048, "held_out": 0.0, "epochs": 2}
CRITICS: dict[str, dict[str, Any]] = {
    "with the artefact": {},
    "without it": {"sees_reference": False},
    "not divided by length": {"normalise": "none"},
}
EXACT, ACTOR = "exact values", "the actor, untrained"
WITH, WITHOUT, UNDIVIDED = CRITICS


def played(policy: Policy, split: str, first: int, tasks: int, rollouts: int, seed: int) -> Rollouts:
    """Rollouts of tasks of a split; their names say of which, for `Exact`."""
    seeds = range(first, first + tasks)
    return Collector(ENV, {"split": split}).collect(
        policy, seeds, rollouts=rollouts, stream=(seed, first), name=f"{split}/"
    )


def judged(critic: Any, policy: Policy, batch: Batch, seed: int) -> dict[str, float]:
    """How a critic orders candidates of turns, against their exact values; means over turns where these differ."""
    places = turns_of(batch, share=min(1.0, JUDGED / len(batch.traj_of_S)), seed=seed)
    acts = draw(TrainedPolicy(policy), batch, places, count=16, seed=seed)
    right, best, length = [], [], []
    for place, of in zip(places, acts, strict=True):
        kinds = list({act.ids: act for act in of}.values())
        made = Batch.from_trajectories(candidate_rollouts(batch, place, kinds))
        told, true = critic.last_turns(made), Exact().last_turns(made)
        up, down = np.nonzero(true[:, None] > true[None] + 1e-9)
        if not len(up):
            continue
        right.append(float(np.mean((np.sign(told[up] - told[down]) + 1) / 2)))
        top = true[told >= told.max() - 1e-12].mean()
        best.append((top - true.mean()) / (true.max() - true.mean()))
        long_, short = (
            told[[bool(asked(a.action)) and a.action.endswith("?") == ends for a in kinds]] for ends in (True, False)
        )
        if len(long_) and len(short):
            length.append(float(np.mean(np.sign(long_[:, None] - short[None]) / 2 + 0.5)))
    return {"ordered": float(np.mean(right)), "best": float(np.mean(best)), "longer": float(np.mean(length))}


def score_of(policy: Policy, seed: int) -> dict[str, float]:
    """Success on tasks of the other split, and what turns look like."""
    got = played(policy, "test", TEST, PLAYED, 1, seed)
    turns = [step for t in got.trajectories for step in t.steps]
    asks = [step for step in turns if asked(step.action)]
    return {
        "success": float(np.mean(got.success_N)),
        "questions": len(asks) / len(got.trajectories),
        "tokens": float(np.mean([len(step.ids) for step in turns])),
        "long": float(np.mean([step.action.endswith("?") for step in asks])) if asks else float("nan"),
        "unwritten": float(np.mean([asked(t.steps[-1].action) is not None for t in got.trajectories])),
    }


def better(actor: Policy, critic: Any, ranked: Batch, seed: int) -> dict[str, Any]:
    """The actor after a training on pairs that a critic ranked."""
    policy = Policy(copy.deepcopy(actor.model), actor.tokenizer, window=0, free_text=False)
    found = rank(actor, critic, ranked, candidates=16, pairs=4, seed=seed)
    prefer(policy, found.pairs, seed=seed, **POLICY)
    return {**score_of(policy, seed), "pairs_trained_on": len(found.pairs)}


def fitted(actor: Policy, batch: Batch, how: dict[str, Any], seed: int) -> SweetCritic:
    """A critic that starts from the actor's weights; the one that reads less makes more passes."""
    trunk = TokenModel(copy.deepcopy(actor.model), actor.tokenizer)
    long_, own = (
        sum(map(len, SweetCritic(trunk, sees_reference=sees).rows(batch).ids))
        for sees in (True, how.get("sees_reference", True))
    )
    return SweetCritic.fit(
        batch, backbone=trunk, epochs=round(CRITIC_PASSES * long_ / own), seed=seed, **{**CRITIC, **how}
    )


def measured(seed: int, tasks: int) -> dict[str, Any]:
    """Everything of one seed, with critics that are fitted to rollouts of so many tasks."""
    torch.set_num_threads(1)
    began, actor = time.process_time(), language_model(seed, *MODELS[tasks])
    first = 1_000_000 + 1000 * seed
    own = Batch.from_trajectories(played(actor, "train", first, tasks, ROLLOUTS, seed).trajectories)
    fresh = Batch.from_trajectories(played(actor, "test", TEST + 1000, FRESH, ROLLOUTS, seed).trajectories)
    ranked = Batch.from_trajectories(played(actor, "train", first + 500, RANKED, 1, seed).trajectories)
    arms: dict[str, Any] = {
        f"{ACTOR}, {tasks}": {"reads": reads(actor), **score_of(actor, seed)},
        f"{EXACT}, {tasks}": better(actor, Exact(), ranked, seed),
    }
    for name in CRITICS if tasks == TASKS[0] else (WITH, WITHOUT):
        how = CRITICS[name]
        critic = fitted(actor, own, how, seed)
        assert critic.fitted is not None
        arms[f"{name}, {tasks}"] = {
            "tokens_read": critic.fitted.tokens,
            "pairs_right": critic.measure(fresh)["pairs"][0],
            **judged(critic, actor, fresh, seed),
            **better(actor, critic, ranked, seed),
        }
    return {"seed": seed, "arms": arms, "cpu_seconds": time.process_time() - began}


def run(seed: int, tasks: int, work: Path) -> dict[str, Any]:
    """A seed and a number of tasks from its file, or now."""
    found: dict[str, Any] = kept(work / f"{seed}.{tasks}.json", partial(measured, seed, tasks))
    return found


def _together(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The arms of all numbers of tasks."""
    arms = {name: arm for found in runs for name, arm in found["arms"].items()}
    return {"arms": arms, "cpu_seconds": sum(found["cpu_seconds"] for found in runs)}


def main() -> None:
    """Run what is missing, and write the page."""
    parser = options("sweet_artefact", __doc__, seeds=5)
    parser.add_argument("--tasks", default=",".join(map(str, TASKS)), help=f"how many a critic is fitted to, {TASKS}")
    given = parser.parse_args()
    sizes = [int(size) for size in given.tasks.split(",")]
    for tasks in sizes:
        for seed in range(given.seeds):
            run(seed, tasks, given.work)
    by_seed = [_together([run(seed, tasks, given.work) for tasks in sizes]) for seed in range(given.seeds)]
    compared = [(f"{WITH}, {tasks}", f"{WITHOUT}, {tasks}") for tasks in sizes]
    found = summary(by_seed, [*compared, (f"{WITH}, {TASKS[0]}", f"{UNDIVIDED}, {TASKS[0]}")])
    write_results(given.out, "sweet_artefact", found, markdown(found))
    sys.stdout.write(markdown(found))


if __name__ == "__main__":
    main()
