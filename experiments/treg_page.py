"""What `treg_planted` measured: planted words found, arms chosen on tuning seeds and judged on others, the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments import markdown as md
from experiments.markdown import cell
from experiments.means import interval, paired, side

METRICS = ("generation", "pairs", "decisive")
PAPER, LARGER = ("0.1", "0.25", "0.5"), ("0.1", "0.25", "0.5", "2", "8")
TOKENS = {
    "auc": "area under the curve of the size of r for telling deciding words from filler",
    "precision": "precision: share that decides of the words with the largest r, sign aside, as many as decide",
    "sign_auc": "area under the curve of r for telling good from bad deciding words",
    "sign": "share of deciding words whose r has the right sign",
    "chance": "share of the words that decide: what a random choice finds",
}


def found_by(reward: np.ndarray, world: Any, topics: np.ndarray, said: np.ndarray) -> dict[str, float]:
    """How well token rewards (N, words) find the planted words, and what these are worth."""
    sign, size = world.signs(topics, said).reshape(-1), np.abs(reward).reshape(-1)
    flat, decides = reward.reshape(-1), world.decides(said).reshape(-1)
    top = np.argsort(-size, kind="stable")[: int(decides.sum())]
    return {
        "auc": auc(size, decides),
        "precision": float(decides[top].mean()),
        "sign_auc": auc(flat[decides], sign[decides] > 0),
        "sign": float(np.mean(np.sign(flat[decides]) == sign[decides])),
        "chance": float(decides.mean()),
    }


def auc(score: np.ndarray, label: np.ndarray) -> float:
    """Chance that a score with the label is above one without, ties a half."""
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    positive = int(label.sum())
    total = rank[label].sum() - positive * (positive + 1) / 2
    return float(total / (positive * (len(label) - positive)))


def summary(runs: Mapping[int, Any], tuning: Sequence[int]) -> dict[str, Any]:
    """Choices of the tuning seeds, measures of the others, and paired differences to plain DPO."""
    judged = [seed for seed in runs if seed not in tuning]
    out: dict[str, Any] = {"seeds": judged, "tuning": list(tuning), "counts": {}, "tokens": {}}
    out["start"] = {m: interval([runs[s]["start"][m] for s in judged], digits=4) for m in METRICS}
    for count in runs[judged[0]]["arms"]:
        last = max(map(int, runs[judged[0]]["arms"][count]["dpo|0"]))
        for name, source in (
            ("treg", [runs[s]["tokens"][count] for s in judged]),
            ("dpo", [runs[s]["arms"][count]["dpo|0"][str(last)]["tokens"] for s in judged]),
        ):
            out["tokens"][f"{name}, {count} pairs"] = {
                m: interval([one[m] for one in source], digits=4, share=True) for m in TOKENS
            }
        rows: dict[str, Any] = {}
        for name, arm, alphas in (
            ("dpo", "dpo", ("0",)),
            *((f"{arm}, paper's alphas", arm, PAPER) for arm in ("treg", "treg static", "treg shuffled")),
            *((f"{arm}, larger too", arm, LARGER) for arm in ("treg", "treg shuffled")),
        ):
            tried = [f"{arm}|{alpha}" for alpha in alphas if f"{arm}|{alpha}" in runs[judged[0]]["arms"][count]]
            rows[name] = _row(runs, judged, tuning, count, tried)
        base = rows["dpo"]["values"]
        for row in rows.values():
            row["less dpo"] = {m: paired(row["values"][m], base[m], digits=4) for m in METRICS}
            row |= {m: interval(row["values"][m], digits=4, share=m != "generation") for m in METRICS}
        for which in ("paper's alphas", "larger too"):
            own, control = (rows[f"{arm}, {which}"]["values"] for arm in ("treg", "treg shuffled"))
            rows[f"treg, {which}"]["less shuffled"] = {m: paired(own[m], control[m], digits=4) for m in METRICS}
        out["counts"][count] = rows
    return out


def _row(runs: Mapping[int, Any], judged: Sequence[int], tuning: Sequence[int], count: str, names: list[str]) -> Any:
    """The name and number of steps that generate best on the tuning seeds, and the measures of the judged ones."""
    tried = [(name, step) for name in names for step in runs[tuning[0]]["arms"][count][name]]
    best = max(tried, key=lambda one: np.mean([runs[s]["arms"][count][one[0]][one[1]]["generation"] for s in tuning]))
    found = [runs[s]["arms"][count][best[0]][best[1]] for s in judged]
    return {"alpha": best[0].partition("|")[2], "steps": int(best[1])} | {
        "values": {m: [one[m] for one in found] for m in METRICS}
    }


def markdown(found: dict[str, Any]) -> str:
    """The page for people."""
    start, tables = found["start"], []
    for count, rows in found["counts"].items():
        shown = []
        for name, row in rows.items():
            less = ["" if name == "dpo" else cell(row["less dpo"][m]) for m in ("generation", "pairs")]
            told_ = (cell(row["generation"]), less[0], cell(row["pairs"]), less[1], cell(row["decisive"]))
            shown.append([name, row["alpha"], str(row["steps"]), *told_])
        head = ["arm", "alpha", "steps", "generation", "less DPO's", "pairs", "less DPO's", "decisive"]
        tables += [f"## {count} pairs", md.table(head, shown)]
    return md.document(
        "# T-REG: its token rewards, and DPO with and without them",
        "Answers of ten words; a fifth of the words decide, good or bad as planted for each topic; a transformer that "
        "can answer plainly, better or worse as told is the reference. Pairs are the best and the worst of five plain "
        "answers by the planted reward plus noise. `generation`: planted reward of fresh answers of the "
        f"tuned policy; `pairs`: held-out pairs that its implicit reward ranks right; `decisive`: share of words that "
        f"decide. Mean over {len(found['seeds'])} seeds with Student's 95% interval; alpha and steps are the best in "
        f"`generation` of the mean over {len(found['tuning'])} other seeds, for each arm by itself. Before tuning: "
        f"generation {cell(start['generation'])}, decisive {cell(start['decisive'])}.",
        "## Do the token rewards find the planted words?",
        "`treg`: its token rewards r. `dpo`: the log-ratio of each word after plain DPO on these pairs, all steps.",
        md.table(
            ["measure", *found["tokens"]],
            [[about, *(cell(row[name]) for row in found["tokens"].values())] for name, about in TOKENS.items()],
        ),
        *tables,
        "## What it says",
        verdict(found),
    )


def verdict(found: dict[str, Any]) -> str:
    """The claims, and what the intervals say of them."""
    tokens = [row for name, row in found["tokens"].items() if name.startswith("treg")]
    find = all(t["precision"][1] > t["chance"][2] for t in tokens)
    area, precision = (min(t[name][0] for t in tokens) for name in ("auc", "precision"))
    said = [
        f"Token rewards: they {'find' if find else 'do not find'} the planted words (area {area:.2f}, precision "
        f"{precision:.2f}, chance {tokens[0]['chance'][0]:.2f}), in a model that knows what better and worse mean."
    ]
    for count, rows in found["counts"].items():
        for name in ("treg, paper's alphas", "treg, larger too"):
            for metric in ("generation", "pairs"):
                gap = rows[name]["less dpo"][metric]
                how = {1: "above", -1: "below", 0: "not to be told from"}[side(gap)]
                at = f"{count} pairs, {name} (alpha {rows[name]['alpha']}): {metric}"
                control = rows[name]["less shuffled"][metric]
                said.append(
                    f"{at} {how} plain DPO's ({gap[0]:+.3f}, {gap[1]:+.3f} to {gap[2]:+.3f}); against the shuffled "
                    f"control {cell(control, '+.3f')}."
                )
        static = rows["treg static, paper's alphas"]
        own, fixed = rows["treg, paper's alphas"]["values"]["generation"], static["values"]["generation"]
        gap = paired(fixed, own, digits=4)
        said.append(
            f"{count} pairs: with the weight w fixed at ½ generation changes by {cell(gap, '+.3f')}: it carries "
            "nothing here, where the paper's gain almost vanished without it."
        )
    said.append(TRIED)
    return md.items(said)


TRIED = (
    "What was tried first, on a seed that is not judged: a reference that had learned the contrast badly gave token "
    "rewards that found little (area .68, precision .49, right signs .64 after 900 updates on weaker lessons; .61, .28 "
    "and .50 after 1200 at a higher rate), and one that knew it perfectly found every word (1.00). So what the token "
    "rewards are worth is what the reference model knows. With 128 pairs and a learning rate of .001 plain DPO came to "
    "5.96 in twenty steps and T-REG to 5.97 (alpha .5) and 5.96 (alpha 4): no difference; then fewer pairs and a rate "
    "of .0003 were taken. Forty steps, the most that were tried, were best for every arm: where tuning goes on for "
    "longer is not measured."
)
