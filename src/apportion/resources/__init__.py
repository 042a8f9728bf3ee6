"""The I/O behind the asks: who answers, what it may cost, what is kept, and what happens when something fails.

What spends (the runner and its parts) is imported with the package; who is asked is imported when first named.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from apportion.resources.asker import Asker
from apportion.resources.base import BaseResource
from apportion.resources.budget import Budget
from apportion.resources.cache import Cache, Speed
from apportion.resources.protocol import Load, Refusal, Reply, Request, Resource, Trouble
from apportion.resources.quote import Quote, Ruler, quote
from apportion.resources.runner import OVER_BUDGET, Retry, resource_for, run
from apportion.resources.summary import Progress, Summary
from apportion.resources.table import Table

if TYPE_CHECKING:
    from apportion.resources.env import EnvResource
    from apportion.resources.env_policy import Act, EnvPolicy, FunctionPolicy, Past, Scene, TextAgent
    from apportion.resources.forks import attach, branch, fork
    from apportion.resources.growth import grow_tree
    from apportion.resources.hf_policy import HFPolicy
    from apportion.resources.hf_reward import HFReward
    from apportion.resources.judge import JudgeResource
    from apportion.resources.judge_callable import JudgeCallable
    from apportion.resources.judge_options import judge_from_options, judge_of
    from apportion.resources.judge_price import Completion
    from apportion.resources.judge_server import JudgeServer
    from apportion.resources.judge_template import load_template, templates
    from apportion.resources.openai import OpenAIServer

_LATER = {
    "EnvResource": "apportion.resources.env",
    "Act": "apportion.resources.env_policy",
    "EnvPolicy": "apportion.resources.env_policy",
    "FunctionPolicy": "apportion.resources.env_policy",
    "Past": "apportion.resources.env_policy",
    "Scene": "apportion.resources.env_policy",
    "TextAgent": "apportion.resources.env_policy",
    "attach": "apportion.resources.forks",
    "branch": "apportion.resources.forks",
    "fork": "apportion.resources.forks",
    "grow_tree": "apportion.resources.growth",
    "HFPolicy": "apportion.resources.hf_policy",
    "HFReward": "apportion.resources.hf_reward",
    "Completion": "apportion.resources.judge_price",
    "JudgeResource": "apportion.resources.judge",
    "JudgeCallable": "apportion.resources.judge_callable",
    "judge_from_options": "apportion.resources.judge_options",
    "judge_of": "apportion.resources.judge_options",
    "JudgeServer": "apportion.resources.judge_server",
    "load_template": "apportion.resources.judge_template",
    "templates": "apportion.resources.judge_template",
    "OpenAIServer": "apportion.resources.openai",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return value


__all__ = [
    "OVER_BUDGET",
    "Act",
    "Asker",
    "BaseResource",
    "Budget",
    "Cache",
    "Completion",
    "EnvPolicy",
    "EnvResource",
    "FunctionPolicy",
    "HFPolicy",
    "HFReward",
    "JudgeCallable",
    "JudgeResource",
    "JudgeServer",
    "Load",
    "OpenAIServer",
    "Past",
    "Progress",
    "Quote",
    "Refusal",
    "Reply",
    "Request",
    "Resource",
    "Retry",
    "Ruler",
    "Scene",
    "Speed",
    "Summary",
    "Table",
    "TextAgent",
    "Trouble",
    "attach",
    "branch",
    "fork",
    "grow_tree",
    "judge_from_options",
    "judge_of",
    "load_template",
    "quote",
    "resource_for",
    "run",
    "templates",
]
