"""The claims of the sources: what the paper says, what came out here, and a verdict by one rule.

holds        the interval lies on the claimed side of the threshold: 0 for a difference, else the figure that is claimed
not shown    the interval reaches the threshold
fails        it lies on the other side

Of several measurements, see `several`. Rows without an interval (a share of time, a share of a gap, a best window)
count how often the claim came out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.learning.summary import Records, per_world
from experiments.learning.worlds import WORLDS
from experiments.markdown import minus, plain, signed, table
from experiments.means import side

NOT_MEASURED = "not measured"
AGREED = 0.95
"""The rank correlation from which two credits are one."""


@dataclass(frozen=True)
class Found:
    """All that is stored: ``json`` by name of the experiment, and the learning runs."""

    json: Mapping[str, Any]
    learning: Mapping[str, Records]


Ours = tuple[str, str]
"""What came out here, and the verdict."""
Measured = Callable[[Found], Ours | None]
"""`Ours` from what is stored; None where something is missing."""


@dataclass(frozen=True)
class Claim:
    """A row of the table.

    Attributes:
        source: paper. says: its claim, with its figure. where: link to the experiment.
        ours: what came out.
    """

    source: str
    says: str
    where: str
    ours: Measured


def verdict(interval: Sequence[float], threshold: float = 0.0) -> str:
    """By the rule above, for a claim of more."""
    return {1: "holds", -1: "fails", 0: "not shown"}[side(interval, threshold)]


def several(intervals: Sequence[Sequence[float]], threshold: float = 0.0) -> str:
    """One verdict of several measurements: by half of them at least, and mixed where one holds and another fails."""
    kinds = [verdict(interval, threshold) for interval in intervals]
    holds, fails = kinds.count("holds"), kinds.count("fails")
    if holds and fails:
        return f"mixed: holds in {holds} and fails in {fails} of {len(kinds)}"
    if 2 * max(holds, fails) < len(kinds):
        return "not shown" + (f": holds in {holds} of {len(kinds)}" if holds else "")
    return f"holds in {holds} of {len(kinds)}" if holds else f"fails in {fails} of {len(kinds)}"


def reads(name: str, *part: str) -> Callable[[Callable[[Any], Ours | None]], Measured]:
    """A reading of one experiment's document, or of a part of it, where that is stored."""

    def reading(make: Callable[[Any], Ours | None]) -> Measured:
        def ours(found: Found) -> Ours | None:
            told = found.json.get(name)
            for key in part:
                told = told and told.get(key)
            return make(told) if told else None

        return ours

    return reading


def rows_of(arm: str, found: Found) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What an arm came to in learning, by environment, where it ran."""
    for name in (n for n in WORLDS if n in found.learning):
        arms = per_world(WORLDS[name], found.learning[name])["arms"]
        if arm in arms:
            yield name, arms[arm]


def exact(what: str, *, noisy: bool = False) -> Measured:
    """Differences in the cosine with the exact gradient, over games and policies."""

    @reads("exact_claims", "rows")
    def ours(every: Any) -> Ours | None:
        of_claim = (row for row in every if row["claim"] == what and row["task"].endswith("-noisy") == noisy)
        rows = [row["difference"] for row in of_claim]
        if not rows:
            return None
        middle = sum(row[0] for row in rows) / len(rows)
        low, high = min(row[0] for row in rows), max(row[0] for row in rows)
        text = f"cosine with the exact gradient {middle:+.3f} on average ({low:+.3f} to {high:+.3f} by game and policy)"
        return minus(text), several(rows)

    return ours


def learned(arm: str, key: str = "area", over: str = "grpo", claimed: float | None = None) -> Measured:
    """Difference of two arms in learning, by environment, paired by seed; and where a claimed gain is excluded."""

    def ours(found: Found) -> Ours | None:
        parts = [(name, row[f"{key}_over_{over}"]) for name, row in rows_of(arm, found)]
        if not parts:
            return None
        told = "; ".join(f"{name} {signed(interval)}" for name, interval in parts)
        kind = several([interval for _, interval in parts])
        if claimed is not None:
            excluded = sum(interval[2] < claimed for _, interval in parts)
            kind += f"; +{claimed:.2f} is excluded on {excluded} of {len(parts)}"
        return f"{'area' if key == 'area' else 'at the end'}: {told}", kind

    return ours


def overhead(found: Found) -> Ours | None:
    """GiGPO's credit as a share of an iteration."""
    shares = {name: row["credit_share"] for name, row in rows_of("gigpo", found)}
    if not shares:
        return None
    told = ", ".join(f"{name} {share:.2%}" for name, share in shares.items())
    return f"share of the iteration: {told}; the model here is tiny, so the rest takes little time", (
        "below 1 % holds" if max(shares.values()) < 0.01 else "above 1 % beside a tiny model"
    )


def recurring(found: Found) -> Ours | None:
    """Share of steps in a state that another rollout of the group saw; first and last fifth of GiGPO's runs."""
    shares = {name: (row["recurring"]["first"], row["recurring"]["last"]) for name, row in rows_of("gigpo", found)}
    if not shares:
        return None
    told = "; ".join(f"{name} {plain(first)} → {plain(last)}" for name, (first, last) in shares.items())
    falls = sum(last[2] < first[1] for first, last in shares.values())
    rises = sum(last[1] > first[2] for first, last in shares.values())
    everywhere = min(first[0] for first, _ in shares.values()) > 0.5
    many = "more than half recur everywhere" if everywhere else "recurrence depends on the environment"
    return f"share of steps: {told}", f"{many}; falls in {falls}, rises in {rises} of {len(shares)}"


def fewer_trained(found: Found) -> Ours | None:
    """CARL's gate without its forks: share of steps left out, and the difference in learning."""
    parts, losses, saved = [], [], []
    for name, row in rows_of("critical_only", found):
        saved.append(1 - row["trained"]["mean"][0])
        losses.append(row["area_over_grpo"])
        parts.append(f"{name} {saved[-1]:.0%} fewer, area {signed(losses[-1])}")
    if not parts:
        return None
    lost = sum(verdict(loss) == "fails" for loss in losses)
    return "; ".join(parts), (
        f"{min(saved):.0%} to {max(saved):.0%} fewer; "
        + ("no loss shown" if not lost else f"a loss in {lost} of {len(losses)}")
    )


@reads("vineppo_vs_value_head", "differences")
def nine_continuations(differences: Any) -> Ours:
    """VinePPO's values over each trained head, by the best of five actions."""
    gaps = {
        name.removeprefix("samples:9 - ").removesuffix(", top1"): gap
        for name, gap in differences.items()
        if name.endswith(", top1")
    }
    told = "; ".join(f"{head} {signed(gap)}" for head, gap in gaps.items())
    return f"best of five actions, nine continuations over the head {told}", several(list(gaps.values()))


@reads("scar_spans_vs_tokens", "table")
def spans(rows: Any) -> Ours:
    """SCAR by sentence at a seventh of the evaluations."""
    row, whole = rows["sentences, exact"], rows["words, 16 orders and their reverse"]
    fewer = f"{whole['evaluations'] / row['evaluations']:.0f} times fewer evaluations"
    agreed = f"agreement by span {plain(row['spans'])}, word by word {plain(row['words'])}"
    return f"{fewer}; {agreed}", f"{verdict(row['spans'], AGREED)} by span, {verdict(row['words'], AGREED)} by word"


def cutpoints(other: str) -> Measured:
    """Segments from every cutpoint against other cuts, or no continuations, at equal words; masked and not."""

    @reads("spo_cutpoints", "rows")
    def ours(rows: Any) -> Ours:
        key = "over cutpoints, every one"
        gaps = {name: row[key] for name, row in rows.items() if name.startswith(other) and key in row}
        more = {name: [-gap[0], -gap[2], -gap[1]] for name, gap in gaps.items()}
        told = "; ".join(f"{name} {signed(gap)}" for name, gap in more.items())
        return f"cosine with the exact gradient, over {told}", several(list(more.values()))

    return ours


@reads("pooled", "tasks")
def closed(tasks: Any) -> Ours:
    """Our own estimator, tabular."""
    shares = {name: one["arms"]["pooled"]["gap_closed"] for name, one in tasks.items()}
    text = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    good = sum(share >= 0.5 for share in shares.values())
    return f"share of the gap to the exact advantage: {text}", f"holds on {good} of {len(shares)} games"


@reads("window_size", "found")
def window(rows: Any) -> Ours:
    """D(w)'s best window against the measured one."""
    pairs = [best for row in rows for best in row["best"].values()]
    hits = sum(round(pair["formula"]) == pair["measured"] for pair in pairs)
    kind = "holds" if 2 * hits >= len(pairs) else "fails"
    return f"best window found in {hits} of {len(pairs)} settings", f"{kind} with the variance of a batch"


def render(claims: Sequence[Claim], found: Found) -> str:
    """The table; what was not measured says so."""
    rows = []
    for claim in claims:
        ours = claim.ours(found)
        text, kind = ours if ours is not None else ("", NOT_MEASURED)
        rows.append([claim.source, claim.says, text, kind, claim.where])
    return table(["source", "what it says", "here", "verdict", "measured by"], rows)
