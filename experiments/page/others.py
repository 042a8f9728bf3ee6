"""Claims that experiments of their own measured: how their stored summaries are read."""

from __future__ import annotations

from experiments.page.cells import plain, signed
from experiments.page.claims import Found, several, verdict

Ours = tuple[str, str] | None


def archer(found: Found) -> Ours:
    """Episodes of PPO over those of ArCHer, to the same return."""
    told = found.json.get("archer_vs_ppo")
    if not told:
        return None
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


def labels(found: Found) -> Ours:
    """Tokens of Monte-Carlo labels over those of temporal differences, at equal error."""
    told = found.json.get("agentprm_labels")
    if not told:
        return None
    ratios = told["ratios"]["mc_hard"]
    parts = [f"{int(budget):,} tokens: {plain(ratio, 1)} times" for budget, ratio in ratios.items()]
    holds = [verdict(ratio, 8) for ratio in ratios.values()]
    kind = "holds" if set(holds) == {"holds"} else "fails" if set(holds) == {"fails"} else "not shown"
    if kind == "fails" and all(ratio[1] > 1 for ratio in ratios.values()):
        kind = "cheaper, by less than 8"
    return "Monte Carlo needs, of " + "; of ".join(parts), kind


def environments(found: Found) -> Ours:
    """`pooled` over the better of RLOO and GiGPO, where nobody knows the values."""
    told = found.json.get("pooled_environments")
    if not told:
        return None
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


def equal_words(found: Found) -> Ours:
    """Nine continuations over models that learned from as many words, by the order of pairs of actions."""
    told = found.json.get("value_models")
    if not told:
        return None
    gaps = {}
    for model, name in (("value_head", "a value head"), ("prm_td", "AgentPRM by TD"), ("prm_mc", "AgentPRM by MC")):
        value, low, high = told["differences"][f"{model}:9 - samples:9, pairwise"]
        gaps[name] = [-value, -high, -low]
    text = "; ".join(f"over {name} {signed(gap)}" for name, gap in gaps.items())
    return f"share of pairs in order, {len(told['seeds'])} seeds: {text}", several(list(gaps.values()))
