"""A chat model of transformers as judge: a tiny random one has no opinion, and that is what comes out."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from apportion.asks import Judge, Place
from apportion.data import Step, Trajectory
from apportion.errors import ConfigError
from apportion.resources import Asker, Budget, HFPolicy, judge_of, quote
from apportion.resources.judge import UNREADABLE
from apportion.resources.judge_price import counter_of
from apportion.train.tokenizer import train_tokenizer

CHAT = (
    "{% for m in messages %}({{ m.role }}) {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}(a) {% endif %}"
)
TALK = Trajectory([Step(observation="add 1 and 2", action="it is 3"), Step(action="so 3")])
SHORT = """name = "short"
version = 1
[scale]
kind = "wrong"
[units]
[limits]
tokens = 50
tokens_per_unit = 1
[text]
instruction = "Which $unit is wrong?"
reminder = "Again."
"""


@pytest.fixture(scope="module")
def policy():
    torch.set_num_threads(1)
    tokenizer = train_tokenizer(["which step is wrong?", "add 1 and 2", '{"code": "wrong"}'] * 3, size=300)
    tokenizer.chat_template = CHAT
    torch.manual_seed(0)
    shape = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=8192, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    return HFPolicy(transformers.LlamaForCausalLM(shape).eval(), tokenizer, identity="tiny")


def test_a_model_of_transformers_is_asked_twice_and_has_no_verdict(policy, tmp_path):
    path = tmp_path / "short.toml"
    path.write_text(SHORT)
    tokenizer = policy.speller.tokenizer
    ask = Judge(0, (Place(0, 0), Place(0, 1)), str(path), votes=2)

    def answer():
        judge = judge_of(policy, identity="tiny")
        budget = Budget()
        asker = Asker(judge, budget=budget)
        (got,) = asker([ask], [TALK])
        assert (asker.summary.notes, budget.used_requests) == ({UNREADABLE: 2}, 4)  # it counts as we do
        return got, judge

    (first, judge), (again, _) = answer(), answer()
    assert judge.special == tuple(tokenizer.all_special_tokens)
    assert [sample.scores for sample in first.samples] == [(None, None)] * 2
    assert first.samples == again.samples  # by seed, not by chance
    assert first.samples[0].text != first.samples[1].text
    assert 2 <= first.generated_tokens <= 2 * 2 * 52
    assert first.prompt_tokens > 2 * 2 * 500
    load = judge.load(_request(ask))
    assert first.prompt_tokens + first.generated_tokens <= 2 * (load.prompt_tokens + load.most_generated)


def test_prompts_are_counted_as_the_model_is_given_them(policy, tmp_path):
    path = tmp_path / "short.toml"
    path.write_text(SHORT)
    ask = Judge(0, (Place(0, 0), Place(0, 1)), str(path), votes=3)
    seen = []

    class Watched:
        speller = policy.speller

        def sample(self, prompts):
            seen.extend(len(policy._ids(prompt)) for prompt in prompts)
            return policy.sample(prompts)

    judge = judge_of(Watched(), identity="tiny")
    price = quote([ask], [TALK], [judge])
    Asker(judge)([ask], [TALK])
    assert (price.exact, price.prompt_tokens) == (True, sum(seen[::2]))  # every other call is a reminder
    assert sum(seen) <= price.prompt_tokens + price.generated_tokens


def test_a_tokenizer_without_a_template_for_chats_is_no_counter(policy):
    bare = train_tokenizer(["a b c"] * 3, size=280)
    bare.chat_template = None
    with pytest.raises(
        ConfigError, match=r"the tokenizer cannot write a chat of system, user .*; give one with a chat"
    ):
        counter_of(bare)([{"role": "system", "content": "a"}, {"role": "user", "content": "b"}])


def _request(ask):
    from apportion.resources import Request

    return Request(ask, TALK, 0, 0)
