"""The rows of the table of claims, in the order of the page."""

from __future__ import annotations

from experiments.page.claims import (
    Claim,
    closed,
    cutpoints,
    exact,
    fewer_trained,
    learned,
    nine_continuations,
    overhead,
    recurring,
    spans,
    window,
)
from experiments.page.others import archer, artefact, divided, environments, equal_words, labels
from experiments.page.process import collapse, minimum, over_dpo, token_rewards

EXPERIMENTS = "../experiments"
LEARNING = f"[learning]({EXPERIMENTS}/learning/__init__.py)"
EXACTLY = f"[exact_claims]({EXPERIMENTS}/exact_claims.py)"


def by(name: str) -> str:
    """Link to an experiment."""
    return f"[{name}]({EXPERIMENTS}/{name}.py)"


CLAIMS = (
    Claim(
        "GiGPO, 2505.10978", "+12 points over GRPO on ALFWorld, +9 on WebShop", LEARNING,
        learned("gigpo", "final", claimed=0.09),
    ),
    Claim("", "the same, in speed", LEARNING, learned("gigpo")),
    Claim("", "the same, with credit against the truth", EXACTLY, exact("gigpo over grpo")),
    Claim("", "its credit takes 0.15 % of an iteration (0.54 of 363 s)", LEARNING, overhead),
    Claim("", "states recur: under 35 % of them are seen once; and less so as training goes on", LEARNING, recurring),
    Claim(
        "HGPO, recipe beside GiGPO", "comparing with the history too is better than the observation alone", LEARNING,
        learned("hgpo", over="gigpo"),
    ),
    Claim("", "the same, with credit against the truth", EXACTLY, exact("hgpo over gigpo")),
    Claim(
        "VinePPO, 2410.01679", "values of 9 continuations rank actions better than a value network",
        by("vineppo_vs_value_head"), nine_continuations,
    ),
    Claim(
        "", "the same, where models learn from as many words as nine continuations cost", by("value_models"),
        equal_words,
    ),
    Claim(
        "CARL, 2512.04949", "72 % fewer trained actions without loss (its forks are not in this run: the gate alone)",
        LEARNING, fewer_trained,
    ),
    Claim("", "the same, with credit against the truth", EXACTLY, exact("critical_only over grpo")),
    Claim("TEMPO, 2509.18314", "above GRPO, about 1.6 times faster", EXACTLY, exact("tempo over grpo")),
    Claim(
        "SPO, 2505.23564", "segments cut where the policy is unsure: better than fixed ones, at a smaller budget",
        by("spo_cutpoints"), cutpoints("fixed"),
    ),
    Claim("", "and better than lines", by("spo_cutpoints"), cutpoints("lines")),
    Claim("", "+6 to +12 points over GRPO", by("spo_cutpoints"), cutpoints("grpo")),
    Claim(
        "HICRA, 2509.03646", "+4.6 points over GRPO on AIME24, by 20 % more credit for planning words", EXACTLY,
        exact("hicra 0.2 over dr_grpo"),
    ),
    Claim(
        "", "a negative credit of a planning word shrinks, and should", EXACTLY,
        exact("hicra 1 over itself without the sign"),
    ),
    Claim(
        "AgentPRM, 2511.08325", "labels by temporal differences need an eighth of Monte Carlo's computation",
        by("agentprm_labels"), labels,
    ),
    Claim(
        "ArCHer, 2402.19446", "about 100 times fewer episodes than token-level PPO on Twenty Questions",
        by("archer_vs_ppo"), archer,
    ),
    Claim(
        "SWEET-RL, 2503.15478", "a critic that sees what the policy does not ranks turns better", by("sweet_artefact"),
        artefact,
    ),
    Claim("", "without the division by length the policy collapses to short turns", by("sweet_artefact"), divided),
    Claim("SCAR, 2505.20417", "spans reach what words reach at 1/7 of the cost", by("scar_spans_vs_tokens"), spans),
    Claim(
        "SHARP, 2602.08335", "+14 points over multi-agent baselines, by masking one agent at a time", EXACTLY,
        exact("sharp over grpo"),
    ),
    Claim(
        "GiGPO's similarity mode", "near-duplicates are one state: where texts carry ids and times", EXACTLY,
        exact("normalised states over exact", noisy=True),
    ),
    Claim("", "the released block matching, there", EXACTLY, exact("blocks over exact", noisy=True)),
    Claim(
        "PURE, 2504.15275", "a sum of process rewards collapses training", by("pure_collapse"), collapse,
    ),
    Claim("", "the minimum with a verifier does not", by("pure_collapse"), minimum),
    Claim("T-REG, 2412.02685", "its token rewards find the tokens that decide", by("treg_planted"), token_rewards),
    Claim("", "better than DPO: what the tuned policy writes", by("treg_planted"), over_dpo("generation")),
    Claim("", "better than DPO: held-out pairs", by("treg_planted"), over_dpo("pairs")),
    Claim(
        "D(w), planning curve", "how wide a unit of credit should be", by("window_size"), window,
    ),
    Claim("`pooled`, ours", "half of the gap between GiGPO and the exact advantage", by("pooled"), closed),
    Claim(
        "", "a tie or better on environments whose values nobody knows", by("pooled_environments"), environments,
    ),
    Claim("", "faster than GiGPO, with a transformer", LEARNING, learned("pooled", over="gigpo")),
    Claim("", "faster than RLOO, with a transformer", LEARNING, learned("pooled", over="rloo")),
)  # fmt: skip
