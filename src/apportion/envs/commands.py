"""Environments with a list of commands, played as a choice among them or as free text.

An author writes `commands` in place of `actions`. With ``mode="choice"`` the list is what `actions()` returns;
with ``mode="text"`` any text may be tried, `actions()` is None, and `commands()` still tells what would be taken.
"""

from __future__ import annotations

from abc import abstractmethod

from apportion.envs.base import BaseEnv
from apportion.errors import ConfigError

MODES = ("choice", "text")


def is_text(name: str, mode: str) -> bool:
    """Whether this mode is free text.

    Raises:
        ConfigError: neither "choice" nor "text".
    """
    if mode not in MODES:
        raise ConfigError(f"{name}: mode is {mode!r}; it takes {' or '.join(MODES)}")
    return mode == "text"


class CommandEnv(BaseEnv):
    """A text environment whose valid commands can be listed."""

    @abstractmethod
    def commands(self) -> tuple[str, ...]:
        """What is admissible now, in a fixed order and without doubles; in both modes."""

    def actions(self) -> tuple[str, ...] | None:
        """The admissible commands; None in free text."""
        self._require_start("actions")
        return None if self._spec.free_text else self.commands()

    def _accepts(self, action: str) -> bool:
        return action in self.commands()
