"""Does credit from recurring states learn faster than GiGPO, and how much of the way to the exact advantage?

Tabular policy gradient on enumerable games: one softmax per text, groups of 8 rollouts, credit scaled to unit root
mean square for every method, so that a step size means the same. Every method of a seed begins with the same policy and
the same random numbers. Value of a run: the exact expected return, averaged over the run (area) and at its end.

    python -m experiments.pooled [--seeds 5] [--work runs/pooled] [--tasks keydoor,ice] [--arms "gigpo;pooled"]
    python -m experiments.pooled --tasks keydoor-noisy,relay-noisy --name pooled_noisy

One JSON file per run; a stopped experiment goes on. The default κ and λ are the best of a grid for the gradient's
cosine on keydoor, crafttree and chain. The grid was also seen on the other games, where it says the same; learning was
run for the first time with everything fixed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from apportion.assign import assign
from apportion.bench.exact import Rollouts, advantage_of, batch_gradient, exact, optimal, sample
from apportion.bench.tasks import task
from apportion.bench.ties import tied_gradient, ties
from apportion.bench.truth import to_batch
from apportion.methods.pooled import carry
from apportion.methods.pooled_memory import Memory
from apportion.units import Units, by_step
from experiments.command import options, say
from experiments.markdown import cell, document, table
from experiments.means import interval, paired
from experiments.stored import kept, write_results

RATES = {"keydoor": 1.0, "crafttree": 3.0}  # as in the first look; 2 elsewhere
LENGTHS = {"crafttree": 80}  # iterations; 40 elsewhere
TUNED, JUDGED = (
    ("keydoor", "crafttree", "chain"),
    ("hidden_object", "twins", "relay", "ice"),
)
FREE: dict[str, Any] = {"gamma": 1.0, "key": "auto", "shrinkage": None, "lam": None}
FIXED: dict[str, Any] = {"gamma": 1.0, "key": "state+time", "shrinkage": 1.0, "lam": 0.5, "decay": 0.9}
POOLED: dict[str, dict[str, Any]] = {
    "pooled": FREE,
    "pooled, one batch": {**FREE, "decay": 0.0},
    "pooled, defaults": FIXED,
    "- no bootstrap (λ 1)": {**FIXED, "lam": 1.0},
    "- no time in the state": {**FIXED, "key": "state"},
    "- inside a group": {**FIXED, "key": "task+state+time"},
    "- κ 10": {**FIXED, "shrinkage": 10.0},
}
STATES = {", learned": "learned", ", as written": "exact"}
"""Endings of arms on noisy games, and what they take for one state; everything else strips declared ids and times."""
ARMS = ("exact advantage", *list(POOLED)[:3], "gigpo", "rloo")
NOISY_ARMS = (
    "exact advantage",
    "pooled",
    "pooled, learned",
    "pooled, as written",
    "gigpo",
    "gigpo, as written",
    "rloo",
)
ABLATED = tuple(POOLED)[3:]


class Credit:
    """Credit by name, batch after batch; what is remembered stays here."""

    def __init__(self, arm: str) -> None:
        self.arm, self.memory = arm, Memory()

    def __call__(self, truth: Any, rollouts: Rollouts) -> np.ndarray:
        """One number per step."""
        if self.arm == "exact advantage":
            return advantage_of(truth, rollouts)
        ending = next((ending for ending in STATES if self.arm.endswith(ending)), "")
        arm = self.arm.removesuffix(ending)
        units: Units = by_step(to_batch(truth, rollouts), state=STATES.get(ending, "normalised"))
        if arm not in POOLED:
            return assign(arm, units).advantage_S
        credit, news = carry(units, self.memory, **POOLED[arm])
        self.memory = self.memory.merge(news).trimmed()
        return credit.advantage_S


def learn(name: str, arm: str, seed: int, groups: int = 8) -> dict[str, Any]:
    """The exact return of the policy before each iteration and after the last."""
    table, credit = task(name).table, Credit(arm)
    plain = name.removesuffix("-noisy")
    place, rate, length = ties(table), RATES.get(plain, 2.0), LENGTHS.get(plain, 40)
    logits, random = np.zeros(place.max() + 1), np.random.default_rng(seed)
    curve = []
    for i in range(length + 1):
        weight = np.exp(np.clip(logits[place], -30.0, 30.0))
        truth = exact(table, weight / table.sum_by_state(weight)[table.state_of_K])
        curve.append(truth.J)
        if i == length:
            break
        rollouts = sample(table, truth.policy, groups=groups, n=8, rng=random)
        c = credit(truth, rollouts)
        c = c / (np.sqrt(np.mean(c**2)) + 1e-12)
        logits = logits + rate * tied_gradient(batch_gradient(table, truth.policy, rollouts, c), place)
    return {"task": name, "arm": arm, "seed": seed, "curve": curve}


def run(name: str, arm: str, seed: int, work: Path) -> dict[str, Any]:
    """The run from its file, or now."""
    path = work / name / f"{re.sub('[^a-z0-9]+', '-', arm.lower()).strip('-')}.{seed}.json"
    found: dict[str, Any] = kept(path, lambda: learn(name, arm, seed))
    return found


def summary(name: str, arms: tuple[str, ...], seeds: int, work: Path) -> dict[str, Any]:
    """Area and end of each arm, and its difference to GiGPO and RLOO, paired by seed, as a share of the ceiling's."""
    area = {arm: [float(np.mean(run(name, arm, s, work)["curve"])) for s in range(seeds)] for arm in arms}
    end = {arm: [run(name, arm, s, work)["curve"][-1] for s in range(seeds)] for arm in arms}
    table = task(name).table
    out: dict[str, Any] = {"best": float(optimal(table).J), "arms": {}}
    for arm in arms:
        row: dict[str, Any] = {"area": interval(area[arm]), "final": interval(end[arm])}
        for other in ("gigpo", "rloo"):
            if other in area and arm != other:
                row[f"over_{other}"] = paired(area[arm], area[other])
        if {"gigpo", "exact advantage"} <= area.keys():
            gap = np.mean(area["exact advantage"]) - np.mean(area["gigpo"])
            row["gap_closed"] = float((np.mean(area[arm]) - np.mean(area["gigpo"])) / gap)
        out["arms"][arm] = row
    return out


def of_task(name: str, found: dict[str, Any]) -> tuple[str, str]:
    """Heading and table of a game."""
    side = "settings were made here" if name.removesuffix("-noisy") in TUNED else "judged"
    rows = []
    for arm, row in found["arms"].items():
        over = cell(row["over_gigpo"], "+.3f") if "over_gigpo" in row else ""
        closed = f"{row['gap_closed']:.0%}" if "gap_closed" in row else ""
        rows.append([arm, cell(row["area"]), cell(row["final"]), over, closed])
    head = ["credit", "area", "at the end", "area over GiGPO's, paired", "share of the gap closed"]
    return f"### {name} ({side}; best possible {found['best']:.3f})", table(head, rows)


def markdown(found: dict[str, Any]) -> str:
    """The page for people."""
    return document(
        "# pooled, GiGPO, RLOO and the exact advantage: learning speed",
        f"Mean over {found['seeds']} seeds, Student's 95% interval. Area: exact expected return averaged over the "
        "run.\nA share of the gap of 0 is GiGPO's area, of 1 that of credit by the exact advantage. Rows with a dash "
        "are\n`pooled, defaults` (nothing chosen from the data) with one thing changed.",
        *(part for name, one in found["tasks"].items() for part in of_task(name, one)),
    )


def main() -> None:
    """Run what is missing, and write the page."""
    parser = options("pooled", __doc__, seeds=5)
    parser.add_argument("--tasks", default=",".join((*TUNED, *JUDGED)))
    parser.add_argument("--arms", default="")
    parser.add_argument("--name", default="pooled", help="of the results (default pooled)")
    given = parser.parse_args()
    tasks = {}
    for name in given.tasks.split(","):
        usual = NOISY_ARMS if name.endswith("-noisy") else (*ARMS, *(() if name in LENGTHS else ABLATED))
        arms = tuple(given.arms.split(";")) if given.arms else usual
        tasks[name] = summary(name, arms, given.seeds, given.work)
        say("\n\n".join(of_task(name, tasks[name])) + "\n")
    found = {"seeds": given.seeds, "tuned_on": TUNED, "judged_on": JUDGED, "tasks": tasks}
    write_results(given.out, given.name, found, markdown(found))


if __name__ == "__main__":
    main()
