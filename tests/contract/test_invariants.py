"""What the specifications demand of every method, and which tests hold it.

Each entry of `HELD` is one demand and the tests (file::function) that fail when it is broken; a test keeps the names
true. The general ones run over the registry, so a new method is held to them by being registered.
"""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

HELD = {
    "equal outcomes of a group are no signal, but for process terms": (
        "contract/test_properties.py::test_equal_outcomes_are_no_signal",
        "cases/test_cases.py::test_z1_equal_rewards_give_exact_zeros",
    ),
    "no credit on a token that was not sampled, nor on padding, before and after whitening": (
        "contract/test_properties.py::test_sound_whatever_is_drawn",
        "credit/test_tokens.py::test_only_sampled_tokens_of_counted_units_hold_anything",
        "credit/test_tokens.py::test_padded_on_the_right",
        "methods/test_whiten.py::test_equals_the_slow_reference",
    ),
    "rows in another order, results in that order": (
        "contract/test_every_method.py::test_contract",  # check_trajectory_order
        "cases/test_cases.py::test_d1_the_result_of_a_row_does_not_depend_on_the_order",
    ),
    "a constant on all outcomes of a group changes nothing, a factor is a factor": (
        "contract/test_every_method.py::test_contract",  # the laws shift_invariant and scale_equivariant
        "contract/test_every_method.py::test_laws_that_hold_are_declared",
    ),
    "tokens of the environment, put in anywhere, change nothing": (
        "contract/test_every_method.py::test_contract",  # check_context_tokens
        "methods/test_tempo.py::test_observations_are_walked_through_and_get_nothing",
    ),
    "the width of the padding changes nothing": (
        "credit/test_tokens.py::test_padding_and_splitting_hold_the_same_numbers",
        "adapters/hosts/test_verl.py::test_how_rollouts_are_laid_out_changes_no_number",
    ),
    "copies that fill a batch up, known by their key, change nothing": (
        "adapters/hosts/test_rows.py::test_order_copies_and_shards_change_nothing",
        "adapters/hosts/test_verl.py::test_how_rollouts_are_laid_out_changes_no_number",
    ),
    "single precision agrees within the rounding of its input": (
        "contract/test_properties.py::test_single_precision_inputs_agree",
        "cases/test_cases.py::test_c1_statistics_are_in_double_precision",
    ),
    "Shapley values are efficient, exact and from sampled orders": (
        "numerics/test_shapley.py::test_efficiency",
        "numerics/test_shapley.py::test_a_walk_adds_one_player_after_another",
        "methods/test_shapley.py::test_worked_game_by_sampled_orders",
        "methods/test_shapley.py::test_the_true_values_are_the_mean_of_sampled_orders",
    ),
    "members that broke, said nothing or were not scored move nobody": (
        "contract/test_every_method.py::test_contract",  # check_unknown_members
        "cases/test_cases.py::test_r4_without_a_trainable_token_no_vote",
    ),
    "degenerate rollouts give finite numbers": (
        "contract/test_properties.py::test_sound_whatever_is_drawn",
        "contract/test_every_method.py::test_contract",  # check_small_batches
    ),
    "what is masked is selected away, NaN included": (
        "cases/test_cases.py::test_m6_masks_select",
        "losses/test_reference.py::test_what_weighs_nothing_is_never_read",
    ),
    "policies for truncated rollouts give different, documented results": (
        "methods/test_drop_truncated.py::test_worked_example_of_every_policy",
    ),
    "differences of values telescope": (
        "methods/test_tempo.py::test_the_changes_of_a_unique_rollout_add_up_to_its_place_in_the_group",
        "methods/test_turn_credit.py::test_it_sums_to_the_last_score_minus_the_first",
        "methods/test_implicit_q.py::test_it_is_the_true_advantage_of_the_optimal_policy",
    ),
    "neighbours: TEMPO is GRPO where no sibling parts": (
        "methods/test_tempo.py::test_it_is_grpo_to_the_bit_where_no_sibling_parts",
        "methods/test_tempo.py::test_who_parts_at_once_gets_the_first_token_twice",
    ),
    "neighbours: HICRA with alpha 0 is its input": ("methods/test_hicra.py::test_alpha_zero_is_its_input",),
    "neighbours: PURE, hot and cold": (
        "methods/test_pure.py::test_a_high_temperature_sums_to_the_mean_and_a_low_one_is_strict",
    ),
    "neighbours: turn_gae with a token a turn is gae, bilevel_gae without discount too": (
        "methods/test_turn_gae.py::test_with_one_token_a_turn_it_is_gae",
        "methods/test_bilevel_gae.py::test_without_discount_it_is_gae",
    ),
    "neighbours: gigpo without its step part is grpo": (
        "methods/test_gigpo.py::test_without_the_step_part_it_is_grpo",
    ),
    "neighbours: gae without a critic is reinforce": (
        "methods/test_reinforce.py::test_with_zero_values_gae_at_lambda_one_is_reinforce",
    ),
    "neighbours: gspo_token is gspo for one credit a row, ppo for rows of one token": (
        "losses/test_reference.py::test_gspo_token_has_the_value_of_gspo",
        "losses/test_reference.py::test_with_one_credit_a_row_gspo_token_has_the_gradient_of_gspo",
        "losses/test_reference.py::test_gspo_token_of_rows_of_one_token_is_ppo",
        "losses/test_pairing.py::test_segments_as_rows_give_a_ratio_per_segment",
    ),
    "neighbours: one group under the std of the batch is the group's": (
        "methods/test_grpo.py::test_in_one_group_batch_scale_is_group_scale",
    ),
}


def absent(held):
    """Names that stand for nothing."""
    out = []
    for tests in held.values():
        for name in tests:
            path, _, function = name.partition("::")
            file = TESTS / path
            tree = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else ast.Module([], [])
            known = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            out += [] if function in known else [name]
    return out


def test_every_demand_has_tests_that_exist():
    assert all(HELD.values())
    assert absent(HELD) == []


@pytest.mark.parametrize("name", ["contract/test_properties.py::test_nothing", "contract/test_no.py::test_contract"])
def test_a_name_that_stands_for_nothing_is_found(name):
    assert absent({"planted": (name,)}) == [name]
