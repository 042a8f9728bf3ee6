"""What `agentprm_labels` measured, over seeds: how many tokens make errors equal, what networks choose, the page."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from experiments import markdown as md
from experiments.agentprm_labels_world import LAM, MC, MC_BUDGETS, NETWORKS, SEARCH, STEPS, TEST_ROLLOUTS, K
from experiments.markdown import cell
from experiments.means import interval, paired

RIVALS = tuple(kind for kind in NETWORKS if kind in MC)
EQUAL = tuple((rival, metric) for rival in MC for metric in ("error", "pairwise"))
CHOICES = (
    ("best of 16: last promise", "best of 16: at random"),
    ("beam 4 x 4", "one sample"),
    ("beam 4 x 4", "best at the beam's tokens: last promise"),
)
METRICS = ("error", "within", "explained", "pairwise", "top1", "unseen_error")


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
        each = {c: interval([run["rows"][k][c] for run in runs.values()], digits=4) for c in columns if c in row}
        rows.append({**named, **each})
    equal: dict[str, Any] = {"error": {}, "pairwise": {}}
    bounds: dict[str, Any] = {}
    for rival, metric in EQUAL:
        by_seed = [ratios(run, rival, metric) for run in runs.values()]
        mean = {b: np.exp(interval([float(np.log(r[b][0])) for r in by_seed], digits=4)) for b in MC_BUDGETS}
        equal[metric][rival] = {str(b): np.round(x, 2).tolist() for b, x in mean.items()}
        bounds[f"{rival}, {metric}"] = {str(b): sum(not r[b][1] for r in by_seed) for b in MC_BUDGETS}
    gaps = {}
    for rival in RIVALS:
        for metric in ("error", "within", "pairwise", "top1"):
            td, other = ([_network(run, kind)[metric] for run in runs.values()] for kind in ("td", rival))
            gaps[f"td - {rival}, {metric}"] = paired(td, other, digits=4)
    searches = {kind: _searches([run["searches"][kind] for run in runs.values()]) for kind in some["searches"]}
    return {
        "seeds": sorted(runs),
        "chance": float(np.mean([r["chance"] for run in runs.values() for r in run["rows"]])),
        "J": interval([run["J"] for run in runs.values()], digits=4),
        "rows": rows,
        "ratios": equal["error"],
        "ratios_by_order": equal["pairwise"],
        "bounds": bounds,
        "network_differences": gaps,
        "searches": searches,
        "settings": {"k": K, "lam": LAM, "networks": NETWORKS},
    }


def _network(run: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(row for row in run["rows"] if row["model"] == "network" and row["kind"] == kind)


def _searches(found: list[dict[str, Any]]) -> dict[str, Any]:
    """What was chosen with one kind of network, and differences of choices on the same seeds."""

    def values(name: str, column: str) -> list[float]:
        return [one[name][column] for one in found]

    out: dict[str, Any] = {
        name: {c: interval(values(name, c), digits=4, share=c == "success") for c in row}
        for name, row in found[0].items()
    }
    for a, b in CHOICES:
        out[f"{a} - {b}"] = {"success": paired(values(a, "success"), values(b, "success"), digits=4)}
    return out


def markdown(found: dict[str, Any]) -> str:
    """The page for people."""
    kinds = list(found["searches"])
    ratio_head = ["tokens of Monte Carlo", *(f"{rival}, by {metric}" for rival, metric in EQUAL)]
    ratio_rows = [[f"{budget:,}", *(_ratio(found, a, b, budget) for a, b in EQUAL)] for budget in MC_BUDGETS]
    chosen = [
        [name, *(cell(found["searches"][kind][name]["success"]) for kind in kinds)]
        for name in found["searches"][kinds[0]]
    ]
    return md.document(
        "# Labels by temporal differences against labels by Monte Carlo",
        "CraftTree with the steps left in the text; a small cloned transformer, which writes an action as one token; "
        f"exact Q of every action. Mean over {len(found['seeds'])} policies (seeds) with Student's 95% interval; "
        f"expected return of the policies {cell(found['J'])}. Models are held against exact Q in the steps of "
        f"{TEST_ROLLOUTS} fresh rollouts: `error` absolute, `within` 0.05, `explained` variance, `unseen error` in "
        "steps that the rollouts of the budget do not have; `pairwise` and `top1` over all actions of these states, "
        f"ties half (`top1` by chance: {found['chance']:.2f}). `label error`: of the labels themselves, at the steps "
        f"that have one. `td`: lambda {LAM}; `outcome`: lambda 1; `mc_hard`: any of {K} continuations succeeds; "
        "`mc_mean`: their mean.",
        "## Tables: what the labels are worth",
        _rows(found, "table", ("error", "within", "explained", "pairwise", "top1", "label_error")),
        "Tokens of Monte Carlo over the tokens that td needs to be as good: geometric mean over seeds, td's tokens "
        "between budgets by interpolation.",
        md.table(ratio_head, ratio_rows, right=0),
        "## Networks: `AgentPRM` on a copy of the policy, td at an eighth of the tokens",
        f"About {STEPS} optimizer steps each; the learning rate was chosen on another seed, for all alike.",
        _rows(found, "network", METRICS),
        md.table(
            ["paired difference", "mean, 95% interval"],
            [[name, cell(gap)] for name, gap in found["network_differences"].items()],
        ),
        f"## Choosing with these networks: {SEARCH.tasks} tasks a seed",
        md.table(["success", *kinds], chosen),
        f"Compute a task, means, with {kinds[0]}: " + _compute(found["searches"][kinds[0]]),
        "## What it says",
        verdict(found),
    )


def _equal(found: dict[str, Any], rival: str, metric: str) -> dict[int, list[float]]:
    told = found["ratios" if metric == "error" else "ratios_by_order"][rival]
    return {budget: told[str(budget)] for budget in MC_BUDGETS}


def _ratio(found: dict[str, Any], rival: str, metric: str, budget: int) -> str:
    three, seeds = _equal(found, rival, metric)[budget], len(found["seeds"])
    unknown = found["bounds"][f"{rival}, {metric}"][str(budget)]
    if unknown == seeds:
        return f"at least {three[0]:.0f}"
    return cell(three, ".1f") + (f", in {unknown} of {seeds} seeds a bound" if unknown else "")


def _rows(found: dict[str, Any], model: str, columns: tuple[str, ...]) -> str:
    rows = [
        [row["kind"], *(f"{row[c][0]:,.0f}" for c in ("tokens", "rollouts")), *(cell(row[c]) for c in columns)]
        for row in found["rows"]
        if row["model"] == model
    ]
    return md.table(["labels", "tokens", "rollouts", *(c.replace("_", " ") for c in columns)], rows, right=1)


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
