"""Claims that experiments of their own measured: how their stored summaries are read."""

from __future__ import annotations

from typing import Any

from experiments.markdown import plain, signed
from experiments.page.claims import Measured, Ours, reads, several, verdict


@reads("archer_vs_ppo")
def archer(told: Any) -> Ours:
    """Episodes of PPO over those of ArCHer, to the same return."""
    levels = [row for row in told["levels"] if len(row["ratio"] or []) == 3]
    parts = [f"return {row['level']:.1f}: {plain(row['ratio'], 1)} times" for row in levels]
    gap = told["equal"]["archer - ppo"]
    text = (
        f"{'; '.join(parts)}; return at equal episodes {signed(gap)}" if parts else f"at equal episodes {signed(gap)}"
    )
    if not levels:
        return text, "not shown"
    most = max(levels, key=lambda row: float(row["ratio"][0]))["ratio"]
    if most[2] < 100:
        return text, "fewer episodes, not a hundredth" if most[1] > 1 else "fails"
    return text, verdict(most, 100)


@reads("agentprm_labels")
def labels(told: Any) -> Ours:
    """Tokens of Monte-Carlo labels (their mean) over those of temporal differences at equal error of a table; and the
    error of a network that had an eighth of the tokens.
    """
    ratios = told["ratios"]["mc_mean"]
    parts = [f"{int(budget):,} tokens: {plain(ratio, 1)} times" for budget, ratio in ratios.items()]
    gap = told["network_differences"]["td - mc_mean, error"]
    text = f"in a table Monte Carlo needs, of {'; of '.join(parts)}; error of a network at an eighth, {signed(gap)}"
    network = "holds" if gap[2] <= 0 else "fails" if gap[1] > 0 else "not shown"  # of "no worse"
    return text, f"{several(list(ratios.values()), 8)} in a table, {network} in a network"


@reads("pooled_environments")
def environments(told: Any) -> Ours:
    """`pooled` over the better of RLOO and GiGPO, where nobody knows the values."""
    parts, gaps = [], []
    for name, one in told["environments"].items():
        gap = [one["arms"][arm]["area_pooled_over"] for arm in ("rloo", "gigpo")]
        least = min(gap, key=lambda x: float(x[0]))
        parts.append(f"{name} {signed(least)}")
        gaps.append(least)
    lost = [verdict(gap) for gap in gaps].count("fails")
    kind = f"a tie or better on {len(gaps) - lost} of {len(gaps)}" + ("" if lost else ": no win, no loss shown")
    if any(verdict(gap) == "holds" for gap in gaps):
        kind = several(gaps)
    return f"area, over the better of the two: {'; '.join(parts)}", kind


@reads("value_models")
def equal_words(told: Any) -> Ours:
    """Nine continuations over models that learned from as many words, by the order of pairs of actions."""
    gaps = {}
    for model, name in (("value_head", "a value head"), ("prm_td", "AgentPRM by TD"), ("prm_mc", "AgentPRM by MC")):
        value, low, high = told["differences"][f"{model}:9 - samples:9, pairwise"]
        gaps[name] = [-value, -high, -low]
    text = "; ".join(f"over {name} {signed(gap)}" for name, gap in gaps.items())
    return f"share of pairs in order, {len(told['seeds'])} seeds: {text}", several(list(gaps.values()))


def sweet(other: str, what: str, metric: str) -> Measured:
    """SWEET-RL's critic with the hidden artefact over another of its arms."""

    @reads("sweet_artefact", "differences")
    def ours(differences: Any) -> Ours | None:
        rows = {
            pair: row
            for pair, row in differences.items()
            if pair.startswith("with the artefact") and other in pair and metric in row
        }
        if not rows:
            return None
        gaps = (f"{pair}: {signed(row[metric])}, success {signed(row['success'])}" for pair, row in rows.items())
        return f"{what}, {'; '.join(gaps)}", several([row[metric] for row in rows.values()])

    return ours


artefact = sweet("without it", "turns in order", "ordered")
divided = sweet("not divided by length", "tokens a turn of the trained policy", "tokens")
