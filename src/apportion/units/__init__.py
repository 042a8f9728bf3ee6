"""Room 2, *cut*: which decisions are credited. Each cut is a partition of the sampled tokens."""

from collections.abc import Callable

from apportion.units.cut import cut
from apportion.units.cuts import by_agent, by_episode, by_step, by_token, by_turn
from apportion.units.segments import by_segment
from apportion.units.similar import Blocks, Near
from apportion.units.state_keys import STATES, StateKey, StateKeys, StateRule, state_rule
from apportion.units.units import COLUMNS, NAMED, Units
from apportion.units.volatile import Normalised, Rule, learn_rules

CUTS: dict[str, Callable[..., Units]] = {
    "episode": by_episode,
    "turn": by_turn,
    "step": by_step,
    "segment": by_segment,
    "token": by_token,
    "agent": by_agent,
}
"""Every built-in cut by the name of its level."""

__all__ = [
    "COLUMNS",
    "CUTS",
    "NAMED",
    "STATES",
    "Blocks",
    "Near",
    "Normalised",
    "Rule",
    "StateKey",
    "StateKeys",
    "StateRule",
    "Units",
    "by_agent",
    "by_episode",
    "by_segment",
    "by_step",
    "by_token",
    "by_turn",
    "cut",
    "learn_rules",
    "state_rule",
]
