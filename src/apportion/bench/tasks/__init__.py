"""Small text games whose values, advantages and policy gradients are known exactly, by name.

    table = task("crafttree").table        # see apportion.bench.exact for what can be asked of it

To add one: a file in this folder with `@register_task("name", ...)` on a function that makes the rules
(`apportion.envs.Enumerable`) from keyword options with defaults.
"""

from apportion.bench.tasks.registry import Task, register_task, task, task_names

__all__ = ["Task", "register_task", "task", "task_names"]
