"""What each registered environment says about itself, as rows of a table: for the command line and the docs."""

from __future__ import annotations

from dataclasses import dataclass

from apportion.envs.commands import MODES
from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import about, extra_of, make, names, options
from apportion.errors import MissingExtra


@dataclass(frozen=True, slots=True)
class Facts:
    """An environment with its default options.

    name     for `make` and ``apportion train --env``
    about    one sentence
    extra    what to install; "" = nothing
    modes    how it is played: "choice", "text", or both by the option ``mode``
    splits   whether the option ``split`` keeps tasks apart
    options  names of the options with their defaults
    spec     what it says of itself; None where its extra is not installed
    """

    name: str
    about: str
    extra: str
    modes: tuple[str, ...]
    splits: bool
    options: dict[str, object]
    spec: EnvSpec | None


def facts(name: str) -> Facts:
    """The row of one environment.

    Raises:
        UnknownName: no environment of that name.
    """
    takes = options(name)
    try:
        spec = make(name).spec
    except MissingExtra:
        spec = None
    modes = MODES if "mode" in takes else ("text" if spec is not None and spec.free_text else "choice",)
    return Facts(name, about(name), extra_of(name), modes, "split" in takes, takes, spec)


def all_facts() -> tuple[Facts, ...]:
    """Every registered environment, by name; those of other packages have a "/" in it."""
    return tuple(facts(name) for name in names())


def cells(row: Facts) -> list[str]:
    """The row as words: name, what it is, whether the observation is the state, modes, splits, steps, extra."""
    state = noise = steps = "?"
    if row.spec is not None:
        state = "yes" if row.spec.full_state else "no"
        noise = "none" if row.spec.noise == DETERMINISTIC else "yes"
        steps = str(row.spec.max_steps)
    splits = "yes" if row.splits else ""
    return [row.name, row.about.rstrip("."), state, noise, ", ".join(row.modes), splits, steps, row.extra]


COLUMNS = ["environment", "what it is", "full state", "noise", "modes", "splits", "steps", "extra"]


def markdown_table(rows: tuple[Facts, ...]) -> str:
    """The table of the docs."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *(cells(row) for row in rows)]
    lines[2:] = [[f"`{name}`", *rest] for name, *rest in lines[2:]]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
