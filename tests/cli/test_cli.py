"""The command line end to end: what it prints, where, and how it leaves."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

import apportion as ap
from apportion.cli.params import literal, method_params
from apportion.errors import DataError
from tests.make import random_trajectories


@pytest.fixture
def rollouts(tmp_path):
    path = tmp_path / "runs.jsonl"
    ap.write(path, random_trajectories(3, forks=False, values=False))
    return path


def tau(tmp_path):
    """A file in tau-bench's form: two tasks, three trials each, one tool call before the answer."""
    records = []
    for task in range(2):
        for trial in range(3):
            answer = f"done {trial}"
            call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"id": 7}'}}
            chat = [
                {"role": "system", "content": "rules"},
                {"role": "user", "content": f"task {task}"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "name": "look", "content": "it is blue"},
                {"role": "assistant", "content": answer},
            ]
            records.append({"task_id": task, "trial": trial, "reward": float(trial == 0), "info": {}, "traj": chat})
    path = tmp_path / "tau.json"
    path.write_text(json.dumps(records))
    return path


def test_methods_and_describe_agree_with_the_registry(cli):
    code, out, _ = cli("methods", "--json")
    listed = json.loads(out)
    assert code == 0
    assert [m["name"] for m in listed["methods"]] == [spec.name for spec in ap.methods()]
    code, out, _ = cli("describe", "gigpo", "--json")
    assert json.loads(out)["defaults"]["gamma"] == 0.95
    code, out, _ = cli("describe", "gigpo")
    assert "A[s] = (R_i - mean_group R)" in out
    assert "2505.10978" in out


def test_every_command_has_help_with_an_example(cli):
    from apportion.cli.app import app

    for command in app.registered_commands:
        code, out, _ = cli(command.name, "--help")
        assert code == 0
        assert f"apportion {command.name}" in " ".join(out.split()).split("Example:")[1], command.name
        assert "--json" in out


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_assign_writes_what_the_library_computes(cli, rollouts, tmp_path, suffix):
    out = tmp_path / f"credit{suffix}"
    code, text, _ = cli("assign", rollouts, "--method", "gigpo", "--gamma", "0.5", "--out", out, "--json")
    assert code == 0
    told = json.loads(text)
    expected = ap.assign("gigpo", ap.by_step(ap.read(rollouts)), gamma=0.5)
    found = ap.read_credit(out)
    np.testing.assert_array_equal(found.advantage_S, expected.advantage_S)
    assert found.params == expected.params
    assert told["credit_on_context_tokens"] == 0
    assert told["params"]["gamma"] == 0.5


def test_tau_bench_credit_has_group_mean_zero_and_none_on_tool_tokens(cli, tmp_path):
    out = tmp_path / "credit.jsonl"
    code, _, err = cli("assign", tau(tmp_path), "--method", "grpo", "--out", out)
    assert code == 0
    assert "read as tau-bench" in err
    credit = ap.read_credit(out)
    units = credit.units
    for g in range(2):
        assert abs(credit.advantage_S[units.group_of_S == g].sum()) < 1e-12
    tokens = credit.to_tokens()
    context = ~units.batch.sampled_T
    assert np.all(tokens.advantage_T[context] == 0)
    assert np.all(tokens.weight_T[context] == 0)
    assert np.any(tokens.advantage_T != 0)
    pieces = units.batch.pieces()
    tool = [t for t, piece in enumerate(pieces) if piece.strip() == "blue"]
    assert len(tool) == 6
    assert not np.any(tokens.weight_T[tool])


def test_tau_bench_sample(cli, data_root, tmp_path):
    path = data_root / "trajectories" / "tau_bench" / "gpt-4o-airline.sample.json"
    out = tmp_path / "credit.parquet"
    code, _, _ = cli("assign", path, "--method", "grpo", "--out", out)
    assert code == 0
    credit = ap.read_credit(out)
    for g in range(len(credit.units.batch.group_names)):
        assert abs(credit.advantage_S[credit.units.group_of_S == g].sum()) < 1e-9
    assert not np.any(credit.to_tokens().advantage_T[~credit.units.batch.sampled_T])


def test_convert_then_check_then_view(cli, tmp_path):
    runs, credit, page = tmp_path / "runs.jsonl", tmp_path / "credit.jsonl", tmp_path / "credit.html"
    code, out, _ = cli("convert", tau(tmp_path), "--out", runs, "--json")
    told = json.loads(out)
    assert (code, told["records"], told["trajectories"], told["steps"]) == (0, 6, 6, 12)
    assert len(ap.read(runs)) == 6
    code, out, _ = cli("check", runs, "--json")
    assert json.loads(out)["exit_code"] == code
    assert cli("assign", runs, "-m", "gigpo", "-o", credit)[0] == 0
    code, _, _err = cli("view", credit, "--out", page)
    assert code == 0
    assert page.read_text().startswith("<!doctype html>")
    code, out, _ = cli("view", credit, "--trajectory", "0")
    assert code == 0
    assert "look" in out
    code, out, _ = cli("view", credit, "--json")
    assert json.loads(out)["schema"].startswith("apportion.report/")


def test_check_finds_and_leaves_with_1(cli, tmp_path):
    path = tmp_path / "runs.jsonl"
    step = ap.Step(observation="o", action="a")
    ap.write(path, [ap.Trajectory([step], group="g", outcome=1.0), ap.Trajectory([step], group="g")])
    code, out, _ = cli("check", path)
    assert code == 1
    assert "unscored" in out
    clean = [
        ap.Trajectory([ap.Step(prompt_ids=[1], ids=[2], terminated=True)], group="g", outcome=x) for x in (0.0, 1.0)
    ]
    ap.write(path, clean)
    assert cli("check", path)[0] == 0


WRONG = [
    (("assign", "{runs}", "--method", "gigpoo"), 2, "no credit method named 'gigpoo'; did you mean 'gigpo'"),
    (("assign", "{runs}", "--gama", "0.9"), 2, "gigpo: unknown parameter 'gama'; it takes gamma"),
    (("assign", "{runs}", "--gamma"), 2, "--gamma needs a value"),
    (("assign", "{runs}", "stray"), 2, "unexpected argument 'stray'"),
    (("assign", "--gamma", "0.9", "{runs}"), 2, "was taken for the file; write the file first"),
    (("assign", "{runs}", "--method", "grpo | gigpo"), 2, "gigpo is a method, not a transform"),
    (("assign", "{runs}", "--unit", "word"), 2, "no unit named 'word'; there are episode"),
    (("assign", "nowhere.jsonl", "--unit", "stpe"), 2, "no unit named 'stpe'; did you mean 'step'?"),
    (
        ("assign", "nowhere.jsonl", "--unit", "segment:sentence"),
        2,
        "cannot read the unit 'segment:sentence'; write",
    ),
    (("cost", "vineppo", "nowhere.jsonl", "-u", "segment(by=sentence)"), 2, "--unit \"segment(by='sentence')\""),
    (("assign", "nowhere.jsonl", "--unit", "step + turn"), 2, "with its options in brackets and text in quotes"),
    (("assign", "{runs}", "--out", "credit.txt"), 2, "credit.txt: a credit file ends in"),
    (("assign", "{runs}", "--method", "gae"), 1, "gae reads value_S, which the units (cut by token) lack"),
    (("assign", "nowhere.jsonl", "--unit", "token"), 2, "gigpo credits steps, the units are tokens; cut the batch"),
    (("cost", "spo_chain", "nowhere.jsonl", "-u", "turn"), 2, "spo_chain credits segments, the units are turns; cut"),
    (("assign", "nowhere.jsonl"), 1, "nowhere.jsonl: no such file"),
    (("assign", "{broken}"), 1, "broken.jsonl, line 2"),
    (("check", "{foreign}"), 1, "no format fits"),
    (("view", "{runs}"), 1, "rollouts"),
    (("describe", "nope"), 2, "no credit method named 'nope'"),
    (("train", "--iteration", "3"), 2, "unknown key 'iteration'; did you mean 'iterations'?"),
    (("train", "--tasks", "none"), 2, "tasks is 'none'; it takes an integer"),
    (("frobnicate",), 2, "No such command"),
    (("assign",), 2, "Missing argument"),
]


@pytest.mark.parametrize(("arguments", "code", "sentence"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_wrong_use_gets_a_sentence_and_no_traceback(cli, rollouts, tmp_path, arguments, code, sentence):
    broken = tmp_path / "broken.jsonl"
    broken.write_text(rollouts.read_text().splitlines()[0] + '\n{"steps": [{"action": 3}]}\n')
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_text('{"colour": "blue"}\n')
    names = {"runs": rollouts, "broken": broken, "foreign": foreign}
    got, out, err = cli(*(a.format(**names) for a in arguments))
    assert got == code
    assert sentence in err
    assert "Traceback" not in out + err


def test_nothing_is_written_when_something_is_wrong(cli, rollouts, tmp_path):
    out = tmp_path / "credit.jsonl"
    cli("assign", rollouts, "--method", "gae", "--out", out)
    assert not out.exists()
    assert [p.name for p in tmp_path.iterdir()] == [rollouts.name]


@pytest.mark.parametrize("command", [["convert"], ["assign", "--method", "grpo"]])
def test_the_input_is_not_written_over(cli, rollouts, tmp_path, command):
    before = rollouts.read_bytes()
    (tmp_path / "there.jsonl").symlink_to(rollouts)
    for out in (rollouts, tmp_path / "there.jsonl"):
        code, _, err = cli(*command, rollouts, "--out", out)
        assert code == 2
        assert "is the input itself; give another name" in err
    assert rollouts.read_bytes() == before


def test_a_missing_extra_is_named_before_the_file_is_read(cli, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "broken.jsonl").write_text("{\n")
    for suffix in (".parquet", ".jsonl.zst"):
        code, _, err = cli("assign", tmp_path / "broken.jsonl", "--method", "grpo", "--out", tmp_path / f"c{suffix}")
        assert code == 2
        assert "needs the package 'pyarrow'" in err


def test_skip_bad_leaves_out_and_counts(cli, rollouts, tmp_path):
    broken = tmp_path / "broken.jsonl"
    broken.write_text(rollouts.read_text() + "{oops\n")
    assert cli("assign", broken, "-m", "grpo")[0] == 1
    code, _, err = cli("assign", broken, "-m", "grpo", "--skip-bad")
    assert code == 0
    assert "1 left out" in err


def test_output_from_outside_is_escaped(cli, tmp_path):
    path = tmp_path / "runs.jsonl"
    hostile = "[red]x[/red] [link=file:///etc/passwd]y"
    ap.write(path, [ap.Trajectory([ap.Step(action="a")], id=f"{hostile}{k}", group=hostile, outcome=k) for k in (0, 1)])
    code, out, _ = cli("assign", path, "-m", "grpo")
    assert code == 0
    assert "[red]x[/red]" in out


def test_literals():
    assert literal("0.5") == 0.5
    assert literal("None") is None
    assert literal("none") == "none"  # grpo --scale none
    assert literal("TRUE") is True
    assert literal("[1, 2]") == [1, 2]
    assert literal("std") == "std"
    assert literal("__import__('os').getcwd()") == "__import__('os').getcwd()"
    assert method_params(["--step-weight=2", "--scale", "std"]) == {"step_weight": 2, "scale": "std"}


def test_version_and_a_closed_pipe():
    shown = subprocess.run([sys.executable, "-m", "apportion", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == f"apportion {ap.__version__}"
    piped = f"{sys.executable} -m apportion methods --json | head -c 1"
    done = subprocess.run(["sh", "-c", piped], capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_ctrl_c_leaves_with_130_and_no_half_file(tmp_path):
    fifo, out = tmp_path / "runs.jsonl", tmp_path / "credit.jsonl"
    os.mkfifo(fifo)  # a reader of it waits, so the signal arrives in the middle of the work
    command = [sys.executable, "-m", "apportion", "assign", str(fifo), "--out", str(out)]
    # a shell that runs the tests in the background hands down an ignored Ctrl-C
    hear = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hear)
    handle = os.open(fifo, os.O_WRONLY)  # returns once the command has opened its end
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    os.close(handle)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not out.exists()


@pytest.mark.parametrize(
    "command", [(), ("check",), ("assign",), ("grams", "build"), ("models", "fit"), ("pairs", "train")]
)
def test_a_flag_does_not_ask_for_a_value_in_the_help(command, cli):
    code, out, _ = cli(*command, "--help")
    assert code == 0
    assert "--help" in out
    assert "bool" not in out.lower()


def test_the_demo_says_what_comes_and_how_a_stopped_one_goes_on(tmp_path, cli, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("apportion.bench.demo.equipped", lambda: None)
    monkeypatch.setattr("apportion.bench.demo.run_demo", stopped)
    out = tmp_path / "demo"
    code, _, err = cli("demo", "--out", out)
    assert code == 130
    assert "About four minutes on two free cores" in err
    assert f"error: stopped before the end; what is finished is kept in {out}, and the same command goes on" in err
    assert "replaced" not in err
    out.mkdir()
    (out / "summary.json").touch()
    assert f"The finished demo in {out} is replaced." in cli("demo", "--out", out)[2]


def test_a_warning_is_a_sentence_without_code(cli, rollouts, monkeypatch):
    def warns(*_, **__):
        warnings.warn("this [bold] is odd", UserWarning, stacklevel=1)
        raise DataError("over")

    monkeypatch.setattr(sys.modules["apportion.assign"], "assign", warns)
    code, _, err = cli("assign", rollouts, "--method", "grpo")
    assert code == 1
    assert err.endswith("left out warning: this [bold] is odd error: over")


def test_a_required_parameter_of_a_transform_may_stand_outside_and_be_long(cli, rollouts):
    code, out, err = cli("assign", rollouts, "--method", "grpo | clip", "--limit", "0.5", "--json")
    assert code == 0, err
    assert json.loads(out)["params"]["clip"] == {"limit": 0.5}
    long = "[" + ", ".join(f"[{k}]" for k in range(2000)) + "]"
    code, _, err = cli("assign", "nowhere.jsonl", "--method", "grpo | hicra", f"--gram={long}")
    assert (code, err) == (2, "error: none of the names in 'grpo | hicra' takes gram; did you mean 'grams' of hicra")
