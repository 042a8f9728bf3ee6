"""Which method fits these rollouts, and why: the decision guide as data, evaluated on the rollouts at hand."""

from apportion.recommend.advice import SCHEMA, Advice, Option
from apportion.recommend.facts import FACTS, RESOURCES, facts_of
from apportion.recommend.front import recommend
from apportion.recommend.guide import Caution, Condition, Guide, Rule, guide

__all__ = [
    "FACTS",
    "RESOURCES",
    "SCHEMA",
    "Advice",
    "Caution",
    "Condition",
    "Guide",
    "Option",
    "Rule",
    "facts_of",
    "guide",
    "recommend",
]
