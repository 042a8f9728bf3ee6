"""Options that take no value show no type in a command's help: ``--json <bool>`` would ask for one."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command whose flags show no type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options and arguments, that of the help among them."""
        return _plain(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands whose flags show no type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options and arguments, that of the help among them."""
        return _plain(super().get_params(ctx))


def _plain(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params
