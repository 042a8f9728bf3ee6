"""Against a real server: vLLM on this machine, started here. Opt-in, and skipped with the reason where it is not there.

    APPORTION_VLLM_PYTHON=/path/to/python pytest -m slow tests/resources/test_real_server.py

The Python has vLLM (a CPU build will do). APPORTION_VLLM_URL takes a server that runs already instead; it must serve
the tiny model that `tiny_model` makes.
"""

import os
import socket
import subprocess
import time

import numpy as np
import pytest

pytest.importorskip("httpx2")
pytest.importorskip("torch")
pytest.importorskip("transformers")

from apportion.asks import Continue, Judge, Logprob, Place
from apportion.data import Step, Trajectory
from apportion.resources import Asker, Budget, OpenAIServer, judge_from_options, quote
from apportion.resources.hf_policy import HFPolicy
from apportion.resources.judge import REMINDED, UNREADABLE
from tests.resources.test_judge_hf import CHAT

pytestmark = pytest.mark.slow
ROOM = 8192


def tiny_model(folder):
    """A random Llama of two layers with a tokenizer, in a folder."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from apportion.train.tokenizer import train_tokenizer

    torch.manual_seed(0)
    tokenizer = train_tokenizer(["the answer is 42. what is 6 times 7? add 1 and 2 to get 3"] * 5, size=300)
    tokenizer.chat_template = CHAT
    shape = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=ROOM, eos_token_id=tokenizer.eos_token_id,
        bos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, tie_word_embeddings=False,
    )  # fmt: skip
    LlamaForCausalLM(shape).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Address of the server, and the folder of its model."""
    python, url = os.environ.get("APPORTION_VLLM_PYTHON"), os.environ.get("APPORTION_VLLM_URL")
    if not python and not url:
        pytest.skip("no real server: set APPORTION_VLLM_PYTHON to a Python that has vLLM, or APPORTION_VLLM_URL")
    folder = tmp_path_factory.mktemp("model")
    tiny_model(folder)
    if url:
        yield url, folder
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {
        **os.environ,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    }
    arguments = ["--model", str(folder), "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port)]
    arguments += ["--dtype", "float32", "--max-model-len", str(ROOM), "--enforce-eager"]
    # its CPU build dies of a seeded prompt that it reads in pieces, so it gets room to read several at once
    arguments += ["--max-num-batched-tokens", str(2 * ROOM)]
    log = (folder / "log").open("w")
    server = subprocess.Popen(
        [python, "-m", "vllm.entrypoints.openai.api_server", *arguments], env=env, stdout=log, stderr=log
    )
    try:
        address, until = f"http://127.0.0.1:{port}/v1", time.monotonic() + 900
        while True:
            try:
                OpenAIServer(address, key_env=None).open()
                break
            except Exception:
                assert server.poll() is None, (folder / "log").read_text()[-2000:]
                assert time.monotonic() < until, "the server did not start in 15 minutes"
                time.sleep(1)
        yield address, folder
    finally:
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()


def test_a_judge_counts_its_prompts_as_its_tokenizer_does_here(served):
    """A random model gives no verdict, but every call of it is counted, reminders included, and held to the schema."""
    url, folder = served
    talk = Trajectory([Step(observation="add 1 and 2", action="it is 3"), Step(action="so 3")])
    ask = Judge(0, (Place(0, 0), Place(0, 1)), "labels", votes=3)
    judge = judge_from_options(url, model="tiny", key_env=None, judge_tokenizer=str(folder))
    price = quote([ask], [talk], [judge])
    budget = Budget(requests=price.most_requests, tokens=price.prompt_tokens + price.generated_tokens)
    asker = Asker(judge, budget=budget)
    (answer,) = asker([ask], [talk])
    assert (len(answer.samples), price.exact) == (3, True)
    assert set(asker.summary.notes) <= {REMINDED, UNREADABLE}  # no count of it differs from ours
    reminded = sum(asker.summary.notes.values())
    assert budget.used_requests == 3 + reminded <= price.most_requests
    assert answer.prompt_tokens == price.prompt_tokens if not reminded else answer.prompt_tokens > price.prompt_tokens
    assert budget.used_tokens == answer.prompt_tokens + answer.generated_tokens


def rollout():
    step = Step(prompt_ids=[283, 288, 293, 33], ids=[90, 91, 92, 93, 94], terminated=True)
    return Trajectory([step], group="g", reference="3", outcome=0.0)


def test_both_give_the_same_log_probabilities(served):
    """A server and this process run one model: two implementations of everything between the ask and the number."""
    url, folder = served
    here = HFPolicy(str(folder), device="cpu")
    asks = [Logprob(Place(0, 0, t)) for t in range(5)] + [Logprob(Place(0, 0, 1), until=3)]
    there = [a.one for a in Asker(OpenAIServer(url, key_env=None))(asks, [rollout()])]
    for a, b in zip(there, Asker(here)(asks, [rollout()]), strict=True):
        np.testing.assert_allclose(a, b.one, atol=1e-4)


def test_what_it_samples_has_the_probabilities_that_it_tells(served):
    url, folder = served
    policy = OpenAIServer(url, key_env=None, scorer="number", max_tokens=6)
    asker = Asker(policy)
    (answer,) = asker([Continue(Place(0, 0, 2), 6)], [rollout()])
    here = HFPolicy(str(folder), device="cpu")
    for sample in answer.samples:
        (move,) = sample.moves
        assert len(move.ids) == len(move.logp) <= 6
        step = Step(prompt_ids=[283, 288, 293, 33, 90, 91], ids=list(move.ids))
        (told,) = Asker(here)([Logprob(Place(0))], [Trajectory([step], group="g")])
        np.testing.assert_allclose(move.logp, told.one, atol=1e-4)
        assert sample.scored
    assert (answer.prompt_tokens, asker.summary.notes) == (36, {})
    (again,) = Asker(OpenAIServer(url, key_env=None, scorer="number", max_tokens=6))(
        [Continue(Place(0, 0, 2), 6)], [rollout()]
    )
    assert [s.moves[0].ids for s in again.samples] == [s.moves[0].ids for s in answer.samples]  # the seed is taken


def test_first_tokens_are_drawn_from_the_whole_distribution(served):
    """Nothing of the server's own (top_k, penalties) is left: frequencies are those of the model."""
    url, folder = served
    count = 400
    (answer,) = Asker(OpenAIServer(url, key_env=None))(
        [Continue(Place(0, 0, 0), count, max_tokens=1, stop_at_limit=True)], [rollout()]
    )
    drawn = np.array([s.moves[0].logp[0] for s in answer.samples])
    import torch
    from transformers import LlamaForCausalLM

    with torch.inference_mode():
        logits = LlamaForCausalLM.from_pretrained(folder)(input_ids=torch.tensor([[283, 288, 293, 33]])).logits[0, -1]
    logp = logits.double().log_softmax(-1).numpy()
    mean = (np.exp(logp) * logp).sum()
    spread = np.sqrt((np.exp(logp) * (logp - mean) ** 2).sum() / count)
    assert abs(drawn.mean() - mean) < 4 * spread
    assert len({s.moves[0].ids for s in answer.samples}) > 100  # of 300 that are about equally likely
