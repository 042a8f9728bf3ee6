"""Public bugs of credit assignment, each as the tiny input that shows it and the right numbers: `cases.json`.

What a case needs beyond rollouts, credit and tokens is tested in the room it belongs to; docs/cases.md says where.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from apportion.assign import assign
from apportion.check import check_credit
from apportion.check.significance import rank_correlation
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.numerics import centre, gae_padded, to_go, to_go_padded
from apportion.numerics.minform import min_form
from apportion.numerics.repetition import repetition
from apportion.units import by_agent, by_episode, by_segment, by_step, by_token
from apportion.units.similar import Blocks, Near

CASES = {case["id"]: case for case in json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))}


def case(name):
    return CASES[name]["input"], CASES[name]["right"]


def rollouts(rewards, groups=None, *, tokens=None, **step):
    """One trajectory of one step for each reward."""
    groups = groups or ["g"] * len(rewards)
    sizes = tokens or [1] * len(rewards)
    return by_step(
        Batch.from_trajectories(
            Trajectory([Step(prompt_ids=[7, 7, 7], ids=list(range(n)), reward=r, **step)], group=g)
            for r, g, n in zip(rewards, groups, sizes, strict=True)
        )
    )


def masked(reward, mask, value=None, **trajectory):
    """One trajectory by token: sampled where the mask is 1, context elsewhere; a reward arrives with the step's end."""
    steps, context, t = [], [], 0
    while t < len(mask):
        if not mask[t]:
            context.append(100 + t)
            t += 1
            continue
        run = [k for k in range(t, len(mask)) if all(mask[t : k + 1]) and (k == t or not reward[k - 1])]
        values = None if value is None else [value[k] for k in run]
        steps.append(Step(prompt_ids=context, ids=run, token_values=values, reward=float(reward[run[-1]])))
        context, t = [], run[-1] + 1
    return by_token(Batch.from_trajectories([Trajectory(steps, **trajectory)]))


def close(got, want, atol=1e-6):
    np.testing.assert_allclose(got, want, atol=atol)


# --- who is compared with whom --------------------------------------------------------------------------------------


def test_g1_groups_are_given_never_read_off_the_prompt():
    given, right = case("G1")
    units = rollouts(given["reward"], given["group_id"])
    assert len({tuple(step.prompt_ids.tolist()) for t in units.batch for step in t.steps}) == 1
    close(assign("rloo", units).advantage_S, right["advantage"])
    close(assign("rloo", rollouts(given["reward"])).advantage_S, right["wrong"])  # what pooling would have said


def test_g2_a_fresh_id_per_rollout_leaves_groups_of_one_and_says_so():
    given, right = case("G2")
    close(assign("dr_grpo", rollouts(given["reward"], given["task"])).advantage_S, right["advantage"])
    fresh = assign("dr_grpo", rollouts(given["reward"], given["traj_uid"]))
    assert fresh.advantage_S.tolist() == [0, 0, 0, 0]
    assert fresh.notes["groups_of_one"] == 4


def test_g6_all_members_vote():
    given, right = case("G6")
    close(assign("dr_grpo", rollouts(given["reward"], given["group"])).advantage_S, right["advantage"])


def test_g7_inside_each_group():
    given, right = case("G7")
    flat = [r for row in given["rewards_by_prompt"] for r in row]
    groups = [str(i) for i, row in enumerate(given["rewards_by_prompt"]) for _ in row]
    close(assign("dr_grpo", rollouts(flat, groups)).advantage_S, np.ravel(right["advantage"]))


def test_g10_without_siblings_there_is_nothing_to_say():
    given, right = case("G10")
    credit = assign("grpo", rollouts(given["reward"], given["group"]))
    assert credit.advantage_S.tolist() == right["advantage"]
    assert credit.notes["groups_of_one"] == 2


def test_u1_the_role_belongs_to_the_group():
    given, right = case("U1")
    keys = [f"{group}/{role}" for group, role in zip(given["group"], given["role"], strict=True)]
    close(assign("dr_grpo", rollouts(given["reward"], keys)).advantage_S, right["advantage"])
    # a method for teams tells the roles of one group apart by itself
    batch = Batch.from_trajectories(
        Trajectory([Step(prompt_ids=[0], ids=[1], agent=role, reward=reward)], group=group)
        for role, reward, group in zip(given["role"], given["reward"], given["group"], strict=True)
    )
    close(assign("dr_mas", by_agent(batch), scale="none").advantage_S, right["advantage"])
    close(assign("dr_grpo", by_agent(batch)).advantage_S, right["wrong"])


# --- spread ---------------------------------------------------------------------------------------------------------


def test_z1_equal_rewards_give_exact_zeros():
    given, right = case("Z1")
    units = rollouts(given["reward"], given["group"])
    for expression in (
        "grpo",
        f"grpo(epsilon={given['eps']})",
        "dr_grpo",
        "rloo",
        "gigpo(scale='std')",
        "grpo | whiten",
    ):
        assert assign(expression, units).advantage_S.tolist() == right["advantage"]
    single = np.array(given["reward"], dtype=np.float32)
    assert centre(single, np.zeros(7, dtype=np.int64), scale="std", epsilon=1e-6).tolist() == right["advantage"]


def test_z3_no_spread_among_the_others_no_scaling():
    given, right = case("Z3")
    group = np.zeros(4, dtype=np.int64)
    close(centre(given["reward"], group, scale="std", ddof=given["ddof"], leave_one_out=True), right["advantage"])


def test_z6_a_constant_group_is_one_whatever_the_scale():
    given, right = case("Z6")
    for scale in ("batch", "std", "none"):
        credit = assign("grpo", rollouts(given["reward"], given["group"]), scale=scale)
        assert credit.notes["constant_groups"] == sum(right["zero_spread"].values())
        assert credit.advantage_S[:2].tolist() == [0, 0]


def test_s1_a_group_of_one_is_a_finite_zero_and_counted():
    given, right = case("S1")
    units = rollouts(given["reward"], given["group"])
    for name in given["estimators"]:
        credit = assign(name, units)
        assert credit.advantage_S[0] == 0
        assert credit.notes["groups_of_one"] == 1
    close(assign("dr_grpo", units).advantage_S, right["advantage_mean_only"])
    close(assign("rloo", units).advantage_S, right["advantage_rloo"])


def test_s4_ddof_is_a_parameter():
    given, right = case("S4")
    for ddof in (1, 0):
        credit = assign("grpo", rollouts(given["reward"]), ddof=ddof)
        close(credit.advantage_S, right[f"ddof{ddof}"])
        assert credit.params["ddof"] == ddof


def test_n1_each_scale_does_what_it_says():
    given, right = case("N1")
    units = rollouts(given["reward"], given["group"])
    close(assign("grpo", units, scale="std").advantage_S, right["scale_group"])
    close(assign("grpo", units, scale="batch").advantage_S, right["scale_batch"])


def test_c1_statistics_are_in_double_precision():
    given, right = case("C1")
    coarse = [np.float32(r) for r in given["reward"]]  # exact in bfloat16, hence in float32
    close(assign("grpo", rollouts(coarse)).advantage_S, right["advantage"])


def test_a7_rows_are_centred_along_their_own_axis():
    given, right = case("A7")
    x = np.array(given["x"], dtype=float)
    row_of = np.repeat(np.arange(len(x)), x.shape[1])
    close(centre(x.ravel(), row_of).reshape(x.shape), right["out"])


# --- who takes part -------------------------------------------------------------------------------------------------


def test_m1_unscored_is_unknown_and_moves_nobody():
    given, right = case("M1")
    credit = assign("dr_grpo", rollouts(given["reward"], given["group"]))
    close(credit.advantage_S, right["advantage"])
    assert credit.known_S.tolist() == right["scored"]
    assert credit.notes["unknown_trajectories"] == 1
    assert credit.to_tokens().weight_T[credit.units.batch.sampled_T].tolist() == [1, 1, 0, 1]


def test_m4_a_crashed_verifier_is_not_a_zero():
    given, right = case("M4")
    scored = [r if ok else None for r, ok in zip(given["reward"], given["valid"], strict=True)]
    close(assign("dr_grpo", rollouts(scored)).advantage_S, right["advantage"])
    broken = [
        Trajectory([Step(ids=[1], reward=r, failed=not ok)], group="g")
        for r, ok in zip(given["reward"], given["valid"], strict=True)
    ]
    credit = assign("dr_grpo", by_step(Batch.from_trajectories(broken)))
    close(credit.advantage_S, right["advantage"])
    assert credit.known_S.tolist() == given["valid"]


def test_m8_a_bonus_does_not_score_what_nobody_scored():
    given, right = case("M8")
    batch = Batch.from_trajectories(
        Trajectory([Step(ids=[1], reward=bonus), Step(ids=[2])], outcome=outcome, group="g")
        for outcome, bonus in zip(given["outcome"], given["length_bonus"], strict=True)
    )
    credit = assign("dr_grpo", by_episode(batch))
    close(credit.advantage_S, right["advantage"])
    assert credit.known_S.tolist() == [True, True, False]


def test_r1_a_trajectory_votes_once_however_many_steps():
    given, right = case("R1")
    lengths = {name: given["traj"].count(name) for name in given["traj"]}
    outcome = dict(zip(given["traj"], given["reward"], strict=True))
    units = by_step(
        Batch.from_trajectories(
            Trajectory([Step(prompt_ids=[1], ids=[2]) for _ in range(n)], outcome=outcome[name], group="g")
            for name, n in lengths.items()
        )
    )
    for expression in ("dr_grpo", "grpo(scale='none')", "gigpo(step_weight=0)"):
        close(assign(expression, units).advantage_S, right["advantage"])


def test_r4_without_a_trainable_token_no_vote():
    given, right = case("R4")
    credit = assign("dr_grpo", rollouts(given["reward"], given["group"], tokens=given["trainable_tokens"]))
    close(credit.advantage_S, right["advantage"])
    assert credit.known_S.tolist() == [False, True, True]


def test_p2_an_empty_response_holds_no_reward_and_reaches_no_sibling():
    given, right = case("P2")
    units = rollouts(given["score"], given["group"], tokens=given["length"])
    rewards = by_token(units.batch).reward_S
    assert rewards.tolist() == [0, 0, 1]
    padded = assign("dr_grpo", units).to_tokens().padded()
    assert padded.advantage[:, 3:].tolist() == right["advantage"]
    assert not padded.weight[0].any()


def test_h2_long_successes_keep_their_credit():
    given, right = case("H2")
    units = by_step(
        Batch.from_trajectories(
            Trajectory([Step(prompt_ids=[1], ids=[2]) for _ in range(rows)], outcome=r, group="g")
            for r, rows in zip(given["reward"], given["rows"], strict=True)
        )
    )
    credit = assign("dr_grpo", units)
    assert credit.advantage_S.max() == right["success_advantage_by_traj"]
    assert units.outcome_N.mean() == right["mean_traj_level"]
    by_row = assign("grpo", units, scale="none", votes="row")
    assert by_row.advantage_S.max() == right["success_advantage_by_row"]
    first = np.flatnonzero(np.append(True, np.diff(units.traj_of_S) > 0))
    for made in (credit, by_row):  # row weighting moves the mean, not who goes with whom
        assert rank_correlation(made.advantage_S[first], np.array(given["tool_calls"])) == pytest.approx(
            right["corr_advantage_tool_calls"]
        )


def test_h2_credit_that_goes_with_length_is_found():
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 9, size=40)
    units = by_step(
        Batch.from_trajectories(
            Trajectory(
                [Step(prompt_ids=[1], ids=[2]) for _ in range(n)], outcome=float(rng.integers(2)), group=str(k % 4)
            )
            for k, n in enumerate(rows)
        )
    )

    def told(credit):
        return [f.evidence["correlation"] for f in check_credit(credit) if f.code == "credit-confounded/length"]

    assert told(assign("dr_grpo", units)) == []
    longer = Credit(rows[units.traj_of_S] - 4.5, units)
    (correlation,) = told(longer)
    assert correlation > 0.9


# --- tokens ---------------------------------------------------------------------------------------------------------


def test_a1_padding_is_known_by_length_not_by_id():
    given, right = case("A1")
    ids = given["ids"][: given["length"]]
    batch = Batch.from_trajectories([Trajectory([Step(ids=ids, reward=1.0)])])
    padded = assign("reinforce", by_step(batch)).to_tokens().padded(pad_id=given["pad"], length=len(given["ids"]))
    assert padded.ids[0].tolist() == given["ids"]
    assert padded.weight[0].tolist() == padded.real[0].tolist() == right["mask"]


def test_a2_each_step_writes_onto_its_own_tokens():
    given, right = case("A2")
    steps = [Step(ids=[1, 2]), Step(prompt_ids=[3, 4, 5, 6], ids=[7], reward=given["scalar"])]
    tokens = assign("reinforce", by_step(Batch.from_trajectories([Trajectory(steps)]))).to_tokens().padded(length=8)
    assert tokens.advantage.reshape(2, 4).tolist() == right["advantage"]
    assert tokens.weight.reshape(2, 4).tolist() == given["mask"]


def test_a5_length_counts_what_was_sampled():
    given, right = case("A5")
    mask = given["action_mask"]
    units = by_episode(masked([0] * len(mask), mask).batch)
    assert units.tokens_S.tolist() == [right["action_tokens"]]


def test_p1_the_score_arrives_with_the_last_sampled_token():
    given, right = case("P1")
    batch = Batch.from_trajectories([Trajectory([Step(ids=list(range(given["length"])))], outcome=given["score"])])
    assert by_token(batch).reward_S.tolist() == right["token_reward"][: given["length"]]
    last = assign("reinforce", by_episode(batch)).to_tokens("last").padded(length=given["width"])
    assert last.advantage[0].tolist() == right["token_reward"]


def test_m6_masks_select():
    given, right = case("M6")
    mask = np.array(given["mask"], dtype=bool)
    kl = np.array(given["kl"])
    assert math.isnan(kl[1])
    reward = np.where(mask, given["score"] - given["beta"] * kl, np.nan)
    out = to_go_padded(reward[None], mask[None])
    close(out[0], right["token_reward"])
    close(gae_padded(reward[None], np.where(mask, 0.0, np.nan)[None], mask[None])[0], right["token_reward"])


# --- time -----------------------------------------------------------------------------------------------------------


def test_e1_observations_are_crossed_without_decay():
    given, right = case("E1")
    units = masked(given["reward"], given["mask"], given["value"])
    credit = assign("gae", units, gamma=given["gamma"], lam=given["lam"])
    close(credit.to_tokens().advantage_T, right["advantage"])
    mask = np.array([given["mask"]], dtype=bool)
    flat = gae_padded(np.array([given["reward"]]), np.array([given["value"]]), mask, gamma=1.0, lam=given["lam"])
    close(flat[0], right["advantage"])


def test_e3_values_outside_the_mask_are_never_read():
    given, right = case("E3")
    for garbage in (given["value"][-1], np.nan, np.inf):
        value = np.array([[*given["value"][:-1], garbage]])
        mask = np.array([given["mask"]], dtype=bool)
        out = gae_padded(np.array([given["reward"]]), value, mask, gamma=given["gamma"], lam=given["lam"])
        close(out[0], right["advantage"])


def test_e5_a_value_belongs_to_the_state_before_its_token():
    given, right = case("E5")
    first = given["prompt_len"] - 1
    values = given["value_head"][first : first + 3]
    assert values == right["values"]
    steps = [Step(prompt_ids=[1, 2], ids=[3, 4, 5], token_values=values, reward=1.0)]
    units = by_token(Batch.from_trajectories([Trajectory(steps)]))
    assert units.reward_S.tolist() == given["reward"]
    close(assign("gae", units, lam=given["lam"]).advantage_S, right["advantage"])


def test_e7_the_reward_follows_the_action():
    given, right = case("E7")
    steps = [Step(ids=[s], reward=r) for s, r in enumerate(given["reward"])]
    units = by_step(Batch.from_trajectories([Trajectory(steps)]))
    assert assign("reinforce", units, gamma=given["gamma"]).advantage_S.tolist() == right["returns"]


@pytest.mark.parametrize("final_value", [None, 2.0])
def test_e9_no_bootstrap_at_termination(final_value):
    given, right = case("E9")
    rows = zip(given["reward"], given["value"], given["terminated"], strict=True)
    steps = [Step(ids=[1], reward=r, value=v, terminated=bool(end)) for r, v, end in rows]
    units = by_step(Batch.from_trajectories([Trajectory(steps, final_value=final_value)]))
    close(assign("gae", units, gamma=given["gamma"], lam=given["lam"]).advantage_S, right["advantage"])


def test_t1_truncated_is_a_boundary_and_bootstraps():
    given, right = case("T1")
    for end, want in (("truncated", right["advantage"]), ("terminated", right["if_terminated"])):
        first, last = (Step(ids=[1], reward=r, value=v) for r, v in zip(given["reward"], given["value"], strict=True))
        last = Step(ids=[1], reward=last.reward, value=last.value, **{end: True})
        pair = [Trajectory([first, last], final_value=given["value_after"])] * 2  # a neighbour it could leak into
        credit = assign("gae", by_step(Batch.from_trajectories(pair)), lam=given["lam"])
        close(credit.advantage_S, want * 2)


def test_l1_a_penalty_sits_on_sampled_tokens_and_is_not_decayed_by_the_others():
    given, right = case("L1")
    mask = given["mask"]
    reward = [-given["beta"] * kl * m for kl, m in zip(given["kl"], mask, strict=True)]
    reward[-1] += given["score"]
    units = masked(reward, mask)
    close(assign("reinforce", units, gamma=given["gamma"]).advantage_S, right["return_at_actions"])
    # the same where a method makes the penalty itself: observations have no log-probabilities it could read
    inner = Step(prompt_ids=[0], ids=[1], logp=[-1.0], ref_logp=[-1.0 - given["kl"][0]])
    outer = Step(prompt_ids=[2, 3], ids=[4], logp=[-1.0], ref_logp=[-1.0 - given["kl"][-1]])
    batch = Batch.from_trajectories([Trajectory([inner, outer], outcome=given["score"])])
    shaped = assign("reinforce_pp", by_token(batch), gamma=given["gamma"], kl_coef=given["beta"], scale="none")
    close(shaped.parts["return"], right["return_at_actions"])


def test_y1_long_discounted_sums_do_not_underflow():
    given, right = case("Y1")
    close(
        to_go(np.array(given["reward"], dtype=float), np.zeros(6, dtype=np.int64), gamma=given["gamma"]),
        right["returns"],
    )
    long = given["long"]
    out = to_go(np.full(long["T"], float(long["reward"])), np.zeros(long["T"], dtype=np.int64), gamma=long["gamma"])
    assert np.isfinite(out).all() == right["long_finite"]
    assert out[0] == pytest.approx(right["long_first"])


def test_y4_discounting_sums():
    given, right = case("Y4")
    steps = [Step(ids=[s], reward=r) for s, r in enumerate(given["reward"])]
    credit = assign("reinforce", by_step(Batch.from_trajectories([Trajectory(steps)])), gamma=given["gamma"])
    close(credit.advantage_S, right["returns"])


# --- states ---------------------------------------------------------------------------------------------------------


def test_q6_steps_are_compared_by_state_not_by_number():
    given, right = case("Q6")
    batch = Batch.from_trajectories(
        Trajectory([Step(ids=[1], state=state) for state in states], outcome=given["step_return"][name][-1], group="g")
        for name, states in given["states"].items()
    )
    credit = assign("anchor", by_step(batch), gamma=1.0)
    close(credit.advantage_S, [*right["step_advantage"]["A"], *right["step_advantage"]["B"]])
    assert credit.notes["units_without_company"] == right["singletons"]


def test_q8_visits_that_repeat_ones_own_are_counted():
    given, right = case("Q8")
    names = list(dict.fromkeys(given["traj"]))
    last = dict(zip(given["traj"], given["step_return"], strict=True))
    batch = Batch.from_trajectories(
        Trajectory([Step(ids=[1], state="s") for _ in range(given["traj"].count(name))], outcome=last[name], group="g")
        for name in names
    )
    units = by_step(batch)
    credit = assign("anchor", units)
    once = assign("anchor", units, repeats="once")
    for n, name in enumerate(names):
        close(credit.advantage_S[units.traj_of_S == n], right["count_all"][name])
        close(once.advantage_S[units.traj_of_S == n], right["once_per_traj"][name])
    assert credit.notes["own_repeats"] / len(units) == pytest.approx(right["repeat_share"], abs=1e-6)


def test_q1_an_outcome_beside_copied_step_rewards_is_counted_once():
    given, right = case("Q1")
    steps = [Step(ids=[1], reward=r) for r in given["step_reward"]]
    units = by_step(Batch.from_trajectories([Trajectory(steps, outcome=1.0, group="g")]))
    assert units.outcome_N.tolist() == [right["episode_return"]]


# --- order, inputs --------------------------------------------------------------------------------------------------


def test_d1_the_result_of_a_row_does_not_depend_on_the_order():
    given, right = case("D1")
    close(assign("dr_grpo", rollouts(given["reward"], given["group"])).advantage_S, right["advantage"])
    order = given["perm"]
    moved = rollouts([given["reward"][i] for i in order], [given["group"][i] for i in order])
    close(assign("dr_grpo", moved).advantage_S, right["after_perm"])


def test_d3_any_split_of_the_rows_gives_the_numbers_of_the_whole():
    given, right = case("D3")
    tokens = list(assign("dr_grpo", rollouts(given["reward"], given["group"])).to_tokens().split())
    for sizes in given["splits"]:
        assert sum(sizes) == len(tokens)
        assert [piece.advantage[-1] for piece in tokens] == right["advantage"]


def test_l3_inputs_are_never_changed():
    given, _ = case("L3")
    units = rollouts(given["kl"])
    first = assign("grpo | whiten", units).advantage_S
    assert units.reward_S.tolist() == given["kl"]
    assert assign("grpo | whiten", units).advantage_S.tolist() == first.tolist()


def test_the_list_is_the_shared_one(data_root):
    shared = json.loads((data_root / "cases" / "cases.json").read_text(encoding="utf-8"))
    assert json.dumps(list(CASES.values())) == json.dumps(shared)


# --- steps, texts and what is said of them --------------------------------------------------------------------------


def test_q3_near_states_are_one_partition_in_every_order():
    given, right = case("Q3")
    name = dict(zip(given["obs"], "abc", strict=True))

    def partition(rule, order):
        texts = sorted(given["obs"], key=lambda text: order.index(name[text]))
        keys = rule.keys(texts, [0] * 3)
        return {frozenset(name[t] for t, other in zip(texts, keys, strict=True) if other == key) for key in keys}

    near = {frozenset(partition(Near(given["threshold"]), order)) for order in given["orders"]}
    assert len(near) == 1
    assert right["property"] == "partition equal for all orders"
    # the published rule is there under its own name, and gives what was seen
    for order, groups in right["first_fit_gives"].items():
        assert partition(Blocks(given["threshold"] - 1e-9), order) == {frozenset(group) for group in groups}


def test_w1_labels_and_steps_are_counted_against_each_other():
    given, right = case("W1")
    batch = Batch.from_trajectories([Trajectory([Step(observation="q", action="all of it in one line", reward=1.0)])])
    units = by_segment(batch, "paragraph")
    assert len(units) - 1 == given["markers_found"]  # what is left when no end is found is one segment
    with pytest.raises(ValueError, match="with_reward: 3 rewards for 1 segments; give one for each") as caught:
        units.with_reward(np.ones(given["labels"]))
    assert right["raises"].startswith("ValueError")
    assert isinstance(caught.value, ValueError)


def test_x1_repetition_is_counted_in_characters():
    given, right = case("X1")
    (score,) = repetition([given["text"]])
    assert score == pytest.approx(1 - 19 / 55)  # 10 characters: two substrings of each length but the last, one of ten
    assert score > 0.2 > right["wrong"]
    assert repetition([[ord(sign) for sign in given["text"]]])[0] == score
    pairs = [given["text"][k : k + given["n"]] for k in range(len(given["text"]) - 1)]
    assert 1 - len(set(pairs)) / len(pairs) == pytest.approx(right["repetition"], abs=1e-6)


def test_w3_the_worst_step_is_blamed_and_length_does_not_pay():
    given, right = case("W3")
    rewards = given["step_reward"]
    units = rollouts_of([rewards])
    for temperature, expected in zip(given["T"], ("T0", "T01"), strict=True):
        star = min_form(np.array(rewards), np.zeros(3, dtype=np.int64), temperature=temperature)
        close(star, right[expected]["r_star"])
        credit = assign("pure", units, temperature=temperature, baseline="none")
        close(credit.parts["process"], right[expected]["returns"])
    longer = rollouts_of([[*rewards, 0.9, 0.9, 0.9]])
    assert assign("pure", longer, baseline="none").parts["process"][0] < 0.21
    assert assign("pure", longer, form="sum", baseline="none").parts["process"][0] == pytest.approx(4.4)


def rollouts_of(rewards):
    """One trajectory of one-token steps for each list of rewards."""
    return by_step(
        Batch.from_trajectories(
            Trajectory([Step(prompt_ids=[0], ids=[1], reward=r) for r in steps], group="g") for steps in rewards
        )
    )
