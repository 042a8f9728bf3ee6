"""The exact optimum of Twenty Questions: dynamic programming over beliefs.

    W(B, n) = max( 1, max_q W(B ∩ yes_q, n - 1) + W(B ∩ no_q, n - 1) )

W is the number of objects of belief B that are guessed right when each is the hidden one in turn, with n questions left
before the guess; success = W / |B|. Objects that no question tells apart count as one, since one guess serves them.
"""

from __future__ import annotations

import math
from functools import lru_cache

from apportion.envs.twentyq.truth import TruthTable

EXACT_UP_TO = 16  # objects; beyond, `best_question` looks one question ahead
Belief = frozenset[int]


def success(table: TruthTable, belief: Belief, questions: int) -> float:
    """Best probability of a right guess after so many more questions, each object of the belief being as likely."""
    return _right(table, belief, questions) / len(belief)


def best_question(table: TruthTable, belief: Belief, questions: int) -> int | None:
    """A question that the optimum asks; None where guessing at once is as good.

    Beliefs larger than `EXACT_UP_TO` are cut by the question that tells most.
    """
    if questions < 1 or len(belief) < 2:
        return None
    if len(belief) > EXACT_UP_TO:
        return max(_splits(table, belief), key=lambda split: (_told(split), -split[0]), default=(None,))[0]
    best, at = 1, None
    for q, yes, no in _splits(table, belief):
        right = _right(table, yes, questions - 1) + _right(table, no, questions - 1)
        if right > best:
            best, at = right, q
    return at


@lru_cache(maxsize=500_000)
def _right(table: TruthTable, belief: Belief, questions: int) -> int:
    if questions == 0 or len(belief) == 1:
        return 1
    most = min(len({table.true[o] for o in belief}), 2**questions)
    best = 1
    for _, yes, no in _splits(table, belief):
        best = max(best, _right(table, yes, questions - 1) + _right(table, no, questions - 1))
        if best == most:
            break
    return best


def _splits(table: TruthTable, belief: Belief) -> list[tuple[int, Belief, Belief]]:
    """Every question that tells something, with the objects for yes and for no; the most even first."""
    out = []
    for q in range(len(table.questions)):
        yes = frozenset(o for o in belief if q in table.true[o])
        if 0 < len(yes) < len(belief):
            out.append((q, yes, belief - yes))
    return sorted(out, key=lambda split: (abs(len(split[1]) - len(split[2])), split[0]))


def _told(split: tuple[int, Belief, Belief]) -> float:
    """Bits that the answer tells."""
    _, yes, no = split
    p = len(yes) / (len(yes) + len(no))
    return -(p * math.log2(p) + (1 - p) * math.log2(1 - p))
