"""Choosing checks from a declaration, and running them on random batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from apportion.methods.spec import LEVELS
from apportion.testing import always, asking, masks
from apportion.testing.laws import LAW_CHECKS
from apportion.testing.sample import random_units
from apportion.testing.subject import Method, subject_of
from apportion.units import Units

Check = Callable[[Method, Units], None]

ALWAYS_CHECKS: tuple[Check, ...] = (
    always.check_is_pure,
    always.check_one_number_per_unit,
    always.check_trajectory_order,
    always.check_group_names,
    always.check_small_batches,
    always.check_unknown_members,
    always.check_context_tokens,
    always.check_parts_add_up,
    always.check_forks,
    always.check_missing_columns,
    always.check_reads_are_declared,
    always.check_made_again,
    masks.check_left_out_stays_out,
    asking.check_asks,
    asking.check_missing_answers,
)
"""Checks for every method. The last six need a declaration and pass a function that is not registered; the last three
are about transforms and about methods that ask."""

SEEDS = range(24)


def checks_for(method: Method) -> tuple[Check, ...]:
    """The checks that a method's declaration asks for: `ALWAYS_CHECKS` and one for each law it holds."""
    spec = subject_of(method).spec
    return ALWAYS_CHECKS + tuple(LAW_CHECKS[law] for law in (spec.holds if spec else ()))


def levels_for(method: Method) -> tuple[str, ...]:
    """The levels of units that a method accepts."""
    spec = subject_of(method).spec
    return spec.units if spec and spec.units else LEVELS


def run_check(check: Check, method: Method, *, seeds: Iterable[int] = SEEDS) -> None:
    """One check on random batches, the levels of units taking turns.

    Raises:
        AssertionError: the method, the check, the batch to repeat it on, and what went wrong.
    """
    subject = subject_of(method)
    levels = levels_for(subject)
    columns = [name.removeprefix("column:") for name in subject.reads if name.startswith("column:")]
    options = f", columns={columns}" if columns else ""
    for seed in seeds:
        level = levels[seed % len(levels)]
        try:
            check(subject, random_units(seed, level, columns=columns))
        except AssertionError as problem:
            raise AssertionError(
                f"{subject.name} fails {check.__name__} on random_units({seed}, {level!r}{options}): {problem}"
            ) from problem


def check_method(method: Method, *, seeds: Iterable[int] = SEEDS) -> None:
    """The whole contract: call it in the tests of your plug-in.

        def test_contract():
            apportion.testing.check_method("mine/method")

    Args:
        method: a registry name, a spec, or a function from `Units` to `Credit`. A registered method is also held to
            what it declares: the columns it reads and the laws it obeys. Parameters without default come from
            ``example``.
        seeds: random batches, see `random_units`.

    Raises:
        AssertionError: the first check that fails.
    """
    batches = list(seeds)
    for check in checks_for(method):
        run_check(check, method, seeds=batches)
