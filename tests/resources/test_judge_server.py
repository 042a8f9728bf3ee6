"""A judge behind a server on the loopback: what is sent, what comes back odd, and JSON schemas that are not taken."""

import json
import random

import pytest

from apportion.asks import Judge, Place, Value
from apportion.data import Step, Trajectory
from apportion.errors import ConfigError, ResourceError
from apportion.resources import Asker, Budget, Retry
from apportion.resources.judge_options import judge_from_options, template_for_methods
from apportion.resources.judge_price import FRAME_TOKENS
from apportion.resources.judge_server import JudgeServer
from tests.chat_server import Server, code_of, verdict

pytest.importorskip("httpx2")
PLACES = tuple(Place(0, s) for s in range(2))
TALK = Trajectory([Step(observation="q", action="right"), Step(action="wrong")])
ASK = Judge(0, PLACES, "labels")


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


def asked(judge, *asks, rollout=TALK):
    budget = Budget()
    with Asker(judge, retry=Retry(attempts=2, first_wait=0, longest_wait=0), budget=budget) as asker:
        answers = asker(asks or [ASK], [rollout])
    asked.requests = budget.used_requests
    return answers


def test_a_verdict_and_what_it_cost(server, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "secret")
    judge = JudgeServer(server.url, model="judge-7b", key_env="JUDGE_KEY", top_p=0.9, thinking=100)
    (answer,) = asked(judge)
    assert answer.one.scores == (1, -1)
    assert (answer.prompt_tokens, answer.generated_tokens) == (321, 12)
    ((path, body),) = server.bodies
    assert path == "/v1/chat/completions"
    assert (body["model"], body["temperature"], body["top_p"], body["max_tokens"]) == ("judge-7b", 0.7, 0.9, 420)
    assert 0 <= body["seed"] < 2**31
    wanted = body["response_format"]["json_schema"]
    assert wanted["strict"] is True
    assert wanted["schema"]["required"] == ["code", "verdicts"]
    assert server.keys == ["Bearer secret"]
    assert "secret" not in judge.identity + repr(judge.http)


def test_votes_are_asked_with_seeds_of_their_own(server):
    (answer,) = asked(JudgeServer(server.url, model="judge-7b"), Judge(0, PLACES, "labels", votes=3))
    assert len(answer.samples) == 3
    assert len({body["seed"] for _, body in server.bodies}) == 3
    with pytest.raises(
        ResourceError, match=r"3 votes at temperature 0 are one vote asked 3 times; ask for one, or set"
    ):
        asked(JudgeServer(server.url, model="judge-7b", temperature=0.0), Judge(0, PLACES, "labels", votes=3))
    assert len(asked(JudgeServer(server.url, model="judge-7b", temperature=0.0))[0].samples) == 1


def test_a_server_that_takes_no_schema_is_asked_without_from_then_on(server):
    def no_schema(body):
        return (400, {"error": {"message": "response_format?"}}) if "response_format" in body else verdict(body)

    server.rule = no_schema
    judge = JudgeServer(server.url, model="judge-7b", workers=1)
    (answer,) = asked(judge, Judge(0, PLACES, "labels", votes=3))
    assert len(answer.samples) == 3
    assert ["response_format" in body for _, body in server.bodies] == [True, False, False, False]
    assert asked.requests == 4  # what was refused was a request too
    (answer,) = asked(JudgeServer(server.url, model="judge-7b", json_schema=True))
    assert answer.samples == ()
    assert "response_format?" in answer.reason
    server.bodies.clear()
    assert asked(JudgeServer(server.url, model="judge-7b", json_schema=False))[0].one.scores == (1, -1)
    assert ["response_format" in body for _, body in server.bodies] == [False]


def test_a_server_that_took_a_schema_once_is_not_asked_without(server):
    replies = iter([verdict, lambda body: (400, {"error": "too long"})])
    server.rule = lambda body: next(replies)(body)
    judge = JudgeServer(server.url, model="judge-7b", workers=1)
    (answer,) = asked(judge, Judge(0, PLACES, "labels", votes=2))
    assert (len(answer.samples), answer.failed) == (1, 1)
    assert len(server.bodies) == 2


@pytest.mark.parametrize("takes_schema", [True, False])
def test_a_model_that_wants_another_name_for_the_limit_gets_it(server, takes_schema):
    def newer(body):
        if "max_tokens" in body:
            return 400, {"error": {"message": "'max_tokens' is not supported. Use 'max_completion_tokens' instead."}}
        if "response_format" in body and not takes_schema:
            return 400, {"error": {"message": "response_format?"}}
        return verdict(body)

    server.rule = newer
    judge = JudgeServer(server.url, model="judge-7b", workers=1, temperature=None)
    (answer,) = asked(judge, Judge(0, PLACES, "labels", votes=2))
    assert len(answer.samples) == 2
    want = (
        [(False, True), (True, True), (True, True)]
        if takes_schema
        else [(False, True), (True, True), (True, False), (True, False)]
    )
    assert [("max_completion_tokens" in b, "response_format" in b) for _, b in server.bodies] == want
    assert not any("temperature" in body for _, body in server.bodies)
    assert asked.requests == len(server.bodies)


def test_a_context_that_is_too_long_is_refused_whatever_is_tried(server):
    server.rule = lambda body: (400, {"error": {"message": "context too long"}})
    (answer,) = asked(JudgeServer(server.url, model="judge-7b"))
    assert answer.samples == ()
    assert "context too long" in answer.reason


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": []},
        {"choices": [{}]},
        {"choices": [{"message": []}]},
        {"choices": {"0": 1}},
        {"choices": None},
    ],
)
def test_an_answer_without_a_message_is_trouble(server, body):
    server.rule = lambda asked: (200, body)
    (answer,) = asked(JudgeServer(server.url, model="judge-7b"))
    assert (answer.samples, answer.reason) == ((), "the judge's server sent an answer without a message")
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    "usage", [None, [], {}, {"prompt_tokens": -1, "completion_tokens": 10**9}, {"prompt_tokens": "9"}]
)
def test_counts_that_cannot_be_are_not_believed(server, usage):
    server.rule = lambda body: (200, {"choices": [{"message": {"content": verdict(body)}}], "usage": usage})
    (answer,) = asked(JudgeServer(server.url, model="judge-7b"))
    asked_for = server.bodies[0][1]
    most = sum(len(m["content"].encode()) for m in asked_for["messages"]) + FRAME_TOKENS
    assert (answer.prompt_tokens, answer.generated_tokens) == (most, asked_for["max_tokens"])


@pytest.mark.parametrize("seed", range(4))
def test_a_storm_changes_no_verdict_and_every_call_is_a_request(server, seed):
    def by_seed(body):
        said = [("good", "bad"), ("bad", None), (None, "good")][body["seed"] % 3]
        told = [{"unit": n + 1, "label": label} for n, label in enumerate(said)]
        return json.dumps({"code": code_of(body), "verdicts": told})

    ask = Judge(0, PLACES, "labels", votes=6)
    server.rule = by_seed
    (right,) = asked(JudgeServer(server.url, model="judge-7b"), ask)
    rng = random.Random(seed)
    faults = [(429, {}), (500, {}), (503, {"error": "busy"}), (200, {}), (200, {"choices": [{"message": {}}]})]

    def stormy(body):
        return rng.choice(faults) if rng.random() < 0.5 else by_seed(body)

    server.rule, server.bodies = stormy, []
    patient, budget = Retry(attempts=40, first_wait=0, longest_wait=0), Budget()
    with Asker(JudgeServer(server.url, model="judge-7b", workers=3), retry=patient, budget=budget) as asker:
        (answer,) = asker([ask], [TALK])
        assert [verdict.scores for verdict in answer.samples] == [verdict.scores for verdict in right.samples]
        assert asker.summary.failed == {}
        assert budget.used_requests == len(server.bodies) == 6 + asker.summary.retried


@pytest.mark.parametrize("content", [None, "", "no idea", 7, ["x"]])
def test_a_reply_without_a_verdict_is_reminded_and_then_none(server, content):
    server.rule = lambda body: (200, {"choices": [{"message": {"content": content}}]})
    (answer,) = asked(JudgeServer(server.url, model="judge-7b"))
    assert answer.one.scores == (None, None)
    assert [len(body["messages"]) for _, body in server.bodies] == [2, 4]
    assert asked.requests == 2


def test_what_it_cannot_be_asked(server):
    with pytest.raises(ResourceError, match=r"has no model 'other'; it has judge-7b"):
        asked(JudgeServer(server.url, model="other"))
    server.models = []
    assert asked(JudgeServer(server.url, model="other"))[0].one.scores == (1, -1)  # a server that lists none
    server.close()
    with pytest.raises(ResourceError, match=r"nobody answers at .*; start it or correct the address of the judge"):
        asked(JudgeServer(server.url, model="judge-7b"))
    with pytest.raises(ConfigError, match=r"judge: model is ''; give the name that the server knows it by"):
        JudgeServer(server.url, model="")
    with pytest.raises(ConfigError, match=r"judge: temperature=-1, top_p=None"):
        JudgeServer(server.url, model="m", temperature=-1)
    with pytest.raises(ConfigError, match=r"judge: json_schema is 'yes'; give 'auto', True or False"):
        JudgeServer(server.url, model="m", json_schema="yes")


def test_a_judge_from_what_was_typed(server, tmp_path):
    judge = judge_from_options(server.url, model="judge-7b", temperature=0.0, thinking=9, workers=3, timeout=5.0)
    assert (judge.model, judge.temperature, judge.thinking, judge.workers) == ("judge-7b", 0.0, 9, 3)
    assert asked(judge)[0].one.scores == (1, -1)
    with pytest.raises(ConfigError, match=r"--judge: no model was named; give --model, as the server lists it"):
        judge_from_options(server.url, model=None)
    with pytest.raises(ConfigError, match=r"--judge is no address of a server"):
        judge_from_options("localhost:80", model="m")
    with pytest.raises(ConfigError, match=r"no judge template named 'nope'"):
        judge_from_options(server.url, model="m", template="nope")


def test_a_template_that_was_typed_is_for_methods_or_for_values(server, tmp_path):
    own = tmp_path / "mine.toml"
    own.write_text(
        'name = "mine"\nversion = 1\n[scale]\nkind = "probability"\n[units]\n[text]\n'
        'instruction = "How likely, in my words?"\nreminder = "again"\n'
    )
    assert not template_for_methods(str(own))
    assert template_for_methods("labels")
    server.rule = lambda body: json.dumps({"code": code_of(body), "probability": 0.5})
    judge = judge_from_options(server.url, model="judge-7b", template=str(own))
    assert asked(judge, Value(PLACES[1]))[0].one == 0.5
    assert "in my words" in server.bodies[-1][1]["messages"][0]["content"]


def test_a_policys_tokenizer_spells_rollouts_without_text(server):
    class Tokenizer:
        def decode(self, ids, **options):
            return " ".join(f"w{i}" for i in ids)

    judge = judge_from_options(server.url, model="judge-7b", tokenizer=Tokenizer())
    rollout = Trajectory([Step(prompt_ids=[1, 2], ids=[3]), Step(ids=[4, 5])])
    assert asked(judge, rollout=rollout)[0].one.scores == (1, -1)
    assert "w1 w2" in server.bodies[0][1]["messages"][1]["content"]
    assert "w4 w5" in server.bodies[0][1]["messages"][1]["content"]
