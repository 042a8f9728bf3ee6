"""Questions that users of trainers had to ask: the public bug reports of tests/cases/cases.json and docs/cases.md."""

from __future__ import annotations

import json
import re
from typing import Any

from links import ROOT

PAGE = "faq.md"
LONGEST = 400
"""Characters of a case's numbers that the page shows."""
WHY = {
    "group identity": "A baseline is a comparison. Compared with the wrong rollouts, every number after it is "
    "wrong, and none looks it.",
    "zero or tiny spread": "A division by a spread that is almost 0 turns rounding errors into the largest "
    "advantages of the batch.",
    "missing / NaN / inf rewards": "What nobody scored is unknown. Counted as 0 it is the worst score there is, and "
    "it moves its siblings.",
    "rows counted wrongly": "A rollout of many turns is many rows for a trainer. If each row votes, long rollouts "
    "set the baseline.",
    "masks": "Multiplying by a mask does not remove NaN, and a mask made for one row does not fit another.",
    "GAE and returns over turns": "Between two turns lies text that the model did not write. A recursion over it "
    "discounts, leaks or stops.",
    "token alignment and import": "Credit belongs to sampled tokens. Text that is tokenised again, or masks guessed "
    "from ids, move it to others.",
    "singletons, ddof": "A group of one has no spread: its standard deviation is NaN or 0, depending on a default "
    "that nobody chose.",
    "truncation": "Cut off by a limit is not the same as ended. What lies behind the cut has a value that somebody "
    "must say.",
    "normalisation and length bias": "What a loss divides by decides whether long answers are pushed as hard as "
    "short ones.",
    "order, shards, filters": "Credit is a function of the rollouts. Where it depends on their order or on how they "
    "are split, it is not.",
    "reward placement": "A reward on the wrong token is credited to the wrong decision, or to nobody.",
    "KL in the reward": "A penalty belongs to the token that earned it, and only to tokens that the model wrote.",
    "process rewards and trees": "Sums of process rewards pay for every further step; labels and steps that are "
    "counted apart do not fit together.",
    "discounting": "A power of gamma underflows, and a discount on the wrong clock forgets the past too fast.",
    "speed and memory": "What is quadratic in the rollouts is quick on a test and endless on a run.",
    "step groups": "Steps are compared by the state they act in; by number, or by near texts in an order, other "
    "steps are compared.",
    "precision and dtype": "Two scores that differ little are one in half precision, and their difference is rounding.",
    "several agents": "Each role has its own scale of rewards. A baseline over all roles pays one for being another.",
    "reward-hacking diagnostics": "A policy that has found a hole looks like one that learns, by its reward alone.",
    "text and n-grams": "A score over characters and one over tokens are two scores; the threshold belongs to one "
    "of them.",
}


def pages() -> dict[str, str]:
    """One page: by kind, each case with what is seen, what is right, and the test here."""
    cases: list[dict[str, Any]] = json.loads((ROOT / "tests" / "cases" / "cases.json").read_text(encoding="utf-8"))
    tests = tests_by_case()
    kinds = list(dict.fromkeys(case["kind"] for case in cases))
    parts = [
        "---\ntitle: Questions\n---\n\n# Questions, from public bug reports\n\nEach was asked in public, of a trainer "
        "or its library: what was seen, why that is wrong, what apportion does, and the test that keeps it so. Inputs "
        "and right numbers are in [`cases.json`](repo:tests/cases/cases.json); the table of all cases is "
        "[here](cases.md). To look for them in your own rollouts: [`apportion check`](checks.md).\n"
    ]
    for kind in kinds:
        parts.append(f"## {kind[0].upper()}{kind[1:]}\n\n{WHY[kind]}\n")
        for case in (case for case in cases if case["kind"] == kind):
            title = case["symptom"].replace('"', "'").rstrip(".").replace("<", "&lt;")
            parts.append(
                f'<a id="{case["id"].lower()}"></a>\n\n??? question "{title}"\n\n'
                f"    **apportion:** {case['right_behaviour']}\n\n"
                f"    **Reported in** {reported(case['reference'])}\n\n"
                f"{numbers(case)}"
                f"    **Tested by** {tests[case['id']]}\n"
            )
    return {PAGE: "\n".join(parts)}


def reported(reference: str) -> str:
    """References like ``owner/name#1, #2`` as links to the reports."""
    where = ""

    def link(match: re.Match[str]) -> str:
        nonlocal where
        where = match[1] or where
        return f"[{match[0]}](https://github.com/{where}/issues/{match[2]})" if where else match[0]

    return re.sub(r"([\w.-]+/[\w.-]+)?#(\d+)", link, reference)


def numbers(case: dict[str, Any]) -> str:
    """The input and the right numbers, where they are few."""
    told = "\n".join(f"    {name:<7}{json.dumps(case[name], ensure_ascii=False)}" for name in ("input", "right"))
    return f"    ```text\n{told}\n    ```\n\n" if len(told) < LONGEST else ""


def tests_by_case() -> dict[str, str]:
    """The last column of the table in docs/cases.md."""
    out = {}
    for line in (ROOT / "docs" / "cases.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5:
            out[cells[0]] = cells[4].replace("<br>", ", ")
    return out
