"""Rows of the table of claims about process rewards and token rewards."""

from __future__ import annotations

from typing import Any

from experiments.markdown import plain, signed
from experiments.page.claims import Measured, Ours, reads, several, verdict

SUMS, MINIMA = ("sum", "sum+verifier"), ("min", "min+verifier")


@reads("pure_collapse")
def collapse(rows: Any) -> Ours:
    """What is right at the end with the sum of process rewards, and what the monitor made of it."""
    told, lost, caught, of = [], 0, 0, 0
    for name in SUMS:
        row, stops = rows["table"][name], rows["stops"][name]
        told.append(f"{name} {plain(row['right at first'])} → {plain(row['right at the end'])}")
        lost += row["right at the end"][2] < 0.5 * row["right at first"][1]
        caught, of = caught + sum(x is not None for x in stops), of + len(stops)
    kind = f"holds in {lost} of {len(SUMS)}" if lost else "not shown"
    return f"right answers: {'; '.join(told)}", f"{kind}; the monitor ends {caught} of {of} runs"


@reads("pure_collapse")
def minimum(rows: Any) -> Ours:
    """What is right at the end with the minimum and a verifier, and false alarms."""
    gap = rows["differences"]["min+verifier - sum+verifier"]
    alarms = [x is not None for name in (*MINIMA, "verifier") for x in rows["stops"][name]]
    alone = rows["differences"]["min+verifier - verifier"]
    text = f"held-out success over the sum's {signed(gap)}, over the verifier's alone {signed(alone)}"
    return text, f"{verdict(gap)}; the monitor ends {sum(alarms)} of {len(alarms)} runs without a sum"


@reads("treg_planted", "tokens")
def token_rewards(tokens: Any) -> Ours:
    """How well T-REG's token rewards find planted tokens."""
    rows = {name: row for name, row in tokens.items() if name.startswith("treg")}
    text = "; ".join(
        f"{name.removeprefix('treg, ')}: precision {plain(row['precision'])}" for name, row in rows.items()
    )
    chance = next(iter(rows.values()))["chance"][0]
    good = all(row["precision"][1] > chance for row in rows.values())
    return f"{text}, chance {chance:.2f}", "holds where the model knows better from worse" if good else "fails"


def over_dpo(metric: str) -> Measured:
    """T-REG less plain DPO, at the paper's alphas."""

    @reads("treg_planted", "counts")
    def ours(counts: Any) -> Ours:
        gaps = {count: rows["treg, paper's alphas"]["less dpo"][metric] for count, rows in counts.items()}
        text = "; ".join(f"{count} pairs {signed(gap)}" for count, gap in gaps.items())
        return text, several(list(gaps.values()))

    return ours
