"""Keys and passwords go to the server that they are for, and to no log, cache, report, message or file."""

import base64
import json
import logging

import pytest

pytest.importorskip("httpx2")

import apportion as ap
from apportion.cli.run import run
from apportion.errors import ApportionError
from apportion.resources import JudgeServer, OpenAIServer
from apportion.resources.http import Http
from tests.chat_server import Server, code_of

KEY = "sk-planted-0123456789-abcdefghij"
PASSWORD = "pa$$ word/ö"
SPELLED = "pa%24%24%20word%2F%C3%B6"
BASIC = base64.b64encode(f"someone:{PASSWORD}".encode()).decode()
SECRETS = (KEY, PASSWORD, SPELLED, BASIC, KEY[:20], BASIC[:20])  # the beginning of a secret is one too


def leaks(text):
    return [secret for secret in SECRETS if secret in text]


def everything(folder):
    """The bytes of every file below a folder, as text."""
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def server(monkeypatch):
    made = Server()
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    yield made
    made.close()


@pytest.fixture
def runs(tmp_path):
    steps = [ap.Step("a door", "knock"), ap.Step("silence", "break it", reward=1.0, terminated=True)]
    path = tmp_path / "runs.jsonl"
    ap.write(path, ap.Batch.from_trajectories([ap.Trajectory(steps, group="g", id=f"r{n}") for n in range(2)]))
    return path


def with_user(url):
    return url.replace("http://", f"http://someone:{SPELLED}@")


def sent(server):
    return {key for key in server.keys if key}


OF = {"key": KEY, "password": f"{PASSWORD} {SPELLED}"}


def tells_all(server, secret):
    """Answers a judge rightly, and repeats what it was shown wherever a reply has room for it."""

    def rule(body):
        seen = f"{server.keys[-1]} {secret}"
        verdicts = [{"unit": k, "label": "good", "reason": seen} for k in (1, 2)]
        told = json.dumps({"code": code_of(body), "verdicts": verdicts}, ensure_ascii=False)
        usage = {"prompt_tokens": 5, "completion_tokens": 5}
        return 200, {"choices": [{"message": {"content": told}}], "usage": usage, "you_sent": seen}

    return rule


@pytest.mark.parametrize("how", ["key", "password"])
def test_a_run_on_the_command_line_leaves_no_trace(server, runs, tmp_path, monkeypatch, capfd, caplog, how):
    caplog.set_level(logging.DEBUG)  # of the HTTP library too
    if how == "key":
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
    url = server.url if how == "key" else with_user(server.url)
    server.rule = tells_all(server, OF[how])
    out = tmp_path / "made"
    out.mkdir()
    asked = [
        "--judge",
        url,
        "--cache",
        str(out / "answers.cache"),
        "--budget-tokens",
        "100000",
        "--judge-model",
        "judge-7b",
    ]
    call = ["assign", str(runs), "--method", "llm_critic", *asked]
    assert run([*call, "--out", str(out / "credit.jsonl")]) == 0
    assert run([*call, "--json"]) == 0
    assert run(["cost", str(runs), "llm_critic", *asked[:2]]) in (0, 2)
    assert run(["view", str(out / "credit.jsonl"), "--out", str(out / "credit.html")]) == 0
    told = capfd.readouterr()
    assert sent(server) == {f"Bearer {KEY}" if how == "key" else f"Basic {BASIC}"}  # it did get there
    assert leaks(told.out + told.err) == []
    assert leaks(everything(out)) == []
    assert leaks(caplog.text) == []
    assert (out / "answers.cache").stat().st_size > 0


@pytest.mark.parametrize("before", [0, 150, 170, 185, 195, 199])
@pytest.mark.parametrize("status", [400, 401, 404, 500])
@pytest.mark.parametrize("how", ["key", "password"])
def test_a_server_that_repeats_it_in_an_error(server, monkeypatch, caplog, status, before, how):
    caplog.set_level(logging.DEBUG)
    if how == "key":
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
    http = Http(server.url if how == "key" else with_user(server.url))
    # long enough before it that the sentence is cut short inside the secret
    server.rule = lambda body: (status, {"error": {"message": "x" * before + f"{server.keys[-1]} {OF[how]}"}})
    with pytest.raises(Exception, match=rf"answered {status}") as caught:
        http.post("/completions", {"prompt": "a"})
    shown = f"{caught.value} {caught.value!r} {caught.value.__cause__} {http!r} {http.url} {vars(caught.value)}"
    assert sent(server)
    assert leaks(shown + caplog.text) == []


@pytest.mark.parametrize("make", [OpenAIServer, JudgeServer])
def test_nobody_answers_at_an_address_with_a_password(make, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    made = make(f"http://someone:{SPELLED}@127.0.0.1:9/v1", model="m")
    with pytest.raises(ApportionError) as caught:
        made.open()
    assert "127.0.0.1:9" in str(caught.value)
    assert leaks(f"{caught.value} {made!r}") == []


ADDRESSES = ["ftp://someone:{}@h/v1", "http://someone:{}@h:99999/v1", "http://someone:{}@h/v1?key=1", "someone:{}@h/v1"]


@pytest.mark.parametrize("url", ADDRESSES)
@pytest.mark.parametrize("who", [("llm_critic", "--judge"), ("vineppo", "--resampler")], ids=lambda who: who[0])
def test_an_address_that_cannot_be_used_is_not_repeated(url, who, runs, capfd):
    method, option = who
    asked = ["--judge-model", "m"] if option == "--judge" else []
    assert run(["assign", str(runs), "-m", method, option, url.format(SPELLED), *asked]) in (1, 2)
    assert run(["assign", str(runs), "-m", method, option, url.format(SPELLED)]) in (1, 2)  # no model is named
    told = capfd.readouterr()
    assert "error" in told.err
    assert leaks(told.out + told.err) == []


def test_the_planted_secrets_would_be_found():
    assert leaks(f"... {KEY[:25]} ...")
    assert leaks(f"Basic {BASIC}")
    assert leaks("nothing here") == []
