"""What `sweet_artefact` measured, as numbers with intervals and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.markdown import cell, document, table
from experiments.means import interval, paired

COLUMNS = {
    "pairs_right": "pairs right", "ordered": "turns in order", "best": "best turn", "longer": "longer first",
    "success": "success", "questions": "questions", "unwritten": "never writes", "tokens": "tokens a turn",
    "long": "long wording",
}  # fmt: skip


WORDS = """Rows of 48 and of 96 tasks differ in two things: the language model behind those of 96 has read more (see
`MODELS`), and reads what is wanted better. Compare inside a number of tasks.

* **pairs right**: of two fresh rollouts of a held-out task, one of which succeeded, how often that one
  scores higher; chance is .5.
* **turns in order**: of two candidate turns with different exact values, drawn at one turn of a fresh rollout of a
  held-out task, how often the better one has the higher score; mean over turns; chance is .5. The exact value is the
  chance to pass all tests if this is done and all else is done best, for somebody who knows what the actor knows.
* **best turn**: exact value of the turn that is ranked first, where the mean of the candidates is 0 and the best is 1.
* **longer first**: of a question in its long and its short wording, which are worth the same, how often the longer
  one scores higher; .5 is indifferent.
* **success**: of the actor, sampled, on 400 held-out tasks. **questions**: per episode, of 2 that are of use. **never
  writes**: share of episodes. **tokens a turn**, and **long wording**: share of the questions asked in it.
"""


def summary(runs: Sequence[dict[str, Any]], compared: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Each measure of each arm, and the differences of some arms, paired by seed."""
    arms = {
        arm: {name: interval([r["arms"][arm][name] for r in runs]) for name in found}
        for arm, found in runs[0]["arms"].items()
    }
    differences = {
        f"{one} − {other}": {
            name: paired([r["arms"][one][name] for r in runs], [r["arms"][other][name] for r in runs])
            for name in COLUMNS
            if name in arms[one]
        }
        for one, other in compared
    }
    seconds = float(np.mean([r["cpu_seconds"] for r in runs]))
    return {"seeds": len(runs), "arms": arms, "differences": differences, "cpu_seconds": seconds}


def markdown(found: dict[str, Any]) -> str:
    """The page for people."""
    arms, tables = found["arms"], []
    for title, names in (("the critics", list(COLUMNS)[:4]), ("the actor trained on their pairs", list(COLUMNS)[4:])):
        rows = [[arm, *(cell(row[n]) for n in names)] for arm, row in arms.items() if names[0] in row]
        head = ["critic, tasks it was fitted to", *(COLUMNS[n] for n in names)]
        tables += [f"## {title}", table(head, rows)]
    names = ["pairs_right", "ordered", "best", "success", "tokens"]
    gaps = [[title, *(cell(row[n], "+.3f") for n in names)] for title, row in found["differences"].items()]
    read = "; ".join(f"{arm}: {told['tokens_read'][0]:,.0f}" for arm, told in arms.items() if "tokens_read" in told)
    finds = "; ".join(f"{arm}: {cell(told['reads'])}" for arm, told in arms.items() if "reads" in told)
    return document(
        "# SWEET-RL's critic with and without the artefact, and without the division by length",
        f"Made by `python -m experiments.sweet_artefact`. Mean over {found['seeds']} seeds (a language model, "
        f"rollouts, critics and policies each; {found['cpu_seconds']:.0f} CPU-seconds a seed) with Student's 95% "
        "interval. What the columns are stands below.",
        *tables,
        "## differences, paired by seed",
        table(["difference", *(COLUMNS[n] for n in names)], gaps),
        f"Tokens that a critic read while it was fitted: {read}.",
        f"How often the actor's model, behind what is wanted, finds that program the likeliest: {finds}.",
        WORDS.rstrip(),
    )
