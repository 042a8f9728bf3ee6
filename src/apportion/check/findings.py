"""`Finding` and `Findings`: what is wrong, how badly, with which evidence, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from apportion.errors import ConfigError

SCHEMA = "apportion.check/1"
SEVERITIES = ("error", "warning", "info")
"""Worst first. error: no credit, or wrong credit. warning: part of the data is lost or doubtful. info: good to know."""

SHOWN = 5
"""Places that a finding names; the rest are only counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a reader of the rollouts, or of the credit, should know.

    Attributes:
        code: stable name of the kind of finding.
        severity: one of `SEVERITIES`.
        message: one sentence: what, how much, why it matters.
        remedy: what to do.
        evidence: the numbers that convict, JSON values. Its ``share`` (0 to 1) says how much of the data is touched.
        where: names of the first few trajectories or groups.

    Raises:
        ConfigError: another severity.
    """

    code: str
    severity: str
    message: str
    remedy: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    where: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            known = ", ".join(SEVERITIES)
            raise ConfigError(f"finding {self.code!r}: no severity named {self.severity!r}; there are {known}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "remedy": self.remedy,
            "evidence": _finite(dict(self.evidence)),
            "where": list(self.where),
        }


class Findings(tuple[Finding, ...]):
    """All findings, worst first: by severity, then by the share of the data they touch."""

    subject: Mapping[str, int]
    """How much was looked at: counts by name."""
    measures: Mapping[str, Mapping[str, Any]]
    """Numbers that are worth a look whether or not something is wrong, by the name of the measure."""

    def __new__(
        cls,
        findings: Iterable[Finding],
        subject: Mapping[str, int],
        measures: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Findings:
        out = super().__new__(cls, sorted(findings, key=_rank))
        out.subject = dict(subject)
        out.measures = dict(measures or {})
        return out

    @property
    def worst(self) -> str | None:
        """Severity of the first finding; None where there is none."""
        return self[0].severity if self else None

    @property
    def exit_code(self) -> int:
        """1 when a finding is a warning or worse, else 0."""
        return int(self.worst in ("error", "warning"))

    def of(self, code: str) -> tuple[Finding, ...]:
        """Findings of one kind."""
        return tuple(finding for finding in self if finding.code == code)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, versioned."""
        return {
            "schema": SCHEMA,
            "subject": dict(self.subject),
            "counts": {severity: sum(f.severity == severity for f in self) for severity in SEVERITIES},
            "exit_code": self.exit_code,
            "findings": [finding.to_dict() for finding in self],
            "measures": {name: _finite(dict(numbers)) for name, numbers in self.measures.items()},
        }


def _rank(finding: Finding) -> tuple[int, float, str]:
    return SEVERITIES.index(finding.severity), -float(finding.evidence.get("share", 0.0)), finding.code


def _finite(value: Any) -> Any:
    """The value without NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def places(names: Iterable[str]) -> tuple[str, ...]:
    """The first few names."""
    out: list[str] = []
    for name in names:
        if len(out) == SHOWN:
            break
        out.append(name)
    return tuple(out)


def named(names: Iterable[str], total: int) -> str:
    """``'a', 'b' and 3 more``, for a sentence."""
    shown = places(names)
    more = total - len(shown)
    return ", ".join(repr(name) for name in shown) + (f" and {more} more" if more > 0 else "")


def count(n: int, one: str, many: str = "") -> str:
    """``1 group``, ``2 groups``."""
    return f"{n} {one if n == 1 else many or one + 's'}"


Yields = Iterator[Finding]
