"""Growing rollouts: branches, forks where the policy hesitated, trees of segments."""

import dataclasses

import numpy as np
import pytest

from apportion.asks import Continuation, Move, Place
from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import BudgetError, ConfigError, DataError
from apportion.resources import Asker, Budget, Refusal, Table, attach, branch, fork, grow_tree
from apportion.units import by_step, leaves


def chain(ids, logp=None, rewards=None, outcome=None, group="g", **fields):
    """One step per token; the context grows by token 0 before each."""
    steps = [
        Step(
            prompt_ids=[0],
            ids=[i],
            logp=None if logp is None else [logp[s]],
            reward=None if rewards is None else rewards[s],
            observation="o",
        )
        for s, i in enumerate(ids)
    ]
    return Trajectory(steps, group=group, outcome=outcome, **fields)


def way(*ids, reward=1.0, logp=-0.5):
    moves = [
        Move((i,), (logp,), reward=reward if k == len(ids) - 1 else 0.0, prompt_ids=(0,) if k else (), observation="o")
        for k, i in enumerate(ids)
    ]
    return Continuation(tuple(moves))


def asker(answer, **options):
    return Asker(Table(answer, kinds=["continue"], identity="test"), **options)


def test_a_branch_holds_what_is_new_and_its_whole_context():
    rollout = chain([1, 2, 3], outcome=1.0)
    grown = attach(rollout, 1, way(7, 8))
    fresh, after = grown.steps[3:]
    assert fresh.prompt_ids.tolist() == [0, 1, 0]
    assert (fresh.parent, fresh.fresh, fresh.observation) == (0, True, "o")
    assert (after.prompt_ids.tolist(), after.parent, after.fresh) == ([0], None, False)
    root = attach(rollout, 0, way(9)).steps[3]
    assert (root.parent, root.fresh, root.prompt_ids.tolist()) == (-1, True, [0])
    units = by_step(Batch.from_trajectories([grown]))
    assert units.parent_S.tolist() == [-1, 0, 1, 0, 3]
    nested = attach(grown, 4, way(6))  # a branch of a branch
    assert nested.steps[5].prompt_ids.tolist() == [0, 1, 0, 7, 0]
    assert nested.steps[5].parent == 3
    text = Trajectory([Step(observation="a", action="b"), Step(observation="c", action="d")], outcome=1.0)
    told = attach(text, 1, Continuation((Move(action="e", reward=2.0, state="s"),)))
    assert (told.steps[2].action, told.steps[2].observation, told.steps[2].fresh) == ("e", "c", False)
    with pytest.raises(
        ConfigError, match="rollout None has token ids and the continuation is text; ask the policy that"
    ):
        attach(rollout, 0, Continuation((Move(action="words"),)))


def test_the_outcome_of_a_tree_is_the_mean_of_its_leaves():
    batch = Batch.from_trajectories([chain([1, 2, 3], outcome=1.0), chain([4], outcome=0.5, final_value=None)])
    ask = asker(lambda r: way(7, 8, reward=float(r.number)))
    grown = branch(ask, batch, [Place(0, 1)], k=3)
    assert grown.trajectories[0].outcome == pytest.approx((1 + 0 + 1 + 2) / 4)
    assert grown.trajectories[1].outcome == 0.5
    leaf = leaves(by_step(grown))
    assert leaf.return_L.tolist() == [1, 0, 1, 2, 0.5]
    assert leaf.known_L.all()
    # step rewards stay where they were
    paid = branch(ask, Batch.from_trajectories([chain([1, 2], rewards=[0.25, 1.0])]), [Place(0, 1)], k=1)
    assert leaves(by_step(paid)).return_L.tolist() == [1.25, 0.25]


def test_what_fails_or_is_not_scored_is_no_branch():
    def answer(request):
        if request.number == 0:
            raise Refusal("no")
        return dataclasses.replace(way(7), scored=request.number == 2)

    grown = branch(asker(answer), Batch.from_trajectories([chain([1, 2], outcome=1.0)]), [Place(0, 1)], k=3)
    assert len(grown.trajectories[0].steps) == 3
    with pytest.raises(
        ConfigError, match=r"branch: Place\(.*token=1\) is inside an action; fork at the beginning of a"
    ):
        branch(asker(answer), grown, [Place(0, 0, 1)])


def test_forks_go_where_the_policy_hesitated_most_per_visit():
    # the worked example: root 1.1 / 2 visits, s1 .8 / 1, s2 .3 / 1: s1 first; its new entropy 1.0 makes it .9 / 2
    a = chain([1, 5], logp=[-1.2, -0.8], outcome=1.0)
    b = chain([2, 6], logp=[-1.0, -0.3], outcome=0.0)
    asked = []

    def answer(request):
        asked.append((request.ask.at.traj, request.ask.at.step))
        first = request.ask.at.step == 0
        return way(*([3, 8] if first else [7]), reward=0.5, logp=-1.0)

    grown = fork(asker(answer), Batch.from_trajectories([a, b]), n=2)
    assert asked == [(0, 1), (0, 0)]
    assert [len(t.steps) for t in grown.trajectories] == [2 + 1 + 2, 2]
    credit = assign("carl", by_step(grown))
    # V(s1) = .75, root: 1 -> .75, 2 -> 0, 3 -> .5
    root = (0.75 + 0 + 0.5) / 3
    np.testing.assert_allclose(credit.advantage_S, [0.75 - root, 0.25, -0.25, 0.5 - root, 0, -root, 0])
    # state (3,) has entropy 1.0 at one visit now and is next; then s1 with .9 / 2, root with 1.0667 / 3
    asked.clear()
    fork(asker(answer), Batch.from_trajectories([a, b]), n=3)
    assert asked[2] == (0, 4)


def test_equal_prefixes_are_one_state_across_rollouts():
    same = [chain([1, k], logp=[-0.1, -2.0], outcome=1.0) for k in (5, 6)]
    asked = []

    def answer(request):
        asked.append((request.ask.at.traj, request.ask.at.step))
        return way(7, logp=-2.0)

    fork(asker(answer), Batch.from_trajectories(same), n=1)
    # after token 1 the two are in one state, visited twice: 2 / 2 against .1 / 2
    assert asked == [(0, 1)]
    other = [dataclasses.replace(t, group=str(k)) for k, t in enumerate(same)]
    asked.clear()
    fork(asker(answer), Batch.from_trajectories(other), n=1)
    assert sorted(asked) == [(0, 1), (1, 1)]


def test_forking_goes_on_when_answers_fail_and_every_fork_is_a_new_sample():
    batch = Batch.from_trajectories([chain([1, 2], logp=[-1.0, -0.9], outcome=1.0)])

    def failing(request):
        raise Refusal("no")

    assert len(fork(asker(failing), batch, n=4).trajectories[0].steps) == 2
    seeds = []

    def answer(request):
        seeds.append(request.seed)
        return way(7 + len(seeds))

    fork(asker(answer), batch, n=6)
    assert len(set(seeds)) == 6
    again = []
    fork(asker(lambda r: (again.append(r.seed), way(9))[1]), batch, n=6)
    assert again[0] == seeds[0]


def test_random_forks_need_no_log_probabilities():
    batch = Batch.from_trajectories([chain([1, 2, 3], outcome=1.0)])
    asked = []

    def answer(request):
        asked.append(request.ask.at.step)
        return way(7)

    fork(asker(answer), batch, n=30, choose="random", seed=1)
    assert {0, 1, 2} <= set(asked)
    with pytest.raises(
        DataError, match="rollout None, step 0 has no log-probabilities, so nobody knows where the policy"
    ):
        fork(asker(answer), batch)
    with pytest.raises(ConfigError, match="fork: n=1, choose='best'; give n from 0 on, choose 'entropy' or 'random'"):
        fork(asker(answer), batch, n=1, choose="best")
    unscored = Batch.from_trajectories([chain([1], outcome=1.0), chain([1, 2])])
    assert [len(t.steps) for t in fork(asker(answer), unscored, n=2, choose="random").trajectories] == [3, 2]


def writer(request):
    """Writes three random tokens at a time, or to the end: length 6 in all, score = share of ones."""
    rng, ask = np.random.default_rng(request.seed), request.ask
    step = request.trajectory.steps[ask.at.step]
    before = [int(i) for i in step.ids[: ask.at.token]]
    left = 6 - len(before)
    size = left if ask.max_tokens is None else min(ask.max_tokens, left)
    new = rng.integers(1, 3, size).tolist()
    ended = size == left
    score = float(np.mean(np.array(before + new) == 1)) if ended else 0.0
    move = Move(tuple(new), tuple([-0.7] * size), action="x" * size, reward=score)
    return Continuation((move,), scored=ended or not ask.stop_at_limit, finished=ended)


def prompts(count=2):
    return [Trajectory([Step(prompt_ids=[9, 9], ids=[])], group=f"p{k}", reference="r") for k in range(count)]


def test_a_tree_has_every_edge_once_and_leaves_with_scores():
    ask = asker(writer)
    grown = grow_tree(ask, prompts(), branching=(3, 2, 2), tokens=2)
    assert len(grown) == 2
    for tree in grown.trajectories:
        assert len(tree.steps) == 3 + 6 + 12
        assert (tree.group[0], tree.reference) == ("p", "r")
        parents = [s - 1 if step.parent is None else step.parent for s, step in enumerate(tree.steps)]
        assert parents.count(-1) == 3
        for s, step in enumerate(tree.steps):
            way_ids, at = [], parents[s]
            while at >= 0:
                way_ids, at = [*map(int, tree.steps[at].ids), *way_ids], parents[at]
            assert step.prompt_ids.tolist() == [9, 9, *way_ids]
            inner = s in parents
            assert (step.reward is None) is inner
            if not inner:
                assert step.reward == np.mean(np.array([*way_ids, *step.ids]) == 1)
        leaf = [step.reward for step in tree.steps if step.reward is not None]
        assert tree.outcome == pytest.approx(np.mean(leaf))
    credit = assign("spo_tree", by_step(grown))
    assert credit.known_S.all()
    assert ask.summary.asked == 2 * (3 + 6 + 12)


def test_edges_that_end_early_are_leaves_and_equal_siblings_are_asked_apart():
    def answer(request):
        ends = request.ask.at.token == 0 and request.number == 0
        last = not request.ask.stop_at_limit
        move = Move((5,), (-0.1,), action="x", reward=1.0 if ends or last else 0.0)
        return Continuation((move,), scored=ends or last, finished=ends or last)

    seeds = []
    ask = asker(lambda r: (seeds.append(r.seed), answer(r))[1])
    (tree,) = grow_tree(ask, prompts(1), branching=(3, 2), tokens=1).trajectories
    assert [step.reward for step in tree.steps] == [1.0, None, None, 1.0, 1.0, 1.0, 1.0]
    assert [step.parent for step in tree.steps] == [None, -1, -1, 1, 1, 2, 2]
    assert len(set(seeds)) == len(seeds) == 7  # the second and third child say the same and go on apart


def test_failed_edges_and_unscored_leaves():
    def answer(request):
        if request.number == 0:
            raise Refusal("no")
        return dataclasses.replace(writer(request), scored=request.number != 1)

    (tree,) = grow_tree(asker(answer), prompts(1), branching=(3,), tokens=1).trajectories
    assert [step.reward is None for step in tree.steps] == [True, False]
    text = [Trajectory([Step(observation="say", action="")], group="t")]

    def words(request):
        move = Move(action=" one two", reward=1.0)
        last = not request.ask.stop_at_limit
        return Continuation((move,), scored=last, finished=last)

    (told,) = grow_tree(asker(words), text, branching=(2, 1), tokens=2).trajectories
    assert [step.observation for step in told.steps] == ["say", "say", "", ""]
    assert [step.parent for step in told.steps] == [None, -1, 0, 1]
    assert assign("spo_tree", by_step(Batch.from_trajectories([told]))).known_S.all()


def test_what_growing_refuses():
    with pytest.raises(ConfigError, match=r"grow_tree: branching=\(\), tokens=30; give whole numbers from 1 on"):
        grow_tree(asker(writer), prompts(), branching=())
    with pytest.raises(ConfigError, match="grow_tree: an answer came in 2 moves; ask a policy that writes text"):
        grow_tree(asker(lambda r: way(1, 2)), prompts())
    with pytest.raises(BudgetError, match="grow_tree"):
        grow_tree(asker(writer, budget=Budget(requests=5)), prompts(), branching=(3, 3))


def test_the_expected_credit_of_a_grown_tree_is_the_exact_advantage():
    # two tokens of 1 or 2, score = share of ones: Q(1) - V = 1/4 at the first. Growing 4-4 trees, the mean of A over
    # edges that begin with 1 is 1/4 * 3/4 with the parent's mean (it contains the child), 1/4 leave-one-out
    def two(request):
        rng, ask = np.random.default_rng(request.seed), request.ask
        before = [int(i) for i in request.trajectory.steps[0].ids[: ask.at.token]]
        new = [int(rng.integers(1, 3))]
        ended = len(before) == 1
        reward = float(np.mean(np.array(before + new) == 1)) if ended else 0.0
        return Continuation((Move(tuple(new), (-0.69,), "x", reward=reward),), scored=ended, finished=ended)

    got = {"parent": [], "loo": []}
    for seed in range(40):
        units = by_step(grow_tree(asker(two, seed=seed), prompts(4), branching=(4, 4), tokens=1))
        first = (units.parent_S < 0) & (units.batch.ids_T[units.batch.sampled_T] == 1)
        for baseline, rows in got.items():
            rows += assign("spo_tree", units, baseline=baseline).advantage_S[first].tolist()
    for baseline, want in (("parent", 0.75 * 0.25), ("loo", 0.25)):
        x = np.array(got[baseline])
        assert abs(x.mean() - want) < 4 * x.std() / np.sqrt(len(x) / 3)
