import hashlib
from dataclasses import fields, replace

import numpy as np
import pytest

from apportion.data import Batch, Step, Trajectory, words
from apportion.data import batch as batch_module
from tests.make import random_batch, random_trajectories, traj


def slow_layout(rollouts):
    """Every column by plain loops, from the docstring of `Batch`; shares no code with it."""
    out = {f.name: [] for f in fields(Batch)}
    columns = {"logp_T": "logp", "ref_logp_T": "ref_logp", "entropy_T": "entropy", "token_value_T": "token_values"}
    groups, s, t = [], 0, 0
    parts, outcomes, extra = {}, {}, []
    for n, trajectory in enumerate(rollouts):
        own = trajectory.group if trajectory.group is not None else ("alone", n)
        if own not in groups:
            groups.append(own)
        out["group_of_N"].append(groups.index(own))
        first, turn, speaker, tokens = s, -1, None, 0
        for k, step in enumerate(trajectory.steps):
            if step.ids is not None:
                context = [] if step.prompt_ids is None else list(step.prompt_ids)
                sampled = list(step.ids)
            else:
                context, sampled = [-1] * len(words(step.observation or "")), [-1] * len(words(step.action))
            for source, is_sampled in ((context, False), (sampled, True)):
                for i, token in enumerate(source):
                    out["ids_T"].append(token)
                    out["sampled_T"].append(is_sampled)
                    out["step_of_T"].append(s)
                    for column, field in columns.items():
                        values = getattr(step, field)
                        out[column].append(0.0 if not is_sampled else None if values is None else values[i])
                    extra.append(step.columns["prm"][i] if is_sampled and step.columns else 0.0)
                    t += 1
            tokens += len(sampled)
            out["traj_of_S"].append(n)
            out["reward_S"].append(step.reward or 0.0)
            out["scored_S"].append(step.reward is not None)
            out["value_S"].append(step.value)
            if step.turn is not None:
                turn = step.turn
            elif k == 0 or step.fresh or context or step.agent != speaker:
                turn += 1
            speaker = step.agent
            out["turn_S"].append(turn)
            out["agent_S"].append(step.agent if step.agent is not None else "")
            parent = k - 1 if step.parent is None else step.parent
            out["parent_S"].append(-1 if parent == -1 else first + parent)
            for name in ("format", "work"):
                parts.setdefault(name, []).append(step.rewards.get(name, np.nan))
            for flag in ("terminated", "truncated", "failed", "fresh"):
                out[flag + "_S"].append(getattr(step, flag))
            s += 1
        for name in ("correct", "länge"):
            outcomes.setdefault(name, []).append(trajectory.outcomes.get(name, np.nan))
        last = trajectory.steps[-1]
        rewards = [step.reward for step in trajectory.steps if step.reward is not None]
        known = trajectory.outcome is not None or last.reward is not None
        out["scored_N"].append(known)
        out["outcome_N"].append(
            0.0 if not known else sum(rewards) if trajectory.outcome is None else trajectory.outcome
        )
        out["final_value_N"].append(np.nan if trajectory.final_value is None else trajectory.final_value)
        out["truncated_N"].append(last.truncated and not last.terminated)
        out["failed_N"].append(any(step.failed for step in trajectory.steps))
        out["has_tokens_N"].append(tokens > 0)
        out["has_ids_N"].append(all(step.ids is not None for step in trajectory.steps))
    for name in (*columns, "value_S"):
        if None in out[name]:
            out[name] = None
    told = any(step.rewards for trajectory in rollouts for step in trajectory.steps)
    out["reward_parts"] = parts if told else {}
    out["outcome_parts"] = outcomes if any(trajectory.outcomes for trajectory in rollouts) else {}
    out["columns_T"] = {"prm": extra} if any(s.columns for t in rollouts for s in t.steps) else {}
    return out, groups


MODES = [
    {},
    {"ids": False},
    {"logp": False},
    {"values": False},
    {"rich": False},
    {"unscored": False},
    {"groups": 1},
    {"steps": 1, "largest": 2},
    {"parts": True, "columns": ("prm",)},
]


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("seed", range(25))
def test_equals_the_slow_reference(seed, mode):
    rollouts = random_trajectories(seed, **mode)
    if seed % 3 == 0:  # without a name, a group of its own
        rollouts[0] = replace(rollouts[0], group=None)
    if seed % 5 == 0:  # some know their log-probabilities, not all: then the batch does not
        quiet = [replace(step, logp=None, value=None) for step in rollouts[-1].steps]
        rollouts[-1] = replace(rollouts[-1], steps=quiet)
    batch = Batch.from_trajectories(rollouts)
    expected, groups = slow_layout(rollouts)
    for f in fields(Batch):
        got = getattr(batch, f.name)
        if f.name in ("trajectories", "group_names", "state_S"):
            continue
        if expected[f.name] is None:
            assert got is None, f.name
        elif isinstance(got, dict):
            assert got.keys() == expected[f.name].keys()
            for name, array in got.items():
                np.testing.assert_array_equal(array, expected[f.name][name], err_msg=name)
        else:
            np.testing.assert_array_equal(got, expected[f.name], err_msg=f.name)
    assert len(batch.group_names) == len(groups)
    named = [(a, b) for a, b in zip(batch.group_names, groups, strict=True) if isinstance(b, str)]
    assert all(a == b for a, b in named)
    np.testing.assert_array_equal(batch.traj_of_T, np.asarray(expected["traj_of_S"])[expected["step_of_T"]])


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_dtypes_and_lengths(mode):
    batch = random_batch(4, **mode)
    T, S, N = len(batch.ids_T), len(batch.traj_of_S), len(batch)
    sizes = {"T": T, "S": S, "N": N}
    for f in fields(Batch):
        array = getattr(batch, f.name)
        if not isinstance(array, np.ndarray):
            continue
        assert array.shape == (sizes[f.name[-1]],), f.name
        kind = {"IntArray": "i", "BoolArray": "b", "FloatArray": "f", "FloatArray | None": "f", "Array": "O"}[f.type]
        assert array.dtype.kind == kind, f.name
        assert array.dtype.itemsize in (1, 8), f.name


def test_a_column_that_some_token_lacks_is_left_out():
    steps = [Step(ids=[1, 2], columns={"a": [1, 2], "b": [3, 4]}), Step(ids=[], columns={}), Step(ids=[3])]
    whole, part = (Batch.from_trajectories([Trajectory(s)]) for s in (steps[:2], steps))
    assert {name: column.tolist() for name, column in whole.columns_T.items()} == {"a": [1, 2], "b": [3, 4]}
    assert part.columns_T == {}


def test_named_arrays_are_read_only():
    batch = random_batch(1, parts=True, columns=("prm",))
    for named in (batch.columns_T, batch.reward_parts, batch.outcome_parts):
        assert named
        for array in named.values():
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1.0


def test_parts_are_never_added_up():
    t = Trajectory([Step(ids=[1], rewards={"a": 1.0})], outcomes={"b": 2.0})
    assert (t.scored, t.total) == (False, None)
    t = Trajectory([Step(ids=[1], rewards={"a": 1.0}, reward=0.5)], outcomes={"b": 2.0})
    assert t.total == 0.5


def test_every_array_is_read_only():
    batch = random_batch(1)
    arrays = [f.name for f in fields(Batch) if isinstance(getattr(batch, f.name), np.ndarray)]
    assert len(arrays) > 20
    for name in arrays:
        with pytest.raises(ValueError, match="read-only"):
            getattr(batch, name)[0] = getattr(batch, name)[0]


@pytest.mark.parametrize("seed", range(20))
def test_the_pieces_are_the_text(seed):
    batch = random_batch(seed, ids=False)
    pieces = batch.pieces()
    assert len(pieces) == len(batch.ids_T)
    text = "".join((step.observation or "") + step.action for t in batch for step in t.steps)
    assert "".join(pieces) == text
    own = "".join(piece for piece, sampled in zip(pieces, batch.sampled_T, strict=True) if sampled)
    assert own == "".join(step.action for t in batch for step in t.steps)


def test_pieces_of_ids():
    batch = Batch.from_trajectories([Trajectory([Step(prompt_ids=[4, 5], ids=[6], action="x")])])
    assert batch.pieces() == ["⟨4⟩", "⟨5⟩", "⟨6⟩"]
    assert batch.sampled_T.tolist() == [False, False, True]


class TestStates:
    def test_the_state_else_the_observation(self):
        steps = [
            Step(observation="seen", action="a", state="key"),
            Step(observation="seen", action="a"),
            Step(observation="seen", action="a", state=""),
            Step(action="a"),
        ]
        assert Batch.from_trajectories([Trajectory(steps)]).state_S.tolist() == ["key", "seen", "", ""]

    def test_else_the_ids_of_the_new_context(self):
        steps = [Step(prompt_ids=p, ids=[1]) for p in ([1, 2], [1, 2], [2, 1], [], None)]
        a, b, c, empty, none = Batch.from_trajectories([Trajectory(steps)]).state_S
        assert a == b
        assert len({a, c, empty, none}) == 4

    def test_they_are_never_decided_by_tokens_alone(self):
        # equal tokens, different groups: the group is the user's word, not a guess
        rollouts = [Trajectory([Step(prompt_ids=[7, 7], ids=[1])], group=g) for g in "aab"]
        assert Batch.from_trajectories(rollouts).group_of_N.tolist() == [0, 0, 1]


class TestGroups:
    def test_none_is_a_group_of_its_own_under_a_free_name(self):
        rollouts = [traj(("A", 1), group=g) for g in ("alone-1", None, None, "alone-1")]
        batch = Batch.from_trajectories(rollouts)
        assert batch.group_of_N.tolist() == [0, 1, 2, 0]
        assert len(set(batch.group_names)) == 3

    def test_names_in_order_of_appearance(self):
        batch = Batch.from_trajectories([traj(("A", 1), group=g) for g in ("b", "", "b", "a")])
        assert batch.group_names == ("b", "", "a")
        assert batch.group_of_N.tolist() == [0, 1, 0, 2]


class TestTurns:
    def turns(self, *steps):
        return Batch.from_trajectories([Trajectory(steps)]).turn_S.tolist()

    def test_a_turn_ends_where_the_speaker_changes(self):
        seen, more = Step(prompt_ids=[1], ids=[2]), Step(prompt_ids=[], ids=[3])
        assert self.turns(seen, more, more, seen, more) == [0, 0, 0, 1, 1]  # several calls of one turn

    def test_the_first_step_opens_one_even_without_a_prompt(self):
        assert self.turns(Step(ids=[2]), Step(ids=[3])) == [0, 0]

    def test_a_fresh_context_opens_one_even_if_it_is_empty(self):
        assert self.turns(Step(prompt_ids=[1], ids=[2]), Step(prompt_ids=[], ids=[3], fresh=True)) == [0, 1]

    def test_another_agent_opens_one(self):
        steps = [Step(ids=[1], agent=agent) for agent in (None, "a", "a", "b", "a")]
        assert self.turns(*steps) == [0, 1, 1, 2, 3]

    def test_what_is_told_counts_and_counting_goes_on_from_there(self):
        assert self.turns(
            Step(ids=[1], turn=3), Step(ids=[1]), Step(prompt_ids=[1], ids=[1]), Step(ids=[1], turn=0)
        ) == [
            3,
            3,
            4,
            0,
        ]

    def test_of_words(self):
        assert self.turns(Step(action="a"), Step(action="b"), Step(observation=" ", action="c")) == [0, 0, 1]


def test_what_ended_by_itself_is_not_truncated():
    ends = [(False, False), (True, False), (False, True), (True, True)]
    rollouts = [Trajectory([Step(action="a", terminated=x, truncated=y)]) for x, y in ends]
    batch = Batch.from_trajectories(rollouts)
    assert batch.truncated_N.tolist() == [False, False, True, False]
    assert batch.truncated_S.tolist() == [False, False, True, True]


def test_one_broken_step_breaks_the_rollout():
    steps = [Step(action="a", failed=True), Step(action="b", reward=1)]
    batch = Batch.from_trajectories([Trajectory(steps), Trajectory(steps[1:])])
    assert batch.failed_N.tolist() == [True, False]
    assert batch.valid_N.tolist() == [False, True]


class TestFingerprint:
    def test_equal_content_equal_digest(self):
        assert random_batch(5).fingerprint() == random_batch(5).fingerprint()
        assert random_batch(5).fingerprint() != random_batch(6).fingerprint()

    @pytest.mark.parametrize("at_once", [1, 3, 4096])
    def test_texts_are_digested_one_after_the_other(self, monkeypatch, at_once):
        monkeypatch.setattr(batch_module, "_TEXTS", at_once)
        texts = ["a", "", "é", "a", "\ud800", "x" * 63, "x" * 64, "x" * 63, "鍵 🦊", "", "a", "10:"] * 2
        want, got = hashlib.blake2b(), hashlib.blake2b()
        for text in texts:
            encoded = text.encode("utf-8", "surrogatepass")
            want.update(f"pieces {len(encoded)}:".encode() + encoded)
        batch_module._digest_texts(got, "pieces", iter(texts))
        assert got.hexdigest() == want.hexdigest()

    @pytest.mark.parametrize("ids", [True, False])
    def test_every_field_that_a_method_reads_moves_it(self, ids):
        base = {"reward": 0.5, "state": "s", "turn": 0, "agent": "x", "value": 0.25}
        per_token = {name: [0.0, -1.0] for name in ("logp", "ref_logp", "entropy", "token_values")}
        tokens = {"ids": [5, 6], "prompt_ids": [4], **per_token} if ids else {"action": "a b", "observation": "o"}

        def digest(outcome=1.0, final_value=0.5, group="g", outcomes=None, **change):
            step = Step(**{**base, **tokens, **change})
            whole = {"outcome": outcome, "final_value": final_value, "group": group, "outcomes": outcomes or {}}
            return Batch.from_trajectories([Trajectory([step], **whole)]).fingerprint()

        changes = [
            {"outcome": 1.5},
            {"outcome": None},
            {"final_value": None},
            {"group": "h"},
            {"reward": 0.25},
            {"reward": None},
            {"state": "t"},
            {"turn": 1},
            {"agent": "y"},
            {"value": 0.5},
            {"value": None},
            *({"outcomes": parts} for parts in ({"a": 1.0}, {"b": 1.0}, {"a": 2.0})),
            *({"rewards": parts} for parts in ({"a": 1.0}, {"b": 1.0}, {"a": 2.0})),
            *({flag: True} for flag in ("terminated", "truncated", "failed", "fresh")),
        ]
        if ids:
            changes += [{"ids": [5, 7]}, {"prompt_ids": [3]}, {"prompt_ids": [4, 4]}, {"logp": [0.0, -2.0]}]
            changes += [
                {"logp": None},
                {"ref_logp": [0.0, -2.0]},
                {"entropy": [0.0, 2.0]},
                {"token_values": [0.0, 2.0]},
                *({"columns": columns} for columns in ({"a": [0, 1]}, {"b": [0, 1]}, {"a": [0, 2]})),
            ]
        else:
            changes += [{"action": "a c"}, {"action": "a"}, {"observation": "p"}, {"observation": "a", "action": "o b"}]
        digests = [digest(), *(digest(**change) for change in changes)]
        assert len(set(digests)) == len(digests)

    def test_texts_do_not_run_together(self):
        def digest(*states):
            steps = [Step(ids=[1], prompt_ids=[1], state=state) for state in states]
            return Batch.from_trajectories([Trajectory(steps, outcome=1.0)]).fingerprint()

        assert digest("a\x00", "b") != digest("a", "\x00b")
        assert digest("a", "bc") != digest("ab", "c")
        assert digest("\ud800", "") != digest("", "\ud800")


def test_order_does_not_change_what_a_trajectory_is():
    rollouts = random_trajectories(9)
    one, other = Batch.from_trajectories(rollouts), Batch.from_trajectories(rollouts[::-1])
    assert one.names() == other.names()[::-1]
    for name in ("outcome_N", "scored_N", "valid_N", "truncated_N", "failed_N", "has_tokens_N"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name)[::-1])


def test_names_repr_and_iteration():
    batch = Batch.from_trajectories([traj(("A", 1), ("B", 0), id="x", group="g"), traj(("A", 1))])
    assert batch.names() == ("x", "1")
    assert [t.id for t in batch] == ["x", None]
    assert repr(batch) == "Batch(2 trajectories in 2 groups, 3 steps, 9 tokens (ids), 3 sampled)"
    assert "(words)" in repr(random_batch(0, ids=False))


def test_ids_and_words_in_one_batch():
    batch = Batch.from_trajectories([traj(("A", 1)), Trajectory([Step(observation="see", action="go north")])])
    assert batch.has_ids_N.tolist() == [True, False]
    assert batch.has_ids is False
    assert batch.ids_T.tolist() == [0, 1, 2, -1, -1, -1]
    assert batch.pieces() == ["⟨0⟩", "⟨1⟩", "⟨2⟩", "see", "go", " north"]
