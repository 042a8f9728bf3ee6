"""Solutions with planning phrases planted into random words."""

from __future__ import annotations

import random

PLANTED = ("let me check this", "so we know that", "what if we try")
RARE = "once in a blue moon"


def corpus(seed: int = 0, size: int = 40) -> list[str]:
    """Each text holds two of the three planted phrases, in varied case and spacing; one holds the rare one twice."""
    rng = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    texts = []
    for k in range(size):
        words = ["".join(rng.choices(letters, k=6)) for _ in range(60)]
        for phrase in rng.sample(PLANTED, 2):
            shown = phrase.capitalize() if rng.random() < 0.5 else phrase.replace(" ", "  ", 1)
            words.insert(rng.randrange(len(words)), f". {shown} .")
        if k == 0:
            words += [". " + RARE + " ."] * 2
        texts.append(" ".join(words))
    return texts
