"""`apportion values`: somebody plays on from states of rollouts, and values from anywhere are held against it."""

import json

import pytest

pytest.importorskip("httpx2")

import apportion as ap
from apportion.cli.run import run
from tests.chat_server import Server, code_of
from tests.resources.faulty_server import FaultyServer
from tests.resources.test_faults import rollouts

GAME = {"horizon": 4, "budget": 2}


@pytest.fixture
def folder(tmp_path):
    """A run that was never trained, and rollouts of its policy."""
    pytest.importorskip("torch")
    from apportion.train import TrainConfig
    from apportion.train.policy import Policy
    from apportion.train.rollout import Collector
    from tests.train.make import SMALL

    collector = Collector("crafttree", GAME)
    config = TrainConfig(**{**SMALL, "env_options": GAME, "out": str(tmp_path / "run")})
    policy = Policy.from_config(config, collector.env)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text(config.to_json())
    policy.save(tmp_path / "run" / "policy")
    drawn = collector.collect(policy, [0, 1], rollouts=2).trajectories
    ap.write(tmp_path / "rollouts.jsonl", ap.Batch.from_trajectories(drawn))
    return tmp_path


@pytest.fixture
def told(capsys):
    """Calls the command; gives its JSON and what it said beside it."""

    def call(*arguments, code=0):
        got = run([*map(str, arguments), "--json"])
        out, err = capsys.readouterr()
        assert got == code, err
        return (json.loads(out) if out else {}), " ".join(err.split())

    return call


def test_a_trained_policy_plays_on_and_is_asked_only_once(folder, told, capsys):
    call = ["values", folder / "rollouts.jsonl", "--resampler", folder / "run", "--truth", "6", "--states", "4"]
    call += ["--sources", "samples:2", "--actions", "3", "--cache", folder / "answers.sqlite"]
    first, _ = told(*call)
    quality = first["sources"]["samples:2"]
    assert quality["errors"]["states"] >= 4
    assert first["asking"]["asked"] > 0
    again, _ = told(*call)
    assert again["asking"]["asked"] == 0
    assert again["sources"] == first["sources"]
    assert run(list(map(str, call))) == 0
    assert "samples:2" in capsys.readouterr().out
    other, _ = told(*call[:-2], "--ask-seed", "1")
    assert other["sources"] != first["sources"]


def test_a_trained_policy_is_asked_by_methods_too(folder, told):
    asked = ["--resampler", folder / "run", "--cache", folder / "answers.sqlite"]
    price, _ = told("cost", "vineppo", folder / "rollouts.jsonl", "--k", "3", *asked)
    made, _ = told("assign", folder / "rollouts.jsonl", "--method", "vineppo", "--k", "3", *asked)
    assert made["asking"]["asked"] == price["requests"] > 0
    assert made["asking"]["prompt_tokens"] == price["prompt_tokens"]
    assert made["asking"]["generated_tokens"] <= price["generated_tokens"]
    assert made["unknown_units"] == 0
    _, err = told("assign", folder / "rollouts.jsonl", "--method", "vineppo", *asked, "--temperature", "0.5", code=2)
    assert "--resampler-temperature is for policies that write text, and" in err


def valued(values):
    """Answers in text with a critic's values of their questions."""
    said = [[ap.Step(observation=f"{k} + 1?", action=f"so {k}", value=v)] for k, v in enumerate(values)]
    return [ap.Trajectory(steps, group=f"g{k}", outcome=float(k == 1), reference="1") for k, steps in enumerate(said)]


def test_a_critic_samples_and_a_judge_are_held_against_a_servers_policy(told, tmp_path):
    runs = tmp_path / "runs.jsonl"
    ap.write(runs, valued([0.5, 0.25, 1.0, 0.0]))
    with FaultyServer() as server:
        judge = Server()
        judge.rule = lambda body: json.dumps({"code": code_of(body), "probability": 0.5})
        call = ["values", runs, "--resampler", server.url, "--max-tokens", "12", "--truth", "8"]
        call += ["--judge", judge.url, "--model", "judge-7b"]
        found, _ = told(*call, "--sources", "data,samples:2,model")
        assert set(found["sources"]) == {"data", "samples:2", "model"}
        assert {part["errors"]["states"] for part in found["sources"].values()} == {4}
        # all of it was one plan: truth, samples and the judge's answers, each once
        assert found["asking"]["asked"] == 4 * (8 + 2 + 1)
        assert (len(server.seen), len(judge.bodies)) == (40, 4)
        judge.rule = lambda body: json.dumps({"code": code_of(body), "verdicts": [{"unit": 1, "label": "good"}]})
        verdicts, _ = told(*call, "--sources", "judge:labels", "--actions", "1")
        assert verdicts["sources"]["judge:labels"]["errors"]["states"] > 0
        judge.close()


def test_the_budget_holds_over_all_sources(told, tmp_path):
    runs = tmp_path / "runs.jsonl"
    ap.write(runs, rollouts())
    with FaultyServer() as server:
        call = ["values", runs, "--resampler", server.url, "--max-tokens", "12", "--unit", "token", "--states", "3"]
        call += ["--truth", "4", "--sources", "samples:2"]
        found, _ = told(*call, "--budget-requests", "999")
        asked = found["asking"]["asked"]
        server.seen.clear()
        _, err = told(*call, "--budget-requests", asked - 1, code=1)
        assert f"value_quality may need {asked} requests where the budget is {asked - 1}, so nothing was asked" in err
        assert [body for _, body, _ in server.seen if body and "prompt" in body] == []
        told(*call, "--budget-requests", asked)


def test_states_that_nobody_can_continue_are_told(told, tmp_path):
    steps = [
        ap.Step(observation="2 + 2?", action="4 "),
        ap.Step(observation="sure?", action="it is 4", terminated=True),
    ]
    ap.write(tmp_path / "runs.jsonl", [ap.Trajectory(steps, group="g", outcome=1.0, reference="4")])
    with FaultyServer() as server:
        call = ["values", tmp_path / "runs.jsonl", "--resampler", server.url, "--truth", "2", "--sources", "samples:1"]
        found, err = told(*call)
        assert "1 of 2 states can be played on from: the server writes text and cannot play the environment" in err
        assert found["sources"]["samples:1"]["errors"]["states"] == 1


def test_a_state_in_which_another_rollout_was_spoken_to_is_left_out(told, tmp_path):
    asked = {"observation": "2 + 2?", "action": "let me see"}
    made = [
        ap.Trajectory(
            [ap.Step(**asked), ap.Step(observation="well?", action=end)], group="g", outcome=0.0, reference="4"
        )
        for end in ("no idea", "four")
    ]
    made.append(ap.Trajectory([ap.Step(**asked)], group="g", outcome=0.0, reference="4"))
    ap.write(tmp_path / "runs.jsonl", made)
    with FaultyServer() as server:
        call = ["values", tmp_path / "runs.jsonl", "--resampler", server.url, "--truth", "2", "--sources", "samples:1"]
        found, err = told(*call)
    assert "2 of 5 states can be played on from" in err
    assert found["sources"]["samples:1"]["errors"]["states"] == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "values asks a policy for the truth; say whom: --resampler with a server"),
        (("--resampler", "http://h/v1", "--unit", "nope"), "no unit named 'nope'"),
        (("--resampler", "http://h/v1", "--sources", "data", "--actions", "3"), "say nothing of actions that were not"),
        (
            ("--resampler", "http://h/v1", "--unit", "token", "--actions", "3"),
            "at the beginning of steps, not of tokens",
        ),
    ],
)
def test_what_is_wrong_is_said_before_the_file_is_read(told, options, sentence):
    _, err = told("values", "no-such-file.jsonl", *options, code=2)
    assert sentence in err


def test_a_source_that_does_not_exist(told, tmp_path):
    ap.write(tmp_path / "runs.jsonl", rollouts())
    with FaultyServer() as server:
        call = ["values", tmp_path / "runs.jsonl", "--resampler", server.url, "--unit", "token", "--sources"]
        _, err = told(*call, "guess", code=2)
        assert "no source of values is named 'guess'" in err
        _, err = told(*call, "data", code=1)
        assert "value_quality reads value_S" in err
        assert [body for _, body, _ in server.seen if body and "prompt" in body] == []
