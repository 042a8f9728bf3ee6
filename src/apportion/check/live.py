"""Checks inside a running training: cheap findings on every batch, counts for its log, and a reason to stop it.

train(config, on_credit=LiveCheck())                                     the embedded trainer
Trainer = with_credit(GRPOTrainer, "gigpo", on_credit=LiveCheck())       TRL
+algorithm.apportion.on_credit=apportion.check:LiveCheck                 verl
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apportion.check.findings import SEVERITIES, Finding, Findings
from apportion.check.registry import checks, run
from apportion.credit import Credit
from apportion.errors import ConfigError, StopRun

STOP: Mapping[str, float] = {
    "repetition": 0.5,
    "pseudo-positive": 0.25,
    "clip-rate": 0.9,
    "empty-response": 0.5,
    "constant-group": 1.0,
    "credit-zero": 1.0,
}
"""Findings that end a run, and from which share of the data on."""
PATIENCE = 3
"""Batches in a row that a finding has to be there before it ends a run."""


class LiveCheck:
    """Looks at every batch that a run credits; call it with the credit and the step, or hand it over as ``on_credit``.

    Args:
        stop: finding → share of the data from which on it ends the run, added to those of `STOP` (a share above 1 takes
            one off). None: never end a run, only count.
        patience: batches in a row on which that must be so.
        from_start: a finding counts from the first batch on. False: only once a batch has been without it, so that a
            run that begins badly, as untrained policies do, may get better.
        every: look only at steps that this number divides.

    Attributes:
        findings: of the newest batch looked at.

    Raises:
        ConfigError: a name that no cheap check has, or a number out of range.
    """

    def __init__(
        self,
        *,
        stop: Mapping[str, float] | None = STOP,
        patience: int = PATIENCE,
        from_start: bool = False,
        every: int = 1,
    ) -> None:
        known = {entry.name for entry in checks(cheap=True)}
        for name in stop or {}:
            if name.partition("/")[0] not in known:
                raise ConfigError(
                    f"LiveCheck: no check named {name!r} is cheap enough for a live run; there are "
                    f"{', '.join(sorted(known))}"
                )
        for field, value in (("patience", patience), ("every", every)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"LiveCheck: {field} is {value!r}; give a whole number from 1 on")
        self.stop = {} if stop is None else {**STOP, **stop}
        if any(not share >= 0 for share in self.stop.values()):
            raise ConfigError("LiveCheck: shares in stop lie between 0 and 1; above 1 takes a rule off")
        self.patience, self.every, self.from_start = patience, every, from_start
        self.findings = Findings([], {})
        self._streak = dict.fromkeys(self.stop, 0)
        self._armed = set(self.stop) if from_start else set()

    def __call__(self, credit: Credit, step: int) -> dict[str, float]:
        """Check one batch.

        Returns:
            Numbers for the log: findings by severity, and the share that each finding touches, 0 for those that could
            end the run and are not there.

        Raises:
            StopRun: with the reason, once a finding of ``stop`` has been there on ``patience`` batches in a row.
        """
        if step % self.every:
            return {}
        found = [*run("batch", credit.units.batch, cheap=True), *run("credit", credit, cheap=True)]
        if credit.units.level == "step":
            found += run("units", credit.units, cheap=True)
        self.findings = Findings(found, {"trajectories": len(credit.units.batch)})
        numbers = {f"check/{severity}s": float(sum(f.severity == severity for f in found)) for severity in SEVERITIES}
        numbers |= {f"check/{code}": 0.0 for code in self.stop}
        numbers |= {f"check/{finding.code}": _share(finding) for finding in found}
        for code, least in self.stop.items():
            finding = next((f for f in found if f.code == code), None)
            there = finding is not None and _share(finding) >= least
            if not there:
                self._armed.add(code)
            self._streak[code] = self._streak[code] + 1 if there and code in self._armed else 0
            if finding is not None and self._streak[code] >= self.patience:
                self._streak[code] = 0  # whoever goes on all the same is told again after as many batches
                raise StopRun(self._reason(finding, step), numbers)
        return numbers

    def state(self) -> dict[str, Any]:
        """All that it remembers, as JSON values; a trainer keeps it with its checkpoints."""
        return {"streak": dict(self._streak), "armed": sorted(self._armed)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Remember what `state` gave, and nothing that came since."""
        streak = {code: int(count) for code, count in state["streak"].items() if code in self.stop}
        self._streak = dict.fromkeys(self.stop, 0) | streak
        self._armed = set(self.stop) if self.from_start else set(state["armed"]) & set(self.stop)

    def _reason(self, finding: Finding, step: int) -> str:
        batches = "1 batch" if self.patience == 1 else f"{self.patience} batches in a row"
        return f"stopped at step {step} by {finding.code!r}, {batches}: {finding.message}; {finding.remedy}"


def _share(finding: Finding) -> float:
    return float(finding.evidence.get("share", 1.0))
