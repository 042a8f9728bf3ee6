"""State keys by likeness of texts: near-duplicates that keep every number apart, and the published block matching.

Both compare the different texts of one group pairwise, and reject nearly all pairs by cheap upper bounds: the signs
that two texts share, then the longest common subsequence (rapidfuzz where it is installed, else Python's integers).
"""

from __future__ import annotations

import heapq
import importlib
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache

import numpy as np

from apportion.errors import ConfigError
from apportion.numerics import Array, BoolArray, IntArray

ROUNDING = 1e-9
"""Slack of the upper bounds, so that rounding never rejects a pair that reaches the threshold exactly."""
SLACK = 1e-4
"""What is taken off a cutoff that somebody else compares with."""


@dataclass(frozen=True)
class Blocks:
    """The similarity mode of the GiGPO authors' code, with its groups text for text.

    In order of the batch, a text joins the first state whose representative (the first text of that state) has
    ``SequenceMatcher(None, text, representative).ratio() >= threshold``, else it starts a state. For parity only: the
    result depends on the order, one digit in a long page makes no difference, and from 200 signs on the "autojunk" of
    difflib ignores frequent signs, so that two copies of a page with another id in front may count as unlike.

    Attributes:
        threshold: ratio from which two texts are one state, in (0, 1]; the code's default is 0.95.

    Source: arXiv:2505.10978; verl-agent gigpo/core_gigpo.py, `build_step_group` with similarity.
    """

    threshold: float = 0.95

    def __post_init__(self) -> None:
        _check_threshold("blocks", self.threshold)

    def keys(self, text_S: Sequence[str], group_of_S: Sequence[int]) -> list[str]:
        """The representative of each text's state."""
        return _by_group(text_S, group_of_S, self._of_group)

    def _of_group(self, texts: list[str]) -> dict[str, str]:
        # ratio(x, x) is 1 and representatives never change, so one decision per different text is exact
        key_of: dict[str, str] = {}
        shared = _SharedSigns(texts)
        first: list[int] = []
        matchers: dict[int, SequenceMatcher[str]] = {}  # made when a text comes close: most states never need one
        for k, text in enumerate(texts):
            for at in np.flatnonzero(shared.may_reach(k, first, self.threshold)).tolist():
                representative = texts[first[at]]
                if likeness(text, representative, at_least=self.threshold) == 0.0:
                    continue
                if at not in matchers:
                    matchers[at] = SequenceMatcher(None, "", representative)
                matchers[at].set_seq1(text)
                if matchers[at].ratio() >= self.threshold:
                    key_of[text] = representative
                    break
            else:
                key_of[text] = text
                first.append(k)
        return key_of


@dataclass(frozen=True)
class Near:
    """Near-duplicates: any two texts of one state are alike, and none differs in a number or in a decisive word.

    The likeness is 2·L / (a + b) with L the longest common subsequence of two texts of a and b signs. States are grown
    by complete linkage: the two most alike join as long as *every* pair across them reaches the threshold. Ties are
    broken by the texts themselves, so neither the order of the batch nor how often a text occurs matters. The key is
    the first of a state's texts in alphabetical order.

    Attributes:
        threshold: likeness of any two texts of one state, in (0, 1].
        numbers: True lets texts be one state that differ in numbers. False keeps them apart, in digits of any script,
            in signs like ½ and 二, and in the words of English (`NUMBER_WORDS`).
        decisive: pattern of words that must be the same in the same order, whatever the likeness; "" for none.
    """

    threshold: float = 0.95
    numbers: bool = False
    decisive: str = (
        r"(?i)\b(?:no|not|never|none|nothing|without|cannot|\w+n['’]t|open|opened|closed|locked|unlocked|on|off|"
        r"true|false|left|right|north|south|east|west|up|down)\b"
    )

    def __post_init__(self) -> None:
        _check_threshold("near", self.threshold)
        try:
            re.compile(self.decisive)
        except re.error as problem:
            raise ConfigError(f"near: decisive cannot be read as a pattern: {problem}; give one or ''") from None

    def keys(self, text_S: Sequence[str], group_of_S: Sequence[int]) -> list[str]:
        """The first text, in alphabetical order, of each text's state."""
        return _by_group(text_S, group_of_S, self._of_group)

    def _of_group(self, texts: list[str]) -> dict[str, str]:
        apart: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for text in sorted(texts):
            apart[self._must_agree(text)].append(text)
        key_of: dict[str, str] = {}
        for alike in apart.values():
            for members in _complete_linkage(_pairs(alike, self.threshold), len(alike)):
                key_of.update((alike[k], alike[members[0]]) for k in members)
        return key_of

    def _must_agree(self, text: str) -> tuple[str, ...]:
        words = re.findall(self.decisive, text) if self.decisive else []
        out = [word if isinstance(word, str) else "".join(word) for word in words]
        if not self.numbers:
            out += _NUMBER.findall(text) + NUMBER_WORDS.findall(text)
            out += [sign for sign in text if sign.isnumeric() and not sign.isdecimal()]
        return tuple(word.lower() for word in out)


_NUMBER = re.compile(r"[-+−]?(?:0[xX][0-9a-fA-F]+|\d+(?:[.,:/]\d+)*)")
NUMBER_WORDS = re.compile(
    r"(?i)\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|"
    r"(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundred|thousand|million|billion|first|second|third|fourth|fifth|sixth|"
    r"seventh|eighth|ninth|tenth|eleventh|twelfth|[a-z]{3,5}te?enth|[a-z]{3,5}tieth|hundredth|half|quarter|dozen|once|twice)"
    r"(?:e?s)?\b"
)
"""English numbers as words."""


def likeness(a: str, b: str, *, at_least: float = 0.0) -> float:
    """2·L / (len(a) + len(b)), L the length of the longest common subsequence; 0 where below ``at_least``.

    An upper bound of ``SequenceMatcher.ratio()``, whose matching blocks are a common subsequence.
    """
    total = len(a) + len(b)
    if total == 0:
        return 1.0
    compiled = _rapidfuzz()
    if compiled is not None:
        found = float(compiled(a, b, score_cutoff=max(at_least - SLACK, 0.0)))  # it drops some that equal its cutoff
        return found if found >= at_least - ROUNDING else 0.0
    if 2.0 * min(len(a), len(b)) < (at_least - ROUNDING) * total:
        return 0.0
    found = 2.0 * common_subsequence(a, b) / total
    return found if found >= at_least - ROUNDING else 0.0


def common_subsequence(a: str, b: str) -> int:
    """Length of the longest common subsequence: one addition of an integer of len(a) bits for each sign of b."""
    place: dict[str, int] = defaultdict(int)
    for k, sign in enumerate(a):
        place[sign] |= 1 << k
    every = (1 << len(a)) - 1
    row = every
    for sign in b:
        hits = row & place.get(sign, 0)
        row = ((row + hits) | (row - hits)) & every
    return len(a) - row.bit_count()


@cache
def _rapidfuzz() -> Callable[..., float] | None:
    try:
        similarity: Callable[..., float] = importlib.import_module("rapidfuzz.distance.Indel").normalized_similarity
    except ImportError:
        return None
    return similarity


class _SharedSigns:
    """Upper bound of the likeness from how often each sign occurs, for one text against many at once."""

    BINS = 128

    def __init__(self, texts: Sequence[str]) -> None:
        counts = np.zeros((len(texts), self.BINS), dtype=np.int32)
        for k, text in enumerate(texts):
            signs = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
            counts[k] = np.bincount(signs % self.BINS, minlength=self.BINS)
        self.counts: Array = counts[:, counts.any(axis=0)]
        self.length: Array = np.array([len(text) for text in texts], dtype=np.int64)

    def may_reach(self, k: int, others: Sequence[int] | IntArray, threshold: float) -> BoolArray:
        """Which of the others can be as alike to text k as the threshold says."""
        at = np.asarray(others, dtype=np.int64)
        both = self.length[at] + self.length[k]
        may: BoolArray = 2.0 * np.minimum(self.length[at], self.length[k]) >= (threshold - ROUNDING) * both
        shared = np.minimum(self.counts[at[may]], self.counts[k]).sum(axis=1, dtype=np.int64)
        may[may] = 2.0 * shared >= (threshold - ROUNDING) * both[may]
        return may


def _pairs(texts: Sequence[str], threshold: float) -> list[tuple[float, int, int]]:
    """(likeness, i, j) for every pair i < j that reaches the threshold."""
    shared = _SharedSigns(texts)
    out = []
    for i in range(len(texts) - 1):
        rest = np.arange(i + 1, len(texts))
        for j in rest[shared.may_reach(i, rest, threshold)].tolist():
            found = likeness(texts[i], texts[j], at_least=threshold)
            if found > 0.0:
                out.append((round(found, 12), i, j))  # the same ties with and without rapidfuzz
    return out


def _complete_linkage(pairs: Sequence[tuple[float, int, int]], n: int) -> list[list[int]]:
    """Clusters in which every pair is in ``pairs``; the pair of clusters whose *least* alike members are most alike
    joins first, ties by the smallest members."""
    members: dict[int, list[int]] = {k: [k] for k in range(n)}
    least: dict[int, dict[int, float]] = defaultdict(dict)  # by smallest member, both ways
    heap = []
    for found, i, j in pairs:
        least[i][j] = least[j][i] = found
        heap.append((-found, i, j))
    heapq.heapify(heap)
    while heap:
        worst, i, j = heapq.heappop(heap)
        if i not in members or j not in members or least[i].get(j) != -worst:
            continue  # one of them has grown since
        members[i] = sorted(members[i] + members.pop(j))
        mine, theirs = least.pop(i), least.pop(j)
        for k in set(mine) | set(theirs):
            if k in members:
                least[k].pop(i, None)
                least[k].pop(j, None)
        for k in sorted(set(mine) & set(theirs) & set(members)):
            least[i][k] = least[k][i] = min(mine[k], theirs[k])
            heapq.heappush(heap, (-least[i][k], min(i, k), max(i, k)))
    return list(members.values())


def _by_group(
    text_S: Sequence[str], group_of_S: Sequence[int], keys: Callable[[list[str]], dict[str, str]]
) -> list[str]:
    """Apply a rule to the different texts of each group, in order of first appearance."""
    texts: dict[int, dict[str, None]] = defaultdict(dict)
    for group, text in zip(group_of_S, text_S, strict=True):
        texts[group][text] = None
    key_of = {group: keys(list(different)) for group, different in texts.items()}
    return [key_of[group][text] for group, text in zip(group_of_S, text_S, strict=True)]


def _check_threshold(who: str, threshold: float) -> None:
    if not 0.0 < threshold <= 1.0:
        raise ConfigError(f"{who}: threshold is {threshold}; give a number in (0, 1]")
