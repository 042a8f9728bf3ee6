"""Text environments behind one Gymnasium-shaped protocol with snapshots: see `protocol`.

    env = make("crafttree", budget=4)
    text, info = env.reset(seed=0)

`conformance` holds the checks that every environment passes; run them on yours.
"""

from apportion.envs.base import BaseEnv
from apportion.envs.protocol import DETERMINISTIC, EnvSpec, Snapshot, TextEnv
from apportion.envs.registry import make, names, options, register
from apportion.envs.table import Enumerable, Table, tabulate
from apportion.envs.tabular import TabularEnv

__all__ = [
    "DETERMINISTIC",
    "BaseEnv",
    "Enumerable",
    "EnvSpec",
    "Snapshot",
    "Table",
    "TabularEnv",
    "TextEnv",
    "make",
    "names",
    "options",
    "register",
    "tabulate",
]
