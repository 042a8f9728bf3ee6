"""State keys without what changes while the state does not: time stamps, ids, counters.

A rule names a pattern and what stands in its place. Rules are declared (`DECLARED`) or learned from rollouts
(`learn_rules`); either way `Normalised.report` says what was taken out, because a number may also be the state.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from apportion.data import Batch
from apportion.errors import ConfigError
from apportion.units.volatile_places import counters, differing, first_texts, pattern_after


@dataclass(frozen=True)
class Rule:
    """One kind of noise.

    Attributes:
        name: what it is called in reports.
        pattern: regular expression of Python's `re`; a group named ``keep`` survives in front of the mark.
        mark: text that takes the place.
    """

    name: str
    pattern: str
    mark: str = ""

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return _compile(self.pattern)

    def apply(self, text: str) -> str:
        """The text with every match replaced."""
        keeps = "keep" in self.compiled.groupindex
        return self.compiled.sub(lambda found: (found["keep"] if keeps else "") + self.mark, text)


@lru_cache(maxsize=256)
def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as problem:
        raise ConfigError(f"state rule: the pattern {pattern!r} cannot be read: {problem}") from None


DECLARED = (
    Rule("ansi", r"\x1b\[[0-9;?]*[ -/]*[@-~]"),
    Rule("uuid", r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "⟨uuid⟩"),
    Rule(
        "date",
        r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?)?(?!\w)",
        "⟨date⟩",
    ),
    Rule("time", r"(?<![\d:])\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?(?: ?[AaPp]\.?[Mm]\b\.?)?(?![\d:])", "⟨time⟩"),
    Rule("epoch", r"(?<![\w.])1\d{9}(?:\d{3}|\.\d+)?(?![\w.]*\d)", "⟨epoch⟩"),
    Rule("address", r"\b0x[0-9a-fA-F]{6,16}\b", "⟨address⟩"),
    Rule("hex", r"\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b|\b(?=[0-9A-F]*\d)(?=\d*[A-F])[0-9A-F]{8,}\b", "⟨hex⟩"),
    Rule(
        "id",
        r"(?P<keep>\b(?i:session|request|req|trace|span|run|job|correlation|transaction)"
        r"(?i:[ _-]?id)?[ \t]*[:=#]?[ \t]*)(?=[\w-]*\d)[\w-]+",
        "⟨id⟩",
    ),
    Rule(
        "counter",
        r"(?P<keep>\b(?i:step|turn|round|iteration|attempt)[ \t]*[:#]?[ \t]*)\d+(?:[ \t]*(?:of|/)[ \t]*\d+)?\b",
        "⟨n⟩",
    ),
    Rule("scratch path", r"/(?:tmp|var/tmp|var/folders|private/tmp)/[^\s'\"]+", "⟨path⟩"),
    Rule("spaces", r"\s+", " "),
)
"""Noise by its looks, applied in this order: terminal codes, UUIDs, dates with and without a time, times with seconds,
Unix times, memory addresses, hexadecimal strings from 8 signs on (with digits and letters), session and request ids,
step counters, scratch paths, and white space (a run of it is one space). Plain numbers, prices and hours like 10:30
are not noise by their looks."""


@dataclass(frozen=True)
class Stripped:
    """What one rule took out: matches, texts that had one, and up to three of the matches."""

    name: str
    matches: int
    texts: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class StripReport:
    """What normalising did to the states.

    Attributes:
        rules: the rules that matched, in order of application.
        states: different states before, counted inside groups. keys: after.
    """

    rules: tuple[Stripped, ...]
    states: int
    keys: int

    def lines(self) -> list[str]:
        """One sentence for each rule, and one for the total."""
        out = [
            f"{rule.name}: {rule.matches} in {rule.texts} texts, like {', '.join(map(repr, rule.examples))}"
            for rule in self.rules
        ]
        return [*out, f"{self.states} states became {self.keys}"]


@dataclass(frozen=True)
class Normalised:
    """Texts are one state if they are equal once the rules have been applied.

    Attributes:
        rules: `Rule` objects, or names of declared ones, applied in order. Default: all declared ones.

    Raises:
        ConfigError: an unknown name, or a pattern that cannot be read.
    """

    rules: Sequence[Rule | str] = DECLARED
    _rules: tuple[Rule, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        by_name = {rule.name: rule for rule in DECLARED}
        for rule in self.rules:
            if isinstance(rule, str) and rule not in by_name:
                raise ConfigError(f"no declared state rule named {rule!r}; there are {', '.join(by_name)}")
        found = tuple(by_name[rule] if isinstance(rule, str) else rule for rule in self.rules)
        for rule in found:
            _compile(rule.pattern)
        object.__setattr__(self, "_rules", found)

    def extended(self, rules: Iterable[Rule]) -> Normalised:
        """The same with further rules in front, so that they see the text as it was."""
        return Normalised((*rules, *self._rules))

    def key(self, text: str) -> str:
        """The text without what the rules describe."""
        for rule in self._rules:
            text = rule.apply(text)
        return text.strip()

    def keys(self, text_S: Sequence[str], group_of_S: Sequence[int]) -> list[str]:
        """One key for each text, see `StateKeys`."""
        key_of = {text: self.key(text) for text in dict.fromkeys(text_S)}
        return [key_of[text] for text in text_S]

    def report(self, text_S: Sequence[str], group_of_S: Sequence[int]) -> StripReport:
        """What the rules took out of these texts; white space is not counted."""
        matches: dict[str, int] = defaultdict(int)
        texts: dict[str, int] = defaultdict(int)
        examples: dict[str, dict[str, None]] = defaultdict(dict)
        for text in dict.fromkeys(text_S):
            for rule in self._rules:
                found = [] if rule.mark == " " else [hit[0] for hit in rule.compiled.finditer(text)]
                if found:
                    matches[rule.name] += len(found)
                    texts[rule.name] += 1
                    examples[rule.name].update(dict.fromkeys(found[:3]))
                text = rule.apply(text)
        before = len(set(zip(group_of_S, text_S, strict=True)))
        after = len(set(zip(group_of_S, self.keys(text_S, group_of_S), strict=True)))
        rules = tuple(Stripped(name, matches[name], texts[name], tuple(examples[name])[:3]) for name in matches)
        return StripReport(rules, before, after)


SHARE = 0.8
"""Share of the groups in which a place must differ at the start before it counts as noise."""


def learn_rules(batch: Batch) -> tuple[Rule, ...]:
    """Places in the texts that the rollouts themselves show to be noise.

    Two kinds of evidence, both by construction of the data and neither from returns:

    * All trajectories of a group start in one state. A word with a digit that differs between their first texts,
      which are equal otherwise, says nothing about the state: an id, a time stamp, a port.
    * A number that counts the steps of every trajectory that shows it, whatever happens in them: a step counter.

    A learned place is the word before it: "session 8f3a" teaches to drop the word with a digit after "session".

    Returns:
        Rules sorted by name, for `Normalised.extended`.
    """
    start = [differing(texts) for texts in first_texts(batch)]
    seen: dict[str, list[bool]] = defaultdict(list)
    for places in start:
        for word, differs in places.items():
            seen[word].append(differs)
    ids = {word for word, differs in seen.items() if sum(differs) and sum(differs) >= SHARE * len(differs)}
    rules = [Rule(f"learned after {word!r}", pattern_after(word), "⟨id⟩") for word in sorted(ids)]
    rules += [Rule(f"counter after {word!r}", pattern_after(word), "⟨n⟩") for word in sorted(counters(batch) - ids)]
    return tuple(rules)
