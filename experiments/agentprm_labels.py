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

    python experiments/agentprm_labels.py [--seeds 5] [--work runs/agentprm_labels]
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import apportion as ap
from apportion.bench.continuations import ExactPolicy, askable
from apportion.bench.demo.scorer import scorer
from apportion.bench.exact import Exact, Rollouts, exact, sample
from apportion.bench.intervals import t_interval
from apportion.bench.tasks import task
from apportion.data import Batch, Step, Trajectory
from apportion.data.atomic import atomic_write
from apportion.envs import make
from apportion.models import AgentPRM, Backbone, Settings
from apportion.models.labels import td_labels
from apportion.numerics.value_quality import errors_of, explained_variance, ranking_of
from apportion.train import TrainConfig, train
from apportion.train.policy import Policy
from apportion.train.search import SearchSettings, run_config, search

HERE = Path(__file__).parent
OPTIONS = {"show_time": True}
K, LAM = 16, 0.95
MC = ("mc_hard", "mc_mean")
TD_BUDGETS = (250, 500, 1000, 2000, 4000, 8000, 16000, 32000)
MC_BUDGETS = (4000, 16000, 64000)
PASSES = 12  # of a table over its own labels; it has settled by then
NETWORKS = {"td": 4000, "mc_mean": 32000, "mc_hard": 32000}  # tokens: an eighth for td
STEPS, FIT = 250, {"lr": 1e-3, "batch_tokens": 2048, "held_out": 0.0}
TEST_ROLLOUTS = 400
SEARCH = SearchSettings(n=16, width=4, branch=4, tasks=16)
RIVALS = tuple(kind for kind in NETWORKS if kind in MC)
EQUAL = tuple((rival, metric) for rival in MC for metric in ("error", "pairwise"))
CHOICES = (
    ("best of 16: last promise", "best of 16: at random"),
    ("beam 4 x 4", "one sample"),
    ("beam 4 x 4", "best at the beam's tokens: last promise"),
)
METRICS = ("error", "within", "explained", "pairwise", "top1", "unseen_error")


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
    return {"J": here.truth.J, **found, "seconds": time.process_time() - began}


def assembled(parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The pieces of a seed together."""
    rows = [row for source in ("td", "mc") for row in parts[f"tables {source}"]["rows"]]
    return {
        "J": parts["tables td"]["J"],
        "rows": rows + [parts[name]["row"] for name in NETWORKS],
        "searches": {name: parts[name]["search"] for name in NETWORKS},
    }


def needed(budgets: Any, errors: Any, target: float) -> tuple[float, bool]:
    """Tokens at which errors first come down to a target, between budgets on a logarithmic scale.

    Returns:
        tokens, and whether that is known; else the least budget was below already, or the largest is still above.
    """
    if errors[0] <= target:
        return float(budgets[0]), False
    for (b, e), (c, f) in pairwise(zip(budgets, errors, strict=True)):
        if f <= target:
            share = (e - target) / (e - f)
            return float(np.exp(np.log(b) + share * np.log(c / b))), True
    return float(budgets[-1]), False


def ratios(run: dict[str, Any], rival: str, metric: str) -> dict[int, tuple[float, bool]]:
    """For each budget of a Monte-Carlo table: its tokens over those that td needs to be as good, at one seed; and
    whether that is known, see `needed`. ``metric``: "error", or "pairwise", whose rest to 1 is the error.
    """

    def wrong(row: dict[str, Any]) -> float:
        return float(row["error"] if metric == "error" else 1 - row["pairwise"])

    tables = [row for row in run["rows"] if row["model"] == "table"]
    td = [row for row in tables if row["kind"] == "td"]
    best = np.minimum.accumulate([wrong(row) for row in td]).tolist()
    out = {}
    for row in (r for r in tables if r["kind"] == rival):
        tokens, known = needed([r["tokens"] for r in td], best, wrong(row))
        out[row["budget"]] = row["tokens"] / tokens, known
    return out


def summary(runs: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Means and intervals over seeds."""
    some = next(iter(runs.values()))
    rows = []
    for k, row in enumerate(some["rows"]):
        named = {name: row[name] for name in ("model", "kind", "budget")}
        columns = ("tokens", "rollouts", *METRICS, "unseen", "label_error")
        each = {c: told([run["rows"][k][c] for run in runs.values()]) for c in columns if c in row}
        rows.append({**named, **each})
    equal: dict[str, Any] = {"error": {}, "pairwise": {}}
    bounds: dict[str, Any] = {}
    for rival, metric in EQUAL:
        by_seed = [ratios(run, rival, metric) for run in runs.values()]
        mean = {b: np.exp(told([float(np.log(r[b][0])) for r in by_seed])) for b in MC_BUDGETS}
        equal[metric][rival] = {b: np.round(x, 2).tolist() for b, x in mean.items()}
        bounds[f"{rival}, {metric}"] = {b: sum(not r[b][1] for r in by_seed) for b in MC_BUDGETS}
    gaps = {}
    for rival in RIVALS:
        for metric in ("error", "within", "pairwise", "top1"):
            own = [_network(run, "td")[metric] - _network(run, rival)[metric] for run in runs.values()]
            gaps[f"td - {rival}, {metric}"] = told(own)
    found: dict[str, Any] = {}
    for kind in some["searches"]:
        found[kind] = {
            name: {
                c: told([run["searches"][kind][name][c] for run in runs.values()], high=1 if c == "success" else np.inf)
                for c in row
            }
            for name, row in some["searches"][kind].items()
        }
        for a, b in CHOICES:
            gap = [run["searches"][kind][a]["success"] - run["searches"][kind][b]["success"] for run in runs.values()]
            found[kind][f"{a} - {b}"] = {"success": told(gap)}
    return {
        "seeds": sorted(runs),
        "chance": float(np.mean([r["chance"] for run in runs.values() for r in run["rows"]])),
        "J": told([run["J"] for run in runs.values()]),
        "rows": rows,
        "ratios": equal["error"],
        "ratios_by_order": equal["pairwise"],
        "bounds": bounds,
        "network_differences": gaps,
        "searches": found,
        "settings": {"k": K, "lam": LAM, "networks": NETWORKS},
    }


def _network(run: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(row for row in run["rows"] if row["model"] == "network" and row["kind"] == kind)


def told(values: list[float], *, high: float = np.inf) -> list[float]:
    """Mean, and the two ends of its interval; ``high``: the most that the quantity can be."""
    low, high = t_interval(values, high=high)
    return [round(float(np.mean(values)), 4), round(low, 4), round(high, 4)]


def markdown(found: dict[str, Any]) -> str:
    """The page for people."""
    lines = [
        "# Labels by temporal differences against labels by Monte Carlo",
        "",
        "CraftTree with the steps left in the text; a small cloned transformer, which writes an action as one token; "
        f"exact Q of every action. Mean over {len(found['seeds'])} policies (seeds) with Student's 95% interval; "
        f"expected return of the policies {cell(found['J'])}. Models are held against exact Q in the steps of "
        f"{TEST_ROLLOUTS} fresh rollouts: `error` absolute, `within` 0.05, `explained` variance, `unseen error` in "
        "steps that the rollouts of the budget do not have; `pairwise` and `top1` over all actions of these states, "
        f"ties half (`top1` by chance: {found['chance']:.2f}). `label error`: of the labels themselves, at the steps "
        f"that have one. `td`: lambda {LAM}; `outcome`: lambda 1; `mc_hard`: any of {K} continuations succeeds; "
        "`mc_mean`: their mean.",
        "",
        "## Tables: what the labels are worth",
        "",
        *_rows(found, "table", ("error", "within", "explained", "pairwise", "top1", "label_error")),
        "",
        "Tokens of Monte Carlo over the tokens that td needs to be as good: geometric mean over seeds, td's tokens "
        "between budgets by interpolation.",
        "",
        "| tokens of Monte Carlo | " + " | ".join(f"{rival}, by {metric}" for rival, metric in EQUAL) + " |",
        "|---:|" + "---:|" * len(EQUAL),
    ]
    for budget in MC_BUDGETS:
        lines.append(f"| {budget:,} | " + " | ".join(_ratio(found, a, b, budget) for a, b in EQUAL) + " |")
    lines += ["", "## Networks: `AgentPRM` on a copy of the policy, td at an eighth of the tokens", ""]
    lines += [f"About {STEPS} optimizer steps each; the learning rate was chosen on another seed, for all alike.", ""]
    lines += _rows(found, "network", METRICS)
    lines += ["", "| paired difference | mean, 95% interval |", "|---|---|"]
    lines += [f"| {name} | {cell(gap)} |" for name, gap in found["network_differences"].items()]
    lines += ["", f"## Choosing with these networks: {SEARCH.tasks} tasks a seed", ""]
    kinds = list(found["searches"])
    lines += ["| success | " + " | ".join(kinds) + " |", "|---|" + "---|" * len(kinds)]
    for name in found["searches"][kinds[0]]:
        cells = [cell(found["searches"][kind][name]["success"]) for kind in kinds]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", f"Compute a task, means, with {kinds[0]}: " + _compute(found["searches"][kinds[0]])]
    lines += ["", "## What it says", "", verdict(found)]
    return "\n".join(lines) + "\n"


def _equal(found: dict[str, Any], rival: str, metric: str) -> dict[int, list[float]]:
    out: dict[int, list[float]] = found["ratios" if metric == "error" else "ratios_by_order"][rival]
    return out


def _ratio(found: dict[str, Any], rival: str, metric: str, budget: int) -> str:
    three, seeds = _equal(found, rival, metric)[budget], len(found["seeds"])
    unknown = found["bounds"][f"{rival}, {metric}"][budget]
    if unknown == seeds:
        return f"at least {three[0]:.0f}"
    return cell(three, 1) + (f", in {unknown} of {seeds} seeds a bound" if unknown else "")


def _rows(found: dict[str, Any], model: str, columns: tuple[str, ...]) -> list[str]:
    names = ["labels", "tokens", "rollouts", *(c.replace("_", " ") for c in columns)]
    lines = ["| " + " | ".join(names) + " |", "|---|" + "---:|" * (len(names) - 1)]
    for row in (r for r in found["rows"] if r["model"] == model):
        cells = [
            row["kind"],
            f"{row['tokens'][0]:,.0f}",
            f"{row['rollouts'][0]:,.0f}",
            *(cell(row[c]) for c in columns),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _compute(rows: dict[str, Any]) -> str:
    out = []
    for name in ("best of 16: last promise", "beam 4 x 4", "best at the beam's tokens: last promise"):
        tokens, steps, scored = (rows[name][c][0] for c in ("generated_tokens", "env_steps", "scored_tokens"))
        out.append(f"{name} {tokens:.0f} generated tokens, {steps:.0f} environment steps, {scored:,.0f} scored tokens")
    return "; ".join(out) + "."


def verdict(found: dict[str, Any]) -> str:
    """The claim and what the intervals say of it."""
    said = ["The claim: td reaches Monte Carlo's accuracy with an eighth of the tokens, or fewer."]
    for rival, metric in EQUAL:
        at = _equal(found, rival, metric)
        held = [b for b in MC_BUDGETS if at[b][1] >= 8]
        open_ = [b for b in MC_BUDGETS if at[b][1] < 8 <= at[b][2]]
        lost = [b for b in MC_BUDGETS if at[b][2] < 8]
        where = ((held, "holds at"), (open_, "is open at"), (lost, "fails at"))
        told_where = [f"{how} {_listed(b)} tokens" for b, how in where if b]
        said.append(f"In tables, against {rival} by {metric}, it {' and '.join(told_where)}.")
    for rival in RIVALS:
        gap = found["network_differences"][f"td - {rival}, error"]
        how = "no worse" if gap[2] <= 0 else "worse" if gap[1] > 0 else "not told apart"
        said.append(f"In networks, td with an eighth of the tokens is {how} in error against {rival} ({cell(gap)}).")
    return " ".join(said)


def _listed(budgets: list[int]) -> str:
    return ", ".join(f"{b:,}" for b in budgets) or "no budget"


def cell(three: list[float], digits: int = 3) -> str:
    """0.812 (0.780 to 0.843)"""
    mean, low, high = (f"{x:.{digits}f}" for x in three)
    return f"{mean} ({low} to {high})"


def main() -> None:
    """Run what is missing, then write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--work", type=Path, default=Path("runs/agentprm_labels"))
    parser.add_argument("--pieces", type=int, help="leave after so many; the next call goes on")
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.work.mkdir(parents=True, exist_ok=True)
    left = given.pieces
    parts: dict[int, dict[str, Any]] = {seed: {} for seed in range(given.seeds)}
    for name in PIECES:
        for seed in parts:
            kept = given.work / f"seed-{seed}-{re.sub(r'[^a-z0-9_]+', '-', name)}.json"
            if not kept.is_file():
                if left == 0:
                    return
                left = None if left is None else left - 1
                result = piece(seed, name, given.work)
                with atomic_write(kept) as file:
                    file.write(json.dumps(result, indent=1).encode())
                sys.stdout.write(f"seed {seed}, {name}: {result['seconds']:.0f} s\n")
                sys.stdout.flush()
            parts[seed][name] = json.loads(kept.read_text())
    runs = {seed: assembled(some) for seed, some in parts.items()}
    found = summary(runs)
    out = HERE / "results"
    out.mkdir(exist_ok=True)
    (out / "agentprm_labels.json").write_text(json.dumps(found, indent=1) + "\n")
    (out / "agentprm_labels.md").write_text(markdown(found))
    sys.stdout.write(markdown(found))


if __name__ == "__main__":
    main()
