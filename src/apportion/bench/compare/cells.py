"""One cell of the comparison: one method on one task under one policy, over all seeds.

    error, bias, variance   of the credit, in units of the exact advantage's root mean square (variance: its square)
    fit                     the factor by which the credit is multiplied first, one per cell, so that its mean comes
                            closest to the advantage: a trainer's learning rate does not care, and methods that divide
                            by a spread have no unit. Where the mean credit has nothing of the advantage: no number
    error_raw               the error without that factor, in the same unit
    corr, rank, sign, top1  agreement with the exact advantage: Pearson, Spearman, signs, the best of five
    cosine                  of one batch's policy gradient with the exact one, averaged over seeds
    cosine_mean             of the gradient averaged over seeds: what is left is bias
    snr                     |E g|^2 / E|g - E g|^2 of one batch's gradient

The interval of an average over seeds is Student's, of everything else the jackknife's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from apportion.assign import assign, required_needs
from apportion.assign.expression import leaves, parse
from apportion.bench.compare.agreement import rank_agreement, sign_agreement, top_of_five
from apportion.bench.compare.moments import Interval, best_factor, jackknife, signal_to_noise, squared_bias
from apportion.bench.compare.world import World
from apportion.bench.continuations import ExactPolicy
from apportion.bench.exact import Rollouts, batch_gradient, cosine
from apportion.bench.intervals import t_interval
from apportion.bench.oracle import ExactReward
from apportion.bench.ties import tied_gradient
from apportion.credit import Credit
from apportion.data import Batch
from apportion.errors import ApportionError, ConfigError
from apportion.methods import get
from apportion.numerics import BoolArray, FloatArray, IntArray, seg_count, seg_sum
from apportion.resources import Asker
from apportion.units import CUTS

CONTROLS = ("exact advantage", "immediate reward", "random")
METRICS = (
    "cosine", "cosine_mean", "snr", "rank", "sign", "top1", "corr", "error", "bias", "variance", "error_raw", "fit",
)  # fmt: skip
COSTS = ("rollouts", "samples", "decisions", "tokens", "calls")
PILOT = 2  # rollouts by which a method that asks is priced first
GROWTH = 8  # times as many are priced next at most: two short rollouts say little of the price of a thousand
ENOUGH_MORE = 1.25  # fewer more are not worth a measurement
AVERAGED = {"cosine": (-1, 1), "rank": (-1, 1), "sign": (0, 1), "top1": (0, 1), "corr": (-1, 1)}


@dataclass(frozen=True)
class Plan:
    """How a cell is measured.

    Attributes:
        budget: per seed, decisions (actions that the policy chose, continuations included) and requests to a reward
            model together. Who asks nobody gets as many rollouts as it pays for, who asks gets fewer.
        seeds: independent repetitions. n: rollouts of a group. policy: "weak" or "strong".
        state: rule for state keys, as of the cuts; None = the texts as they are.
    """

    budget: int = 2000
    seeds: int = 20
    n: int = 8
    policy: str = "weak"
    state: str | None = None

    def __post_init__(self) -> None:
        if self.budget < 1 or self.seeds < 2 or self.n < 1:
            raise ConfigError(
                f"bench: budget {self.budget}, seeds {self.seeds}, n {self.n}; give at least 1, 2 (for intervals) and 1"
            )

    def world(self, task: str) -> World:
        """The task under this plan."""
        return World(task, self.policy, self.budget, self.n, self.seeds)


@dataclass(frozen=True)
class _Seed:
    """What one seed gave: credit and truth per step, known or not, and what it cost."""

    rollouts: Rollouts
    credit_S: FloatArray
    right_S: FloatArray
    known_S: BoolArray
    cost: Mapping[str, float]

    @property
    def count(self) -> int:
        """Rollouts."""
        return len(self.rollouts.group_of_N)

    @property
    def paid(self) -> float:
        """Of the budget."""
        return self.cost["decisions"] + self.cost.get("scores", 0.0)


def measure_cell(world: World, method: str, plan: Plan) -> dict[str, Any]:
    """Everything about one method on one task; where it cannot run, the ``reason`` instead of ``metrics``."""
    cell: dict[str, Any] = {"method": method, "task": world.name, **asdict(plan), "J": world.truth.J}
    try:
        seeds = [_one_seed(world, method, plan, b) for b in range(plan.seeds)]
    except ApportionError as reason:
        return {**cell, "reason": str(reason)}
    if not all(s.known_S.any() for s in seeds):
        return {**cell, "reason": f"{method} gives no step of these rollouts any credit that is known"}
    metrics = _metrics(world, seeds)
    costs = {name: _mean([s.cost[name] for s in seeds], (0, math.inf)) for name in COSTS}
    return {**cell, "asks": list(_asks(method)), "metrics": metrics, "cost": costs}


def _asks(method: str) -> tuple[str, ...]:
    return () if method in CONTROLS else required_needs(method)


def _one_seed(world: World, method: str, plan: Plan, b: int) -> _Seed:
    if method in CONTROLS or not _asks(method):
        rollouts, batch = world.batches[b]
        return _measured(world, method, plan, b, rollouts, batch)
    ids = any("logp_S" in get(leaf.name).reads for leaf in leaves(parse(method)))

    def measured(count: int) -> _Seed:
        return _measured(world, method, plan, b, *world.first(b, count, ids=ids))

    found = measured(PILOT)
    while (wanted := _payable(found, plan, GROWTH)) >= ENOUGH_MORE * found.count:
        found = measured(wanted)
    while found.paid > plan.budget and found.count > 1:
        found = measured(min(_payable(found, plan), found.count - 1))
    return found


def _payable(found: _Seed, plan: Plan, growth: float = math.inf) -> int:
    """How many rollouts the budget pays for at this price of one, in whole groups; at most so many times as many."""
    count = int(found.count * min(plan.budget / found.paid, growth))
    return max(1, count if count < plan.n else count // plan.n * plan.n)


def _measured(world: World, method: str, plan: Plan, b: int, rollouts: Rollouts, batch: Batch) -> _Seed:
    right_S, steps = world.right(rollouts), len(rollouts.slot_S)
    own = {"own": float(steps), "rollouts": float(len(rollouts.group_of_N))}
    words = float(np.count_nonzero(batch.sampled_T))
    if method in CONTROLS:
        random_S = np.random.default_rng([b, 78]).normal(size=steps)
        credit_S = dict(zip(CONTROLS, (right_S, rollouts.reward_S, random_S), strict=True))[method]
        cost = {**own, "samples": own["rollouts"], "decisions": own["own"], "tokens": words, "calls": 0.0}
        return _Seed(rollouts, credit_S, right_S, np.ones(steps, dtype=bool), cost)
    policy, reward = ExactPolicy(world.truth), ExactReward(world.truth)
    units = _cut(method, batch, plan.state)
    credit = assign(method, units, ask=Asker(policy, reward, seed=b) if _asks(method) else None)
    credit_S, known_S = step_credit(credit)
    cost = {
        **own,
        "samples": own["rollouts"] + policy.calls,
        "decisions": own["own"] + policy.decisions,
        "tokens": words + policy.words,
        "calls": float(policy.calls + reward.calls),
        "scores": float(reward.calls),
    }
    return _Seed(rollouts, credit_S, right_S, known_S, cost)


def _cut(method: str, batch: Batch, state: str | None) -> Any:
    """Steps where every name of the expression takes them, else what the first is made for."""
    specs = [get(leaf.name) for leaf in leaves(parse(method))]
    level = "step" if all(not s.units or "step" in s.units for s in specs) else specs[0].unit
    takes_state = level in ("step", "turn", "episode", "agent")
    return CUTS[level](batch, state=state) if state and takes_state else CUTS[level](batch)


def step_credit(credit: Credit) -> tuple[FloatArray, BoolArray]:
    """Credit per step of the rollouts, the mean over its tokens that a trainer would count; and where there are any."""
    tokens, batch = credit.to_tokens(), credit.units.batch
    counts_T = batch.sampled_T & (tokens.weight_T > 0)
    steps = len(batch.traj_of_S)
    count_S = seg_count(batch.step_of_T, where=counts_T, n=steps)
    total_S = seg_sum(tokens.advantage_T, batch.step_of_T, where=counts_T, n=steps)
    return total_S / np.maximum(count_S, 1), count_S > 0


def _metrics(world: World, seeds: list[_Seed]) -> dict[str, Interval]:
    table, policy = world.truth.table, world.truth.policy
    each: dict[str, list[float]] = {name: [] for name in AVERAGED}
    gradients, sums = [], np.zeros((len(seeds), 4))  # c A, c^2, A^2, visits
    for b, s in enumerate(seeds):
        credit, right = s.credit_S[s.known_S], s.right_S[s.known_S]
        masked = np.where(s.known_S, s.credit_S, 0.0)
        gradients.append(tied_gradient(batch_gradient(table, policy, s.rollouts, masked), world.place_K))
        each["cosine"].append(cosine(gradients[-1], world.goal))
        each["rank"].append(rank_agreement(credit, right))
        each["sign"].append(sign_agreement(credit, right))
        random = np.random.default_rng([b, 79])
        each["top1"].append(top_of_five(s.credit_S, s.right_S, s.rollouts.traj_of_S, s.known_S, random))
        each["corr"].append(
            float(np.corrcoef(credit, right)[0, 1]) if np.ptp(credit) > 0 and np.ptp(right) > 0 else float("nan")
        )
        sums[b] = credit @ right, credit @ credit, right @ right, len(credit)
    out: dict[str, Interval] = {name: _mean(each[name], AVERAGED[name]) for name in AVERAGED}
    gradient_BP = np.array(gradients)
    mean, low, high = jackknife(len(seeds), lambda keep_B: cosine(keep_B @ gradient_BP, world.goal))
    out["cosine_mean"] = mean, max(low, -1.0), min(high, 1.0)
    out["snr"] = jackknife(len(seeds), lambda keep_B: signal_to_noise(gradient_BP, keep_B))
    out |= _errors(sums, *_by_place(world, seeds))
    return {name: out[name] for name in METRICS}


def _by_place(world: World, seeds: list[_Seed]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Per seed and place: sums of credit, sums of the advantage, visits; each [B, places that were met]."""
    width = int(world.core_K.max()) + 1
    keys = [(s.rollouts.time_S * width + world.core_K[s.rollouts.slot_S])[s.known_S] for s in seeds]
    met: IntArray = np.unique(np.concatenate(keys))
    out = np.zeros((3, len(seeds), len(met)))
    for b, (s, key) in enumerate(zip(seeds, keys, strict=True)):
        at = np.searchsorted(met, key)
        for row, values in enumerate((s.credit_S[s.known_S], s.right_S[s.known_S], np.ones(len(key)))):
            out[row, b] = np.bincount(at, weights=values, minlength=len(met))
    return out[0], out[1], out[2]


def _errors(
    sums: FloatArray, credit_BK: FloatArray, right_BK: FloatArray, visits_BK: FloatArray
) -> dict[str, Interval]:
    def fit(keep_B: FloatArray) -> float:
        return best_factor(credit_BK, right_BK, visits_BK, keep_B)

    def squared_error(keep_B: FloatArray, scale: float) -> float:
        both, credit, right, _ = keep_B @ sums
        return float((scale**2 * credit - 2 * scale * both + right) / right) if right > 0 else float("nan")

    def bias(keep_B: FloatArray) -> float:
        _, _, right, visits = keep_B @ sums
        found, _ = squared_bias(fit(keep_B) * credit_BK - right_BK, visits_BK, keep_B)
        return found / float(right / visits) if right > 0 else float("nan")

    def root(x: float) -> float:
        return math.copysign(math.sqrt(abs(x)), x)

    n = len(sums)
    factor = jackknife(n, fit)
    out = {"error_raw": jackknife(n, lambda keep_B: root(squared_error(keep_B, 1.0)))}
    if not factor[1] > 0:  # nothing of the advantage that these seeds can show: no factor makes it comparable
        nothing = (float("nan"),) * 3
        return {**out, "fit": nothing, "error": nothing, "bias": nothing, "variance": nothing}
    return {
        **out,
        "fit": factor,
        "error": jackknife(n, lambda keep_B: root(squared_error(keep_B, fit(keep_B)))),
        "bias": jackknife(n, lambda keep_B: root(bias(keep_B))),
        "variance": jackknife(n, lambda keep_B: squared_error(keep_B, fit(keep_B)) - bias(keep_B)),
    }


def _mean(values: list[float], span: tuple[float, float]) -> Interval:
    """Mean over seeds that have the number, with Student's interval; NaN where fewer than two have it."""
    told = [x for x in values if math.isfinite(x)]
    if len(told) < 2:
        return float("nan"), float("nan"), float("nan")
    low, high = t_interval(told, low=span[0], high=span[1])
    return float(np.mean(told)), low, high
