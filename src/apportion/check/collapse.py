"""The collapse of a run that is trained on process rewards: followed on every batch, and ended with a reason.

train(config, on_credit=CollapseMonitor())                                     the embedded trainer
Trainer = with_credit(GRPOTrainer, "pure", on_credit=CollapseMonitor())        TRL
+algorithm.apportion.on_credit=apportion.check:CollapseMonitor                 verl

Source    PURE (arXiv:2504.15275): what it monitors, the score of 0.2, and the rule for pseudo-positives, whose first
          ones (iteration 361) came four iterations before its run was lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from apportion.check.degenerate import HIGH, Degenerate, degenerate
from apportion.credit import Credit
from apportion.errors import ConfigError, StopRun

HALF = 0.5
"""Half of the rollouts: the paper gives no number for these, and with most of them gone there is nothing to argue."""
STOP: Mapping[str, float] = {
    "clip_rate_right": 0.0,
    "repetitive_right": 0.0,
    "clip_rate": HALF,
    "repetitive": HALF,
    "praised_failures": HALF,
}
"""Shares above which a run may be ended."""
FALLS = ("clip_rate", "repetitive", "praised_failures")
"""Those that end a run only while the verdict is below half of what it was without them: wrong answers that get longer
and repeat themselves do no harm (PURE, before iteration 360), and a run may learn at its limit."""
PATIENCE = 3
"""Batches in a row that it takes."""
QUIET = 20
"""Batches in a row that a pseudo-positive must have been absent before it counts."""

SAYS = {
    "clip_rate": "responses were cut off at the limit",
    "repetitive": f"responses repeat themselves (score above {HIGH:g})",
    "praised_failures": "responses are wrong though the process reward finds no bad step in them",
    "clip_rate_right": "right responses were cut off at the limit",
    "repetitive_right": f"right responses repeat themselves (score above {HIGH:g})",
}
DO = {
    "clip_rate": "count the worst step and not the sum (`pure`, form='soft'), which pays for every further step, and "
    "give it a verifier",
    "repetitive": "lower the weight of the process reward, or its learning rate; zeroing the reward of such responses "
    "did not help PURE's run",
    "praised_failures": "mix in tasks with a verifier (a tenth was enough for PURE), or fit the process reward model "
    "again on these rollouts, for it is being gamed",
    "clip_rate_right": "look at them: the verifier pays for text that is degenerate; lower the weight of the process "
    "reward",
    "repetitive_right": "look at them: the verifier pays for text that is degenerate; lower the weight of the process "
    "reward",
}


class _Rule:
    """What is remembered of one share."""

    def __init__(self) -> None:
        self.streak = self.quiet = 0
        self.armed = False
        self.since = -1
        self.before: deque[float] = deque(maxlen=QUIET)  # verdicts of batches without it

    def state(self) -> dict[str, Any]:
        return {"streak": self.streak, "quiet": self.quiet, "armed": self.armed, "since": self.since} | {
            "before": list(self.before)
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.streak, self.quiet, self.since = int(state["streak"]), int(state["quiet"]), int(state["since"])
        self.armed = bool(state["armed"])
        self.before = deque(map(float, state["before"]), maxlen=QUIET)


class Seen(NamedTuple):
    """The newest batch: its numbers, and the step."""

    numbers: Degenerate
    step: int


class CollapseMonitor:
    """Looks at every batch that a run credits; call it with the credit and the step, or hand it over as ``on_credit``.

    Args:
        limit: sampled tokens of one action from which on it was cut off, where hosts do not mark that.
        process: where process rewards are, see `degenerate`. success, good: likewise.
        stop: share → value above which it ends the run, added to those of `STOP` (1 takes a rule off). None: never end
            a run, only count.
        patience: batches in a row on which that must be so.
        quiet: batches in a row without pseudo-positives (``clip_rate_right``, ``repetitive_right``) before they count;
            the other shares count once one batch has been without them, so that a run may begin badly.

    Attributes:
        seen: the newest batch looked at; None before.

    Raises:
        ConfigError: a share that there is not, or a number out of range.
    """

    def __init__(
        self,
        *,
        limit: int | None = None,
        process: str | None = None,
        success: float = 0.5,
        good: float = 0.0,
        stop: Mapping[str, float] | None = STOP,
        patience: int = PATIENCE,
        quiet: int = QUIET,
    ) -> None:
        for name in stop or {}:
            if name not in STOP:
                raise ConfigError(f"CollapseMonitor: no share is named {name!r}; there are {', '.join(STOP)}")
        for field, value in (("patience", patience), ("quiet", quiet), ("limit", limit)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigError(f"CollapseMonitor: {field} is {value!r}; give a whole number from 1 on")
        self.stop = {} if stop is None else {**STOP, **stop}
        if any(not 0 <= share <= 1 for share in self.stop.values()):
            raise ConfigError("CollapseMonitor: shares in stop lie between 0 and 1; 1 takes a rule off")
        self.limit, self.process, self.success, self.good = limit, process, success, good
        self.patience, self.quiet = patience, quiet
        self.seen: Seen | None = None
        self._rules = {name: _Rule() for name in STOP}

    def __call__(self, credit: Credit, step: int) -> dict[str, float]:
        """Look at one batch.

        Returns:
            The shares and means of `Degenerate` for the log, as ``collapse/…``.

        Raises:
            StopRun: which share, since when, and what to do, once one has been above its value on ``patience`` batches
                in a row.
        """
        found = degenerate(credit.units, limit=self.limit, process=self.process, success=self.success, good=self.good)
        self.seen = Seen(found, step)
        numbers = {f"collapse/{name}": value for name, value in (found.shares | found.means).items()}
        reasons = [self._reason(name, found, step) for name in self.stop if self._judge(name, found, step)]
        if reasons:
            raise StopRun(reasons[0], numbers)
        return numbers

    def state(self) -> dict[str, Any]:
        """All that it remembers, as JSON values; a trainer keeps it with its checkpoints."""
        return {name: rule.state() for name, rule in self._rules.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Remember what `state` gave."""
        for name, rule in self._rules.items():
            if name in state:
                rule.restore(state[name])

    def _judge(self, name: str, found: Degenerate, step: int) -> bool:
        """Whether a share ends the run; a batch that says nothing of it changes nothing."""
        if name not in found.shares:
            return False
        rule, there = self._rules[name], found.shares[name] > self.stop[name]
        verdict = found.means.get("verdict")
        if not there:
            rule.streak, rule.since, rule.quiet = 0, -1, rule.quiet + 1
            rule.armed = rule.armed or rule.quiet >= (1 if name in FALLS else self.quiet)
            if verdict is not None:
                rule.before.append(verdict)
            return False
        rule.quiet = 0
        if not rule.armed or (name in FALLS and not _fallen(rule, verdict)):
            rule.streak, rule.since = 0, -1
            return False
        if rule.streak == 0:
            rule.since = step
        rule.streak += 1
        if rule.streak < self.patience:
            return False
        rule.streak = 0  # whoever goes on all the same is told again after as many batches
        return True

    def _reason(self, name: str, found: Degenerate, step: int) -> str:
        rule = self._rules[name]
        share, of = found.shares[name], found.of[name]
        verdict = found.means.get("verdict")
        fell = ""
        if name in FALLS and verdict is not None and rule.before:
            fell = f" while right answers fell from {_mean(rule.before):.2f} to {verdict:.2f}"
        value = self.stop[name]
        return (
            f"stopped at step {step} by {name}, {share:.2f}: {round(share * of)} of {of} {SAYS[name]}, more than "
            f"{value:g} since step {rule.since}{fell}; go back to a checkpoint before step {rule.since}, and {DO[name]}"
        )


def _fallen(rule: _Rule, verdict: float | None) -> bool:
    """The verdict is below half of what it was; true where nobody says what is right."""
    return verdict is None or not rule.before or verdict < HALF * _mean(rule.before)


def _mean(values: deque[float]) -> float:
    return sum(values) / len(values)
