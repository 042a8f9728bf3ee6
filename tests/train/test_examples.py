"""From credited rollouts to rows of the model: equal inputs run once, and the sums stay what they are."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch
from apportion.errors import ApportionError
from apportion.losses import LOSSES, Tokens, aggregate
from apportion.losses import torch as on_tensors
from apportion.train.examples import Examples, micro_batches, score
from apportion.train.rollout import Collector
from apportion.train.update import DriftError, Objective, Tally, check_drift, minimise
from apportion.units import by_step
from tests.train.make import small_policy


def rollouts(policy, tasks=2, members=4):
    collector = Collector("crafttree", {"horizon": 4, "goal": "torch"})
    return collector.collect(policy, range(tasks), rollouts=members, stream=(1,)).trajectories


def credited(policy, seed=0, **changes):
    """Examples with random credit, some of it unknown and some of it zero."""
    units = by_step(Batch.from_trajectories(rollouts(policy, **changes)))
    random = np.random.default_rng(seed)
    advantage = np.where(random.random(len(units)) < 0.2, 0.0, random.normal(size=len(units)))
    known = random.random(len(units)) > 0.2
    return Examples.of(Credit(np.where(known, advantage, 0), units, known_S=known).to_tokens(), policy)


@pytest.fixture(params=["window 0", "window 2", "history", "actions of several tokens"])
def policy(request):
    kinds = {"window 0": 0, "window 2": 2, "history": None}
    made = small_policy(kinds.get(request.param, 0))
    if request.param not in kinds:
        made.prompts.encode_action = made.prompts.encode  # no token for whole actions
    return made


def test_scores_are_the_log_probabilities_of_sampling(policy):
    examples = credited(policy)
    seen = []
    for micro in micro_batches(examples, np.arange(len(examples)), micro_tokens=100):
        with torch.no_grad():
            logp, spread = score(policy, examples, micro)
        assert_allclose(logp.numpy(), examples.old_logp_K[micro.k], atol=1e-5)
        assert (spread >= 0).all()
        seen += micro.k.tolist()
    assert sorted(seen) == list(range(len(examples.token_K)))  # each trained token once


def test_equal_inputs_run_once():
    policy = small_policy(0)
    examples = credited(policy)
    rows = [row for micro in micro_batches(examples, np.arange(len(examples)), 10_000) for row in micro.rows]
    assert len(rows) == len(set(rows)) == len(set(examples.inputs)) < len(examples) / 2


def test_micro_batches_hold_what_they_may(policy):
    examples = credited(policy)
    longest = max(len(row) for row in examples.inputs)
    for size in (1, longest, 3 * longest, 100 * longest):
        parts = list(micro_batches(examples, np.arange(len(examples)), size))
        for micro in parts:
            assert len(micro.rows) == 1 or len(micro.rows) * max(map(len, micro.rows)) <= size
        assert sum(len(micro.rows) for micro in parts) == len(set(examples.inputs))


def test_context_and_unknown_units_are_not_trained():
    policy = small_policy(None)
    batch = Batch.from_trajectories(rollouts(policy))
    units = by_step(batch)
    known = np.arange(len(units)) % 3 > 0
    tokens = Credit(np.where(known, 1.0, 0), units, known_S=known).to_tokens()
    examples = Examples.of(tokens, policy)
    assert len(examples.token_K) == known.sum()  # one token a step
    assert (tokens.weight_T.sum(), len(examples)) == (known.sum(), len(batch))
    for token, seq, at in zip(examples.token_K, examples.seq_K, examples.at_K, strict=True):
        row = [*examples.inputs[seq], token if at + 1 == len(examples.inputs[seq]) else None]
        assert row[at + 1] == token  # the output at a position predicts the next one
    assert policy.tokenizer.decode(examples.inputs[0][: examples.at_K[0] + 1]).endswith("<act>")


def slow_gradient(policy, examples, objective):
    """The whole loss at once: every sequence in a pass of its own, loss by the reference's aggregation."""
    policy.model.zero_grad()
    logps = [None] * len(examples.token_K)
    spreads = [None] * len(examples.token_K)
    for q, row in enumerate(examples.inputs):
        logits = policy.model(torch.tensor([row])).logits[0]
        for k in np.flatnonzero(examples.seq_K == q):
            allowed = examples.allowed_K[k]
            log_probs = torch.log_softmax(logits[examples.at_K[k]][list(allowed)] / policy.temperature, -1)
            logps[k] = log_probs[allowed.index(examples.token_K[k])]
            spreads[k] = -(log_probs.exp() * log_probs).sum()
    logp, spread = torch.stack(logps).double(), torch.stack(spreads).double()
    row = examples.traj_K if objective.rows == "trajectory" else examples.seq_K
    weight, row = torch.tensor(examples.weight_K), torch.tensor(row)
    tokens = Tokens(
        logp, torch.tensor(examples.advantage_K), weight, torch.tensor(examples.seq_K),
        torch.tensor(examples.old_logp_K),
    )  # fmt: skip
    total = on_tensors.LOSSES[objective.loss](tokens, **objective.params)
    total = total - objective.entropy_coef * spread
    group = torch.tensor(examples.group_K)
    loss = on_tensors.aggregate(total, weight, row, objective.aggregation, length=objective.length, group_of_T=group)
    loss.backward()
    return {name: p.grad.clone() for name, p in policy.model.named_parameters()}, loss.item()


OBJECTIVES = {
    "ppo": Objective(),
    "ppo per trajectory": Objective(aggregation="seq-mean-token-mean", entropy_coef=0.3),
    "gspo_token": Objective(loss="gspo_token", params={"eps_low": 0.1, "eps_high": 0.1}),
    "gspo": Objective(loss="gspo", params={"eps_low": 0.1, "eps_high": 0.1}, rows="sequence"),
    "dapo's, as printed": Objective(params={"delta": 1.5}, aggregation="group-mean-token-mean"),
    "dr_grpo's": Objective(aggregation="seq-mean-token-sum-norm", length=7),
}


@pytest.mark.filterwarnings("ignore:gspo has one ratio per row")  # that is what is computed here, on purpose
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_gradient_is_that_of_the_whole_loss(policy, name):
    examples, objective = credited(policy), OBJECTIVES[name]
    shifted = examples.old_logp_K + np.random.default_rng(1).normal(size=len(examples.token_K)) * 0.2
    examples = dataclasses.replace(examples, old_logp_K=shifted)  # off policy, so that ratios and clips matter
    want, value = slow_gradient(policy, examples, objective)
    tally = Tally()
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.0)
    minimise(
        policy, optimizer, examples, np.arange(len(examples)), objective,
        reference=None, micro_tokens=60, clip_grad=1e9, tally=tally,
    )  # fmt: skip
    for parameter, p in policy.model.named_parameters():
        assert_allclose(p.grad.numpy(), want[parameter].numpy(), atol=2e-6, err_msg=parameter)
    if objective.entropy_coef == 0:
        assert tally.loss == pytest.approx(value, abs=1e-6)


def test_parts_are_normalised_by_their_own_tokens():
    policy = small_policy(0)
    examples = credited(policy)
    part = np.arange(0, len(examples), 3)
    tally = Tally()
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.0)
    minimise(
        policy, optimizer, examples, part, Objective(),
        reference=None, micro_tokens=60, clip_grad=1e9, tally=tally,
    )  # fmt: skip
    mine = np.isin(examples.seq_K, part)
    columns = (c[mine] for c in (examples.old_logp_K, examples.advantage_K, examples.weight_K, examples.traj_K))
    tokens = Tokens(*columns)
    want = aggregate(LOSSES["ppo"](tokens), tokens.weight_T, tokens.row_of_T)
    assert tally.loss == pytest.approx(want, abs=1e-6)


def test_sequences_without_credit_are_not_run_unless_they_count():
    policy = small_policy(0)
    units = by_step(Batch.from_trajectories(rollouts(policy)))
    credit = np.zeros(len(units))
    credit[0] = 1.0
    examples = Examples.of(Credit(credit, units).to_tokens(), policy)
    grads = []
    for objective in (Objective(), Objective(entropy_coef=1e-12)):
        tally = Tally()
        minimise(
            policy, torch.optim.SGD(policy.model.parameters(), lr=0.0), examples, np.arange(len(examples)),
            objective, reference=None, micro_tokens=1000, clip_grad=1e9, tally=tally,
        )  # fmt: skip
        grads.append((tally.rows, [p.grad.clone() for p in policy.model.parameters()]))
    assert grads[0][0] == 1 < grads[1][0]
    for a, b in zip(grads[0][1], grads[1][1], strict=True):
        assert_allclose(a.numpy(), b.numpy(), atol=1e-8)


def test_no_credit_at_all_changes_nothing():
    policy = small_policy(0)
    units = by_step(Batch.from_trajectories(rollouts(policy)))
    examples = Examples.of(Credit(np.zeros(len(units)), units).to_tokens(), policy)
    before = [p.clone() for p in policy.model.parameters()]
    tally = Tally()
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=0.1, weight_decay=0.1)
    minimise(
        policy, optimizer, examples, np.arange(len(examples)), Objective(),
        reference=None, micro_tokens=1000, clip_grad=1.0, tally=tally,
    )  # fmt: skip
    assert all(torch.equal(a, b) for a, b in zip(before, policy.model.parameters(), strict=True))
    assert tally.metrics()["updates"] == 0


def test_another_policy_or_temperature_is_noticed(policy):
    examples = credited(policy)
    tally = Tally()
    everything = np.arange(len(examples))
    check_drift(policy, examples, everything, micro_tokens=500, tolerance=1e-4, tally=tally)
    assert tally.drift < 1e-5
    assert tally.checked == len(examples.token_K)
    policy.temperature = 0.5
    with pytest.raises(DriftError, match=r"sampling and of training differ by up to [\d.]+ nats \(tolerance 0.0001\)"):
        check_drift(policy, examples, everything, micro_tokens=500, tolerance=1e-4, tally=tally)
    with pytest.raises(DriftError):
        minimise(
            policy, torch.optim.SGD(policy.model.parameters(), lr=0.0), examples, everything, Objective(),
            reference=None, micro_tokens=500, clip_grad=1.0, tally=tally, tolerance=1e-4,
        )  # fmt: skip


def test_a_penalty_towards_the_reference_pulls_back():
    policy, reference = small_policy(0), small_policy(0)
    with torch.no_grad():
        for p in policy.model.parameters():
            p.add_(0.2 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0)))
    units = by_step(Batch.from_trajectories(rollouts(policy)))
    examples = Examples.of(Credit(np.zeros(len(units)), units).to_tokens(), policy)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=3e-3)
    kl = []
    for _ in range(12):
        tally = Tally()
        minimise(
            policy, optimizer, examples, np.arange(len(examples)), Objective(kl_coef=1.0, kl_estimator="k2"),
            reference=reference, micro_tokens=1000, clip_grad=10.0, tally=tally,
        )  # fmt: skip
        kl.append(tally.metrics()["ref_kl"])
    assert kl[-1] < 0.5 * kl[0]


def test_a_gradient_that_is_not_finite_stops_the_run():
    policy = small_policy(0)
    examples = credited(policy)
    examples = dataclasses.replace(examples, old_logp_K=examples.old_logp_K * np.nan)
    with pytest.raises(ApportionError, match="the loss is nan; a log-probability, a credit or the model is not finite"):
        minimise(
            policy, torch.optim.SGD(policy.model.parameters(), lr=0.1), examples, np.arange(len(examples)),
            Objective(), reference=None, micro_tokens=500, clip_grad=1.0, tally=Tally(),
        )  # fmt: skip


def test_two_samples_up_and_down():
    """One update makes what had positive credit likelier, and the rest less likely."""
    policy = small_policy(0)
    units = by_step(Batch.from_trajectories(rollouts(policy)))
    credit = assign("grpo", units.with_reward(np.arange(len(units)) % 5 == 0))
    examples = Examples.of(credit.to_tokens(), policy)
    everything = np.arange(len(examples))

    def mean_logp(of):
        with torch.no_grad():
            parts = [(m.k, score(policy, examples, m)[0]) for m in micro_batches(examples, everything, 10_000)]
        logp = np.zeros(len(examples.token_K))
        for k, values in parts:
            logp[k] = values
        return (logp * examples.advantage_K)[of].sum()

    before = mean_logp(slice(None))
    minimise(
        policy, torch.optim.SGD(policy.model.parameters(), lr=0.5), examples, everything, Objective(),
        reference=None, micro_tokens=500, clip_grad=1.0, tally=Tally(),
    )  # fmt: skip
    assert mean_logp(slice(None)) > before
