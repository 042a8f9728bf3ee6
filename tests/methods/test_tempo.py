from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.units import by_episode, by_segment, by_step, by_token, by_tree
from tests.grown import grown, letters, random_words
from tests.plain import spread
from tests.tree import TREE, advantages, whole_batch


def by_word(credit_S, units):
    return [credit_S[units.traj_of_S == n].tolist() for n in range(len(units.group_of_N))]


def tempo(words, outcomes, **params):
    units = by_token(grown(words, outcomes))
    return by_word(assign("tempo", units, **params).advantage_S, units)


def test_worked_example():
    # V(A) = 1/4, V(AB) = 1/2, V(ABC) = 1, V(ABD) = 0, V(AF) = 0; mean 1/4, std 1/2
    words, outcomes = ["ABCE", "ABDE", "AFE", "AFGE"], [1, 0, 0, 0]
    plain = [[0.75, 1, 1.25, 0.75], [-0.25, 0, -0.75, -0.25], [-0.25, -0.5, -0.25], [-0.25, -0.5, -0.25, -0.25]]
    assert tempo(words, outcomes, scale="none") == plain
    assert tempo(words, outcomes) == [[2 * a for a in row] for row in plain]


def test_the_released_epsilon():
    words, outcomes = ["ABCE", "ABDE", "AFE", "AFGE"], [1, 0, 0, 0]
    np.testing.assert_allclose(
        tempo(words, outcomes, epsilon=1e-6)[0], np.array([0.75, 1, 1.25, 0.75]) / (0.5 + 1e-6), rtol=1e-12
    )


def test_who_parts_at_once_gets_the_first_token_twice():
    assert tempo(["AX", "BX", "CX", "DX"], [1, 0, 0, 0]) == [[3, 1.5], [-1, -0.5], [-1, -0.5], [-1, -0.5]]


def test_equal_rollouts_and_rollouts_that_end_early():
    r = 0.5**0.5
    np.testing.assert_allclose(tempo(["AB", "AB"], [1, 0]), [[r, r], [-r, -r]])
    short, long = tempo(["AB", "ABC"], [1, 0])
    np.testing.assert_allclose(short, [r, r])
    np.testing.assert_allclose(long, [-r, -r, -2 * r])


def test_observations_are_walked_through_and_get_nothing():
    words = ["AeBC", "AeBD"]
    assert tempo(words, [1, 0], scale="none") == [[0.5, 0.5, 1], [-0.5, -0.5, -1]]
    assert tempo(words, [1, 0], scale="none", observations="stop") == [[0.5, 0.5, 0.5], [-0.5, -0.5, -0.5]]
    # the environment parted these two: its step from 1/2 to 1 is nobody's
    credit = assign("tempo", by_token(grown(["AeBC", "AfBD"], [1, 0])), scale="none")
    assert credit.advantage_S.tolist() == [0.5, 0.5, 0.5, -0.5, -0.5, -0.5]
    assert credit.notes["parted_by_observation"] == 2


def test_the_others_as_the_baseline_by_hand():
    # for ABCE the others have 0: base 1, nothing changes. For ABDE: base -1/3; the others' V is 1/3 at A, 1 at AB
    rows = tempo(["ABCE", "ABDE", "AFE", "AFGE"], [1, 0, 0, 0], scale="none", baseline="others")
    np.testing.assert_allclose(rows[0], [1, 1, 1, 1])
    np.testing.assert_allclose(rows[1], [-1 / 3, -1 / 3 + 2 / 3, -1 / 3, -1 / 3])
    np.testing.assert_allclose(rows[2], [-1 / 3, -2 / 3, -1 / 3])


def test_the_changes_by_their_own_std():
    # AB 1, AC 0, DE 0: V is 1/3, then 1/2 behind A. Changes 1/6 1/2, 1/6 -1/2, -1/3 0 at the places A B, A C and D;
    # E has the members of D and is no place. Their mean is 0, their squares sum to 2/36 + 2/4 + 1/9 = 2/3
    units = by_token(grown(["AB", "AC", "DE"], [1, 0, 0]))
    std = (2 / 3 / 4) ** 0.5
    credit = assign("tempo", units, td_std="td")
    want = np.array([1 / 6, 1 / 2, 1 / 6, -1 / 2, -1 / 3, 0]) / std
    np.testing.assert_allclose(credit.parts["prefix"], want, atol=1e-12)
    np.testing.assert_allclose(credit.parts["group"], assign("tempo", units).parts["group"], atol=1e-12)
    plain = assign("tempo", units, td_std="td", scale="none").advantage_S
    np.testing.assert_allclose(plain, assign("tempo", units, scale="none").advantage_S, atol=1e-12)


def test_two_members_at_least():
    rows = tempo(["ABCE", "ABDE", "AFE", "AFGE"], [1, 0, 0, 0], scale="none", min_members=2)
    assert rows[0] == [0.75, 1, 0.75, 0.75]  # the step from V(AB) to one's own outcome is gone


def test_notes():
    # shared: A four times, AB and AF twice each; 15 tokens
    notes = assign("tempo", by_token(grown(["ABCE", "ABDE", "AFE", "AFGE"], [1, 0, 0, 0]))).notes
    assert notes == {"groups": 1, "shared_tokens": 8 / 15}


def test_a_group_of_one_and_equal_outcomes_get_zero():
    credit = assign("tempo", by_token(grown(["AB", "AC", "AD", "AB"], [5, 0.3, 0.3, 0.3], group="abbb")))
    assert credit.advantage_S.tolist() == [0] * 8
    assert credit.notes["groups_of_one"] == 1
    assert credit.notes["constant_groups"] == 1


# --- the slow reference: for every token, everybody who starts alike -------------------------------------------------


def slow_tempo(words, outcomes, group, weight, scale, ddof, epsilon, baseline, min_members, observations, td_std):
    def mean(i, members):
        xs = [outcomes[j] for j in members if baseline == "self" or j != i]
        return sum(xs) / len(xs) if xs else None

    places = []  # (group, change) where the members of a prefix change
    rows = []
    for i, word in enumerate(words):
        mine = letters(word)
        everyone = [j for j in range(len(words)) if group[j] == group[i]]
        all_outcomes = [outcomes[j] for j in everyone]
        std = spread(all_outcomes, ddof)
        root = mean(i, everyone)
        before, stopped = root, False
        row, known = [], None
        for t, sign in enumerate(mine):
            members = [j for j in everyone if letters(words[j])[: t + 1] == mine[: t + 1]]
            after = mean(i, members)
            change = 0.0 if after is None or len(members) < min_members else after - before
            before = before if after is None else after
            stopped = stopped or sign.islower()
            if sign.isupper():
                change = 0.0 if stopped and observations == "stop" else change
                if members != known:
                    places.append((group[i], change))
                row.append((outcomes[i] - root if root is not None else 0.0, change))
            known = members
        rows.append((row, std))
    out = []
    for i, (row, std) in enumerate(rows):
        own = spread([change for g, change in places if g == group[i]], ddof)
        own = own if td_std == "td" and scale == "std" else std

        def over(x, std):
            return x / (std + epsilon if scale == "std" else 1.0) if std else 0.0

        out.append([over(place, std) + weight * over(change, own) for place, change in row])
    return out


MODES = list(
    product(
        [1.0, 0.3, 0.0],
        ["std", "none"],
        [0, 1],
        [0.0, 1e-3],
        ["self", "others"],
        [1, 2, 3],
        ["walk", "stop"],
        ["reward", "td"],
    )
)
NAMES = ("td_weight", "scale", "ddof", "epsilon", "baseline", "min_members", "observations", "td_std")


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    words, outcomes, group = random_words(seed)
    units = by_token(grown(words, outcomes, group))
    for mode in MODES[seed % 50 :: 50]:
        params = dict(zip(NAMES, mode, strict=True))
        credit = assign("tempo", units, **params)
        want = slow_tempo(words, outcomes, group, *mode)
        for n, row in enumerate(by_word(credit.advantage_S, units)):
            np.testing.assert_allclose(row, want[n], atol=1e-9, err_msg=f"{words[n]} of {words}: {params}")


# --- relations ------------------------------------------------------------------------------------------------------


def test_it_is_grpo_to_the_bit_where_no_sibling_parts():
    assert sum(compare_with_grpo(seed) for seed in range(20)) > 50


def compare_with_grpo(seed):
    """Equal to the bit where the sharers stay; the number of tokens where they do not and the credit differs."""
    words, outcomes, group = random_words(seed)
    units = by_token(grown(words, outcomes, group))
    got = by_word(assign("tempo", units).advantage_S, units)
    grpo = by_word(assign("grpo", units).advantage_S, units)
    parted = 0
    for i, word in enumerate(words):
        mine = letters(word)
        sharers = [
            [j for j in range(len(words)) if group[j] == group[i] and letters(words[j])[:t] == mine[:t]]
            for t in range(len(mine) + 1)
        ]
        own = [t for t, sign in enumerate(mine) if sign.isupper()]
        for k, t in enumerate(own):
            if sharers[t] == sharers[t + 1]:
                assert got[i][k] == grpo[i][k]
            else:
                parted += got[i][k] != grpo[i][k]
    return parted


@pytest.mark.parametrize("seed", range(10))
def test_the_changes_of_a_unique_rollout_add_up_to_its_place_in_the_group(seed):
    words, outcomes, group = random_words(seed, observations=False)
    units = by_token(grown(words, outcomes, group))
    credit = assign("tempo", units, scale="none")
    totals = [sum(row) for row in by_word(credit.parts["prefix"], units)]
    place = [row[0] for row in by_word(assign("dr_grpo", units).advantage_S, units)]
    for i, word in enumerate(words):
        starts_with = [j for j in range(len(words)) if group[j] == group[i] and words[j].startswith(word)]
        if starts_with == [i]:
            assert totals[i] == pytest.approx(place[i], abs=1e-12)


@pytest.mark.parametrize("cut", [by_episode, by_step, by_tree, lambda batch: by_segment(batch, "fixed", count=2)])
@pytest.mark.parametrize("seed", range(5))
def test_a_coarser_unit_adds_up_the_changes_of_its_tokens(cut, seed):
    words, outcomes, group = random_words(seed)
    batch = grown(words, outcomes, group)
    tokens, units = by_token(batch), cut(batch)
    fine = assign("tempo", tokens).parts["prefix"]
    coarse = assign("tempo", units).parts["prefix"]
    unit_of_token = units.unit_of_T[batch.sampled_T]
    np.testing.assert_allclose(coarse, np.bincount(unit_of_token, weights=fine, minlength=len(units)), atol=1e-12)


def test_without_the_changes_it_is_grpo():
    words, outcomes, group = random_words(1)
    units = by_token(grown(words, outcomes, group))
    got = assign("tempo", units, td_weight=0.0).advantage_S
    assert got.tolist() == assign("grpo", units).advantage_S.tolist()


def test_members_that_nobody_scored_change_nothing():
    words, outcomes = ["ABCE", "ABDE", "AFE"], [1, 0, 0]
    for baseline in ("self", "others"):
        want = tempo(words, outcomes, baseline=baseline)
        got = tempo(["ABCE", *words, "ABX", "Q"], [None, *outcomes, None, None], baseline=baseline)
        assert got[1:4] == want
        assert not any(map(any, (got[0], *got[4:])))


def test_words_stand_in_for_tokens_in_logs_of_text():
    def batch():
        texts = [("go left now", 1.0), ("go left soon", 0.0), ("stay", 0.0)]
        return Batch.from_trajectories(
            [Trajectory([Step(observation="you see", action=text)], outcome=r, group="g") for text, r in texts]
        )

    numbered = {"go": 1, "left": 2, "now": 3, "soon": 4, "stay": 5}
    ids = Batch.from_trajectories(
        Trajectory([Step(prompt_ids=[9], ids=[numbered[w] for w in text.split()])], outcome=r, group="g")
        for text, r in (("go left now", 1.0), ("go left soon", 0.0), ("stay", 0.0))
    )
    assert (
        assign("tempo", by_token(batch())).advantage_S.tolist() == assign("tempo", by_token(ids)).advantage_S.tolist()
    )


# --- exact ----------------------------------------------------------------------------------------------------------


def whole_tree():
    """Every path of the tree as often as its probability says; one token per action, one per observation."""
    places = {(state, action): 10 + k for k, (state, action) in enumerate((s, a) for s in TREE for a in TREE[s])}
    out, moves = [], []
    for path in whole_batch():
        steps = [Step(prompt_ids=[list(TREE).index(s)], ids=[places[s, a]], reward=r) for s, a, r in path]
        out.append(Trajectory(steps, group="g"))
        moves += [(s, a) for s, a, _ in path]
    return by_token(Batch.from_trajectories(out)), moves


def test_its_changes_are_the_true_advantages_of_the_whole_tree():
    # a prefix holds the rewards so far and the state; what a deterministic step changes is Q - V, token by token
    units, moves = whole_tree()
    prefix_S = assign("tempo", units, scale="none").parts["prefix"]
    want = advantages(1.0)
    np.testing.assert_allclose(prefix_S, [want[move] for move in moves], atol=1e-12)


def test_what_it_refuses():
    units = by_token(grown(["A"], [1]))
    with pytest.raises(ConfigError, match="tempo: scale is 'batch'; give 'std' or 'none'"):
        assign("tempo", units, scale="batch")
    with pytest.raises(ConfigError, match="tempo: baseline is 'loo'; give 'self' or 'others'"):
        assign("tempo", units, baseline="loo")
    with pytest.raises(ConfigError, match="tempo: observations is 'skip'; give 'walk' or 'stop'"):
        assign("tempo", units, observations="skip")
    with pytest.raises(ConfigError, match="tempo: td_std is 'both'; give 'reward' or 'td'"):
        assign("tempo", units, td_std="both")
