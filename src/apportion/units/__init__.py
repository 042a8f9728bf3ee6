"""Room 2, *cut*: which decisions are credited. Each cut is a partition of the sampled tokens."""

from collections.abc import Callable

from apportion.units.cut import cut
from apportion.units.cuts import by_agent, by_episode, by_step, by_token, by_turn
from apportion.units.pieces import token_texts
from apportion.units.predicted import with_batch
from apportion.units.process import has_process_rewards, process_rewards, verdicts
from apportion.units.segments import by_segment
from apportion.units.similar import Blocks, Near
from apportion.units.state_keys import STATES, StateKey, StateKeys, StateRule, state_rule
from apportion.units.trees import Leaves, PrefixTree, by_tree, leaves, prefix_tree, sum_below
from apportion.units.units import COLUMNS, NAMED, Units
from apportion.units.volatile import Normalised, Rule, learn_rules

CUTS: dict[str, Callable[..., Units]] = {
    "episode": by_episode,
    "turn": by_turn,
    "step": by_step,
    "segment": by_segment,
    "token": by_token,
    "agent": by_agent,
    "tree": by_tree,
}
"""Every built-in cut by the name of its level."""

__all__ = [
    "COLUMNS",
    "CUTS",
    "NAMED",
    "STATES",
    "Blocks",
    "Leaves",
    "Near",
    "Normalised",
    "PrefixTree",
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
    "by_tree",
    "by_turn",
    "cut",
    "has_process_rewards",
    "learn_rules",
    "leaves",
    "prefix_tree",
    "process_rewards",
    "state_rule",
    "sum_below",
    "token_texts",
    "verdicts",
    "with_batch",
]
