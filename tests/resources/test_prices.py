"""What models of this process are given, token by token, against the price that was told before: every asking method.

Tokens are counted where they go in: beside the forward passes, or in the chat that a judge is handed.
"""

import json
import re

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from apportion.asks import Attend, Continue, Logprob, Place, Score, Span, Value
from apportion.assign import assign, cost
from apportion.data import Batch, Step, Trajectory
from apportion.methods import get, names
from apportion.resources import Asker, Budget, Completion, JudgeCallable, Ruler, hf_policy, quote
from apportion.resources.hf_policy import HFPolicy
from apportion.resources.hf_reward import HFReward
from apportion.resources.hf_sampling import draw, forced_logp
from apportion.resources.judge_price import counter_of
from apportion.train.tokenizer import train_tokenizer
from apportion.units import CUTS
from tests.resources.test_hf import TEXTS, llama
from tests.resources.test_judge_hf import CHAT

ASKING = [name for name in names("method") if get(name).plan is not None]
FEW = {"k": 2, "votes": 2, "max_evals": 40, "n": 2}
"""Parameters that make a method ask less; each goes to the methods that have it."""


@pytest.fixture(scope="module")
def tokenizer():
    torch.set_num_threads(1)
    made = train_tokenizer([*TEXTS, "0123456789 abcdef", '{"code": "unit", "label": null}'] * 3, size=320)
    made.chat_template = CHAT
    return made


class Counted:
    """Somebody in this process whose passes are counted: a policy, its reference, a reward model, a judge."""

    def __init__(self, tokenizer, monkeypatch):
        self.tokenizer, self.shown, self.wrote = tokenizer, 0, 0
        model, reference = llama(tokenizer), llama(tokenizer, seed=1)
        for one in (model, reference):
            one.config.max_position_embeddings = 512
        self.policy = HFPolicy(model, tokenizer, reference=reference, value_head=lambda h: h.sum(-1), scorer="number",
                               max_tokens=3, batch=4, identity="p")  # fmt: skip
        judged = llama(tokenizer, kind="LlamaForSequenceClassification", num_labels=1)
        self.reward = HFReward(judged, tokenizer, policy_tokenizer=tokenizer, identity="r")
        self.judge = JudgeCallable(self._verdict, identity="j", count=counter_of(tokenizer))
        self.resources = (self.policy, self.reward, self.judge)

        monkeypatch.setattr(hf_policy, "draw", self._draw)
        monkeypatch.setattr(hf_policy, "forced_logp", self._forced)
        shown = self.reward._shown
        monkeypatch.setattr(self.reward, "answer", lambda requests: self._read(shown, requests))

    def _draw(self, model, tracks, **how):
        draw(model, tracks, **how)
        self.shown += sum(len(track.context) for track in tracks)
        self.wrote += sum(len(track.ids) for track in tracks)

    def _forced(self, model, runs):
        self.shown += sum(len(context) + len(target) for context, target in runs)
        return forced_logp(model, runs)

    def _read(self, shown, requests):
        self.shown += sum(len(shown(request)[0]) for request in requests)
        return HFReward.answer(self.reward, requests)

    def _verdict(self, messages, seed, most):
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        size = len(self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids)
        self.shown, self.wrote = self.shown + size, self.wrote + 9
        system = messages[0]["content"]
        body = {"code": re.search(r'"code", which must be "([0-9a-f]{8})"', system)[1]}
        body |= {"wrong": []} if '"wrong"' in system else {"verdicts": []}
        return Completion(json.dumps(body), size, 9)


def rollouts(tokenizer):
    """Two groups of answers in several steps, nothing said in between, by two agents, with all that methods read."""
    rng, out = np.random.default_rng(3), []
    says = ["so it is ", "add 1 ", "and 2 get 3 ", "the answer is 42.", "6 times 7 ", "0"]
    for n in range(5):
        steps = []
        for s in range(2 + n % 2):
            action = says[int(rng.integers(len(says)))]
            ids = tokenizer(action)["input_ids"]
            observation = f"what is {n // 3} add 1?" if s == 0 else ""
            prompt = tokenizer(observation)["input_ids"] if s == 0 else []
            fields = {"logp": -rng.exponential(size=len(ids)), "turn": s, "agent": ("planner", "coder")[s % 2]}
            steps.append(Step(observation=observation, action=action, prompt_ids=prompt, ids=ids, **fields))
        out.append(Trajectory(steps, group=f"g{n // 3}", outcome=float(n % 2), reference="42"))
    return Batch.from_trajectories(out)


@pytest.mark.parametrize("name", ASKING)
def test_models_are_given_what_the_price_says(name, tokenizer, monkeypatch):
    spec = get(name)
    params = {key: value for key, value in {**spec.example, **FEW}.items() if key in spec.defaults}
    batch = rollouts(tokenizer)
    level = spec.unit if spec.unit != "turn" else "step"
    options = {"by": "fixed", "count": 2} if level == "segment" else {}
    units = CUTS[level](batch, **options)
    there = Counted(tokenizer, monkeypatch)
    ask = Asker(*there.resources, budget=Budget())
    price, ruled = cost(name, units, ask=ask, **params), cost(name, units, max_tokens=3, **params)
    assert price.requests > 0
    assert price.exact
    assign(name, units, ask=ask, **params)
    told = ask.summary
    assert told.failed == {}
    assert (told.asked, told.prompt_tokens) == (price.requests, price.prompt_tokens)
    assert (there.shown, there.wrote) == (told.prompt_tokens, told.generated_tokens)
    assert told.generated_tokens <= price.generated_tokens
    assert ask.budget.used_tokens == told.prompt_tokens + told.generated_tokens
    assert ask.budget.used_requests == told.asked <= price.most_requests
    assert ruled.requests == price.requests
    assert not ruled.exact or ruled.prompt_tokens == price.prompt_tokens
    assert price.most_requests == price.requests * (2 if "judge" in spec.needs else 1)


ASKS = [
    Continue(Place(1, 2, 1), 2),
    Continue(Place(0, 1), 1, first="so "),
    Logprob(Place(1, 1)),
    Logprob(Place(0, 0, 1), until=2),
    Logprob(Place(0, 1), target="42"),
    Logprob(Place(0, 1), frame="{prompt} and {context}"),
    Value(Place(1, 2)),
    Score(0),
    Score(0, upto=Place(0, 1, 1)),
    Score(0, agents=("coder",)),
    Attend(0, (Span(0, 0, 1),)),
]


@pytest.mark.parametrize("one", ASKS, ids=lambda one: type(one).__name__)
def test_who_only_has_the_rollouts_says_exact_where_it_is(one, tokenizer, monkeypatch):
    """The price without anybody to ask: equal to what models count where it calls itself exact, else not far off."""
    batch, there = rollouts(tokenizer), Counted(tokenizer, monkeypatch)
    ruled = quote([one], batch.trajectories, [Ruler(3)])
    ask = Asker(*there.resources)
    (answer,) = ask([one], batch.trajectories)
    assert answer.failed == 0
    assert not ruled.exact or ruled.prompt_tokens == ask.summary.prompt_tokens == there.shown + _valued(one, ask)
    assert 0.25 * ask.summary.prompt_tokens <= ruled.prompt_tokens <= 4 * ask.summary.prompt_tokens
    assert ruled.exact is (isinstance(one, Value | Logprob | Continue) and one in EXACT)


EXACT = {ASKS[0], ASKS[2], ASKS[3], ASKS[6]}


def _valued(one, ask):
    """Values are read off a pass that nothing of ours stands beside."""
    return ask.summary.prompt_tokens if isinstance(one, Value) else 0
