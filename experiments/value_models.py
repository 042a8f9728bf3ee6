"""At equal generated tokens: K continuations of each state (VinePPO), a value head, AgentPRM by TD and by Monte Carlo.

On four games whose values are known exactly, a policy between random and good acts. In states that it visits, up to
five actions that it samples are valued by what stands behind them. K continuations from there cost so many words; a
model gets as many words of fresh episodes to learn from, and its own pass over the states is free.

    samples     mean return of K continuations from the state that the action led to
    value_head  `ValueHead` at level "step" on the returns of episodes
    prm_td      `AgentPRM` with labels by temporal differences, on as many words of episodes
    prm_mc      `AgentPRM` on fewer episodes, whose words include those of LABELS continuations behind each step
    exact       the exact value of the state that the action led to

    python -m experiments.value_models [--seeds 5] [--work runs/value_models]
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2Model

from apportion.data import Batch, Trajectory
from apportion.models import AgentPRM, Backbone, Settings, ValueHead
from apportion.numerics.value_quality import errors_of, ranking_of
from experiments.command import options, say
from experiments.stored import kept, write_results
from experiments.value_models_page import BUDGETS, MODELS, markdown, summary
from experiments.value_models_world import ACTIONS, STATES, TASKS, Game, Tried, labelled, tried

LABELS = 4
STEPS = 200  # of an optimizer, for every model at every budget: words are what is compared, not patience
FIT: dict[str, Any] = {"lr": 2e-3, "batch_tokens": 1024, "held_out": 0.0}


def sampled(game: Game, at: Tried, k: int, rng: np.random.Generator) -> tuple[Any, int]:
    """Mean return of k continuations behind each action that does not end the game, and their words."""
    value, words = np.zeros(len(at.slot)), 0
    for i in np.flatnonzero(at.after >= 0).tolist():
        played = [game.play_on(int(at.after[i]), int(at.time[i]) + 1, rng) for _ in range(k)]
        value[i], words = np.mean([total for total, _ in played]), words + sum(w for _, w in played)
    return value, words


def fitted(game: Game, kind: str, words: int, seed: int) -> tuple[Any, int]:
    """A model that has learned from so many words, and how many they were."""
    rng = np.random.default_rng([seed, words, sum(map(ord, kind[:3]))])
    share = 1.0
    if kind == "prm_mc":  # how many words of continuations come with a word of an episode
        some, own = game.episodes(400, rng)
        share = own / (own + LABELS * labelled(game, some, 1, rng)[1])
    drawn, used = game.episodes(words * share, rng)
    how: dict[str, Any] = {}
    if kind == "prm_mc":
        how["labels"], more = labelled(game, drawn, LABELS, rng)
        used += more
    batch = game.batch(drawn)
    backbone = trunk(len(game.ids), seed)
    epochs = max(1, round(STEPS * FIT["batch_tokens"] / tokens_read(batch)))
    settings = Settings(**FIT, epochs=epochs, seed=seed)
    if kind == "value_head":
        return ValueHead.fit(batch, backbone=backbone, level="step", hidden=64, settings=settings), used
    how |= {"beta": 0.0} if kind == "prm_mc" else {"beta": 0.0, "lam": 0.95}
    return AgentPRM.fit(batch, backbone=backbone, hidden=64, settings=settings, **how), used


def trunk(words: int, seed: int) -> Backbone:
    """A transformer of two layers, 32 wide, that knows the words and a token to begin a row with."""
    config = GPT2Config(
        vocab_size=words + 1, n_positions=256, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=words, eos_token_id=words,
    )  # fmt: skip
    torch.manual_seed(seed)
    return Backbone(GPT2Model(config))


def tokens_read(batch: Batch) -> int:
    """Ids in the rows of a batch, start tokens too."""
    return len(batch.ids_T) + len(batch.traj_of_S)


def told_by(game: Game, model: Any, at: Tried) -> Any:
    """What a model says of each action: V of where it led, or M of it."""
    if isinstance(model, AgentPRM):
        steps = [game.step(int(t), int(k)) for t, k in zip(at.time, at.slot, strict=True)]
        return model.promises(Batch.from_trajectories([Trajectory([s], group="0", outcome=0.0) for s in steps]))
    out, going = np.zeros(len(at.slot)), np.flatnonzero(at.after >= 0)
    first = [game.step(int(at.time[i]) + 1, int(game.table.first_slot_X[at.after[i]])) for i in going.tolist()]
    batch = model.predict(Batch.from_trajectories([Trajectory([s], group="0", outcome=0.0) for s in first]))
    out[going] = batch.value_S
    return out


def measured(name: str, seed: int) -> dict[str, Any]:
    """One policy of one game: numbers of every source."""
    game = Game(name, seed)
    at = tried(game, np.random.default_rng([seed, 1]))
    going = at.after >= 0
    q_true = game.truth.q_HK[at.time, at.slot]
    next_true = np.zeros(len(at.slot))
    next_true[going] = game.truth.value_HX[at.time[going] + 1, at.after[going]]
    rows: dict[str, Any] = {"exact": quality(next_true, next_true, at.reward + next_true, q_true, at)}
    for k in BUDGETS:
        value, words = sampled(game, at, k, np.random.default_rng([seed, 2, k]))
        rows[f"samples:{k}"] = quality(value, next_true, at.reward + value, q_true, at) | {"words": words}
        for kind in MODELS:
            began = time.process_time()
            model, used = fitted(game, kind, words, seed)
            spent = time.process_time() - began
            said = told_by(game, model, at)
            pair = (said, q_true, said) if kind != "value_head" else (said, next_true, at.reward + said)
            rows[f"{kind}:{k}"] = quality(pair[0], pair[1], pair[2], q_true, at) | {"words": used, "seconds": spent}
    return {"J": game.truth.J, "rows": rows}


def compared(name: str, seed: int) -> int:
    """Pairs of actions that differ in exact Q, of which the ranking is made."""
    game = Game(name, seed)
    at = tried(game, np.random.default_rng([seed, 1]))
    q = game.truth.q_HK[at.time, at.slot]
    return ranking_of(q, q, at.set_of, gap=1e-9).pairs


def quality(value: Any, target: Any, action: Any, q_true: Any, at: Tried) -> dict[str, float]:
    """Errors where the game goes on, against what the source stands for; ranking of actions against exact Q."""
    going = at.after >= 0
    errors = errors_of(value[going], target[going])
    ranking = ranking_of(action, q_true, at.set_of, ties="half", gap=1e-9)
    return {
        "error": errors.absolute, "within": errors.within, "pairwise": ranking.pairwise, "top1": ranking.top1
    }  # fmt: skip


def main() -> None:
    """Run what is missing, then write the tables."""
    parser = options("value_models", __doc__, seeds=5)
    parser.add_argument("--first", type=int, default=0, help="first seed; tables are of all from 0")
    parser.add_argument("--only", choices=list(TASKS), help="one game, without tables")
    given = parser.parse_args()
    torch.set_num_threads(1)
    runs: dict[str, dict[int, Any]] = {}
    for seed in range(given.first, given.first + given.seeds):
        for name in [given.only] if given.only else TASKS:
            runs.setdefault(name, {})[seed] = kept(given.work / f"{name}-{seed}.json", partial(measured, name, seed))
            say(f"{name}, seed {seed}")
    if given.only is None and given.first == 0 and given.seeds > 1:
        settings = {"labels": LABELS, "steps": STEPS, "fit": FIT, "states": STATES, "actions": ACTIONS, "tasks": TASKS}
        pairs = {name: float(np.mean([compared(name, seed) for seed in runs[name]])) for name in TASKS}
        found = summary(runs) | {"settings": settings, "pairs": pairs}
        write_results(given.out, "value_models", found, markdown(found))
        sys.stdout.write(markdown(found))


if __name__ == "__main__":
    main()
