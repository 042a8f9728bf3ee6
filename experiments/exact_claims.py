"""Claims of papers against the exact advantage: who is closer to the exact policy gradient, on the same rollouts?

One batch's gradient by a credit, its cosine with the exact one; each claim is the difference of two credits on equal
rollouts, paired by seed. The games are those of `apportion bench`, under a weak and a strong policy.

    gigpo - grpo, hgpo - gigpo          compare steps that act in equal states (arXiv:2505.10978 and its recipe)
    tempo - grpo                        compare where answers part (arXiv:2509.18314)
    critical_only                       train only where more than one way on was tried (arXiv:2512.04949)
    hicra - dr_grpo                     more credit for planning (arXiv:2509.03646), on `chain`, whose planning words
                                        are planted; beside it without its sign, and on random words
    sharp - grpo, shapley - grpo        a planner and a worker, one of them masked (arXiv:2602.08335)
    loose states                        near-duplicates taken for one state, with ids and times in the texts, and plain

    python -m experiments.exact_claims [--seeds 20] [--budget 2000] [--work runs/exact_claims]

Writes results/exact_claims.json; one JSON file per task, policy and credit, so a stopped run goes on.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from apportion.assign import assign
from apportion.bench.compare.cells import step_credit
from apportion.bench.compare.world import World
from apportion.bench.continuations import ExactPolicy
from apportion.bench.exact import Rollouts, batch_gradient, cosine
from apportion.bench.oracle import ExactReward
from apportion.bench.tasks import task_names
from apportion.bench.ties import tied_gradient
from apportion.data import Batch
from apportion.numerics import FloatArray
from apportion.resources import Asker
from apportion.units import by_agent, by_step
from experiments.command import options, say
from experiments.means import interval, paired
from experiments.stored import kept, write_results

PLAIN = tuple(task_names())
GRPO = "grpo(scale='none')"
Credited = tuple[FloatArray, float]
"""Credit per step, and the share of the steps that are trained on."""


def by_expression(method: str, state: str | None = None) -> Callable[[World, int, Rollouts, Batch], Credited]:
    """Credit by step with a rule for state keys."""

    def credit(world: World, seed: int, rollouts: Rollouts, batch: Batch) -> Credited:
        found, known = step_credit(assign(method, by_step(batch, state=state) if state else by_step(batch)))
        return np.where(known, found, 0.0), float(np.mean(known))

    return credit


def by_masking(method: str) -> Callable[[World, int, Rollouts, Batch], Credited]:
    """Credit of agents, whose scores without each of them an exact reward model gives."""

    def credit(world: World, seed: int, rollouts: Rollouts, batch: Batch) -> Credited:
        ask = Asker(ExactPolicy(world.truth), ExactReward(world.truth), seed=seed)
        found, known = step_credit(assign(method, by_agent(batch), ask=ask))
        return np.where(known, found, 0.0), float(np.mean(known))

    return credit


def by_plan(alpha: float, *, signed: bool = True, planted: bool = True) -> Callable[..., Credited]:
    """HICRA on the words that decide; without its sign a negative credit grows too; or on as many random words."""

    def credit(world: World, seed: int, rollouts: Rollouts, batch: Batch) -> Credited:
        table = world.truth.table
        decisive = np.isin([table.states[x][0] for x in rollouts.state_S], table.rules.decisive)  # type: ignore[attr-defined]
        if not planted:
            decisive = np.random.default_rng([seed, 80]).permutation(decisive)
        if not signed:
            base, known = step_credit(assign("dr_grpo", by_step(batch)))
            return base * (1.0 + alpha * decisive), float(np.mean(known))
        marks = iter(decisive.tolist())
        planned = Batch.from_trajectories(
            dataclasses.replace(
                t,
                steps=[
                    dataclasses.replace(
                        s, columns={**s.columns, "planning": np.full(len(s.ids or ()), float(next(marks)))}
                    )
                    for s in t.steps
                ],
            )
            for t in batch.trajectories
        )
        found, known = step_credit(assign(f"dr_grpo | hicra(alpha={alpha})", by_step(planned)))
        return found, float(np.mean(known))

    return credit


NOISY = tuple(f"{name}-noisy" for name in PLAIN)
CREDITS: dict[str, tuple[Callable[..., Credited], tuple[str, ...]]] = {
    "grpo": (by_expression(GRPO), (*PLAIN, *NOISY)),
    "grpo, divided by the std": (by_expression("grpo"), PLAIN),
    "gigpo": (by_expression("gigpo"), (*PLAIN, *NOISY)),
    "hgpo": (by_expression("hgpo"), PLAIN),
    "tempo": (by_expression("tempo"), PLAIN),
    "critical_only": (by_expression(f"{GRPO} | critical_only"), PLAIN),
    "gigpo, normalised states": (by_expression("gigpo", "normalised"), NOISY),
    "gigpo, near states": (by_expression("gigpo", "near"), (*PLAIN, *NOISY)),
    "gigpo, blocks": (by_expression("gigpo", "blocks"), (*PLAIN, *NOISY)),
    "dr_grpo": (by_expression("dr_grpo"), ("chain",)),
    "hicra 0.2": (by_plan(0.2), ("chain",)),
    "hicra 1": (by_plan(1.0), ("chain",)),
    "hicra 1, without its sign": (by_plan(1.0, signed=False), ("chain",)),
    "hicra 1, random words": (by_plan(1.0, planted=False), ("chain",)),
    "sharp": (by_masking("sharp"), ("relay",)),
    "shapley": (by_masking("shapley"), ("relay",)),
}


@lru_cache(maxsize=1)
def world_of(name: str, policy: str, budget: int, seeds: int) -> World:
    """A task with its rollouts, shared by all credits."""
    return World(name, policy, budget, 8, seeds)


def measure(name: str, policy: str, credit: str, seeds: int, budget: int) -> dict[str, Any]:
    """The cosine of each seed, and the share of trained steps."""
    world = world_of(name, policy, budget, seeds)
    cosines, trained = [], []
    for seed in range(seeds):
        rollouts, batch = world.batches[seed]
        found, share = CREDITS[credit][0](world, seed, rollouts, batch)
        gradient = tied_gradient(batch_gradient(world.truth.table, world.truth.policy, rollouts, found), world.place_K)
        cosines.append(cosine(gradient, world.goal))
        trained.append(share)
    return {"task": name, "policy": policy, "credit": credit, "cosine": cosines, "trained": trained}


def cached(name: str, policy: str, credit: str, seeds: int, budget: int, work: Path) -> dict[str, Any]:
    """From its file, or now."""
    key = hashlib.blake2b(f"{credit} {seeds} {budget}".encode(), digest_size=6).hexdigest()
    found: dict[str, Any] = kept(
        work / f"{name}.{policy}.{key}.json", lambda: measure(name, policy, credit, seeds, budget)
    )
    say(f"{name} {policy} {credit}: {np.mean(found['cosine']):.3f}")
    return found


CLAIMS = (  # what, credit, compared with
    ("gigpo over grpo", "gigpo", "grpo"),
    ("hgpo over gigpo", "hgpo", "gigpo"),
    ("tempo over grpo", "tempo", "grpo, divided by the std"),
    ("critical_only over grpo", "critical_only", "grpo"),
    ("hicra 0.2 over dr_grpo", "hicra 0.2", "dr_grpo"),
    ("hicra 1 over dr_grpo", "hicra 1", "dr_grpo"),
    ("hicra 1 over itself without the sign", "hicra 1", "hicra 1, without its sign"),
    ("hicra 1 over random words", "hicra 1", "hicra 1, random words"),
    ("sharp over grpo", "sharp", "grpo"),
    ("shapley over grpo", "shapley", "grpo"),
    ("near states over exact", "gigpo, near states", "gigpo"),
    ("blocks over exact", "gigpo, blocks", "gigpo"),
    ("normalised states over exact", "gigpo, normalised states", "gigpo"),
)


def main() -> None:
    """Measure what is missing, and write the numbers."""
    parser = options("exact_claims", __doc__, seeds=20)
    parser.add_argument("--budget", type=int, default=2000)
    given = parser.parse_args()
    found = {
        (name, policy, credit): cached(name, policy, credit, given.seeds, given.budget, given.work)
        for name in (*PLAIN, *NOISY)
        for policy in ("weak", "strong")
        for credit in CREDITS
        if name in CREDITS[credit][1]
    }
    rows = []
    for what, one, other in CLAIMS:
        for name in (t for t in CREDITS[one][1] if t in CREDITS[other][1]):
            for policy in ("weak", "strong"):
                a, b = (found[name, policy, credit] for credit in (one, other))
                rows.append(
                    {
                        "claim": what, "task": name, "policy": policy,
                        "cosine": interval(a["cosine"], digits=5), "base": interval(b["cosine"], digits=5),
                        "difference": paired(a["cosine"], b["cosine"], digits=5),
                        "trained": interval(a["trained"], digits=5),
                    }
                )  # fmt: skip
    write_results(given.out, "exact_claims", {"seeds": given.seeds, "budget": given.budget, "rows": rows})


if __name__ == "__main__":
    main()
