"""Every error apportion raises on purpose.

One base class, and children that are also the standard error they replace, so that
`except ValueError` keeps working. A message is one sentence: where, what, why, what to do.
To add one: subclass the base *and* a standard error, and document when it is raised.
"""

from __future__ import annotations

from collections.abc import Mapping


class ApportionError(Exception):
    """Base of every error raised on purpose."""


class DataError(ApportionError, ValueError):
    """Rollouts, units or credit break a precondition."""


class FormatError(DataError):
    """A file cannot be read: names the file, the line and the reason."""


class ConfigError(ApportionError, ValueError):
    """A parameter, an expression or a command is not usable as given."""


class UnknownName(ConfigError, KeyError):
    """No method, environment or loss of that name; suggests the nearest."""

    def __str__(self) -> str:  # KeyError would print the repr of the sentence
        return str(self.args[0]) if self.args else ""


class MissingExtra(ApportionError, ImportError):
    """An optional package is needed; names the feature and the install line."""


class EnvError(ApportionError, RuntimeError):
    """An environment was used out of order or could not be restored."""


class CheckpointError(ApportionError, RuntimeError):
    """A checkpoint is missing, damaged or of another run."""


class ResourceError(ApportionError, RuntimeError):
    """A model, server, judge or environment that was asked cannot answer at all."""


class BudgetError(ApportionError, ValueError):
    """What would be asked costs more than was allowed; raised before anything is asked."""


class StopRun(ApportionError, RuntimeError):
    """Raised by who listens to a training run, to end it; the sentence says why.

    Attributes:
        numbers: for the log of the run, by name.
    """

    def __init__(self, reason: str, numbers: Mapping[str, float] | None = None) -> None:
        super().__init__(reason)
        self.numbers = dict(numbers or {})


def missing_extra(feature: str, package: str, extra: str, *, instead: str = "") -> MissingExtra:
    """The one sentence for an absent optional package; ``instead`` is what can be done without it."""
    return MissingExtra(
        f"{feature} needs the package {package!r}, which is not installed; run `pip install 'apportion[{extra}]'`"
        + (f", or {instead}" if instead else "")
    )


def other_version(found: object, ours: str, otherwise: str) -> str:
    """The end of the sentence for a file whose schema is not read.

    Args:
        found: what the file says, as "apportion.checkpoint/2". ours: the newest that is read, "apportion.checkpoint/1".
        otherwise: what to do where it is of no later version of ours.
    """
    name, _, version = str(found).rpartition("/")
    ours_name, _, newest = ours.rpartition("/")
    if name == ours_name and version.isdecimal() and int(version) > int(newest):
        return f"written as {found!r} by a newer apportion, and this one reads up to {ours!r}; update apportion"
    return f"written as {str(found)[:80]!r}, and this apportion reads {ours!r}; {otherwise}"
