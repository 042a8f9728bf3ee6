"""The front door: `assign`, composition of methods, re-making a credit from its record."""

from apportion.assign.assign import assign, cost, remake
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
    "beyond_group",
    "check_expression",
    "check_level",
    "cost",
    "parse",
    "remake",
    "required_cut",
    "required_needs",
    "whom_asks",
]
