"""What `scar_spans_vs_tokens` measured, over seeds, and the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments import markdown as md
from experiments.markdown import cell
from experiments.means import interval

FULL, TREE, CHEAP = "words, 16 orders and their reverse", "words, balanced tree", "words, one order and its reverse"
SPANS = "sentences, exact"
COLUMNS = ("words", "spans", "truth by word", "truth by span")


def summary(results: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Mean and interval of every estimator and column, of the means over the responses of each seed."""
    out: dict[str, dict[str, Any]] = {}
    for name in results[0]["rows"]:
        rows = [result["rows"][name] for result in results]
        own: dict[str, Any] = {"evaluations": float(np.mean([row["evaluations"] for row in rows]))}
        for column in COLUMNS:
            own[column] = interval([float(np.nanmean(row[column])) for row in rows])
        out[name] = own
    return out


def markdown(found: dict[str, Any]) -> str:
    """The page for people."""
    fits, table = found["fits"], found["table"]
    rows = [[name, f"{own['evaluations']:.0f}", *(cell(own[c]) for c in COLUMNS)] for name, own in table.items()]
    return md.document(
        "# SCAR by sentence and by word",
        "Made by `python -m experiments.scar_spans_vs_tokens`. A reward model trained on a planted task; rank "
        f"correlation inside each response, mean over {found['responses']} responses of each of {found['seeds']} seeds "
        "(a task, a model and responses each) with Student's 95% interval over seeds. The models explain "
        f"{min(fits):.2f} to {max(fits):.2f} of the variance of whole held-out responses ({found['steps']} steps of "
        "training on noisy scores).",
        "*words* compares, word by word, with the words' own credit by 16 orders and their reverse: this is the claim "
        "as it is written. *spans* compares with what the words of each sentence got together. The last two columns "
        "compare with the task's own Shapley values in these two ways, so the first row tells what the yardstick "
        "itself is worth.",
        md.table(["credit", "evaluations per response", *COLUMNS], rows),
        "## What it says",
        verdict(table),
    )


def verdict(table: dict[str, dict[str, Any]]) -> str:
    """The claim and what the numbers say of it, in words."""
    spans, tree, full, cheap = (table[name] for name in (SPANS, TREE, FULL, CHEAP))
    (word, word_low, _), (span, span_low, _) = spans["words"], spans["spans"]
    cost = spans["evaluations"]
    told = [
        f"The claim: sentences reach the credit of words, at a rank correlation of 0.95 or more after spreading, at a "
        f"seventh of the evaluations or fewer. Sentences take {cost:.0f}, 1/{tree['evaluations'] / cost:.0f} of the "
        f"words' balanced tree and 1/{full['evaluations'] / cost:.0f} of the words' orders.",
        f"Word by word the claim {held(word, word_low)}: {word:.3f}. A sentence's credit is one number, and which of "
        "its words earned it is not in it."
        if word < 0.95
        else f"Word by word the claim {held(word, word_low)}: {word:.3f}.",
        f"Of what each sentence's words got together it {held(span, span_low)}: {span:.3f}.",
        f"The price of words is a matter of the estimator: one order and its reverse take {cheap['evaluations']:.0f} "
        f"evaluations and reach {cheap['words'][0]:.3f} word by word, {cheap['spans'][0]:.3f} by sentence.",
        f"Against the task's own values sentences stand at {spans['truth by span'][0]:.3f} by sentence and "
        f"{spans['truth by word'][0]:.3f} by word; words by 16 orders at {full['truth by span'][0]:.3f} and "
        f"{full['truth by word'][0]:.3f}.",
    ]
    return "\n\n".join(told)


def held(mean: float, low: float) -> str:
    """What an interval says of the threshold."""
    return "holds" if low >= 0.95 else "holds on average, and not beyond doubt" if mean >= 0.95 else "fails"
