"""Does the mean of K continuations rank actions better than a value head trained on the same policy's returns?

A small transformer is cloned and trained on CraftTree (steps left in the text, so the text is the whole state). Its
policy is put into the task's table, which makes V and Q exact. On fresh states five next actions are sampled, as
VinePPO's authors did, and ranked by r + V(next) with V from

    samples:K        the mean return of K continuations
    linear, mlp      a head on the policy's last hidden state, fitted to the returns of 512 episodes (their iteration)
    linear4096, …    the same with eight times the episodes

    python -m experiments.vineppo_vs_value_head [--seeds 5] [--work runs/vineppo_vs_value_head]
"""

from __future__ import annotations

import math
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from apportion.asks import Place
from apportion.assign.values import value_quality
from apportion.bench.continuations import ExactPolicy, askable
from apportion.bench.demo.scorer import scorer
from apportion.bench.exact import Exact, exact, sample
from apportion.bench.tasks import task
from apportion.envs import make
from apportion.methods.moments import starts
from apportion.resources import Asker, branch
from apportion.train import TrainConfig, train
from apportion.train.policy import Policy
from apportion.units import by_step
from experiments.command import options, say
from experiments.markdown import cell, document, table
from experiments.means import interval, paired
from experiments.stored import kept, write_results

OPTIONS = {"show_time": True}
SAMPLES = (1, 3, 9)
EPISODES = (512, 4096)
STATES, ACTIONS = 96, 5
RANDOM_CHOICE = "chance"


def settings(seed: int, out: Path) -> TrainConfig:
    """A policy that was cloned a little and trained a little: neither random nor good."""
    return TrainConfig(
        env="crafttree", env_options=OPTIONS, seed=seed, out=str(out), method="grpo", method_params={"scale": "none"},
        unit="step", clone_episodes=24, clone_epochs=6, clone_noise=0.3, clone_lr=2e-3, tasks=8, rollouts=8,
        iterations=6, lr=5e-4, eval_every=0, eval_tasks=0, checkpoint_every=2, tensorboard=False,
    )  # fmt: skip


def trained(seed: int, work: Path) -> Policy:
    """The trained policy of a seed; a stopped run goes on."""
    config = settings(seed, work / f"policy-{seed}")
    folder = Path(config.out)
    if not (folder / "policy").is_dir():
        train(config, resume=(folder / "checkpoints").is_dir())
    loaded = TrainConfig.from_mapping({**config.to_mapping(), "start": str(folder / "policy"), "clone_episodes": 0})
    return Policy.from_config(loaded, make("crafttree", **OPTIONS))


def features(policy: Policy, texts: list[str]) -> torch.Tensor:
    """Last hidden state at the end of the prompt of each text."""
    dialogue = policy.prompts.start
    rows = [dialogue().see(text)[0] for text in texts]
    out = []
    with torch.no_grad():
        for k in range(0, len(rows), 256):
            ids, mask, positions = policy.pad(rows[k : k + 256])
            got = policy.model(input_ids=ids, attention_mask=mask, position_ids=positions, output_hidden_states=True)
            out.append(got.hidden_states[-1][:, -1].float())
    return torch.cat(out)


def fit(x: torch.Tensor, y: torch.Tensor, kind: str, seed: int) -> torch.nn.Module:
    """A value head: linear, or with one hidden layer; squared error on returns, the best of a held-out fifth."""
    torch.manual_seed(seed)
    width = x.shape[1]
    body = [torch.nn.Linear(width, 1)]
    if kind == "mlp":
        body = [torch.nn.Linear(width, 64), torch.nn.GELU(), torch.nn.Linear(64, 1)]
    head = torch.nn.Sequential(*body)
    cut = len(x) * 4 // 5
    order = torch.randperm(len(x))
    train_at, held_at = order[:cut], order[cut:]
    optimizer = torch.optim.AdamW(head.parameters(), lr=3e-3, weight_decay=1e-3)
    best, kept = math.inf, {k: v.clone() for k, v in head.state_dict().items()}
    for update in range(1500):
        part = train_at[torch.randint(len(train_at), (256,))]
        loss = ((head(x[part])[:, 0] - y[part]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 50 == 49:
            with torch.no_grad():
                held = float(((head(x[held_at])[:, 0] - y[held_at]) ** 2).mean())
            if held < best:
                best, kept = held, {k: v.clone() for k, v in head.state_dict().items()}
    head.load_state_dict(kept)
    return head


def heads(policy: Policy, truth: Exact, seed: int) -> dict[str, torch.nn.Module]:
    """Value heads fitted to returns to go of fresh episodes."""
    out = {}
    for episodes in EPISODES:
        drawn = sample(
            truth.table, truth.policy, groups=episodes // 8, n=8, rng=np.random.default_rng([seed, episodes])
        )
        texts = [truth.table.text(x, t) for x, t in zip(drawn.state_S.tolist(), drawn.time_S.tolist(), strict=True)]
        distinct = {text: k for k, text in enumerate(dict.fromkeys(texts))}
        x = features(policy, list(distinct))[[distinct[text] for text in texts]]
        to_go = drawn.return_N[drawn.traj_of_S]  # one reward at the end, no discount
        y = torch.as_tensor(to_go, dtype=torch.float32)
        for kind in ("linear", "mlp"):
            out[kind if episodes == EPISODES[0] else f"{kind}{episodes}"] = fit(x, y, kind, seed)
    return out


def measured(seed: int, work: Path) -> dict[str, Any]:
    """One seed: rows of numbers by source of values."""
    began = time.perf_counter()
    policy = trained(seed, work)
    table = task("crafttree", **OPTIONS).table
    truth = exact(table, scorer(policy))
    fitted = heads(policy, truth, seed)
    drawn = sample(table, truth.policy, groups=STATES, n=1, rng=np.random.default_rng([seed, 1]))
    batch = askable(truth, drawn)
    random = np.random.default_rng([seed, 2])
    places = [Place(n, int(random.integers(len(t.steps)))) for n, t in enumerate(batch.trajectories)]
    ask = Asker(ExactPolicy(truth), seed=seed)
    grown = branch(ask, batch, places, k=ACTIONS - 1)  # beside the action of the rollout itself
    units = by_step(grown)
    steps = [(t, s) for t in grown.trajectories for s in range(len(t.steps))]
    texts = [t.steps[s].observation or "" for t, s in steps]
    true_S = np.array([exact_value(truth, t, s) for t, s in steps])
    sources: dict[str, Any] = {f"samples:{k}": f"samples:{k}" for k in SAMPLES}
    for name, head in fitted.items():
        with torch.no_grad():
            sources[name] = head(features(policy, texts))[:, 0].numpy().astype(np.float64)
    rows = {}
    at = set(places)
    drawn_S = np.array([place in at for place in starts(units)])
    found = value_quality(units, sources, ask=ask, truth=true_S, states=drawn_S, ties="half", gap=1e-9)
    for name, quality in found.items():
        rows[name] = {
            "top1": quality.ranking.top1,
            "pairwise": quality.ranking.pairwise,
            "absolute_error": quality.errors.absolute,
            "within": quality.errors.within,
            "explained": quality.explained,
            "explained_returns": quality.explained_returns,
        }
        chance, sets = quality.ranking.chance, quality.ranking.sets
    rows[RANDOM_CHOICE] = {"top1": chance, "pairwise": 0.5}
    return {
        "rows": rows,
        "J": truth.J,
        "sets": sets,
        "states": quality.errors.states,
        "seconds": time.perf_counter() - began,
    }


def exact_value(truth: Exact, rollout: Any, s: int) -> float:
    """V of the state that a step acts in."""
    depth, at = 0, s
    while (parent := at - 1 if rollout.steps[at].parent is None else rollout.steps[at].parent) >= 0:
        depth, at = depth + 1, parent
    return float(truth.value_HX[depth, int(rollout.steps[s].state)])


def summary(runs: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Mean and interval of every number over seeds, and the paired difference to the best head."""

    def values(name: str, metric: str) -> list[float]:
        return [run["rows"][name][metric] for run in runs.values()]

    some = next(iter(runs.values()))["rows"]
    table = {name: {c: interval(values(name, c), digits=4) for c in row} for name, row in some.items()}
    pairs = {}
    for rival in ("linear", "mlp", *(f"{kind}{EPISODES[1]}" for kind in ("linear", "mlp"))):
        for metric in ("top1", "pairwise"):
            gap = paired(values("samples:9", metric), values(rival, metric), digits=4)
            pairs[f"samples:9 - {rival}, {metric}"] = gap
    facts = {name: interval([float(run[name]) for run in runs.values()], digits=4) for name in ("J", "sets")}
    return {"seeds": sorted(runs), "table": table, "differences": pairs, "policies": facts, "options": OPTIONS}


def markdown(found: dict[str, Any]) -> str:
    """The page for people."""
    columns = ("top1", "pairwise", "absolute_error", "within", "explained", "explained_returns")
    rows = [[name, *(cell(row[c]) if c in row else "" for c in columns)] for name, row in found["table"].items()]
    return document(
        "# The mean of K continuations against a trained value head",
        "CraftTree with the steps left in the text; a small transformer, cloned and trained with GRPO; exact truth. "
        f"Mean over {len(found['seeds'])} policies (seeds) with Student's 95% interval. `top1`: the best of up to five "
        "sampled next actions has the best value (equal values share the claim); `pairwise`: pairs in the right order "
        "(equal values count half); `within`: states within 0.05 of the truth; `explained`: explained variance "
        "of the true values, `explained_returns`: of the rollouts' returns, as trainers log it. A number after a head: "
        "the episodes it was fitted to (512 without). The heads stand on frozen features of the policy; a critic "
        "that is trained whole, or over many iterations, may do better; nine continuations of each state cost more.",
        f"Expected return of the policies {cell(found['policies']['J'])}; states with three or more different actions, "
        f"a seed: {cell(found['policies']['sets'])}.",
        table(["values from", *columns], rows),
        table(
            ["paired difference", "mean, 95% interval"],
            [[name, cell(gap)] for name, gap in found["differences"].items()],
        ),
        "## What it says",
        verdict(found["differences"]),
    )


def verdict(differences: dict[str, list[float]]) -> str:
    """The claim and what the intervals say of it, head by head."""
    held = [name for name, (_, low, _) in differences.items() if low > 0]
    open_ = [name for name, (mean, low, _) in differences.items() if mean > 0 >= low]
    lost = [name for name, (mean, _, _) in differences.items() if mean <= 0]
    told = ["The claim: nine continuations rank actions better than a trained value head."]
    told += [f"It holds, with an interval above 0, for {_listed(held)}."] if held else []
    told += [f"On average, and not beyond doubt (the interval reaches 0), for {_listed(open_)}."] if open_ else []
    told += [f"It fails for {_listed(lost)}."] if lost else []
    told += ["Nine continuations also cost far more than a head's pass, and the heads here stand on frozen features."]
    return " ".join(told)


def _listed(names: list[str]) -> str:
    return ", ".join(name.removeprefix("samples:9 - ").replace(", ", " (") + ")" for name in names)


def main() -> None:
    """Run what is missing, then write the tables."""
    given = options("vineppo_vs_value_head", __doc__, seeds=5).parse_args()
    torch.set_num_threads(1)
    runs: dict[int, dict[str, Any]] = {}
    for seed in range(given.seeds):
        runs[seed] = kept(given.work / f"seed-{seed}.json", partial(measured, seed, given.work))
        line = {name: round(row["top1"], 3) for name, row in runs[seed]["rows"].items()}
        say(f"seed {seed}, {runs[seed]['seconds']:.0f} s, top1 {line}")
    found = summary(runs)
    write_results(given.out, "vineppo_vs_value_head", found, markdown(found))
    sys.stdout.write(markdown(found))


if __name__ == "__main__":
    main()
