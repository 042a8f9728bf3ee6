"""apportion: which decision deserves how much of the outcome.

batch  = ap.read("rollouts.jsonl")              rollouts, checked
units  = ap.by_step(batch)                      what is credited
credit = ap.assign("gigpo", units, gamma=0.95)  one number per unit
tokens = credit.to_tokens()                     on exactly the tokens that were sampled
"""

from apportion.assign import assign, remake
from apportion.credit import Cost, Credit, Padded, TokenAdvantages
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ApportionError, ConfigError, DataError, FormatError, MissingExtra, UnknownName
from apportion.methods import register
from apportion.units import Units, by_agent, by_episode, by_segment, by_step, by_token, by_turn

__version__ = "0.1.0"

__all__ = [
    "ApportionError",
    "Batch",
    "ConfigError",
    "Cost",
    "Credit",
    "DataError",
    "FormatError",
    "MissingExtra",
    "Padded",
    "Step",
    "TokenAdvantages",
    "Trajectory",
    "Units",
    "UnknownName",
    "assign",
    "by_agent",
    "by_episode",
    "by_segment",
    "by_step",
    "by_token",
    "by_turn",
    "register",
    "remake",
]
