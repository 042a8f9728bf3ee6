"""Write the page and its figures, or say what is stale."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.learning.summary import over_worlds, read_store
from experiments.learning.worlds import WORLDS
from experiments.page import exactly, figures, learning
from experiments.page.claims import Found, render
from experiments.page.sources import CLAIMS
from experiments.stored import RESULTS, read, write_text

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results.md"
IMAGES = ROOT / "docs" / "images"
BLOCK = re.compile(r"(<!-- results: (\S+) -->\n).*?(<!-- /results -->)", re.S)


def found() -> Found:
    """Everything that is stored."""
    stored = {path.stem: read(path) for path in sorted(RESULTS.glob("*.json"))}
    return Found(stored, read_store(RESULTS / "learning"))


def blocks(have: Found) -> dict[str, Callable[[], str]]:
    """What stands between the markers, by name."""
    return {
        "learning": lambda: learning.tables(have.learning),
        "overall": lambda: learning.over_all(have.learning),
        "recurrence": lambda: learning.recurrence(have.learning),
        "claims": lambda: render(CLAIMS, have),
        "differences": lambda: exactly.differences(have.json["exact_claims"]),
        "bench": lambda: exactly.all_methods(have.json["bench"]),
        "noise": lambda: exactly.noise(have.json["bench"]),
        "reasons": lambda: exactly.reasons(have.json["bench"]),
    }


def page(text: str, have: Found) -> str:
    """The page with its generated parts anew.

    Raises:
        KeyError: a marker names a part that nobody makes.
    """
    made = blocks(have)
    return BLOCK.sub(lambda block: f"{block[1]}{made[block[2]]().rstrip()}\n{block[3]}", text)


def drawings(have: Found) -> dict[str, tuple[Callable[[Path, Any], None], Any]]:
    """Figures with the numbers that they show, by file name."""
    better = over_worlds(WORLDS, have.learning, learning.shared(have.learning))["area"]["better"]
    over_grpo = {arm: row["grpo"] for arm, row in better.items() if "grpo" in row}
    drawn: dict[str, tuple[Callable[[Path, Any], None], Any]] = {
        "learning.svg": (figures.draw_learning, figures.learning_data(have.learning)),
        "faster-than-grpo.svg": (figures.draw_better, over_grpo),
    }
    if "bench" in have.json:
        drawn["exact-gradient.svg"] = (figures.draw_bench, exactly.means(have.json["bench"]))
    return drawn


def main() -> int:
    """0 where everything is as the stored JSON says, or was written so."""
    have, check = found(), "--check" in sys.argv
    text = PAGE.read_text(encoding="utf-8")
    wanted, stale = page(text, have), []
    if text != wanted:
        stale.append(PAGE)
        if not check:
            write_text(PAGE, wanted)
    for name, (draw, data) in drawings(have).items():
        if figures.digest_in(IMAGES / name) != figures.digest(data):
            stale.append(IMAGES / name)
            if not check:
                draw(IMAGES / name, data)
    for path in stale:
        told = "is not what the stored results say; run `make results`" if check else "written"
        sys.stdout.write(f"{path.relative_to(ROOT)} {told}\n")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
