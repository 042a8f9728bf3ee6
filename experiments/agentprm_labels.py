"""Do temporal-difference labels reach the accuracy of Monte-Carlo labels with an eighth of the generated tokens?

A small transformer is cloned on CraftTree (steps left in the text, so the text is the whole state) and put into the
task's table, which makes Q of every action exact. A budget of generated tokens buys rollouts and labels of their steps:

    td        lambda-returns of the model itself (lambda .95): all tokens go into rollouts
    outcome   the same with lambda 1: the outcome of the rollout
    mc_hard   whether any of 16 continuations behind the step succeeds (the paper's)
    mc_mean   the mean return of these 16

Two models learn from them and are held against exact Q in the steps of fresh rollouts. A table (the mean label of each
step that recurs, else of the time) shows what the labels are worth; `AgentPRM` on a copy of the policy, as the paper
has it, shows what a network makes of them, at an eighth of the tokens for td. Then the networks choose: best of N and
beam, on the same policy (`apportion models search`).

    python -m experiments.agentprm_labels [--seeds 5] [--work runs/agentprm_labels]
"""

from __future__ import annotations

import copy
import re
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import apportion as ap
from apportion.bench.continuations import askable
from apportion.bench.exact import Rollouts, sample
from apportion.data import Batch, Trajectory
from apportion.models import AgentPRM, Backbone, Settings
from apportion.models.labels import td_labels
from apportion.numerics.value_quality import errors_of, explained_variance, ranking_of
from apportion.train.search import run_config, search
from experiments.agentprm_labels_page import markdown, summary
from experiments.agentprm_labels_world import (
    LAM,
    MC,
    MC_BUDGETS,
    NETWORKS,
    SEARCH,
    STEPS,
    TEST_ROLLOUTS,
    World,
    as_ids,
    bought,
    step_of,
    world,
)
from experiments.command import options, say
from experiments.stored import kept, write_results

TD_BUDGETS = (250, 500, 1000, 2000, 4000, 8000, 16000, 32000)
PASSES = 12  # of a table over its own labels; it has settled by then
FIT = {"lr": 1e-3, "batch_tokens": 2048, "held_out": 0.0}


def network(here: World, batch: Batch, kind: str, labels: Any, seed: int) -> AgentPRM:
    """A network on labels, begun from the policy; about as many optimizer steps for each kind."""
    tokens = len(batch.ids_T) + len(batch.traj_of_S)
    epochs = max(2, round(STEPS * FIT["batch_tokens"] / tokens))
    settings = Settings(**FIT, epochs=epochs, seed=seed)  # type: ignore[arg-type]
    trunk = Backbone(copy.deepcopy(here.policy.model), here.policy.tokenizer)
    given = "td" if labels is None else labels
    return AgentPRM.fit(batch, backbone=trunk, hidden=64, settings=settings, beta=0.0, lam=LAM, labels=given)


def filled(here: World, drawn: Rollouts, kind: str, labels: Any) -> tuple[Any, Any]:
    """A table (time, slot) of promises from labels, and the labels of the steps that it settled at."""
    at, horizon = (drawn.time_S, drawn.slot_S), here.truth.table.horizon
    units = ap.by_step(askable(here.truth, drawn))
    table, label = np.zeros((horizon, here.truth.table.slots)), labels
    for _ in range(PASSES if labels is None else 1):
        if labels is None:
            label = td_labels(table[at], units, lam=LAM if kind == "td" else 1.0)
        count, total = np.zeros_like(table), np.zeros_like(table)
        np.add.at(count, at, 1.0)
        np.add.at(total, at, label)
        of_time = total.sum(axis=1) / np.maximum(count.sum(axis=1), 1)
        table = np.where(count > 0, total / np.maximum(count, 1), of_time[:, None])
    return table, label


class Test(NamedTuple):
    """Fresh steps, and all actions of the states that they are in: (time, slot) each, and what is true of them."""

    fresh: list[tuple[int, int]]
    every: list[tuple[int, int]]
    set_of: Any
    batch: Batch


def test_of(here: World, seed: int) -> Test:
    """What models are held against."""
    table = here.truth.table
    drawn = sample(table, here.truth.policy, groups=TEST_ROLLOUTS, n=1, rng=np.random.default_rng([seed, 1]))
    fresh = list(zip(drawn.time_S.tolist(), drawn.slot_S.tolist(), strict=True))
    states = sorted(set(zip(drawn.time_S.tolist(), drawn.state_S.tolist(), strict=True)))
    bounds = [(t, int(table.first_slot_X[x]), int(table.first_slot_X[x + 1])) for t, x in states]
    every = [(t, slot) for t, lo, hi in bounds for slot in range(lo, hi)]
    set_of = np.repeat(np.arange(len(bounds)), [hi - lo for _, lo, hi in bounds])
    steps = [step_of(here, t, slot, first=True) for t, slot in every]
    return Test(fresh, every, set_of, Batch.from_trajectories(Trajectory([s], outcome=0.0) for s in steps))


def quality(here: World, test: Test, said: Any, drawn: Rollouts) -> dict[str, float]:
    """Promises against exact Q: in fresh steps, in those of them that the rollouts do not have, and in order."""
    true = here.truth.q_HK[tuple(np.array(test.every).T)]
    at = {place: k for k, place in enumerate(test.every)}
    fresh = np.array([at[place] for place in test.fresh])
    known = set(zip(drawn.time_S.tolist(), drawn.slot_S.tolist(), strict=True))
    unseen = np.array([place not in known for place in test.fresh])
    errors = errors_of(said[fresh], true[fresh])
    ranking = ranking_of(said, true, test.set_of, ties="half", gap=1e-9)
    return {
        "error": errors.absolute,
        "within": errors.within,
        "explained": explained_variance(said[fresh], true[fresh]),
        "pairwise": ranking.pairwise,
        "top1": ranking.top1,
        "unseen_error": errors_of(said[fresh[unseen]], true[fresh[unseen]]).absolute,
        "unseen": float(unseen.mean()),
        "chance": ranking.chance,
    }


def tables(here: World, test: Test, seed: int, source: str) -> list[dict[str, Any]]:
    """Tables on the labels of a source at every budget."""
    places, rows = tuple(np.array(test.every).T), []
    for budget in TD_BUDGETS if source == "td" else MC_BUDGETS:
        drawn, labels, used = bought(here, budget, source, seed)
        facts = {"budget": budget, "tokens": used, "rollouts": len(drawn.group_of_N)}
        for kind in ("td", "outcome") if source == "td" else MC:
            table, label = filled(here, drawn, kind, labels.get(kind))
            wrong = float(np.abs(label - here.truth.q_HK[drawn.time_S, drawn.slot_S]).mean())
            told = quality(here, test, table[places], drawn) | {"label_error": wrong}
            rows.append({"model": "table", "kind": kind, **facts, **told})
    return rows


def chosen(here: World, test: Test, seed: int, kind: str) -> dict[str, Any]:
    """A network on one kind of labels, and what it chooses."""
    budget = NETWORKS[kind]
    drawn, labels, used = bought(here, budget, kind[:2], seed)
    model = network(here, as_ids(here, drawn), kind, labels.get(kind), seed)
    told = quality(here, test, model.promises(test.batch), drawn)
    result = search(run_config(here.folder), model, SEARCH)
    return {
        "row": {"model": "network", "kind": kind, "budget": budget, "tokens": used}
        | {"rollouts": len(drawn.group_of_N), **told},
        "search": {row.name: {"success": row.success[0], **row.costs} for row in result.rows},
    }


PIECES = ("tables td", "tables mc", *NETWORKS)
"""Of one seed: the tables of both sources, then the networks. Each is a file of its own."""


def piece(seed: int, name: str, work: Path) -> dict[str, Any]:
    """One part of the measurement."""
    began = time.process_time()
    here = world(seed, work)
    test = test_of(here, seed)
    source = name.removeprefix("tables ")
    found = {"rows": tables(here, test, seed, source)} if source != name else chosen(here, test, seed, name)
    seconds = time.process_time() - began
    say(f"seed {seed}, {name}: {seconds:.0f} s")
    return {"J": here.truth.J, **found, "seconds": seconds}


def assembled(parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The pieces of a seed together."""
    rows = [row for source in ("td", "mc") for row in parts[f"tables {source}"]["rows"]]
    return {
        "J": parts["tables td"]["J"],
        "rows": rows + [parts[name]["row"] for name in NETWORKS],
        "searches": {name: parts[name]["search"] for name in NETWORKS},
    }


def main() -> None:
    """Run what is missing, then write the tables."""
    parser = options("agentprm_labels", __doc__, seeds=5)
    parser.add_argument("--pieces", type=int, help="leave after so many; the next call goes on")
    given = parser.parse_args()
    torch.set_num_threads(1)
    left = given.pieces
    parts: dict[int, dict[str, Any]] = {seed: {} for seed in range(given.seeds)}
    for name in PIECES:
        for seed in parts:
            path = given.work / f"seed-{seed}-{re.sub(r'[^a-z0-9_]+', '-', name)}.json"
            if not path.is_file():
                if left == 0:
                    return
                left = None if left is None else left - 1
            parts[seed][name] = kept(path, partial(piece, seed, name, given.work))
    found = summary({seed: assembled(some) for seed, some in parts.items()})
    write_results(given.out, "agentprm_labels", found, markdown(found))
    sys.stdout.write(markdown(found))


if __name__ == "__main__":
    main()
