"""Who gives the reward of a continuation: a function of the rollout and of what the policy wrote.

A scorer gets the rollout (`Trajectory.reference` holds the gold answer) and the text of the answer: everything the
policy wrote since the environment last spoke. It returns the reward of the whole rollout, or None where it cannot tell.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

from apportion.data import Trajectory
from apportion.errors import ConfigError, DataError

Score = Callable[[Trajectory, str], float | None]


@dataclass(frozen=True, slots=True)
class Scorer:
    """A scoring function with the name that caches know it by.

    Attributes:
        name: part of every cache key; change it when the function changes.
        function: rollout and answer in, reward out; None = cannot tell.
        reads_meta: it may read more of the rollout than its reference, so rollouts of other metadata share no answers.
    """

    name: str
    function: Score
    reads_meta: bool = False

    def __call__(self, trajectory: Trajectory, answer: str) -> float | None:
        """Reward, or None.

        Raises:
            DataError: the function returned something else.
        """
        reward = self.function(trajectory, answer)
        if reward is None:
            return None
        number = float(reward) if isinstance(reward, Real) else math.nan
        if not math.isfinite(number):
            raise DataError(f"the scorer {self.name} returned {reward!r}; a reward is a finite number, or None")
        return number


def exact(trajectory: Trajectory, answer: str) -> float | None:
    """1 where the answer is the reference, white space at both ends aside; else 0. None without a reference."""
    reference = trajectory.reference
    return None if reference is None else float(answer.strip() == reference.strip())


def contains(trajectory: Trajectory, answer: str) -> float | None:
    """1 where the reference stands in the answer as a word of its own, upper and lower case alike; else 0."""
    if trajectory.reference is None or not (wanted := trajectory.reference.strip()):
        return None
    return float(re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", answer, re.IGNORECASE) is not None)


_NUMBER = re.compile(r"(?<!\w)[-+−]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?:\s*/\s*\d[\d,]*)?")


def number(trajectory: Trajectory, answer: str) -> float | None:
    """1 where the last ``\\boxed{…}``, or else the last number, of the answer is the reference's; else 0.

    Numbers are equal when their values are: 1,000 and 1000.0, 1/2 and 0.5. What is boxed and is no number is compared
    as text without blanks. None without a reference, or where the reference holds neither.
    """
    if trajectory.reference is None or (wanted := _final(trajectory.reference)) is None:
        return None
    said = _final(answer)
    return float(said is not None and _same(said, wanted))


BUILT_IN: dict[str, Scorer] = {
    "exact": Scorer("exact", exact),
    "number": Scorer("number", number),
    "contains": Scorer("contains", contains),
}
"""Scorers by name, as the command line takes them; `fitting` tries them in this order, the strictest first."""


def scorer_of(scorer: str | Scorer | Score) -> Scorer:
    """A scorer from a built-in's name, ``package.module:function`` (code of your own, which is run), or a function.

    Raises:
        ConfigError: there is none of that name.
    """
    if isinstance(scorer, Scorer):
        return scorer
    if callable(scorer):
        name = f"{getattr(scorer, '__module__', '?')}:{getattr(scorer, '__qualname__', type(scorer).__qualname__)}"
        return Scorer(name, scorer, reads_meta=True)
    if scorer in BUILT_IN:
        return BUILT_IN[scorer]
    module, colon, function = scorer.partition(":")
    if not colon:
        raise ConfigError(
            f"no scorer is named {scorer!r}; there are {', '.join(BUILT_IN)} and auto, or write package.module:function"
        )
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as problem:
        raise ConfigError(f"the scorer {scorer!r} cannot be imported: {problem}{_lies_here(module, problem)}") from None
    if isinstance(found, Scorer):
        return found
    if not callable(found):
        raise ConfigError(f"{scorer} is a {type(found).__name__}, not a function of a rollout and an answer")
    return Scorer(scorer, found, reads_meta=True)


def _lies_here(module: str, problem: Exception) -> str:
    """What to do where the module is missing because Python does not look into the current folder."""
    top = module.partition(".")[0]
    if not isinstance(problem, ModuleNotFoundError) or problem.name != top:
        return ""
    here = next((name for name in (f"{top}.py", top) if Path(name).exists()), None)
    return "" if here is None else f"; {here} lies in the current folder, so set PYTHONPATH=. before the command"


def fitting(
    trajectories: Sequence[Trajectory],
    answer_of: Callable[[Trajectory], str],
    among: Mapping[str, Scorer] | None = None,
) -> Scorer:
    """The built-in that gives every rollout of a batch the outcome that was recorded.

    Args:
        trajectories: rollouts; those that are unscored or failed say nothing.
        answer_of: the answer of a rollout as text.
        among: scorers to try, in this order; None = the built-in ones.

    Raises:
        DataError: none does; says how often each disagrees.
    """
    among = BUILT_IN if among is None else among
    told = [
        (rollout, float(rollout.total), answer_of(rollout))
        for rollout in trajectories
        if rollout.total is not None and rollout.steps and not any(step.failed for step in rollout.steps)
    ]
    if not told:
        raise DataError("no rollout has an outcome, so no scorer can be found by itself; name one with --scorer")
    misses: dict[str, int] = {}
    for name, scorer in among.items():
        misses[name] = sum(
            (given := scorer(rollout, answer)) is None or abs(given - outcome) > 1e-9
            for rollout, outcome, answer in told
        )
        if not misses[name]:
            return scorer
    counts = ", ".join(f"{name} disagrees with {count}" for name, count in misses.items())
    raise DataError(
        f"no built-in scorer gives the outcomes that were recorded ({counts} of {len(told)}), so the rewards of "
        "continuations would be another task's; give the one that made them, --scorer package.module:function"
    )


BOXES = 16
"""Boxes without an end that are passed over, from the last."""


def _final(text: str) -> str | None:
    """The content of the last complete box, or the last number."""
    start = text.rfind("\\boxed{")
    for _ in range(BOXES):
        if start < 0:
            break
        depth = 0
        for k in range(start + len("\\boxed"), len(text)):
            depth += (text[k] == "{") - (text[k] == "}")
            if depth == 0:
                return text[start + len("\\boxed{") : k]
        start = text.rfind("\\boxed{", 0, start)
    numbers = _NUMBER.findall(text)
    return numbers[-1] if numbers else None


def _same(said: str, wanted: str) -> bool:
    values = _value(said), _value(wanted)
    if None in values:
        return "".join(said.split()) == "".join(wanted.split())
    a, b = values
    assert a is not None
    assert b is not None
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


def _value(text: str) -> float | None:
    """Value of a text that is one number, with the signs that people put around one."""
    plain = text.strip().strip("$%.").replace(",", "").replace("−", "-").replace(" ", "")
    over, slash, under = plain.partition("/")
    try:
        value = float(over) / (float(under) if slash else 1.0)
    except (ValueError, ZeroDivisionError):
        return None
    return value if math.isfinite(value) else None
