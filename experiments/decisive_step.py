"""How often is the step that a method credits lowest the one that people marked as the mistake?

Rollouts whose `meta` has ``mistake_step``: chains with a marked mistake, failure logs (`apportion convert` reads them).
Methods that compare rollouts of one task have nothing to compare in a chain that stands alone, so what is measured are
models fitted to the outcomes of the *other* rollouts (five folds by group), and judges where a server is given.

    python -m experiments.decisive_step                      generated chains, and the samples of $APPORTION_DATA
    python -m experiments.decisive_step runs.jsonl …         your own
    python -m experiments.decisive_step --judge http://127.0.0.1:8001/v1 --model NAME

A tie counts as a share of a hit. Baselines: any step, the first, the last. Intervals: bootstrap over rollouts, 95%.
It writes results/decisive_step.md and .json, and keeps nothing of a stopped run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import apportion as ap
from apportion.adapters.readers import read_any
from apportion.data import Batch, Step, Trajectory
from apportion.models import AgentPRM, Settings, ValueHead
from apportion.numerics import FloatArray
from apportion.resources import JudgeServer
from experiments.command import options
from experiments.markdown import document, table
from experiments.stored import write_results

FOLDS, RESAMPLES = 5, 2000
SETTINGS = Settings(epochs=15, lr=2e-3, batch_tokens=512, held_out=0.0)
LETTERS = "abcd"
JUDGED = ("llm_critic", "capo", "critic_search")


def chains(count: int, seed: int) -> list[Trajectory]:
    """Chains of six steps that each say a letter; in two of three chains one step says a letter that others never say.

    The outcome is 1 where none does, so the mistake can be learned from outcomes alone.
    """
    rng = np.random.default_rng(seed)
    out = []
    for i in range(count):
        wrong_at = int(rng.integers(6)) if rng.random() < 2 / 3 else None
        said = [("xyz" if k == wrong_at else LETTERS)[int(rng.integers(3))] for k in range(6)]
        steps = [Step(observation="" if k else "say:", action=f" {letter}") for k, letter in enumerate(said)]
        meta = {"mistake_step": wrong_at}
        out.append(Trajectory(steps, group=f"chain {i}", outcome=float(wrong_at is None), meta=meta))
    return out


def sources(paths: Sequence[Path]) -> dict[str, list[Trajectory]]:
    """Rollouts by name: the given files, or generated chains and the samples that are at hand."""
    if paths:
        return {path.name: list(read_any(path).trajectories) for path in paths}
    found = {"generated chains": chains(600, 0)}
    folder = Path(os.environ.get("APPORTION_DATA", "../shared/data")) / "trajectories" / "big_bench_mistake"
    if folder.is_dir():
        found["BIG-Bench-Mistake sample"] = list(read_any(folder).trajectories)
    return found


def marked(rollouts: Sequence[Trajectory]) -> list[int]:
    """Positions of the rollouts with a marked step that they have, and more than one step."""
    steps = [t.meta.get("mistake_step") for t in rollouts]
    return [n for n, s in enumerate(steps) if type(s) is int and 0 <= s < len(rollouts[n].steps) > 1]


def hits(lowest_of: Callable[[int], FloatArray], rollouts: Sequence[Trajectory], where: Sequence[int]) -> FloatArray:
    """Share of a hit of each rollout, from the credit of its steps; NaN where a step is unknown."""
    out = []
    for n in where:
        credit = lowest_of(n)
        lowest = np.flatnonzero(credit <= credit.min() + 1e-12)
        out.append(
            float(rollouts[n].meta["mistake_step"] in lowest) / len(lowest) if np.isfinite(credit).all() else np.nan
        )
    return np.array(out)


def baselines(rollouts: Sequence[Trajectory]) -> dict[str, Callable[[int], FloatArray]]:
    """Credit that knows nothing."""
    return {
        "any step": lambda n: np.zeros(len(rollouts[n].steps)),
        "first step": lambda n: np.arange(len(rollouts[n].steps), dtype=np.float64),
        "last step": lambda n: -np.arange(len(rollouts[n].steps), dtype=np.float64),
    }


def by_folds(rollouts: Sequence[Trajectory], seed: int) -> dict[str, Callable[[int], FloatArray]]:
    """Step credit by models that were fitted to the rollouts of the other groups."""
    names = [t.group if t.group is not None else n for n, t in enumerate(rollouts)]
    groups = list(dict.fromkeys(names))
    fold_of = dict(zip(groups, np.random.default_rng(seed).permutation(len(groups)) % FOLDS, strict=True))
    made: dict[str, dict[int, FloatArray]] = {"value head, step_gae": {}, "AgentPRM, agentprm": {}}
    settings = Settings.of(SETTINGS, seed=seed)
    for fold in range(FOLDS):
        inside = [n for n, name in enumerate(names) if fold_of[name] == fold]
        others = Batch.from_trajectories(t for n, t in enumerate(rollouts) if fold_of[names[n]] != fold)
        units = ap.by_step(Batch.from_trajectories(rollouts[n] for n in inside))
        head = ValueHead.fit(others, level="step", settings=settings)
        prm = AgentPRM.fit(others, beta=0.0, lam=1.0, settings=settings)
        valued = ap.assign("step_gae(gamma=1.0, lam=0.0)", units, values=head)
        _keep(valued, inside, made["value head, step_gae"])
        _keep(ap.assign("agentprm", units, values=prm), inside, made["AgentPRM, agentprm"])
    return {name: kept.__getitem__ for name, kept in made.items()}


def by_judge(rollouts: Sequence[Trajectory], url: str, model: str) -> dict[str, Callable[[int], FloatArray]]:
    """Step credit by a judge."""
    made: dict[str, dict[int, FloatArray]] = {}
    units = ap.by_step(Batch.from_trajectories(rollouts))
    with ap.Asker(JudgeServer(url, model=model)) as ask:
        for method in JUDGED:
            kept = made.setdefault(f"{method}, {model}", {})
            _keep(ap.assign(method, units, ask=ask), list(range(len(rollouts))), kept)
    return {name: kept.__getitem__ for name, kept in made.items()}


def _keep(credit: ap.Credit, which: Sequence[int], kept: dict[int, FloatArray]) -> None:
    known_S = np.ones(len(credit.units), dtype=bool) if credit.known_S is None else credit.known_S
    advantage = np.where(known_S, credit.advantage_S, np.nan)
    for k, n in enumerate(which):
        kept[n] = advantage[credit.units.traj_of_S == k]


def interval(share_N: FloatArray) -> dict[str, Any]:
    """Mean and 95% bootstrap interval over rollouts; those that are unknown are counted apart."""
    known = share_N[np.isfinite(share_N)]
    if not len(known):
        return {"hit": None, "low": None, "high": None, "rollouts": 0, "unknown": len(share_N)}
    rng = np.random.default_rng(0)
    means = known[rng.integers(len(known), size=(RESAMPLES, len(known)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    counts = {"rollouts": len(known), "unknown": len(share_N) - len(known)}
    return {"hit": float(known.mean()), "low": float(low), "high": float(high), **counts}


def markdown(found: dict[str, Any]) -> str:
    """The page for people."""
    parts = []
    for source, rows in found["sources"].items():
        shown = []
        for name, row in rows.items():
            known = row["hit"] is not None
            hit, ends = (f"{row['hit']:.2f}", f"{row['low']:.2f} to {row['high']:.2f}") if known else ("–", "–")
            shown.append([name, hit, ends, str(row["rollouts"]), str(row["unknown"])])
        parts += [f"## {source}", table(["credit by", "hit", "95%", "rollouts", "unknown"], shown, right=1)]
    about = (__doc__ or "").split("\n\n")[1]
    return document("# The step that is credited lowest, against the step that people marked", about, *parts)


def main() -> None:
    """Measure every source and write the table."""
    parser = options("decisive_step", __doc__, work=False)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--judge", help="address of an OpenAI-compatible server")
    parser.add_argument("--model", default="", help="name of the judge's model")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    by_source: dict[str, dict[str, dict[str, Any]]] = {}
    for source, rollouts in sources(given.paths).items():
        where = marked(rollouts)
        if not where:
            sys.stderr.write(f"{source}: no rollout has a marked step (meta.mistake_step); left out\n")
            continue
        credits = baselines(rollouts) | by_folds(rollouts, given.seed)
        if given.judge:
            credits |= by_judge(rollouts, given.judge, given.model)
        by_source[source] = {name: interval(hits(credit, rollouts, where)) for name, credit in credits.items()}
    found = {"seed": given.seed, "sources": by_source}
    write_results(given.out, "decisive_step", found, markdown(found))
    sys.stdout.write(markdown(found))


if __name__ == "__main__":
    main()
