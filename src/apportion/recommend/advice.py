"""What comes out: for each method whether it fits, by which rule, on what evidence, at what price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "apportion.recommend/1"


@dataclass(frozen=True, slots=True)
class Option:
    """One method (or transform).

    Attributes:
        name: of the registry. kind: "method" or "transform".
        fits: the rollouts and what you have are enough for it, and the budget too.
        rule: id of the guide's rule that decided. question: of the guide. why: in one sentence, for or against.
        evidence: the conditions of the rule with what the rollouts say.
        source: of the rule.
        cautions: what to mind here.
        cost_class: "free", "extra passes", "extra rollouts", "judge calls", or "training" of a further model.
        cost: what it would ask for, with the cut ("unit") by which that is counted; None where it asks nobody, or where
            that cannot be said.
    """

    name: str
    kind: str
    fits: bool
    rule: str
    question: int
    why: str
    evidence: tuple[str, ...]
    source: str
    cautions: tuple[str, ...] = ()
    cost_class: str = "free"
    cost: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "fits": self.fits,
            "rule": self.rule,
            "question": self.question,
            "why": self.why,
            "evidence": list(self.evidence),
            "source": self.source,
            "cautions": list(self.cautions),
            "cost_class": self.cost_class,
            "cost": None if self.cost is None else dict(self.cost),
        }


@dataclass(frozen=True, slots=True)
class Advice:
    """Every method of the registry, the best answer of the guide first.

    Attributes:
        options: methods that fit, in the order of the guide; then those that do not, likewise.
        elsewhere: methods without an entry here that the guide names for these rollouts, with the rule.
        facts: what was asked of the rollouts.
    """

    options: tuple[Option, ...]
    elsewhere: tuple[Mapping[str, str], ...]
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def best(self) -> Option | None:
        """The first method that fits; None where none does."""
        return next((option for option in self.options if option.fits and option.kind == "method"), None)

    def of(self, name: str) -> Option:
        """What is said of one method.

        Raises:
            KeyError: it is not in the registry, or is a plug-in's, of which the guide knows nothing.
        """
        return {option.name: option for option in self.options}[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, versioned."""
        best = self.best
        return {
            "schema": SCHEMA,
            "best": None if best is None else best.name,
            "options": [option.to_dict() for option in self.options],
            "elsewhere": [dict(row) for row in self.elsewhere],
            "facts": dict(self.facts),
        }
