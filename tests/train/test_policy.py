"""Log-probabilities: batches, caches and padding change nothing; what was sampled is what is trained."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from transformers import LlamaConfig, LlamaForCausalLM

from apportion.errors import ConfigError
from apportion.train.policy import Policy, entropy
from apportion.train.rollout import Collector
from apportion.train.sampler import CachedSampler, ChoiceSampler, Distribution, Request
from tests.train.make import small_policy

CRAFT = {"env": "crafttree", "options": {"goal": "torch", "horizon": 12}}
COPY = {"env": "tests/copy", "options": {}}


def llama_policy(window=0, **options):
    """The same tokenizer under another architecture: rotary positions, grouped heads."""
    tokenizer = small_policy().tokenizer
    torch.manual_seed(1)
    shape = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        bos_token_id=1, eos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    return Policy(LlamaForCausalLM(shape).eval(), tokenizer, window=window, **options)


def recomputed(policy, trajectory):
    """Log-probability and entropy of each sampled token, one unpadded row at a time, straight from the formula."""
    context, logps, entropies = [], [], []
    for step in trajectory.steps:
        context = list(step.prompt_ids) if step.fresh else [*context, *step.prompt_ids]
        choices = None if step.actions is None else policy.choices(step.actions)
        for k, token in enumerate(step.ids):
            with torch.no_grad():
                logits = policy.model(torch.tensor([context])).logits[0, -1].double() / policy.temperature
            if choices is not None:
                open_to = list(choices.allowed(tuple(step.ids[:k])))
                logits = torch.full_like(logits, -torch.inf).index_copy(0, torch.tensor(open_to), logits[open_to])
            logp = torch.log_softmax(logits, -1)
            logps.append(float(logp[token]))
            entropies.append(float(torch.special.entr(logp.exp()).sum()))
            context.append(int(token))
    return np.array(logps), np.array(entropies)


POLICIES = {
    "one prompt a step": (CRAFT, lambda: small_policy(0)),
    "a window of two": (CRAFT, lambda: small_policy(2, temperature=0.7)),
    "growing context": (CRAFT, lambda: small_policy(None)),
    "growing context, llama": (CRAFT, lambda: llama_policy(None, temperature=1.5)),
    "window, llama": (CRAFT, lambda: llama_policy(1)),
    "free text": (COPY, lambda: small_policy(0, env="tests/copy", actions="text", max_action_tokens=5)),
    "free text, growing": (COPY, lambda: small_policy(None, env="tests/copy", actions="text", max_action_tokens=5)),
}


@pytest.mark.parametrize("name", POLICIES)
def test_batched_log_probabilities_are_those_of_single_rows(name):
    env, build = POLICIES[name]
    policy = build()
    got = Collector(**env).collect(policy, range(8), rollouts=4, stream=(7,))
    assert len({len(t.steps) for t in got.trajectories}) > 1 or env is COPY  # episodes of unequal length
    by_length = sorted(got.trajectories, key=lambda t: len(t.steps))
    for trajectory in (*by_length[:2], *by_length[-2:]):
        logp, spread = recomputed(policy, trajectory)
        assert_allclose(np.concatenate([s.logp for s in trajectory.steps]), logp, atol=1e-5)
        assert_allclose(np.concatenate([s.entropy for s in trajectory.steps]), spread, atol=1e-5)


@pytest.mark.parametrize("build", [small_policy, llama_policy])
def test_actions_of_several_tokens_are_chosen_from_the_tree(build):
    policy = build(None)
    policy.prompts.encode_action = policy.prompts.encode  # no token for whole actions
    policy.choices.cache_clear()
    got = Collector(**CRAFT).collect(policy, range(2), rollouts=2, stream=(1,))
    sizes = {len(step.ids) for t in got.trajectories for step in t.steps}
    assert max(sizes) > 2
    for trajectory in got.trajectories:
        for step in trajectory.steps:
            assert step.action in step.actions
        logp, _ = recomputed(policy, trajectory)
        assert_allclose(np.concatenate([s.logp for s in trajectory.steps]), logp, atol=1e-5)


def test_the_two_samplers_draw_the_same_actions():
    policy = small_policy(1)
    actions = ("get log", "get coal", "craft plank", "wait")
    choices = policy.choices(actions)

    def play(sampler, seed):
        contexts = [policy.prompts.encode(f"Goal: {'craft ' * k}")[: 3 + k] for k in range(5)]
        randoms = [np.random.default_rng([seed, k]) for k in range(5)]
        asked = [Request(k, c, True, choices, r) for k, (c, r) in enumerate(zip(contexts, randoms, strict=True))]
        return sampler.act(asked)

    for seed in range(5):
        remembered, cached = play(ChoiceSampler(policy), seed), play(CachedSampler(policy), seed)
        assert [s.ids for s in remembered] == [s.ids for s in cached]
        assert_allclose([s.logp for s in remembered], [s.logp for s in cached], atol=1e-5)


def test_a_known_prompt_is_not_run_again():
    policy = small_policy(0)
    sampler = ChoiceSampler(policy)
    choices = policy.choices(("get log", "wait"))
    ask = [Request(k, (5, 6, 7), True, choices, np.random.default_rng(k)) for k in range(8)]
    sampler.act(ask)
    sampler.act(ask)
    assert (sampler.run, sampler.asked) == (1, 16)


def test_an_action_without_alternative_costs_nothing():
    policy = small_policy(0)
    policy.model = None  # would raise
    (only,) = ChoiceSampler(policy).act([Request(0, (5, 6), True, policy.choices(("wait",)), np.random.default_rng(0))])
    assert only.ids == policy.prompts.encode_action("wait")
    assert only.logp == only.entropy == (0.0,)


def test_draws_follow_the_probabilities():
    p = np.array([0.1, 0.0, 0.6, 0.3], dtype=np.float32)
    with np.errstate(divide="ignore"):
        drawn = Distribution.of(np.log(p), (0, 2, 3), 1.0)
    random = np.random.default_rng(0)
    count = np.bincount([drawn.draw(random, greedy=False)[0] for _ in range(20_000)], minlength=4)
    assert_allclose(count / 20_000, p, atol=0.012)  # 3.5 standard errors
    assert drawn.draw(random, greedy=True) == (2, 0.0, 0.0)


def test_greedy_is_the_limit_of_cold_sampling():
    cold, warm = small_policy(0, temperature=1e-4), small_policy(0)
    collector = Collector(**CRAFT)
    sampled = collector.collect(cold, range(4), stream=(1,)).trajectories
    greedy = collector.collect(warm, range(4), greedy=True).trajectories
    assert [[s.action for s in t.steps] for t in sampled] == [[s.action for s in t.steps] for t in greedy]


def test_an_episode_does_not_depend_on_its_company():
    policy = small_policy(None)
    collector = Collector(**CRAFT)
    together = collector.collect(policy, range(6), stream=(3,)).trajectories
    alone = collector.collect(policy, range(2), stream=(3,)).trajectories
    for a, b in zip(together, alone, strict=False):
        assert [s.action for s in a.steps] == [s.action for s in b.steps]


def test_entropy():
    uniform = torch.log_softmax(torch.tensor([0.0, 0.0, -torch.inf, 0.0]), -1)
    assert float(entropy(uniform)) == pytest.approx(np.log(3))
    certain = torch.tensor([0.0, -torch.inf], requires_grad=True)
    entropy(torch.log_softmax(certain, -1)).backward()
    assert torch.isfinite(certain.grad).all()


def test_a_context_that_is_too_long_is_an_error_with_a_way_out():
    policy = small_policy(None)
    policy.longest = 30
    with pytest.raises(ConfigError, match=r"a context has \d+ tokens and the model takes 30; set prompt to 'window'"):
        Collector(**CRAFT).collect(policy, [0])


def test_saved_policies_are_read_by_transformers(tmp_path):
    from transformers import AutoModelForCausalLM

    policy = small_policy(0)
    policy.save(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    row = torch.tensor([[5, 6, 7, 8]])
    assert torch.equal(again(row).logits, policy.model(row).logits)
    assert not list(tmp_path.glob("*.bin"))


def test_rollouts_keep_what_credit_needs():
    got = Collector("crafttree", {"budget": 3}).collect(small_policy(0), [4, 9], rollouts=3, name="7/")
    assert [t.group for t in got.trajectories] == ["crafttree/4"] * 3 + ["crafttree/9"] * 3
    assert got.trajectories[4].id == "7/9/1"
    starts = {t.group: {s.observation for s in [x.steps[0] for x in got.trajectories if x.group == t.group]}
              for t in got.trajectories}  # fmt: skip
    assert all(len(texts) == 1 for texts in starts.values())
    for trajectory, total, steps in zip(got.trajectories, got.return_N, got.steps_N, strict=True):
        assert trajectory.total == total
        assert len(trajectory.steps) == steps
        last = trajectory.steps[-1]
        assert last.terminated != last.truncated
        for step in trajectory.steps:
            assert step.state == step.observation
            assert step.action in step.actions
            assert len(step.ids) == len(step.logp) == len(step.entropy) == 1
    assert got.tokens == sum(got.steps_N)


def test_noisy_environments_get_noise_per_member_and_the_same_start():
    got = Collector("keydoor", {}).collect(small_policy(0, env="keydoor"), [1], rollouts=4)
    assert len({t.steps[0].observation for t in got.trajectories}) == 1


def test_greedy_free_text_stops_at_the_longest():
    policy = small_policy(0, env="tests/copy", actions="text", max_action_tokens=3)
    got = Collector(**COPY).collect(policy, [0], greedy=True)
    assert all(1 <= len(step.ids) <= 3 for step in got.trajectories[0].steps)


def test_weights_of_a_folder_lie_where_torch_puts_its_own(tmp_path):
    """In a mapped file they lie at odd addresses, where products round otherwise: a resumed run would differ."""
    small_policy().save(tmp_path / "p")
    again = small_policy(start=str(tmp_path / "p"))
    assert [p.data_ptr() % 64 for p in again.model.parameters()] == [0] * sum(1 for _ in again.model.parameters())
