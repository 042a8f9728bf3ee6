"""What `register` is told of a method, checked before anybody calls it: a typo in it is said where it was made."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from apportion.asks import KINDS, Ask
from apportion.errors import ConfigError
from apportion.methods.spec import LAWS, LEVELS
from apportion.units import COLUMNS
from apportion.units.units import BY_NAME

KIND_NAMES = ("method", "transform")
NEEDS = ("policy", "reference", "reward_model", "value_model", "judge")
"""Who can be asked, see `apportion.asks.asked_of`."""


def check_declaration(
    name: str,
    *,
    kind: str,
    unit: str,
    units: Sequence[str],
    reads: Sequence[str],
    needs: Sequence[str],
    holds: Sequence[str],
    reads_with: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Names that exist, in tuples.

    Raises:
        ConfigError: the first that does not, with the nearest that does.
    """
    if reads_with is not None and not isinstance(reads_with, Mapping):
        raise ConfigError(f"{name}: reads_with is {reads_with!r}; give a dict from a parameter to a tuple of columns")
    besides = {f"reads_with[{key!r}]": columns for key, columns in (reads_with or {}).items()}
    for what, given in {"units": units, "reads": reads, "needs": needs, "holds": holds, **besides}.items():
        if isinstance(given, str):
            raise ConfigError(f"{name}: {what} is the text {given!r}; give a tuple, ({given!r},)")
    _known(name, "kind", (kind,), KIND_NAMES)
    _known(name, "unit", (unit,), LEVELS)
    _known(name, "law", holds, LAWS)
    _known(name, "resource", needs, NEEDS)
    if units and unit not in units:  # names of cuts of one's own may stand beside it
        raise ConfigError(f"{name}: it is made for {unit!r} and accepts {', '.join(units)}; add unit= or units=")
    forms = tuple(f"{form}:NAME" for form in BY_NAME)
    every = [read for columns in (reads, *besides.values()) for read in columns]
    named = [read for read in every if not (read.partition(":")[0] in BY_NAME and read.partition(":")[2])]
    _known(name, "unit column", named, COLUMNS, forms)


def check_takes(name: str, function: Callable[..., Any], *, kind: str, asks: bool) -> None:
    """What a method is called with is what it takes.

    Raises:
        ConfigError: it takes less, or more that is not keyword-only.
    """
    wants = ("credit" if kind == "transform" else "units", *(("answers",) if asks else ()))
    parameters = list(inspect.signature(function).parameters.values())
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(plain) < len(wants):
        why = ", because it has a plan" if asks else ""
        raise ConfigError(f"{name}: a {kind} is called with ({', '.join(wants)}){why}; take {wants[len(plain)]!r}")
    for parameter in parameters[len(wants) :]:
        if parameter.kind is not parameter.KEYWORD_ONLY:
            raise ConfigError(f"{name}: parameter {parameter.name!r} must be keyword-only; put a * before it")


def check_plan_takes(name: str, takes: Iterable[inspect.Parameter], defaults: Mapping[str, Any]) -> None:
    """A plan takes parameters of its method, and has no default of its own.

    Raises:
        ConfigError: another name, or another default than the method's.
    """
    for parameter in takes:
        if parameter.name not in defaults:
            raise ConfigError(f"{name}: its plan takes {parameter.name!r}, which the method does not; name them alike")
        stands = defaults[parameter.name]
        if parameter.default is not parameter.empty and repr(parameter.default) != repr(stands):
            raise ConfigError(
                f"{name}: {parameter.name} is {stands!r} in the method and {parameter.default!r} in its plan; "
                "leave the plan's default out, it is given the method's"
            )


def asks_of(name: str, given: Any) -> Sequence[Ask]:
    """What a plan returned, if it is a list of asks.

    Raises:
        ConfigError: it is something else.
    """
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError(f"{name}: its plan returned a {type(given).__name__}; return a list of asks")
    if odd := next((entry for entry in given if type(entry) not in KINDS), None):
        kinds = ", ".join(kind.__name__ for kind in KINDS)
        raise ConfigError(f"{name}: its plan lists a {type(odd).__name__}; list asks of apportion.asks: {kinds}")
    return given


def _known(name: str, what: str, given: Iterable[str], known: Collection[str], more: tuple[str, ...] = ()) -> None:
    for entry in given:
        if entry not in known:
            near = difflib.get_close_matches(str(entry), known, 1, cutoff=0.75)  # outcome_N is no outcome_parts
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join((*known, *more))}"
            raise ConfigError(f"{name}: no {what} named {entry!r}; {hint}")
