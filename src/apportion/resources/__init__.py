"""The I/O behind the asks: who answers, what it may cost, what is kept, and what happens when something fails."""

from apportion.resources.asker import Asker
from apportion.resources.base import BaseResource
from apportion.resources.budget import Budget
from apportion.resources.cache import Cache, Speed
from apportion.resources.protocol import Load, Refusal, Reply, Request, Resource, Trouble
from apportion.resources.quote import Quote, Ruler, quote
from apportion.resources.runner import OVER_BUDGET, Retry, resource_for, run
from apportion.resources.summary import Progress, Summary
from apportion.resources.table import Table

__all__ = [
    "OVER_BUDGET",
    "Asker",
    "BaseResource",
    "Budget",
    "Cache",
    "Load",
    "Progress",
    "Quote",
    "Refusal",
    "Reply",
    "Request",
    "Resource",
    "Retry",
    "Ruler",
    "Speed",
    "Summary",
    "Table",
    "Trouble",
    "quote",
    "resource_for",
    "run",
]
