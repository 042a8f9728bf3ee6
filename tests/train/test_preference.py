"""A policy trained on preference pairs: the loss is that of the losses' room; what cannot be learned from is said."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from apportion.data.pairs import TurnPair, write_pairs
from apportion.errors import CheckpointError, ConfigError, DataError
from apportion.losses import pairs as on_arrays
from apportion.models import Settings
from apportion.train.preference import DEFAULTS, _Preferences, prefer
from tests.train import whisper  # noqa: F401 - registers the environment
from tests.train.make import small_policy

ACTIONS = ("say a", "say b", "say nothing at all")


def policy_of(seed=0, **changes):
    return small_policy(env="tests/whisper", seed=seed, **changes)


def pair_of(policy, k=0, better=0, worse=1, **more):
    """The policy's tokens of a prompt, and of two of its actions."""
    choices = policy.choices(ACTIONS)
    prompt = tuple(policy.prompts.present(f"turn {k}: say a letter"))
    return TurnPair(
        prompt, choices.ids[better], choices.ids[worse], actions=ACTIONS, group=f"g{k}", place=f"{k}:0", **more
    )


def plain_logp(policy, pair, side):
    """Log-probability of each sampled token of a turn, one pass of the model for each, the allowed ones by hand."""
    ids, out = getattr(pair, f"{side}_ids"), []
    for j, token in enumerate(ids):
        with torch.no_grad():
            row = policy.model(torch.tensor([[*pair.prompt_ids, *ids[:j]]])).logits[0, -1] / policy.temperature
        if pair.actions is not None and not policy.free_text:
            may = {a[j] for a in policy.choices(pair.actions).ids if a[:j] == ids[:j] and len(a) > j}
            row = torch.stack([x if t in may else torch.tensor(-torch.inf) for t, x in enumerate(row)])
        if getattr(pair, f"{side}_mask")[j]:
            out.append(float(torch.log_softmax(row.double(), -1)[token]))
    return out


@pytest.mark.parametrize("loss", ["turn_dpo", "dpo", "treg_dpo"])
@pytest.mark.parametrize("free", [False, True])
def test_the_loss_is_that_of_the_arrays(loss, free):
    policy = policy_of(temperature=0.7, **({"actions": "text"} if free else {}))
    moved = copy.deepcopy(policy.model)
    kinds = ((0, 1), (1, 2), (2, 0)) if not free else ((0, 1),)
    pairs = []
    for k, (a, b) in enumerate(kinds):
        made = pair_of(policy, k, a, b)
        told = {"chosen": len(made.chosen_ids), "rejected": len(made.rejected_ids)}
        rewards = {f"{s}_rewards": tuple(0.1 * (j + 1) for j in range(n)) for s, n in told.items()}
        masks = {f"{s}_mask": (*(True,) * (n - 1), True) for s, n in told.items()}
        pairs.append(pair_of(policy, k, a, b, **rewards, **masks))
    params = {"beta": 0.3, "nll": 0.2} | ({"alpha": 0.5} if loss == "treg_dpo" else {})
    task = _Preferences(policy, pairs, loss, params, Settings(held_out=0.0))
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    start, policy.model = policy.model, moved
    got, weight = task.loss(np.arange(len(pairs)))
    now = [[plain_logp(policy, p, s) for s in ("chosen", "rejected")] for p in pairs]
    policy.model = start
    ref = [[plain_logp(policy, p, s) for s in ("chosen", "rejected")] for p in pairs]
    flat = [x for p in now for side in p for x in side]
    row = [2 * k + h for k, p in enumerate(now) for h, side in enumerate(p) for _ in side]
    told = on_arrays.Pairs(
        np.array(flat),
        np.array([x for p in ref for side in p for x in side]),
        np.array(row),
        np.arange(0, 2 * len(pairs), 2),
        np.arange(1, 2 * len(pairs), 2),
    )
    given = [x for p in pairs for side in ("chosen", "rejected") for x in getattr(p, f"{side}_rewards")]
    more = (np.array(given),) if loss == "treg_dpo" else ()
    want = getattr(on_arrays, loss)(told, *more, **params)
    assert weight == len(pairs)
    assert float(got.detach()) == pytest.approx(want.sum(), rel=1e-4)


def test_tokens_that_were_not_sampled_are_read_and_do_not_count():
    policy = policy_of(actions="text")
    ids = {"prompt_ids": (5, 6), "chosen_ids": (7, 8, 9), "rejected_ids": (9, 8)}
    whole = _Preferences(policy, [TurnPair(**ids)], "dpo", {}, Settings(held_out=0.0))
    masked = TurnPair(**ids, chosen_mask=(1, 0, 1), rejected_mask=(0, 1))
    part = _Preferences(policy, [masked], "dpo", {}, Settings(held_out=0.0))
    np.testing.assert_allclose(part.ref[0].numpy(), whole.ref[0].numpy()[[0, 2, 4]], atol=1e-6)


def test_the_policy_learns_what_was_preferred_and_keeps_to_it_on_held_out_tasks():
    policy = policy_of()
    pairs = [pair_of(policy, k, better=1, worse=(0, 2)[k % 2]) for k in range(40)]
    before = copy.deepcopy(policy.model.state_dict())
    how = {"epochs": 8, "lr": 3e-3, "held_out": 0.25, "batch_tokens": 100, "loss_params": {"beta": 1.0}}
    fitted = prefer(policy, pairs, **how)
    assert fitted.losses[-1] < 0.8 * fitted.losses[0]
    assert fitted.measures["pairs"] == 10
    assert fitted.measures["accuracy"][0] == 1.0
    assert any(not torch.equal(x, before[name]) for name, x in policy.model.state_dict().items())
    turned = policy_of()
    prefer(turned, [pair_of(turned, k, better=0, worse=1) for k in range(40)], **how)
    share = [np.exp(sum(plain_logp(p, pairs[0], "chosen"))) for p in (policy, turned)]
    assert share[0] > 0.5 > share[1]


def test_a_training_that_was_stopped_goes_on_to_the_same_weights(tmp_path):
    made = policy_of()
    pairs = [pair_of(made, k, better=k % 2, worse=2) for k in range(12)]
    settings = Settings(epochs=3, lr=1e-3, batch_tokens=100, held_out=0.25)
    whole, first, rest = policy_of(), policy_of(), policy_of()
    done = prefer(whole, pairs, settings=settings, out=tmp_path / "a")
    prefer(first, pairs, settings=Settings.of(settings, epochs=1), out=tmp_path / "b")
    with pytest.raises(ConfigError, match="holds checkpoints of an earlier run; resume it"):
        prefer(policy_of(), pairs, settings=settings, out=tmp_path / "b")
    with pytest.raises(CheckpointError, match=r"is of other work \(pairs differ\)"):
        prefer(policy_of(), pairs[:-1], settings=settings, out=tmp_path / "b", resume=True)
    with pytest.raises(CheckpointError, match=r"is of other work \(lr, policy differ\)"):
        prefer(policy_of(1), pairs, settings=settings, lr=1e-4, out=tmp_path / "b", resume=True)
    again = prefer(rest, pairs, settings=settings, out=tmp_path / "b", resume=True)
    assert (again.losses, again.measures, again.resumed) == (done.losses, done.measures, 1)
    a, b = ((tmp_path / x / "policy" / "model.safetensors").read_bytes() for x in "ab")
    assert a == b
    with pytest.raises(CheckpointError, match="no checkpoint to resume from"):
        prefer(policy_of(), pairs, out=tmp_path / "c", resume=True)


def test_one_pass_is_the_default():
    assert DEFAULTS.epochs == 1


def test_what_cannot_be_learned_from_is_said():
    policy = policy_of()
    good, known = pair_of(policy), len(policy.tokenizer)
    cases = [
        ([], {}, DataError, "no pair to learn from"),
        ([good], {"loss": "ppo"}, ConfigError, "loss is 'ppo'; give one of turn_dpo, dpo, treg_dpo"),
        ([good], {"loss_params": {"gamma": 1}}, ConfigError, "turn_dpo takes no 'gamma'; there are beta, nll"),
        ([good], {"loss_params": {"alpha": 1}}, ConfigError, "turn_dpo takes no 'alpha'"),
        ([good], {"loss_params": {"beta": -1}}, ConfigError, "beta is -1; give a number above 0"),
        ([good], {"passes": 2}, ConfigError, "fitting has no setting 'passes'"),
        ([good], {"loss": "treg_dpo"}, DataError, r"pair 0 \(0:0\) has no token rewards, which treg_dpo reads"),
        ([good, TurnPair((1,), (2,), (known,))], {}, DataError, f"pair 1 has token id {known} and the policy knows"),
        ([TurnPair((1,), (2,), (3,))], {}, DataError, "pair 0 does not tell the admissible actions"),
        ([TurnPair((1,), (2,), (3,), actions=ACTIONS)], {}, DataError, "the chosen turn is none of its admissible"),
    ]
    for pairs, given, error, says in cases:
        with pytest.raises(error, match=says):
            prefer(policy, pairs, **given)


def test_a_loss_that_is_not_finite_leaves_the_policy_as_it_was():
    policy = policy_of()
    pairs = [pair_of(policy, k) for k in range(8)]
    task_of = prefer.__globals__["_Preferences"].loss
    calls = []

    def breaks(self, items):
        calls.append(items)
        loss, weight = task_of(self, items)
        return (loss * torch.nan if len(calls) == 2 else loss), weight

    before = copy.deepcopy(policy.model.state_dict())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefer.__globals__["_Preferences"], "loss", breaks)
        with pytest.raises(DataError, match="the loss is nan in epoch 1, so nothing of that epoch was kept"):
            prefer(policy, pairs, lr=1e-2, batch_tokens=60, held_out=0.0)
    assert len(calls) == 2
    assert all(torch.equal(x, before[name]) for name, x in policy.model.state_dict().items())


@pytest.mark.slow
def test_trl_trains_on_the_file_with_the_same_tokens_and_a_stop_token(tmp_path):
    datasets, trl = pytest.importorskip("datasets"), pytest.importorskip("trl")
    policy = policy_of()
    policy.save(tmp_path / "policy")
    text = policy.tokenizer.decode
    pairs = [
        replace(p, prompt=text(p.prompt_ids), chosen=text(p.chosen_ids), rejected=text(p.rejected_ids))
        for p in (pair_of(policy, k, better=1, worse=2) for k in range(8))
    ]
    write_pairs(tmp_path / "pairs.jsonl", pairs)
    rows = datasets.load_dataset(
        "json", data_files=str(tmp_path / "pairs.jsonl"), split="train", cache_dir=str(tmp_path / "cache")
    )
    how = trl.DPOConfig(
        str(tmp_path / "out"), max_steps=1, per_device_train_batch_size=4, report_to=[], use_cpu=True, bf16=False
    )
    trainer = trl.DPOTrainer(str(tmp_path / "policy"), args=how, train_dataset=rows)
    stop = policy.prompts.stop_id
    for row, pair in zip(trainer.train_dataset, pairs, strict=True):
        assert tuple(row["prompt_ids"]) == pair.prompt_ids
        assert tuple(row["chosen_ids"]) == (*pair.chosen_ids, stop)
        assert tuple(row["rejected_ids"]) == (*pair.rejected_ids, stop)
    trainer.train()
    assert trainer.state.global_step == 1
