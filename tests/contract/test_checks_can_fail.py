"""Each check finds a method that is wrong in just its way, and says so; a check without such a method is an error."""

import dataclasses
import re

import numpy as np
import pytest

from apportion import testing
from apportion.asks import Continue, Place, Score
from apportion.credit import Credit
from apportion.errors import DataError
from apportion.methods import LAWS, get
from apportion.numerics import centre, labels, seg_mean, to_go
from apportion.testing import ALWAYS_CHECKS, LAW_CHECKS, check_method, checks_for, random_units, run_check

calls = iter(range(10**9))


def outcome(units):
    """A correct method to spoil: the outcome on every unit."""
    return Credit(units.outcome_N[units.traj_of_S], units)


def declared(function, *reads, chain=False, name="grpo", **changes):
    """The function under the declaration of a built-in, without the pre-flight check that `register` adds."""
    return dataclasses.replace(get(name), call=function, reads=reads or ("reward_S",), chain=chain, **changes)


# --- always ---------------------------------------------------------------------------------------------------------


def counts_its_calls(units):
    return Credit(outcome(units).advantage_S + 1e-12 * next(calls), units)


def counts_in_its_notes(units):
    return dataclasses.replace(outcome(units), notes={"calls": next(calls)})


def shuffles_parts(units):
    k = next(calls)
    a = outcome(units).advantage_S
    return Credit(a, units, parts={"a": a * (k % 7), "b": a * (1 - k % 7)})


def names_parts_anew(units):
    a = outcome(units).advantage_S
    return Credit(a, units, parts={f"part {next(calls)}": a})


def writes_into_its_input(units):
    reward_S = units.reward_S
    reward_S.flags.writeable = True
    reward_S *= 2.0
    reward_S.flags.writeable = False
    return outcome(units)


def sets_its_input(units):
    units.reward_S[0] = 1.0
    return outcome(units)


def returns_an_array(units):
    return units.reward_S


def credits_other_units(units):
    return Credit(units.reward_S, dataclasses.replace(units))


def divides_by_zero(units):
    with np.errstate(all="ignore"):
        return Credit(units.reward_S / (units.tokens_S - units.tokens_S), units)


def computes_in_single_precision(units):
    credit = outcome(units)
    object.__setattr__(credit, "advantage_S", credit.advantage_S.astype(np.float32))
    return credit


def fills_the_unknown(units):
    credit = outcome(units)
    object.__setattr__(credit, "advantage_S", np.where(credit.known_S, credit.advantage_S, -1.0))
    return credit


def remembers_a_running_mean(units):  # the baseline of self-play methods: each outcome against those before it
    before_N = np.cumsum(units.outcome_N) - units.outcome_N
    return Credit((units.outcome_N - before_N / np.maximum(np.arange(len(before_N)), 1))[units.traj_of_S], units)


def uses_the_group_number(units):
    return Credit(outcome(units).advantage_S * (1 + units.group_of_S), units)


def reads_the_group_name(units):
    size_G = np.array([len(name) for name in units.batch.group_names], dtype=float)
    return Credit(size_G[units.group_of_S], units)


def breaks_on_a_lone_value(units):
    with np.errstate(all="ignore"):
        return Credit(units.reward_S / np.std(units.outcome_N[units.valid_N], ddof=1), units)


def needs_two_trajectories(units):
    return Credit(units.reward_S - units.outcome_N[1], units)


def needs_two_steps(units):
    return Credit(units.reward_S - units.batch.reward_S[min(1, len(units.outcome_N))], units)


def needs_two_tokens(units):
    return Credit(units.reward_S - np.flatnonzero(units.batch.sampled_T)[1], units)


def counts_the_unscored_as_zero(units):
    return Credit(centre(units.outcome_N, units.group_of_N)[units.traj_of_S], units)


def knows_the_broken(units):
    return Credit(outcome(units).advantage_S, units, known_S=np.ones(len(units), dtype=bool))


def discounts_by_token_position(units):
    first_S = np.zeros(len(units))
    own = np.flatnonzero(units.unit_of_T >= 0)[::-1]
    first_S[units.unit_of_T[own]] = own
    return Credit(outcome(units).advantage_S * 0.99**first_S, units)


def counts_context(units):
    return Credit(np.full(len(units), len(units.batch.ids_T) / 100.0), units)


def forgets_a_part(units):
    a = outcome(units).advantage_S
    return Credit(a, units, parts={"half": a / 2})


def hides_a_part(units):
    a = outcome(units).advantage_S
    credit = Credit(a, units, parts={"all": a})
    object.__setattr__(credit, "parts", {"half": credit.advantage_S / 2})
    return credit


def crosses_forks(units):
    return Credit(to_go(units.reward_S, units.traj_of_S), units)


def stumbles_over_forks(units):
    return Credit(np.full(len(units), 1.0 if units.is_chain else np.inf), units)


def needs_values(units):
    return Credit(units.value_S * 1.0, units)


def shrugs_without_values(units):
    return Credit(units.reward_S if units.value_S is None else units.value_S, units)


def complains_vaguely(units):
    if units.value_S is None:
        raise DataError("something is missing")
    return Credit(units.value_S, units)


def peeks_at_states(units):
    return Credit(labels(units.state_S) * 1.0, units)


def peeks_at_values_if_there(units):
    return Credit(units.reward_S if units.value_S is None else units.value_S, units)


def peeks_at_rewards(units):
    return Credit(units.logp_S * units.reward_S, units)


def peeks_at_parts(units):
    correct_N = np.nan_to_num(units.outcome_parts.get("correct", np.zeros(len(units.group_of_N))))
    return Credit(units.reward_S + correct_N[units.traj_of_S], units)


def peeks_at_another_column(units):
    return Credit(units.columns["prm"] + units.columns.get("other", 0.0), units)


def stamp(units, **params):
    return dataclasses.replace(outcome(units), method="grpo", params=params)


def says_nothing_of_itself(units, **params):
    return outcome(units)


def forgets_its_parameters(units, **params):
    return stamp(units)


def records_what_json_cannot_hold(units, **params):
    return stamp(units, scale="std", ddof=1, epsilon={1, 2})


def records_other_parameters(units, *, epsilon=0.0, **others):
    credit = stamp(units, **{**get("grpo").defaults, **others, "epsilon": epsilon + 1.0})
    return dataclasses.replace(credit, advantage_S=credit.advantage_S + epsilon)


# --- transforms and methods that ask --------------------------------------------------------------------------------


def asking(plan, fold, *, needs=("policy",), most=None):
    """A plan and a fold under the declaration of a method that asks."""
    return dataclasses.replace(get("vineppo"), call=fold, plan=plan, most=most, needs=needs, units=("step",), holds=())


def trains_the_dropped(credit):
    return Credit(2.0 * credit.advantage_S, credit.units, credit.known_S)


def knows_the_unknown(credit):
    return Credit(2.0 * credit.advantage_S, credit.units, train_S=credit.train_S, train_T=credit.train_T)


def shouts(credit):
    return credit.loud()


def trains_dropped_tokens(credit):
    return dataclasses.replace(credit, train_T=None)


def starts(units, **params):
    """A right plan to spoil: two continuations from every rollout's beginning."""
    return [Continue(Place(n, 0, 0), 2) for n in range(len(units.group_of_N))]


def known_outcomes(units, answers, **params):
    return outcome(units)


def counts_steps_over_the_batch(units, **params):
    return [Continue(Place(0, s, 0), 1) for s in range(len(units))]


def goes_on_behind_the_end(units, **params):
    return [Continue(Place(0, 0, 99), 1)]


def asks_about_a_rollout_too_many(units, **params):
    return [Continue(Place(len(units.group_of_N) - 1, 0, 0), 1), Score(-1)]


def asks_for_scores(units, **params):
    return [Score(0)]


def asks_in_rounds(units, answers, **params):
    return [dataclasses.replace(ask, tag=str(len(answers))) for ask in starts(units)] if len(answers) < 40 else []


def takes_the_first_sample(units, answers, **params):
    return Credit(np.array([answer.samples[0].total() for answer in answers])[units.traj_of_S], units)


def averages_nothing(units, answers, **params):
    totals = [np.array([sample.total() for sample in answer.samples]) for answer in answers]
    with np.errstate(all="ignore"):
        return Credit(np.array([np.sum(t) / np.float64(len(t)) for t in totals])[units.traj_of_S], units)


# --- laws -----------------------------------------------------------------------------------------------------------


def adds_a_bonus(units):
    return Credit(outcome(units).advantage_S + 0.1, units)


def clips_large_rewards(units):
    return Credit(np.clip(outcome(units).advantage_S, -100.0, 100.0), units)


def adds_an_absolute_epsilon(units):
    return Credit(outcome(units).advantage_S / (1.0 + 1e-3 / (np.abs(units.outcome_N).max() + 1e-3)), units)


def multiplies_by_the_outcome(units):
    mean_G = seg_mean(units.outcome_N, units.group_of_N, where=units.valid_N)
    return Credit((units.outcome_N * (units.outcome_N - mean_G[units.group_of_N]))[units.traj_of_S], units)


def whitens_over_the_batch(units):  # the classic: statistics over everything, then called "group"
    everyone = np.zeros(len(units.group_of_N), dtype=np.int64)
    return Credit(centre(units.outcome_N, everyone, scale="std", where=units.valid_N)[units.traj_of_S], units)


def meets_states_of_other_groups(units):
    return Credit(centre(units.reward_S, labels(units.state_S), where=units.valid_S), units)


def compares_inside_the_group(units):
    return Credit(centre(units.outcome_N, units.group_of_N, where=units.valid_N)[units.traj_of_S], units)


def reads_the_state(units):
    return Credit(np.array([len(state) for state in units.state_S], dtype=float), units)


def lets_rows_vote(units):
    return Credit(centre(units.outcome_N[units.traj_of_S], units.group_of_S, where=units.valid_S), units)


def copies_the_outcome(units):
    return outcome(units)


WRONG = {
    "check_is_pure": [
        (counts_its_calls, "second call gives another advantage_S"),
        (counts_in_its_notes, "second call gives other notes"),
        (shuffles_parts, "second call gives another part 'a'"),
        (names_parts_anew, "second call gives other parts"),
        (writes_into_its_input, "it changes units.reward_S of its input"),
        (sets_its_input, "raised ValueError: assignment destination is read-only"),
    ],
    "check_one_number_per_unit": [
        (returns_an_array, "returned a ndarray; a method returns apportion.Credit"),
        (credits_other_units, "credit is of other units"),
        (divides_by_zero, "raised DataError: credit of unit 0 is"),
        (computes_in_single_precision, "advantage_S is float32"),
        (fills_the_unknown, "advantage_S is not 0 where the credit is unknown"),
    ],
    "check_trajectory_order": [
        (remembers_a_running_mean, r"unit \d+ of trajectory \d+ has credit .*, in another order"),
        (uses_the_group_number, "in another order"),
    ],
    "check_group_names": [(reads_the_group_name, "under other group names")],
    "check_small_batches": [
        (breaks_on_a_lone_value, "trajectory 0 alone: raised"),
        (needs_two_trajectories, "trajectory 0 alone: raised IndexError"),
        (needs_two_steps, "(alone|cut to one step): raised IndexError"),
        (needs_two_tokens, "cut to one (step|token): raised IndexError"),
    ],
    "check_unknown_members": [
        (counts_the_unscored_as_zero, r"beside (mute|unscored) members"),
        (knows_the_broken, "(mute|failed) members are known"),
    ],
    "check_context_tokens": [
        (discounts_by_token_position, "with more context tokens"),
        (counts_context, "with more context tokens"),
    ],
    "check_parts_add_up": [
        (forgets_a_part, "raised DataError: parts half miss the advantage"),
        (hides_a_part, "the parts miss the credit"),
    ],
    "check_forks": [
        (declared(crosses_forks, chain=True), "on trajectories that fork: no error"),
        (declared(needs_values, "value_S", chain=True), "on trajectories that fork: no error"),
        (declared(stumbles_over_forks), "raised DataError: credit of unit 0 is inf"),
        (stumbles_over_forks, "raised DataError: credit of unit 0 is inf"),
    ],
    "check_missing_columns": [
        (declared(needs_values, "value_S"), "without value_S: raised TypeError"),
        (declared(shrugs_without_values, "value_S"), "without value_S: no error"),
        (declared(complains_vaguely, "value_S"), "'something is missing' does not name grpo and value_S"),
        (declared(outcome, "reward_S"), "without reward_S: no error"),
        (declared(outcome, "agent_S"), "without agent_S: no error"),
        (declared(outcome, "reward_parts"), "without reward_parts: no error"),
        (declared(outcome, "column:prm"), "without column:prm: no error"),
    ],
    "check_reads_are_declared": [
        (declared(peeks_at_states, units=("step",)), "it uses state_S, which `reads` does not declare: raised"),
        (declared(peeks_at_values_if_there, units=("step",)), "it uses value_S"),
        (declared(peeks_at_rewards, "logp_S", units=("step",)), "it uses reward_S"),
        (declared(peeks_at_parts, units=("step",)), "it uses outcome_parts"),
    ],
    "check_made_again": [
        (declared(says_nothing_of_itself), "made by '', not 'grpo'"),
        (declared(forgets_its_parameters), r"records the parameters \[\], not all"),
        (declared(records_what_json_cannot_hold), "do not go through JSON"),
        (declared(records_other_parameters), "gives other credit"),
    ],
    "check_left_out_stays_out": [
        (declared(trains_the_dropped, name="whiten"), "tokens count in the loss after it that were dropped"),
        (declared(trains_dropped_tokens, name="whiten"), "tokens count in the loss after it that were dropped"),
        (declared(knows_the_unknown, name="whiten"), "units are known after it that were unknown before"),
        (declared(shouts, name="whiten"), "raised AttributeError"),
    ],
    "check_asks": [
        (asking(counts_steps_over_the_batch, known_outcomes), "about step .*counted inside their trajectory"),
        (asking(goes_on_behind_the_end, known_outcomes), "about token 99 of step 0"),
        (asking(asks_about_a_rollout_too_many, known_outcomes, needs=("policy", "reward_model")), "trajectory -1 of"),
        (asking(asks_for_scores, known_outcomes), r"a reward_model \(Score\), which `needs` does not declare"),
        (asking(asks_in_rounds, known_outcomes, most=starts), r"asked for \d+ samples, and its `most` tells \d+"),
    ],
    "check_missing_answers": [
        (asking(starts, takes_the_first_sample), "raised IndexError: .*, where some answers failed"),
        (asking(starts, averages_nothing), "raised DataError: credit of unit .* is nan.*, where some answers failed"),
    ],
    "check_scale_equivariant": [
        (adds_a_bonus, "rewards times 2.5"),
        (clips_large_rewards, r"rewards times 1e\+06"),
        (adds_an_absolute_epsilon, "rewards times"),
    ],
    "check_shift_invariant": [
        (copies_the_outcome, "with shifted outcomes"),
        (multiplies_by_the_outcome, "with shifted outcomes"),
    ],
    "check_local_to_group": [
        (whitens_over_the_batch, "without the other groups"),
        (declared(meets_states_of_other_groups, "state_S", units=("step", "turn")), "without the other groups"),
    ],
    "check_local_to_trajectory": [(compares_inside_the_group, "without the other trajectories")],
    "check_relabel_invariant": [
        (declared(reads_the_state, "state_S", units=("step",)), "under other state names"),
        (declared(meets_states_of_other_groups, "state_S", units=("step",)), "under other state names"),
    ],
    "check_zero_mean_per_group": [
        (copies_the_outcome, "has mean"),
        (whitens_over_the_batch, "has mean"),
        (lets_rows_vote, "has mean"),
    ],
    "check_sums_to_outcome": [(copies_the_outcome, "credit sums to")],
}

ROWS = [(check, *row) for check in WRONG for row in WRONG[check]]


@pytest.mark.parametrize(("check", "method", "sentence"), ROWS)
def test_the_check_finds_it(check, method, sentence):
    with pytest.raises(AssertionError, match=sentence) as found:
        run_check(getattr(testing, check), method)
    assert re.search(rf"fails {check} on random_units\(\d+, '\w+'(, columns=\[.*\])?\): ", str(found.value))


def test_every_check_has_a_wrong_method():
    public = {name for name in testing.__all__ if name.startswith("check_")} - {"check_method"}
    assert set(WRONG) == public
    assert public == {check.__name__ for check in (*ALWAYS_CHECKS, *LAW_CHECKS.values())}


def test_the_spoilt_method_itself_is_right():
    for check in ALWAYS_CHECKS:
        run_check(check, outcome)
    run_check(testing.check_asks, asking(starts, known_outcomes))
    run_check(testing.check_missing_answers, asking(starts, known_outcomes))


def test_a_plain_function_is_held_to_the_checks_that_need_no_declaration():
    assert checks_for(outcome) == ALWAYS_CHECKS
    with pytest.raises(AssertionError, match="counts_its_calls fails check_is_pure"):
        check_method(counts_its_calls)


def test_laws_are_chosen_by_the_declaration():
    for law in LAWS:
        spec = dataclasses.replace(get("grpo"), holds=(law,))
        assert checks_for(spec) == (*ALWAYS_CHECKS, LAW_CHECKS[law])


def test_a_function_that_is_registered_is_recognised():
    assert checks_for(get("rloo").call) == checks_for("rloo")


def test_random_units_hold_what_breaks_careless_methods():
    for seed in range(24):
        units = random_units(seed)
        batch = units.batch
        sizes = np.bincount(batch.group_of_N)
        assert sizes.min() == 1
        assert sizes.max() >= 3
        assert (~batch.scored_N).any()
        assert batch.failed_N.any()
        assert (~batch.has_tokens_N).any()
        assert (units.tokens_S == 0).any()
        assert units.is_chain
        assert np.any(np.diff(batch.group_of_N) < 0)  # members of a group are not neighbours
        spread = [np.ptp(batch.outcome_N[(batch.group_of_N == g) & batch.valid_N]) for g in np.flatnonzero(sizes > 1)]
        assert min(spread) == 0.0
        for column in ("value_S", "logp_S", "ref_logp_S", "entropy_S", "state_S"):
            assert getattr(units, column) is not None
    assert any(random_units(s).truncated_N.any() and np.isfinite(random_units(s).final_value_N).any() for s in range(9))


def test_equal_seeds_give_equal_rollouts():
    assert random_units(3).batch.fingerprint() == random_units(3).batch.fingerprint()
    assert random_units(3).batch.fingerprint() != random_units(4).batch.fingerprint()


def test_columns_that_are_there_and_not_declared_are_hidden_too():
    method = declared(peeks_at_another_column, "column:prm", units=("step",))
    with pytest.raises(AssertionError, match="it uses column:other, which `reads` does not declare"):
        testing.check_reads_are_declared(method, random_units(0, columns=("prm", "other")))
