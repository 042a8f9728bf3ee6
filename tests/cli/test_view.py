"""``apportion view``: the file, the terminal, the server, and methods put beside."""

import http.client
import json
import re
import signal
import subprocess
import sys

import pytest

from apportion.assign import assign
from apportion.credit import write_credit
from apportion.data import Batch, Step, Trajectory
from apportion.units import by_step
from tests.report.examples import block_of, crossroads, three_rollouts


@pytest.fixture
def credit(tmp_path):
    write_credit(tmp_path / "maze.jsonl", crossroads())
    return tmp_path / "maze.jsonl"


def test_a_file_that_opens_offline(cli, credit, tmp_path):
    code, out, err = cli("view", credit, "--out", tmp_path / "maze.html")
    assert (code, out) == (0, "")
    assert "open it in a browser" in err
    assert block_of((tmp_path / "maze.html").read_text(encoding="utf-8"), "index")["title"] == "left is right"


def test_the_credit_is_not_written_over(cli, credit, tmp_path):
    before = credit.read_bytes()
    (tmp_path / "same.html").hardlink_to(credit)
    for out in (credit, tmp_path / "same.html"):
        code, _, err = cli("view", credit, "--out", out)
        assert code == 2
        assert "is the input itself; give another name" in err
    assert credit.read_bytes() == before


@pytest.mark.parametrize("option", ["--text", "--trajectory", "-t"])
def test_one_trajectory_in_the_terminal(cli, credit, option):
    code, out, _ = cli("view", credit, option, "run 3")
    assert code == 0
    assert out.startswith("run 3  outcome 1  group maze")
    assert "[supported] step 0 was decisive" in out
    code, _, err = cli("view", credit, option, "run 99")
    assert code == 1
    assert "there is no trajectory 'run 99'" in err


def test_token_ids_are_read_with_the_policys_tokenizer(cli, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = {"<end>": 0, "?": 1, "left": 2, "right": 3, "a": 4}
    tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?")).save(str(tmp_path / "tokenizer.json"))
    tried = [Trajectory([Step(prompt_ids=[4], ids=[2 + k, 0])], group="g", outcome=float(k)) for k in range(2)]
    write_credit(tmp_path / "ids.jsonl", assign("grpo", by_step(Batch.from_trajectories(tried))))
    _, out, _ = cli("view", tmp_path / "ids.jsonl", "-t", "1")
    assert "⟨3⟩⟨0⟩" in out
    for named in (tmp_path, tmp_path / "tokenizer.json"):
        code, out, _ = cli("view", tmp_path / "ids.jsonl", "-t", "1", "--tokenizer", named)
        assert code == 0
        assert "right <end>" in out
    assert cli("view", tmp_path / "ids.jsonl", "--out", tmp_path / "ids.html", "--tokenizer", tmp_path)[0] == 0
    code, _, err = cli("view", tmp_path / "ids.jsonl", "--tokenizer", tmp_path / "nowhere")
    assert code == 2
    assert "no tokenizer.json there" in err


def test_credit_of_other_rollouts_is_not_left_out_in_silence(cli, credit, tmp_path):
    other, same = tmp_path / "other.jsonl", tmp_path / "same.jsonl"
    write_credit(other, three_rollouts()[0])
    write_credit(same, assign("grpo", crossroads().units))
    for files, said in (((credit, other), (other, credit)), ((credit, same, other), (other, credit))):
        for more in ((), ("--text", "0", "--out", tmp_path / "no.html")):
            code, out, err = cli("view", *files, *more)
            assert (code, out) == (2, "")
            assert f"{said[0]} is credit of other rollouts than {said[1]}" in err
    assert not (tmp_path / "no.html").exists()
    assert cli("view", credit, same, "--compare", "gigpo")[0] == 0
    assert cli("view", credit, other, "--out", tmp_path / "both.html")[0] == 0
    index = block_of((tmp_path / "both.html").read_text(encoding="utf-8"), "index")
    assert len(index["trajectories"]) == len(crossroads().units.batch) + len(three_rollouts()[0].units.batch)


def test_another_method_is_put_beside(cli, credit, tmp_path):
    code, _, _ = cli("view", credit, "--compare", "grpo", "-c", "gigpo", "--out", tmp_path / "maze.html")
    assert code == 0
    index = block_of((tmp_path / "maze.html").read_text(encoding="utf-8"), "index")
    assert [entry["label"] for entry in index["credits"]] == ["left is right", "grpo", "gigpo"]
    assert len(index["trajectories"]) == 12
    _, out, _ = cli("view", credit, "--compare", "grpo", "--text", "run 3")
    assert "| grpo" in out
    code, _, err = cli("view", credit, "--compare", "nothing")
    assert code == 2
    assert "nothing" in err


def test_several_files_are_compared(cli, tmp_path):
    for name, each in zip("ab", three_rollouts(), strict=True):
        write_credit(tmp_path / f"{name}.jsonl", each)
    _, out, _ = cli("view", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--json")
    model = json.loads(out)
    assert [entry["label"] for entry in model["credits"]] == ["one", "two"]
    assert len(model["trajectories"]) == 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--open"], "--open opens a report; say where with --out FILE, or --serve"),
        (["--port", "8000"], "--port is the port of --serve"),
        (["--serve", "--json"], "--serve shows the report itself"),
        (["--serve", "--text", "0"], "--serve shows the report itself"),
    ],
)
def test_options_that_do_not_go_together(cli, credit, options, sentence):
    code, _, err = cli("view", credit, *options)
    assert code == 2
    assert sentence in err


def test_it_serves_until_ctrl_c(credit):
    command = [sys.executable, "-m", "apportion", "view", str(credit), "--serve"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stderr.readline()
            host, token = re.search(r"http://(127\.0\.0\.1:\d+)/([\w-]{32})/", line).groups()
            connection = http.client.HTTPConnection(host, timeout=10)
            connection.request("GET", f"/{token}/data/index")
            assert connection.getresponse().status == 200
            connection.close()
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 0
            assert "ended" in process.stderr.read()
        finally:
            process.kill()  # else leaving the block waits for it, where the test run itself ignores Ctrl-C


def test_a_taken_port_is_named(cli, credit):
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        code, _, err = cli("view", credit, "--serve", "--port", other.getsockname()[1])
    assert code == 2
    assert "cannot be used" in err
