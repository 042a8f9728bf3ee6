"""The front door: `assign`, composition of methods, re-making a credit from its record."""

from apportion.assign.assign import assign, cost, remake
from apportion.assign.carry import assign_carrying, news_and_credit, remembers
from apportion.assign.checked import (
    beyond_group,
    check_expression,
    check_level,
    required_cut,
    required_needs,
    whom_asks,
)
from apportion.assign.expression import parse

__all__ = [
    "assign",
    "assign_carrying",
    "beyond_group",
    "check_expression",
    "check_level",
    "cost",
    "news_and_credit",
    "parse",
    "remake",
    "remembers",
    "required_cut",
    "required_needs",
    "whom_asks",
]
