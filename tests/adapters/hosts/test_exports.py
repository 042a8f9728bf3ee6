"""Adapters that write onto other trainers' records: on every token, what `assign` says of the same rollouts."""

import dataclasses
import math
import pickle
import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion as ap
from apportion.adapters import rllm, slime, slime_ranks, tinker, trinity, verifiers
from apportion.adapters.rows import batch_of, per_row
from apportion.adapters.sequences import sequences
from apportion.adapters.trl.async_rows import step_rows
from apportion.errors import ConfigError, DataError, MissingExtra
from apportion.losses import FineCreditLost
from tests.adapters.hosts.drawn import worlds

METHOD = {"method": "gigpo", "gamma": 0.9}
few = settings(max_examples=20)


def expected(batch):
    """Advantage of every sampled token of each rollout, in time order, by its name."""
    tokens = ap.assign("gigpo", ap.by_step(batch), gamma=0.9).to_tokens()
    return {t.id: part.advantage[part.sampled] for t, part in zip(batch, tokens.split(), strict=True)}


def earned(reward):
    """What a host's record says of a step; what it says of the last one does not count beside the outcome."""
    return 99.0 if reward is None else reward


# --- Tinker, and sequences


@few
@given(world=worlds())
def test_a_datum_is_the_sequence_shifted_by_one(world):
    _, batch = world
    credit = ap.assign("gigpo", ap.by_step(batch), gamma=0.9)
    want, got = expected(batch), {}
    for one, datum in zip(sequences(credit), tinker.datums(credit), strict=True):
        inputs = datum["loss_fn_inputs"]
        assert {len(column) for column in inputs.values()} == {len(datum["model_input"])}
        whole = [*datum["model_input"].tolist(), int(inputs["target_tokens"][-1])]
        assert whole[1:] == inputs["target_tokens"].tolist()
        sampled = inputs["mask"] > 0
        np.testing.assert_array_equal(inputs["logprobs"], np.where(sampled, np.float32(-0.5), 0))
        assert not inputs["advantages"][~sampled].any()
        got.setdefault(batch.trajectories[one.traj].id, []).extend(inputs["advantages"][sampled].tolist())
    for name, advantages in got.items():
        np.testing.assert_allclose(advantages, want[name], rtol=1e-6)
    assert got.keys() == want.keys()


def test_steps_that_extend_each_other_share_a_datum_and_branches_repeat_their_past_as_context():
    step = {"logp": [-0.1, -0.2]}
    trajectory = ap.Trajectory(
        [
            ap.Step(prompt_ids=[1], ids=[2, 3], reward=1.0, **step),
            ap.Step(prompt_ids=[4], ids=[5, 6], reward=0.0, **step),
            ap.Step(prompt_ids=[7], ids=[8, 9], reward=0.0, parent=0, **step),  # another way on from step 0
            ap.Step(prompt_ids=[1, 1], ids=[2, 2], reward=2.0, fresh=True, **step),
        ],
        group="g",
        id="a",
    )
    other = ap.Trajectory([ap.Step(prompt_ids=[1], ids=[3, 3], reward=0.0, **step)], group="g", id="b")
    credit = ap.assign("reinforce", ap.by_episode(ap.Batch.from_trajectories([trajectory, other])))
    made = [(s.steps, s.ids_L.tolist(), s.sampled_L.astype(int).tolist()) for s in sequences(credit)]
    assert made == [
        ((0, 1), [1, 2, 3, 4, 5, 6], [0, 1, 1, 0, 1, 1]),
        ((2,), [1, 2, 3, 7, 8, 9], [0, 0, 0, 0, 1, 1]),
        ((3,), [1, 1, 2, 2], [0, 0, 1, 1]),
        ((0,), [1, 3, 3], [0, 1, 1]),
    ]
    for one in sequences(credit):  # what is context here is counted where it was sampled
        np.testing.assert_array_equal(one.weight_L, one.sampled_L)
        assert not one.advantage_L[~one.sampled_L].any()
        np.testing.assert_array_equal(one.logp_L != 0, one.sampled_L)


def rollouts(**step):
    steps = {"prompt_ids": [1], "ids": [2], "logp": [-0.1], "reward": 1.0} | step
    return [ap.Trajectory([ap.Step(**steps)], group="g", id=name) for name in "ab"]


def credited(trajectories):
    return ap.assign("grpo", ap.by_episode(ap.Batch.from_trajectories(trajectories)))


def test_what_is_unknown_is_in_no_datum_and_a_known_zero_is():
    unscored = ap.Trajectory([ap.Step(prompt_ids=[1], ids=[2], logp=[-0.1])], group="g", id="c")
    credit = credited([*rollouts(), unscored])
    assert len(tinker.datums(credit)) == 2  # both of them zero: a constant group
    assert [datum["loss_fn_inputs"]["mask"].tolist() for datum in tinker.datums(credit)] == [[1.0]] * 2
    assert "mask" not in tinker.datums(credit, mask="")[0]["loss_fn_inputs"]
    assert "weights" in tinker.datums(credit, mask="weights")[0]["loss_fn_inputs"]


def test_what_a_datum_cannot_be_made_of_is_said():
    with pytest.raises(DataError, match="rollout 'a' has no log-probabilities"):
        tinker.datums(credited(rollouts(logp=None)))
    with pytest.raises(DataError, match="rollout 'a': the first token of a sequence was sampled"):
        tinker.datums(credited(rollouts(prompt_ids=[])))
    with pytest.raises(DataError, match="text without token ids"):
        tinker.datums(credited(rollouts(prompt_ids=None, ids=None, logp=None, observation="a", action="b")))
    with pytest.raises(ConfigError, match="mask is 'masks'; give 'mask', 'weights'"):
        tinker.datums(credited(rollouts()), mask="masks")


def test_real_datums():
    pytest.importorskip("tinker", reason="the package tinker is not installed")
    plain, typed = (tinker.datums(credited(rollouts()), typed=t) for t in (False, True))
    for one, other in zip(plain, typed, strict=True):
        assert other.model_input.to_ints() == one["model_input"].tolist()
        assert other.loss_fn_inputs.keys() == one["loss_fn_inputs"].keys()
        for name, column in one["loss_fn_inputs"].items():
            np.testing.assert_array_equal(other.loss_fn_inputs[name].to_numpy(), column)


def test_without_tinker_the_plain_form_works_and_the_other_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tinker", None)
    assert tinker.datums(credited(rollouts()))
    with pytest.raises(
        MissingExtra, match="needs the package 'tinker', which is not installed; run `pip install tinker`"
    ):
        tinker.datums(credited(rollouts()), typed=True)


# --- TRL's AsyncGRPO


@few
@given(world=worlds())
def test_rows_of_equal_advantage_hold_each_token_once(world):
    _, batch = world
    credit = ap.assign("gigpo", ap.by_step(batch), gamma=0.9)
    rows = step_rows(credit, first_group=5)
    assert sum(int(row["completion_mask"].sum()) for row in rows) == int(credit.to_tokens().weight_T.sum())
    assert {row["group_id"] for row in rows} == {5 + int(g) for g in batch.group_of_N}
    total = sum(row["advantage"] * int(row["completion_mask"].sum()) for row in rows)
    assert total == pytest.approx(float(credit.to_tokens().advantage_T.sum()), abs=1e-9)
    for row in rows:
        assert row["completion_mask"][-1] == 1
        assert not row["completion_mask"][0]


def test_trls_own_packing_puts_the_advantages_on_the_tokens():
    packing = pytest.importorskip("trl.experimental.async_grpo.packing", reason="TRL is not installed")
    trajectories = [
        ap.Trajectory(
            [
                ap.Step(prompt_ids=[1, 2, 3], ids=[10, 11, 12], logp=[-1.0, -1.1, -1.2], reward=r),
                ap.Step(prompt_ids=[20, 21], ids=[30, 31], logp=[-2.0, -2.1], reward=1.0),
            ],
            group="g",
            id=name,
        )
        for name, r in (("a", 0.0), ("b", 4.0))
    ]
    credit = ap.assign("reinforce", ap.by_step(ap.Batch.from_trajectories(trajectories)))
    row = packing.TreeRow()
    for sample in step_rows(credit, typed=True):
        row.add({field.name: getattr(sample, field.name) for field in dataclasses.fields(sample)})
    packed = row.pack()
    assert packed["advantages"].tolist() == [1.0] * 3 + [1.0] * 2 + [5.0] * 3 + [1.0] * 2
    assert packed["input_ids"][packed["token_index"]].tolist() == [3, 10, 11, 21, 30] * 2
    np.testing.assert_allclose(packed["old_log_probs"], [-1.0, -1.1, -1.2, -2.0, -2.1] * 2, rtol=1e-6)
    # the shared beginning is forwarded once: 10 tokens, and one more where "b" parts after its first step
    assert len(packed["input_ids"]) == 11


# --- rLLM


def episodes_of(rows, kind):
    """Rows as rLLM's episodes: one step is one call."""
    episodes = {}
    for row in rows:
        for k, (first, last) in enumerate(row.spans):
            step = {
                "prompt_ids": [*row.prompt_ids, *row.completion_ids[:first]],
                "response_ids": list(row.completion_ids[first:last]),
                "logprobs": list(row.logp[first:last]),
                "reward": earned(row.step_rewards[k]),
                "info": {"state": row.states[k]},
            }
            episodes.setdefault(row.id, (row.group, []))[1].append(kind(step))
    outcome = {row.id: row.reward for row in rows if row.reward is not None}
    return [
        kind(
            {
                "id": f"{group}:{name}",
                "trajectories": [kind({"name": "solver", "reward": outcome[name], "steps": steps})],
            }
        )
        for name, (group, steps) in episodes.items()
    ]


@few
@given(world=worlds(), objects=st.booleans(), data=st.data())
def test_rllms_steps_carry_their_tokens_credit(world, objects, data):
    rows, batch = world
    kind = (lambda fields: SimpleNamespace(**fields)) if objects else dict
    episodes = data.draw(st.permutations(episodes_of(rows, kind)))
    credit = rllm.stamp(episodes, "gigpo", gamma=0.9)
    get = getattr if objects else dict.__getitem__
    want = expected(batch)
    for episode in episodes:
        steps = get(get(episode, "trajectories")[0], "steps")
        assert all(len(get(step, "advantage")) == len(get(step, "response_ids")) for step in steps)
        flat = [x for step in steps for x in get(step, "advantage")]
        np.testing.assert_allclose(flat, want[get(episode, "id").split(":")[1]], atol=1e-9)
    assert len(credit.units.batch) == len(batch)


def test_rllms_default_step_rewards_of_zero_are_no_rewards():
    step = {"prompt_ids": [1], "response_ids": [2], "reward": 0.0, "info": {"state": "s"}}
    made = [
        {"id": f"t:{i}", "trajectories": [{"name": "a", "reward": float(i), "steps": [dict(step), dict(step)]}]}
        for i in range(2)
    ]
    batch = rllm.stamp(made, "grpo").units.batch
    assert [[s.reward for s in t.steps] for t in batch] == [[None, None]] * 2
    assert batch.outcome_N.tolist() == [0.0, 1.0]


def test_what_rllm_left_out_is_said():
    with pytest.raises(DataError, match="step 0 has no response_ids; use an engine that returns token ids"):
        rllm.stamp([{"id": "t:0", "trajectories": [{"reward": 1.0, "steps": [{"prompt_ids": [1]}]}]}], "grpo")
    with pytest.raises(DataError, match="trajectory 0 has no steps"):
        rllm.stamp([{"id": "t:0", "trajectories": [{"reward": 1.0, "steps": []}]}], "grpo")
    with pytest.raises(DataError, match="a dict has no 'trajectories'; give records of the trainer"):
        rllm.stamp([{"id": "t:0"}], "grpo")


# --- Trinity-RFT


def experiences(rows, torch=None):
    made = []
    for row in rows:
        for k, (first, last) in enumerate(row.spans):
            tokens = np.array([*row.prompt_ids, *row.completion_ids[:last]])
            size = last - first
            mask, logp = np.ones(size, dtype=bool), np.array(row.logp[first:last])
            convert = torch.from_numpy if torch else np.asarray
            made.append(
                SimpleNamespace(
                    eid=SimpleNamespace(batch="0", task=row.group, run=row.id, step=100 * row.index + k),
                    tokens=convert(tokens),
                    prompt_length=len(tokens) - size,
                    action_mask=convert(mask),
                    logprobs=convert(logp),
                    reward=row.reward if last == row.spans[-1][1] else 0.0,
                    info={"step_reward": earned(row.step_rewards[k]), "env_state_hash": row.states[k]},
                    advantages=None,
                    returns=None,
                )
            )
    return made


@few
@given(world=worlds(), data=st.data())
def test_trinitys_experiences_carry_their_tokens_credit(world, data):
    rows, batch = world
    made = experiences(rows)
    function = trinity.CreditAdvantageFn(**METHOD)
    out, metrics = function(data.draw(st.permutations(made)))
    assert metrics["experience_count"] == len(made) == len(out)
    assert metrics["credit/mean_abs"] >= 0
    want, got = expected(batch), {}
    for exp in made:
        assert exp.advantages.shape == exp.returns.shape == exp.action_mask.shape
        got.setdefault(exp.eid.run, []).extend(exp.advantages)
    for name, flat in got.items():
        np.testing.assert_allclose(flat, want[name], atol=1e-9)


def test_trinitys_tensors_stay_tensors_and_dropped_tokens_leave_the_mask():
    torch = pytest.importorskip("torch")
    exps = [
        SimpleNamespace(
            eid=SimpleNamespace(batch=0, task="t", run=i, step=0),
            tokens=torch.tensor([1, 2, 3, 4]),
            prompt_length=1,
            action_mask=torch.tensor([1, 0, 1]),
            logprobs=torch.tensor([-1.0, 0.0, -0.001]),
            reward=float(i),
            info={},
        )
        for i in range(2)
    ]
    trinity.CreditAdvantageFn("grpo | probability_mask", scale="none")(exps)
    assert torch.equal(exps[1].advantages, torch.tensor([0.5, 0.0, 0.0]))
    assert exps[1].advantages.dtype == torch.float32
    assert exps[1].action_mask.tolist() == [1, 0, 0]
    assert not trinity.CreditAdvantageFn.compute_in_trainer()
    assert trinity.CreditAdvantageFn(**trinity.CreditAdvantageFn.default_args())([]) == ([], {})


def test_trinity_is_told_what_is_wrong(monkeypatch):
    exp = SimpleNamespace(
        eid=SimpleNamespace(batch=0, task=0, run=0, step=0), tokens=[1, 2, 3], prompt_length=1, action_mask=[1]
    )
    with pytest.raises(DataError, match="run '0/0/0', step 0: action_mask has 1 entries for 2 response tokens"):
        trinity.CreditAdvantageFn()([exp])
    with pytest.raises(ConfigError, match="gigpo: unknown parameter 'gama'"):
        trinity.CreditAdvantageFn("gigpo", gama=1.0)
    monkeypatch.setitem(__import__("sys").modules, "trinity", None)
    with pytest.raises(MissingExtra, match="needs the package 'trinity-rft'"):
        trinity.register()


# --- verifiers and prime-rl


def traces_of(rows, kind):
    """Rows as message graphs: each call hangs on the context it had."""
    traces, outcome = {}, {row.id: row.reward for row in rows if row.reward is not None}
    for row in rows:
        trace = traces.setdefault(
            row.id, {"id": row.id, "nodes": [], "info": {"step_rewards": [], "states": []}, "tip": None}
        )
        held = trace.pop("held", [])
        fresh = list(row.prompt_ids[: len(held)]) != held
        parent = None if fresh else trace["tip"]

        def node(ids, mask, parent, trace=trace, **more):
            trace["nodes"].append(
                kind(
                    {"parent": parent, "sampled": any(mask), "token_ids": ids, "mask": mask, "advantages": None, **more}
                )
            )
            return len(trace["nodes"]) - 1

        new = list(row.prompt_ids[0 if fresh else len(held) :])
        done = 0
        for k, (first, last) in enumerate(row.spans):
            context = (new if k == 0 else []) + list(row.completion_ids[done:first])
            own = list(row.completion_ids[first:last])
            if context[:-1]:  # the last token of the context is scaffold of the message that was sampled
                parent = node(context[:-1], [False] * (len(context) - 1), parent)
            scaffold = context[-1:]
            parent = node(
                scaffold + own, [False] * len(scaffold) + [True] * len(own), parent, logprobs=[-0.5] * len(own)
            )
            trace["info"]["step_rewards"].append(earned(row.step_rewards[k]))
            trace["info"]["states"].append(row.states[k])
            done = last
        rest = list(row.completion_ids[done:])
        if rest:
            parent = node(rest, [False] * len(rest), parent)
        trace["tip"], trace["held"] = parent, [*row.prompt_ids, *row.completion_ids]
    for name, trace in traces.items():
        trace["rewards"] = {
            "right": {"score": 2 * outcome[name], "weight": 0.5},
            "style": {"score": 0.0, "weight": 3.0},
        }
    return [kind(trace) for trace in traces.values()]


@few
@given(world=worlds(), objects=st.booleans())
def test_verifiers_nodes_carry_their_tokens_credit(world, objects):
    rows, batch = world
    traces = traces_of(rows, (lambda fields: SimpleNamespace(**fields)) if objects else dict)
    get = getattr if objects else dict.__getitem__
    group = {row.id: row.group for row in rows}
    credit = verifiers.stamp(traces, "gigpo", groups=[group[get(t, "id")] for t in traces], gamma=0.9)
    want = expected(batch)
    for trace in traces:
        flat = []
        for node in get(trace, "nodes"):
            if any(get(node, "mask")):
                assert len(get(node, "advantages")) == sum(get(node, "mask"))
                flat += get(node, "advantages")
            else:
                assert get(node, "advantages") is None
        np.testing.assert_allclose(flat, want[get(trace, "id")], atol=1e-9)
    assert sorted(credit.units.batch.outcome_parts) == ["right", "style"]


def test_a_trace_is_scored_by_the_rewards_that_came():
    node = {"parent": None, "sampled": True, "token_ids": [1, 2], "mask": [False, True]}
    told = (
        ({"rewards": {"right": None, "style": {"score": 2.0, "weight": 0.5}}}, 1.0),
        ({"rewards": {"right": None}}, None),
        ({"rewards": {}}, None),
        ({"rewards": {"right": {"score": 1.0, "weight": 1.0}}, "ok": False}, None),  # its sandbox broke
    )
    traces = [{"id": str(k), "nodes": [dict(node)], "info": {}} | more for k, (more, _) in enumerate(told)]
    batch = verifiers.stamp(traces, "grpo").units.batch
    assert [t.outcome for t in batch] == [value for _, value in told]


def test_verifiers_is_told_what_is_wrong():
    node = {"parent": None, "sampled": True, "token_ids": [1, 2], "mask": [False, True], "logprobs": [-0.1]}
    trace = {"id": "a", "nodes": [node], "reward": 1.0, "info": {}}
    verifiers.stamp([trace], "grpo")
    assert node["advantages"] == [0.0]
    for broken, sentence in (
        ({"nodes": []}, "trace 0 has no node with sampled tokens"),
        ({"nodes": [node | {"mask": [True]}]}, "trace 0, node 0: mask has 1 entries for 2 tokens"),
        ({"nodes": [node | {"logprobs": [-0.1, -0.2]}]}, "a node has 2 logprobs for 1 sampled tokens"),
        ({"info": {"step_rewards": [1.0, 2.0]}}, "trace 0: step_rewards has 2 entries for 1 steps"),
    ):
        with pytest.raises(DataError, match=re.escape(sentence)):
            verifiers.stamp([trace | broken], "grpo")
    with pytest.raises(DataError, match="2 groups for 1 traces"):
        verifiers.stamp([trace], "grpo", groups=["a", "b"])


def test_real_message_nodes():
    graph = pytest.importorskip(
        "verifiers.v1.graph", reason="the package verifiers (version 1 of its schema) is not installed"
    )
    from verifiers.v1.types import AssistantMessage, UserMessage

    nodes = [
        graph.MessageNode(parent=None, message=UserMessage(content="hi"), token_ids=[1, 2], mask=[False, False]),
        graph.MessageNode(
            parent=0,
            message=AssistantMessage(content="ls"),
            sampled=True,
            token_ids=[8, 3, 4],
            mask=[False, True, True],
            logprobs=[-0.1, -0.2],
        ),
    ]
    traces = [SimpleNamespace(id=str(r), nodes=[n.model_copy() for n in nodes], reward=r, info={}) for r in (0.0, 1.0)]
    verifiers.stamp(traces, "grpo", scale="none")
    assert [trace.nodes[1].advantages for trace in traces] == [[-0.5, -0.5], [0.5, 0.5]]


# --- slime


def samples_of(rows):
    groups = {name: k for k, name in enumerate(dict.fromkeys(row.group for row in rows))}
    names = {name: k for k, name in enumerate(dict.fromkeys(row.id for row in rows))}
    return [
        SimpleNamespace(
            tokens=[*row.prompt_ids, *row.completion_ids],
            response_length=len(row.completion_ids),
            loss_mask=list(row.mask),
            reward={"score": 0.0 if row.reward is None else row.reward},
            rollout_log_probs=list(row.logp),
            group_index=groups[row.group],
            index=k,
            rollout_id=names[row.id],
            status="Status.COMPLETED",
            remove_sample=False,
            metadata={
                "steps": row.spans,
                "step_rewards": list(map(earned, row.step_rewards)),
                "states": list(row.states),
            },
        )
        for k, row in enumerate(rows)
    ]


def on_ranks(samples, carried, ranks, chosen=None):
    """What each context-parallel rank holds, and what the adapter gives it, put together again."""
    chosen = range(len(samples)) if chosen is None else chosen
    out = {i: np.full(samples[i].response_length, np.nan) for i in chosen}
    for rank in range(ranks):
        parts = {
            i: slime_ranks.slices(len(samples[i].tokens), samples[i].response_length, rank, ranks)
            if ranks > 1
            else [(0, samples[i].response_length)]
            for i in chosen
        }
        data = {
            "rewards": [carried[i] for i in chosen],
            "total_lengths": [len(samples[i].tokens) for i in chosen],
            "response_lengths": [samples[i].response_length for i in chosen],
            "log_probs": [np.zeros(sum(b - a for a, b in parts[i])) for i in chosen],
        }
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(slime_ranks, "_context_parallel", lambda rank=rank: (rank, ranks))
            slime.advantages(None, data)
        for i, own, returns in zip(chosen, data["advantages"], data["returns"], strict=True):
            np.testing.assert_array_equal(own, returns)
            where = np.concatenate([np.arange(a, b) for a, b in parts[i]])
            assert np.isnan(out[i][where]).all(), "a token on two ranks"
            out[i][where] = own
    return out


@few
@given(world=worlds(), ranks=st.integers(1, 4), data=st.data())
def test_slimes_ranks_get_their_tokens_credit(world, ranks, data):
    rows, batch = world
    samples = samples_of(rows)
    rewards, _ = slime.with_credit("gigpo", gamma=0.9)
    raw, carried = rewards(SimpleNamespace(reward_key="score"), samples)
    carried = pickle.loads(pickle.dumps(carried))  # noqa: S301 - as Ray moves them; they are our own
    assert raw == [float(x) for x in carried] == [0.0 if row.reward is None else row.reward for row in rows]
    assert math.isfinite(sum(carried) / len(carried))
    want = expected(batch)
    chosen = data.draw(st.permutations(range(len(samples))))[: max(1, len(samples) // 2)]  # a rank's share
    got = on_ranks(samples, carried, ranks, chosen)
    done = dict.fromkeys(want, 0)
    for i, row in enumerate(rows):
        size = sum(row.mask)
        first, done[row.id] = done[row.id], done[row.id] + size
        if i in got:
            own = np.flatnonzero(row.mask)
            np.testing.assert_allclose(got[i][own], want[row.id][first : first + size], rtol=1e-5, atol=1e-6)
            assert not got[i][np.array(row.mask) == 0].any()


@pytest.mark.parametrize(("total", "size", "ranks"), [(7, 3, 2), (9, 8, 2), (16, 5, 4), (3, 1, 2), (40, 39, 3)])
def test_the_slices_of_all_ranks_are_the_response(total, size, ranks):
    held = sorted(t for r in range(ranks) for a, b in slime_ranks.slices(total, size, r, ranks) for t in range(a, b))
    assert held == list(range(size))


def test_slimes_tensors_and_dropped_tokens():
    torch = pytest.importorskip("torch")
    sample = {"tokens": [1, 2, 3], "response_length": 2, "rollout_log_probs": [-1.0, -0.001], "group_index": 0}
    samples = [SimpleNamespace(**sample, index=i, reward=r, loss_mask=None) for i, r in enumerate((0.0, 1.0, None))]
    rewards, advantages = slime.with_credit("grpo | probability_mask", scale="none")
    raw, carried = rewards(SimpleNamespace(), [[samples[0], samples[1]], [samples[2]]])
    assert raw == [0.0, 1.0, 0.0]
    assert [s.loss_mask for s in samples] == [[1, 0], [1, 0], [0, 0]]  # dropped, dropped, not scored
    data = {
        "rewards": carried,
        "total_lengths": [3] * 3,
        "response_lengths": [2] * 3,
        "log_probs": [torch.zeros(2) for _ in range(3)],
    }
    advantages(None, data)
    assert torch.stack(data["advantages"]).tolist() == [[-0.5, 0.0], [0.5, 0.0], [0.0, 0.0]]
    data["returns"][0][0] = 9.0
    assert data["advantages"][0][0] == -0.5


def test_slime_is_told_what_is_wrong(monkeypatch):
    _, advantages = slime.with_credit("grpo")
    data = {"rewards": [1.0], "total_lengths": [3], "response_lengths": [2], "log_probs": [np.zeros(2)]}
    with pytest.raises(DataError, match="sample 0 brings no credit for its 2 response tokens; pass both functions"):
        advantages(None, data)
    made = slime.Carried(1.0)
    made.advantage_L = np.zeros(2)
    monkeypatch.setitem(__import__("sys").modules, "megatron", None)
    with pytest.raises(MissingExtra, match="credit on context-parallel ranks needs the package 'megatron-core'"):
        advantages(None, data | {"rewards": [made], "log_probs": [np.zeros(1)]})
    monkeypatch.setattr(slime_ranks, "_context_parallel", lambda: (0, 2))
    with pytest.raises(DataError, match="this rank holds 5 of 2 response tokens"):
        advantages(None, data | {"rewards": [made], "log_probs": [np.zeros(5)]})
    stage = {"rewards": [made], "log_probs": None}
    advantages(None, stage)
    assert "advantages" not in stage
    rewards, _ = slime.with_credit("grpo")
    sample = SimpleNamespace(tokens=[1, 2], response_length=1, reward={"a": 1.0}, group_index=0, index=0)
    with pytest.raises(DataError, match="reward is a dict; say which entry counts with --reward-key"):
        rewards(SimpleNamespace(), [sample])
    sample.reward, sample.group_index = 1.0, None
    with pytest.raises(DataError, match="sample 0 has no group_index"):
        rewards(SimpleNamespace(), [sample])


def test_a_row_takes_its_numbers_from_the_batch_it_was_in():
    # what all of these adapters stand on, once with numbers to follow: rewards 0 and 1 in one group, mean .5
    from apportion.adapters.rows import HostRow

    rows = [HostRow("g", name, [1], [2, 9, 3], mask=[1, 0, 1], reward=r) for name, r in (("a", 0.0), ("b", 1.0))]
    tokens = ap.assign("grpo", ap.by_episode(batch_of(rows)), scale="none").to_tokens()
    assert [x.tolist() for x, _ in per_row(tokens, rows)] == [[-0.5, 0.0, -0.5], [0.5, 0.0, 0.5]]


def test_slimes_gspo_warns_where_it_averages_credit_away():
    # one step of two tokens each: by_step one credit for both, by_token another one each (gamma .5: .5 and 1)
    sample = {"tokens": [1, 2, 3], "response_length": 2, "group_index": 0, "loss_mask": None}
    samples = [SimpleNamespace(**sample, index=i, reward=float(i)) for i in range(2)]
    said = (
        "--advantage-estimator gspo has one ratio per row and gives each token the row's mean credit, but this credit "
        "differs inside rows; use grpo or cispo"
    )
    fine, _ = slime.with_credit("reinforce", unit="token", gamma=0.5)
    with pytest.warns(FineCreditLost, match=re.escape(said)):
        fine(SimpleNamespace(advantage_estimator="gspo"), samples)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fine(SimpleNamespace(advantage_estimator="grpo"), samples)
        slime.with_credit("reinforce", gamma=0.5)[0](SimpleNamespace(advantage_estimator="gspo"), samples)


def test_slimes_removed_and_truncated_samples():
    sample = {
        "tokens": [1, 2, 3],
        "response_length": 2,
        "group_index": 0,
        "loss_mask": None,
        "metadata": {"steps": [(0, 2)]},
    }
    flags = (("Status.TRUNCATED", False), ("Status.COMPLETED", True), ("Status.COMPLETED", False))
    samples = [
        SimpleNamespace(**sample, index=i, reward=float(i), status=status, remove_sample=gone)
        for i, (status, gone) in enumerate(flags)
    ]
    batch = batch_of(slime._rows(samples, [0.0, 1.0, 2.0]))
    assert batch.truncated_N.tolist() == [True, False, False]
    assert batch.has_tokens_N.tolist() == [True, False, True]  # a removed sample votes in no group
    _, carried = slime.with_credit("grpo", scale="none")[0](None, samples)
    assert [x.advantage_L.tolist() for x in carried] == [[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]]
