"""Groups whose members share prefixes, written as words: one letter is one token, a small letter an observation's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from apportion.data import Batch, Step, Trajectory


def grown(words: Sequence[str], outcomes: Iterable[float | None], group: Sequence[object] | None = None) -> Batch:
    """One trajectory per word: ``"AeBC"`` samples A, sees e, samples B and C. A slash ends a step."""
    out = []
    for n, (word, outcome) in enumerate(zip(words, outcomes, strict=True)):
        steps = []
        context: list[int] = [0]
        sampled: list[int] = []
        for sign in word:
            if sign == "/" or sign.islower():
                if sampled:
                    steps.append(Step(prompt_ids=context, ids=sampled))
                    context, sampled = [], []
                if sign != "/":
                    context.append(ord(sign))
            else:
                sampled.append(ord(sign))
        steps.append(Step(prompt_ids=context, ids=sampled))
        out.append(Trajectory(steps, outcome=outcome, group="g" if group is None else str(group[n])))
    return Batch.from_trajectories(out)


def random_words(seed: int, *, groups: int = 3, observations: bool = True) -> tuple[list[str], list[float], list[int]]:
    """Words that branch from each other, copies and beginnings of others among them; outcomes of few values."""
    rng = np.random.default_rng([seed, 88])
    letters = list("ABabe" if observations else "AB")
    words: list[str] = []
    group: list[int] = []
    for g in range(groups):
        first = len(words)
        for _ in range(1 if g == 0 else int(rng.integers(2, 7))):
            word = "".join(rng.choice(letters, size=int(rng.integers(1, 7))))
            if len(words) > first and rng.random() < 0.6:
                other = words[int(rng.integers(first, len(words)))]
                word = other[: int(rng.integers(1, len(other) + 1))] + word[: int(rng.integers(0, len(word) + 1))]
            words.append("A" + word if not any(sign.isupper() for sign in word) else word)
            group.append(g)
    order = rng.permutation(len(words))
    outcomes = np.round(rng.normal(size=len(words)), 1)
    outcomes[[g == 1 for g in group]] = 0.3  # a group of equal outcomes
    return [words[k] for k in order], [float(outcomes[k]) for k in order], [group[k] for k in order]


def letters(word: str) -> list[str]:
    """The word from its first sampled token to its last, slashes left out."""
    word = word.replace("/", "")
    capital = [k for k, sign in enumerate(word) if sign.isupper()]
    return list(word[capital[0] : capital[-1] + 1])
