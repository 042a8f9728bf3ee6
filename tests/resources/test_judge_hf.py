"""A chat model of transformers as judge: a tiny random one has no opinion, and that is what comes out."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from apportion.asks import Judge, Place
from apportion.data import Step, Trajectory
from apportion.resources import Asker, HFPolicy, judge_of
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
        judge = judge_of(
            policy,
            identity="tiny",
            special=tokenizer.all_special_tokens,
            count=lambda text: len(tokenizer.encode(text)),
        )
        return Asker(judge)([ask], [TALK])[0], judge

    (first, judge), (again, _) = answer(), answer()
    assert [sample.scores for sample in first.samples] == [(None, None)] * 2
    assert first.samples == again.samples  # by seed, not by chance
    assert first.samples[0].text != first.samples[1].text
    assert 2 <= first.generated_tokens <= 2 * 2 * 52
    assert first.prompt_tokens > 2 * 2 * 500
    load = judge.load(_request(ask))
    assert first.prompt_tokens + first.generated_tokens <= 2 * (load.prompt_tokens + load.most_generated)


def _request(ask):
    from apportion.resources import Request

    return Request(ask, TALK, 0, 0)
