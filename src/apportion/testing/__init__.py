"""The contract of a credit method, as public checks.

A plug-in runs what the built-in methods run::

    from apportion.testing import check_method

    def test_contract():
        check_method("mine/method")

or, one test for each check, ``@pytest.mark.parametrize("check", checks_for("mine/method"))`` around
``run_check(check, "mine/method")``. A check takes a method and `Units` and raises an AssertionError whose sentence says
what differs.
"""

from apportion.testing.always import (
    check_context_tokens,
    check_forks,
    check_group_names,
    check_is_pure,
    check_made_again,
    check_missing_columns,
    check_one_number_per_unit,
    check_parts_add_up,
    check_reads_are_declared,
    check_small_batches,
    check_trajectory_order,
    check_unknown_members,
)
from apportion.testing.asking import check_asks, check_missing_answers
from apportion.testing.laws import (
    LAW_CHECKS,
    check_local_to_group,
    check_local_to_trajectory,
    check_relabel_invariant,
    check_scale_equivariant,
    check_shift_invariant,
    check_sums_to_outcome,
    check_zero_mean_per_group,
)
from apportion.testing.masks import check_left_out_stays_out
from apportion.testing.run import ALWAYS_CHECKS, check_method, checks_for, levels_for, run_check
from apportion.testing.sample import random_trajectories, random_units
from apportion.testing.subject import Method

__all__ = [
    "ALWAYS_CHECKS",
    "LAW_CHECKS",
    "Method",
    "check_asks",
    "check_context_tokens",
    "check_forks",
    "check_group_names",
    "check_is_pure",
    "check_left_out_stays_out",
    "check_local_to_group",
    "check_local_to_trajectory",
    "check_made_again",
    "check_method",
    "check_missing_answers",
    "check_missing_columns",
    "check_one_number_per_unit",
    "check_parts_add_up",
    "check_reads_are_declared",
    "check_relabel_invariant",
    "check_scale_equivariant",
    "check_shift_invariant",
    "check_small_batches",
    "check_sums_to_outcome",
    "check_trajectory_order",
    "check_unknown_members",
    "check_zero_mean_per_group",
    "checks_for",
    "levels_for",
    "random_trajectories",
    "random_units",
    "run_check",
]
