"""The front door: an expression and units in, credit out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from apportion.assign.checked import check_expression, check_names, meets, params_of, whom_of
from apportion.assign.compose import run
from apportion.assign.cost import free, price
from apportion.assign.expression import LONGEST, Leaf, Node, each_leaf, leaves, parse, render
from apportion.credit import Credit
from apportion.data import Batch
from apportion.errors import ConfigError, DataError
from apportion.methods import get
from apportion.resources import Asker, Quote, Speed
from apportion.units import Units, with_batch


class Predicts(Protocol):
    """A fitted model of `apportion.models`, or anything that fills columns of rollouts: values, log-probabilities, …"""

    def predict(self, batch: Batch) -> Batch:
        """The same rollouts with more columns."""


def assign(
    method: str, units: Units, *, ask: Asker | None = None, values: Predicts | None = None, **params: Any
) -> Credit:
    """Divide the credit for the outcomes among the units.

    Args:
        method: a name (``"gigpo"``), or an expression: ``"grpo + 0.5*anchor"``, ``"gae(lam=0.9) | whiten"``.
        units: what to credit, see `by_step` and its siblings.
        ask: who is asked, by methods that need more than the rollouts (`apportion.Asker`).
        values: a fitted model that predicts what the method reads, e.g. `apportion.models.ValueHead`; what it
            predicts takes the place of what the rollouts have. None = the rollouts as they are.
        params: parameters of the method; in an expression of several names, of the one that takes them. A parameter
            that several of them take is written inside.

    Returns:
        `Credit`: one number per unit, with parts, notes and what is needed to make it again.

    Raises:
        ConfigError: unknown name or parameter, or an expression that cannot be read.
        DataError: the units lack what the method reads.
        BudgetError: asking would cost more than allowed; nothing was asked.
        ResourceError: who is asked is not there, or cannot answer this.
    """
    node = check_expression(method, params)
    if not isinstance(units, Units):
        raise DataError(f"assign credits units, got {type(units).__name__}; cut the batch first, e.g. by_step(batch)")
    if values is not None:
        units = with_batch(units, values.predict(units.batch))
    for spec in meets(node):  # all of them before the first one works, or asks
        spec.check_units(units)
    _check_asker(node, units, ask)
    return _credit(node, units, ask)


def remake(record: Mapping[str, Any], units: Units, *, ask: Asker | None = None) -> Credit:
    """Make a credit again from ``credit.record()`` and the units it was made of.

    A method that asked needs an ``ask`` with the same resource, seed and cache; then nothing is asked again.

    Raises:
        DataError: the units are of other rollouts or another cut than the record says.
    """
    if record["rollouts"] != units.batch.fingerprint():
        raise DataError("these are not the rollouts of the record (their digests differ); read the original file")
    cut = {"level": units.level, **units.options}
    if dict(record["cut"]) != cut:
        raise DataError(f"the record credits {dict(record['cut'])}, the units are {cut}; cut the batch the same way")
    params = record["params"]
    node = parse(record["method"])
    held = {node.name: params} if isinstance(node, Leaf) else dict(params)
    node = each_leaf(node, lambda leaf: Leaf(leaf.name, held.pop(_key(leaf, held))))
    check_names(node)
    _check_asker(node, units, ask)
    return _credit(node, units, ask)


def cost(
    method: str,
    units: Units,
    *,
    ask: Asker | None = None,
    max_tokens: int | None = None,
    speed: Speed | None = None,
    **params: Any,
) -> Quote:
    """What `assign` would ask for, priced; nothing is asked.

    Args:
        method, units, params: as for `assign`.
        ask: whom `assign` would ask, for its own counts, its cache and its measured throughput; None = count tokens of
            the rollouts as they are.
        max_tokens: without ``ask``: generated tokens of one continuation at most; None = the longest that the rollouts
            themselves go on for.
        speed: a measured throughput, for the time; None = the one that the cache remembers.

    Returns:
        `Quote`: requests, prompt tokens, generated tokens at most and expected, seconds.

    Raises:
        ConfigError, DataError: as `assign`.
    """
    node = check_expression(method, params)
    asked = [(spec, spec.bind(leaf.params)) for leaf in leaves(node) if (spec := get(leaf.name)).plan is not None]
    if not asked:
        return free()
    return price(asked, units, ask=ask, max_tokens=max_tokens, speed=speed)


def _check_asker(node: Node, units: Units, ask: Asker | None) -> None:
    """Somebody is there to be asked; nobody is needed where the plan is empty (siblings in the data, for instance)."""
    if ask is None:
        for leaf in leaves(node):
            spec = get(leaf.name)
            if spec.plan is not None and (asked := whom_of(spec, units, spec.bind(leaf.params))):
                told = " and a ".join(who.replace("_", " ") for who in asked)
                raise ConfigError(
                    f"{spec.name} asks a {told}, and nobody was given to ask; pass ask=Asker(...) with a resource, or "
                    "see what it would cost with apportion.cost"
                )
    elif not isinstance(ask, Asker):
        raise ConfigError(f"ask is a {type(ask).__name__}; give an apportion.Asker around the resource")


def _credit(node: Node, units: Units, ask: Asker | None) -> Credit:
    return run(node, units, ask).stamped(render(node), params_of(node))


def _key(leaf: Leaf, params: Mapping[str, Any]) -> str:
    """Under which name the record of an expression holds the parameters of its next leaf of this name."""
    return next(k for k in (leaf.name, *(f"{leaf.name}#{n}" for n in range(2, LONGEST))) if k in params)
