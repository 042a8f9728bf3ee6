"""``apportion assign --judge`` and ``apportion cost --judge``, against a chat model on the loopback."""

import json

import pytest

import apportion as ap
from apportion.cli.run import run
from tests.chat_server import Server, code_of, verdict

pytest.importorskip("httpx2")


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


@pytest.fixture
def runs(tmp_path):
    path = tmp_path / "runs.jsonl"
    steps = [ap.Step(observation="2 + 2?", action="4"), ap.Step(observation="so?", action="5")]
    ap.write(path, [ap.Trajectory(steps, group="g", id=f"r{r}", outcome=float(r)) for r in (1, 0)])
    return path


def told(capsys, *arguments):
    code = run([*map(str, arguments), "--json"])
    out = capsys.readouterr()
    assert code == 0, out.err
    return json.loads(out.out)


def test_verdicts_become_credit_and_are_kept(server, runs, tmp_path, capsys):
    out, cache = tmp_path / "credit.jsonl", tmp_path / "answers"
    judge = ["--judge", server.url, "--model", "judge-7b"]
    how = ["--method", "llm_critic", "--votes", "4", *judge, "--cache", cache, "--out", out]
    # equal texts are asked about once, whatever came of them: 4 votes on one prompt
    price = told(capsys, "cost", "llm_critic", runs, "--votes", "4", *judge)
    assert price["requests"] == 4
    first = told(capsys, "assign", runs, *how)
    assert first["asking"]["asked"] == len(server.bodies) == 4
    assert first["notes"]["verdicts"] == 16
    credit = ap.read_credit(out)
    assert credit.advantage_S.tolist() == pytest.approx([1.5731, -0.1589, 0.1589, -1.5731], abs=1e-4)
    assert told(capsys, "assign", runs, *how)["asking"]["cached"] == 4
    assert len(server.bodies) == 4
    assert {body["temperature"] for _, body in server.bodies} == {0.7}


def test_a_template_of_ones_own_reaches_the_judge(server, runs, tmp_path, capsys):
    own = tmp_path / "mine.toml"
    own.write_text(
        'name = "mine"\nversion = 1\n[scale]\nkind = "wrong"\n[units]\nword = "move"\n[text]\n'
        'instruction = "Which $unit is silly?"\nreminder = "again"\n'
    )
    server.rule = lambda body: json.dumps({"code": code_of(body), "wrong": [2]})
    how = ["--method", "capo", "--judge", server.url, "--model", "judge-7b", "--votes", "1"]
    how += ["--judge-temperature", "0", "--judge-thinking", "77", "--judge-template", own]
    made = told(capsys, "assign", runs, *how)
    assert made["params"]["template"] == str(own)
    ((_, body),) = server.bodies
    assert "Which move is silly?" in body["messages"][0]["content"]
    assert (body["temperature"], body["max_tokens"]) == (0.0, 200 + 2 * 60 + 77)


def test_what_is_missing_is_said(server, runs, tmp_path, capsys):
    def refused(*arguments):
        assert run(["assign", str(runs), "--method", "llm_critic", *map(str, arguments)]) != 0
        return " ".join(capsys.readouterr().err.split())

    assert "llm_critic asks a judge; say whom: --judge URL. What" in refused()
    assert "no model was named; give --model" in refused("--judge", server.url)
    judge = ["--judge", server.url, "--model", "judge-7b"]
    assert "no judge template named 'nope'" in refused(*judge, "--judge-template", "nope")
    assert "has no model 'other'; it has judge-7b" in refused("--judge", server.url, "--model", "other")
    assert "2 votes at temperature 0" in refused(*judge, "--votes", "2", "--judge-temperature", "0")
    assert server.bodies == []
    server.rule = lambda body: "no idea"
    assert run(["assign", str(runs), "--method", "llm_critic", *judge, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["unknown_units"], said["notes"]["units_without_verdict"]) == (4, 4)


def test_the_judges_tokenizer_makes_the_price_exact(server, runs, tmp_path, capsys):
    pytest.importorskip("transformers")
    from apportion.train.tokenizer import train_tokenizer
    from tests.resources.test_judge_hf import CHAT

    tokenizer = train_tokenizer(["which step is good?", '{"code": "label"}', "0123456789abcdef"] * 3, size=300)
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(tmp_path / "judge")

    def counted(body):
        text = tokenizer.apply_chat_template(body["messages"], tokenize=False, add_generation_prompt=True)
        usage = {"prompt_tokens": len(tokenizer(text, add_special_tokens=False)["input_ids"]), "completion_tokens": 9}
        said = "hm" if len(body["messages"]) == 2 and body["seed"] % 3 == 0 else verdict(body)
        return 200, {"choices": [{"message": {"content": said}}], "usage": usage}

    server.rule = counted
    judge = ["--judge", server.url, "--model", "judge-7b", "--judge-tokenizer", tmp_path / "judge", "--votes", "6"]
    price = told(capsys, "cost", "llm_critic", runs, *judge)
    assert (price["exact"], price["requests"], price["most_requests"]) == (True, 6, 12)
    asked = told(capsys, "assign", runs, "--method", "llm_critic", *judge, "--budget-requests", "12")["asking"]
    first = [counted(body)[1]["usage"]["prompt_tokens"] for _, body in server.bodies if len(body["messages"]) == 2]
    assert price["prompt_tokens"] == sum(first)
    reminded = len(server.bodies) - 6
    assert reminded > 0
    assert asked["notes"] == {"read after a reminder": reminded}
    assert price["prompt_tokens"] < asked["prompt_tokens"] <= price["prompt_tokens"] + price["generated_tokens"]


@pytest.mark.parametrize(("method", "options"), [("capo", ["--votes", "2"]), ("llm_critic", []), ("mappa", [])])
def test_a_price_without_a_judge_is_a_judges(server, runs, capsys, method, options):
    """Most of what a judge reads is its instruction, so a price that leaves it out is a tenth of the bill."""
    judge = ["--judge", server.url, "--model", "judge-7b"]
    nobody = told(capsys, "cost", method, runs, *options)
    assert nobody == told(capsys, "cost", method, runs, *options, *judge)
    assert not server.bodies
    run([*map(str, ["assign", runs, "--method", method, *options, *judge])])  # this server's verdicts fit one template
    first = [body["messages"] for _, body in server.bodies if len(body["messages"]) == 2]  # without reminders
    assert nobody["requests"] == len(first)
    shown = sum(len(message["content"].encode()) for messages in first for message in messages)
    assert nobody["prompt_tokens"] == pytest.approx(shown / 4, rel=0.01)


def test_a_price_for_ids_that_nobody_spells(server, tmp_path, capsys):
    """Without a judge a price can be had; a judge that cannot read refuses when it is priced, as when it is asked."""
    path = tmp_path / "ids.jsonl"
    steps = [ap.Step(prompt_ids=[1, 2], ids=[3 + r] * 400) for r in (0, 1)]
    ap.write(path, [ap.Trajectory([step], group="g", outcome=float(r)) for r, step in enumerate(steps)])
    price = told(capsys, "cost", "capo", path, "--votes", "1")
    assert price["requests"] == 2
    assert 2 * 400 < price["prompt_tokens"] < 2 * 400 + 2 * 600
    for command in (["cost", "capo", path], ["assign", path, "--method", "capo"]):
        code = run([*map(str, command), "--judge", server.url, "--model", "judge-7b"])
        assert code == 1
        assert "cannot be shown to a judge: step 0 has token ids and no observation" in capsys.readouterr().err
    assert not server.bodies
