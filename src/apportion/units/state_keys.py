"""State keys: which texts count as one state when returns are compared.

    exact        equal texts (the default)
    normalised   equal after declared time stamps, ids and counters are taken out, see `Normalised`
    learned      the same, and what the rollouts show to be noise, see `learn_rules`
    near         near-duplicates without a difference in a number or a negation, see `Near`
    blocks       the greedy block matching of the GiGPO authors' code, see `Blocks`

Keys are compared inside one group only. A key is a text, so it can be read, stored and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from apportion.data import Batch
from apportion.errors import ConfigError, DataError
from apportion.units.similar import Blocks, Near
from apportion.units.volatile import Normalised, learn_rules

StateKey = Callable[[str], str]
"""Turns the text of one state into the key that states are compared by."""


@runtime_checkable
class StateKeys(Protocol):
    """Turns all texts at once into keys, for rules that must see what else there is in a group."""

    def keys(self, text_S: Sequence[str], group_of_S: Sequence[int]) -> list[str]:
        """One key for each text; only equal keys inside one group are one state."""
        ...


StateRule = StateKey | StateKeys | str | None
"""What the cuts accept as ``state``: a function of one text, an object with ``keys``, a name, or None for "exact"."""

DIGEST = re.compile(r"ids:[0-9a-f]{32}\Z")
"""The key of a state of which only token ids are known, see `Batch.state_S`."""
STATES = ("exact", "normalised", "learned", "near", "blocks")
"""Names that stand for a rule."""


def state_rule(state: StateRule, batch: Batch) -> StateKey | StateKeys | None:
    """The rule behind a name; anything else unchanged. "learned" looks at the whole batch.

    Raises:
        ConfigError: an unknown name, or something that is no rule.
    """
    if state is None or state == "exact":
        return None
    if state == "normalised":
        return Normalised()
    if state == "learned":
        return Normalised().extended(learn_rules(batch))
    if state == "near":
        return Near()
    if state == "blocks":
        return Blocks()
    if isinstance(state, str):
        raise ConfigError(f"no state rule named {state!r}; there are {', '.join(STATES)}")
    if not isinstance(state, StateKeys) and not callable(state):
        raise ConfigError(
            f"state is a {type(state).__name__}; give a name, a function of one text, or a StateKeys object"
        )
    return state


def state_label(state: StateRule) -> str:
    """How a rule stands in the record of a cut."""
    return state if isinstance(state, str) else getattr(state, "__name__", repr(state))


def state_keys(text_S: Sequence[str], group_of_S: Sequence[int], rule: StateKey | StateKeys | None) -> list[str]:
    """The key of each text.

    Raises:
        DataError: a rule that gives something else than one text for each text.
    """
    if rule is None:
        return list(text_S)
    if isinstance(rule, StateKeys):
        keys = rule.keys(text_S, group_of_S)
        if len(keys) != len(text_S):
            raise DataError(f"{state_label(rule)} gave {len(keys)} keys for {len(text_S)} states; one each")
        if isinstance(rule, Normalised):  # a digest of token ids looks like noise and is all that tells states apart
            return [text if DIGEST.match(text) else key for text, key in zip(text_S, keys, strict=True)]
        return list(keys)
    key_of = {text: rule(text) for text in dict.fromkeys(text_S)}
    return [key_of[text] for text in text_S]
