"""The tables of `archer_vs_ppo`."""

from __future__ import annotations

from typing import Any

from experiments import markdown as md
from experiments.means import interval, side

TRIED = """Tried on seeds 100 and 101 (ArCHer on 100 only), judged on others. ArCHer without a warm-up: the policy falls
to guessing at once. Forty steps an iteration and ten of warm-up: .47 after 512 episodes; a critic's rate of 4e-3: .53,
with shorter episodes; a policy's rate of 3e-3: .20, and PPO collapses there too. Steps and warm-up were then cut to
what the CPU allowed, without another trial. With six objects, a lighter clone and no warm-up PPO went from .2 to .3 in
2,400 episodes and ArCHer nowhere in 960. The released code makes 50 steps on 256 draws an iteration, over 2,000
iterations of games of 20 questions: what long horizons and a long run bring is not measured here."""


def told(values: list[Any], *, digits: int = 4) -> list[float]:
    """Mean, and the two ends of its interval; of one number that number, of none nothing."""
    return interval(values, digits=digits) if len(values) > 1 else [round(float(x), digits) for x in values]


def cell(numbers: list[float] | None, form: str = ".2f") -> str:
    """What `told` gives: ``0.81 (0.78 to 0.84)``, or of how many seeds less."""
    if not numbers:
        return "never"
    return md.cell(numbers, form) if len(numbers) == 3 else f"{numbers[0]:{form}} (one seed)"


def markdown(found: dict[str, Any]) -> str:
    """The page for people."""
    count, last, equal, curves = len(found["seeds"]), found["last"], found["equal"], found["curves"]
    rows = []
    for row in found["levels"]:
        sides = [(cell(row[arm], ".0f"), f"{row[f'{arm}_reached']} of {count}") for arm in ("ppo", "archer")]
        rows.append([f"{row['level']:.1f}", *sides[0], *sides[1], cell(row["ratio"]) if row["ratio"] else "none"])
    places, lines = [row[0] for row in curves["ppo"]], []
    for arm, name in (("ppo", "PPO"), ("archer", "ArCHer")):
        known = {row[0]: row[1] for row in curves[arm]}
        lines.append([name, *(f"{known[at]:.2f}" if at in known else "" for at in places)])
    both = [row for row in found["levels"] if row["ratio"]]
    said = "; ".join(f"to {row['level']:.1f} {cell(row['ratio'])} times" for row in both) or "to no level of these"
    word = {1: "is ahead", -1: "is behind", 0: "cannot be told apart"}[side(equal["archer - ppo"])]
    return md.document(
        "# ArCHer against token-level PPO, by environment samples",
        "Twenty Questions on four objects, at most three questions and a guess; the optimum is "
        f"{found['optimum']:.2f}, and both arms start from one light clone a seed, return {cell(found['start'])}. "
        f"Mean over {count} seeds with Student's 95% interval. A level counts as reached where the mean return of "
        f"{found['settings']['window']} iterations of {found['settings']['batch']} episodes is there; the ratio is "
        "PPO's episodes over ArCHer's, the geometric mean over seeds in which both reached it.",
        md.table(["return", "PPO: episodes", "seeds", "ArCHer: episodes", "seeds", "ratio"], rows),
        f"At {equal['episodes']} episodes each: PPO {cell(equal['ppo'])}, ArCHer {cell(equal['archer'])}; ArCHer minus "
        f"PPO {cell(equal['archer - ppo'])}, paired. At its end: PPO ({last['ppo']['episodes']} episodes) "
        f"{cell(last['ppo']['return'])}, ArCHer ({last['archer']['episodes']}) {cell(last['archer']['return'])}. "
        f"Seconds of a run on shared cores: PPO {cell(last['ppo']['seconds'], '.0f')}, ArCHer "
        f"{cell(last['archer']['seconds'], '.0f')}.",
        md.table(["episodes", *map(str, places)], lines),
        "## What it says",
        "The claim: about 100 times fewer episodes to a common return. Measured, where "
        f"at least two seeds got there with both: {said}. At equal episodes ArCHer {word}.",
        TRIED,
    )
