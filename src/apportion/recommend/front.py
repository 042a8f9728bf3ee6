"""The door: rollouts and what you have in, advice out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from apportion.asks import Continue
from apportion.assign import cost
from apportion.assign.cost import most_asked
from apportion.check.sampling import some_groups
from apportion.check.texts import sampled_sizes
from apportion.data import Batch
from apportion.errors import ApportionError, ConfigError
from apportion.methods import MethodSpec, get, names
from apportion.recommend.advice import Advice, Option
from apportion.recommend.facts import facts_of
from apportion.recommend.guide import Guide, Rule, guide
from apportion.resources.last_answer import spoken_to_after
from apportion.units import CUTS, StateRule, Units, by_step

PRICED, PRICED_TOKENS = 500, 20_000
"""Steps and sampled tokens of which a price is made; that of larger batches is scaled from whole groups with about so
many, one at least."""
CLASSES = {"judge": "judge calls", "extra samples": "extra rollouts", "extra scoring": "extra passes"}


def recommend(
    batch: Batch,
    *,
    have: Iterable[str] = (),
    budget_tokens: int | None = None,
    max_tokens: int | None = None,
    states: StateRule = None,
) -> Advice:
    """Say which methods fit these rollouts, which do not and why, and what each would cost.

    The decision guide is data (``guide.toml``): rules with conditions on facts about the rollouts. A method fits where
    a rule that names it fires, the data have what it reads, and its expected tokens are within the budget.

    Args:
        batch: the rollouts.
        have: what you have besides them, of `RESOURCES`: "policy", "environment", "reward_model", "judge",
            "reference_model", "training".
        budget_tokens: tokens, prompts and answers together, that one round of asking may cost; None = any number.
        max_tokens: of one continuation, for the price; None = as long as the rollouts go on.
        states: what counts as one state, as for `apportion.by_step`.

    Raises:
        ConfigError: an unknown resource or a budget below 0.
    """
    if budget_tokens is not None and budget_tokens < 0:
        raise ConfigError(f"recommend: budget_tokens is {budget_tokens}; give a number of at least 0")
    steps = by_step(batch, state=states)
    facts = facts_of(steps, have)
    book = guide()
    cuts = _Cuts(batch, states)
    per_step = max(float(np.sum(sampled_sizes(batch))) / len(batch.traj_of_S), 1.0)
    priced = _Cuts(some_groups(batch, max(min(PRICED, int(PRICED_TOKENS / per_step)), 1)), states)
    options = []
    for name in names():
        spec = get(name)
        rules = [rule for rule in book.rules if name in rule.methods]
        if name in book.generic:
            continue
        option = _judged(spec, rules, facts, book, cuts) if rules else _unruled(spec, cuts)
        if spec.plan is not None:
            option = _priced(option, spec, priced, len(batch) / len(priced.batch), budget_tokens, max_tokens)
            if option.fits and not facts["have_environment"] and not cuts.forks:
                option = _heard(option, spec, priced)
        options.append(option)
    place = {name: k for k, name in enumerate(n for rule in book.rules for n in rule.methods)}
    order = {rule.id: k for k, rule in enumerate(book.rules)}
    options.sort(key=lambda option: (not option.fits, order.get(option.rule, len(order)), place.get(option.name, 0)))
    elsewhere = [
        {"name": name, "rule": rule.id, "why": rule.why, "source": rule.source}
        for rule in book.rules
        if rule.fires(facts)
        for name in rule.elsewhere
    ]
    return Advice(tuple(options), tuple(elsewhere), facts)


class _Cuts:
    """Units of each level, cut once; None where the rollouts cannot be cut so."""

    def __init__(self, batch: Batch, states: StateRule) -> None:
        self.batch, self.states = batch, states
        self._made: dict[str, Units | ApportionError] = {}

    @property
    def forks(self) -> bool:
        """Rollouts fork, so that siblings in the data may answer what would be asked."""
        return self.of("step").first_fork() >= 0

    def of(self, level: str) -> Units:
        """The units. Raises what the cut raised."""
        if level not in self._made:
            options: dict[str, Any] = {}
            if self.states is not None and level in ("step", "turn", "episode", "agent"):
                options["state"] = self.states
            try:
                self._made[level] = CUTS[level](self.batch, **options)
            except ApportionError as problem:
                self._made[level] = problem
        made = self._made[level]
        if isinstance(made, ApportionError):
            raise made
        return made


def _judged(spec: MethodSpec, rules: list[Rule], facts: Mapping[str, float], book: Guide, cuts: _Cuts) -> Option:
    fired = next((rule for rule in rules if rule.fires(facts)), None)
    near = fired or min(rules, key=lambda rule: sum(not c.holds(facts) for c in rule.when) / len(rule.when))
    why, fits = (near.why, True) if fired else (near.why_not, False)
    shown = near.when if fired else tuple(c for c in near.when if not c.holds(facts))
    evidence = tuple(condition.told(facts) for condition in shown)
    trains = fits and near.trains
    if fits and not trains and (lacks := _lacks(spec, cuts)):
        fits, why = False, f"the guide is for it ({near.why}), and the data are not enough: {lacks}"
    cautions = tuple(
        f"{caution.text} ({caution.source})"
        for caution in book.cautions
        if spec.name in caution.methods and all(condition.holds(facts) for condition in caution.when)
    )
    return Option(
        name=spec.name,
        kind=spec.kind,
        fits=fits,
        rule=near.id,
        question=near.question,
        why=why,
        evidence=evidence,
        source=near.source,
        cautions=cautions if fits else (),
        cost_class="training" if trains else _cost_class(spec),
    )


def _unruled(spec: MethodSpec, cuts: _Cuts) -> Option:
    """A method of which the guide says nothing: it is newer, or a plug-in's."""
    lacks = _lacks(spec, cuts)
    return Option(
        name=spec.name,
        kind=spec.kind,
        fits=False,
        rule="none",
        question=0,
        why="the guide has no rule for it; the data " + (f"are not enough: {lacks}" if lacks else "have what it reads"),
        evidence=(f"reads {', '.join(spec.reads) or 'the credit only'}",),
        source=spec.source,
        cost_class=_cost_class(spec),
    )


def _cost_class(spec: MethodSpec) -> str:
    return CLASSES.get(spec.family, "extra passes") if spec.plan is not None else "free"


def _lacks(spec: MethodSpec, cuts: _Cuts) -> str:
    """What the data lack for a method, as the method says it itself; "" where nothing."""
    try:
        units = cuts.of(spec.unit)
        if spec.kind == "transform":
            units.require(spec.name, *spec.reads)
        else:
            spec.check(units)
    except ApportionError as problem:
        return str(problem)
    return ""


def _priced(
    option: Option, spec: MethodSpec, cuts: _Cuts, scale: float, budget: int | None, max_tokens: int | None
) -> Option:
    try:
        price: Mapping[str, Any] = cost(spec.name, cuts.of(spec.unit), max_tokens=max_tokens, **spec.example).to_dict()
    except ApportionError as problem:
        return option if not option.fits else replace(option, fits=False, why=f"its plan cannot be made: {problem}")
    counts = ("asks", "requests", "prompt_tokens", "generated_tokens", "expected_tokens")
    told: dict[str, Any] = {name: round(price[name] * scale) for name in counts}
    told["exact"] = bool(price["exact"]) and scale == 1
    told["tokens"] = told["prompt_tokens"] + told["expected_tokens"]
    told["unit"] = spec.unit
    option = replace(option, cost=told)
    if option.fits and not told["asks"] and not cuts.forks:
        return replace(option, fits=False, why="on these rollouts there is no place that it would ask about")
    if option.fits and budget is not None and told["tokens"] > budget:
        return replace(
            option,
            fits=False,
            why=f"it would cost about {told['tokens']:,} tokens, more than the budget of {budget:,}",
            evidence=(*option.evidence, f"tokens <= {budget} (here {told['tokens']})"),
        )
    return option


def _heard(option: Option, spec: MethodSpec, cuts: _Cuts) -> Option:
    """As `assign` would refuse it: a policy that only writes goes on from where nobody spoke to it afterwards."""
    units = cuts.of(spec.unit)
    asks = most_asked(spec, units, spec.bind(spec.example))
    for at in (ask.at for ask in asks if isinstance(ask, Continue)):
        rollout = units.batch.trajectories[at.traj]
        if spoken_to_after(rollout, at.step):
            why = (
                f"a policy that only writes cannot play the environment that spoke after step {at.step} of rollout "
                f"{rollout.id or at.traj}: it needs one that can be set back (--environment)"
            )
            return replace(option, fits=False, why=why)
    return option
