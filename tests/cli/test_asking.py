"""Asking on the command line: who is asked, at what price, and how it leaves."""

import json
import sys

import pytest

pytest.importorskip("httpx2")

import apportion as ap
from apportion.cli.asking import ANSWERED_BY, OPTIONS, SHORT
from apportion.cli.asking_progress import words_of
from apportion.methods import get, names
from apportion.resources import Progress
from tests.resources.faulty_server import FaultyServer
from tests.resources.test_faults import rollouts


@pytest.fixture
def runs(tmp_path):
    ap.write(tmp_path / "runs.jsonl", rollouts())
    return tmp_path / "runs.jsonl"


ASK = ("--method", "vineppo", "--unit", "token", "--k", "3")


def test_a_policy_is_asked_and_the_summary_says_so(cli, runs, tmp_path):
    with FaultyServer() as server:
        asked = ("--resampler", server.url, "--max-tokens", "12", "--cache", tmp_path / "c", "--json")
        code, out, _ = cli("assign", runs, *ASK, *asked, "--out", tmp_path / "credit.jsonl")
        told = json.loads(out)
        assert code == 0
        assert (told["asking"]["asked"], told["asking"]["cached"], told["asking"]["failed"]) == (51, 0, {})
        assert told["notes"]["asks"] == 19
        assert all(body["max_tokens"] == 12 for _, body, _ in server.seen)
        first = ap.read_credit(tmp_path / "credit.jsonl").advantage_S.tolist()
        code, out, _ = cli("assign", runs, *ASK, *asked, "--out", tmp_path / "credit.jsonl")
        told = json.loads(out)["asking"]
        assert (told["asked"], told["cached"]) == (0, 51)
        assert ap.read_credit(tmp_path / "credit.jsonl").advantage_S.tolist() == first
        code, _, err = cli("assign", runs, *ASK, *asked[:-1], "--ask-seed", "1")
        assert code == 0
        assert "asked 51 in" in err


def test_the_price_is_what_is_counted_then(cli, runs, tmp_path):
    with FaultyServer() as server:
        asked = (
            "--resampler",
            server.url,
            "--resampler-model",
            "tiny",
            "--max-tokens",
            "12",
            "--cache",
            tmp_path / "c",
        )
        code, out, _ = cli("cost", "vineppo", runs, *ASK[2:], *asked, "--json")
        price = json.loads(out)
        assert (code, price["requests"], price["cached"], price["exact"]) == (0, 51, 0, True)
        assert not server.seen
        assert not (tmp_path / "c").exists()
        _, out, _ = cli("assign", runs, *ASK, *asked, "--json")
        told = json.loads(out)["asking"]
        assert (told["asked"], told["prompt_tokens"]) == (price["requests"], price["prompt_tokens"])
        assert told["generated_tokens"] <= price["generated_tokens"]
        _, out, _ = cli("cost", "vineppo", runs, *ASK[2:], *asked, "--json")
        again = json.loads(out)
        assert (again["requests"], again["cached"]) == (0, 51)


def test_a_price_without_anybody_and_its_time(cli, runs):
    code, out, _ = cli("cost", "vineppo", runs, *ASK[2:], "--max-tokens", "7", "--tokens-per-second", "10", "--json")
    price = json.loads(out)
    assert (code, price["requests"], price["generated_tokens"]) == (0, 51, 51 * 7)
    assert price["seconds"] == pytest.approx(price["expected_tokens"] / 10, rel=0.02)
    code, out, _ = cli("cost", "vineppo", runs, *ASK[2:])
    assert "unknown; give --tokens-per-second" in out
    assert json.loads(cli("cost", "grpo", runs, "--json")[1])["requests"] == 0


def test_a_budget_refuses_or_is_spent(cli, runs):
    with FaultyServer() as server:
        asked = ("--resampler", server.url, "--max-tokens", "12", "--budget-tokens", "200")
        code, _, err = cli("assign", runs, *ASK, *asked)
        assert code == 1
        assert "tokens where the budget is 200, so nothing was asked" in err
        assert not server.seen
        code, out, _ = cli("assign", runs, *ASK, *asked, "--partial", "--json")
        told = json.loads(out)
        assert code == 0
        assert told["asking"]["failed"]["left out: over the budget"] > 0
        assert told["unknown_units"] > 0
        assert told["asking"]["prompt_tokens"] + told["asking"]["generated_tokens"] <= 200
        code, _, err = cli("assign", runs, *ASK, *asked[:4], "--budget-requests", "50")
        assert "51 requests where the budget is 50" in err


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        ((), 2, "vineppo asks a policy; say whom: --resampler URL. What"),
        (("--resampler", "http://127.0.0.1:9/v1"), 1, "start it or correct --resampler"),
        (("--resampler", "ftp://x"), 2, "--resampler is no address of a server"),
        (("--resampler", "http://h/v1", "--scorer", "nubmer"), 2, "no scorer is named 'nubmer'"),
        (("--resampler", "http://h/v1", "--scorer", "reward"), 2, "wants a reward model; give --reward-model"),
        (("--resampler", "http://h/v1", "--temperature", "hot"), 2, "--temperature is 'hot'; give a float"),
        (("--resampler", "http://h/v1", "--max-tokens", "1.5"), 2, "--max-tokens is 1.5; give a int"),
        (("--resampler", "http://h/v1", "--ask-seed", "-1"), 2, "--ask-seed is -1"),
        (("--resampler", "http://h/v1", "--budget-tokens", "-1"), 2, "budget: tokens is -1"),
        (("--judge", "http://h/v1"), 2, "give --model"),
    ],
)
def test_what_is_wrong_is_said_and_the_code_tells_whose_fault(cli, runs, options, code, sentence):
    got, _, err = cli("assign", runs, *ASK, *options)
    assert got == code, err
    assert sentence in err
    assert "Traceback" not in err


def test_outcomes_that_no_built_in_gives(cli, tmp_path):
    import dataclasses

    ap.write(tmp_path / "odd.jsonl", [dataclasses.replace(t, outcome=0.3) for t in rollouts()])
    with FaultyServer() as server:
        code, _, err = cli("assign", tmp_path / "odd.jsonl", *ASK, "--resampler", server.url)
        assert code == 1
        assert "exact disagrees with 4, number disagrees with 4, contains disagrees with 4 of 4" in err
        code, out, err = cli("cost", "vineppo", tmp_path / "odd.jsonl", *ASK[2:], "--resampler", server.url)
        assert (code, out) == (1, "")  # what assign refuses has no price
        assert "vineppo: no built-in scorer gives the outcomes" in err
        assert cli("assign", tmp_path / "odd.jsonl", *ASK, "--resampler", server.url, "--scorer", "number")[0] == 0


def test_who_asks_for_probabilities_alone_needs_no_scorer(cli, tmp_path):
    steps = [ap.Step(prompt_ids=[1, 2], ids=[3, 4], logp=[-1.0, -1.0]), ap.Step(prompt_ids=[5], ids=[6], logp=[-1.0])]
    ap.write(tmp_path / "odd.jsonl", [ap.Trajectory(steps, group="g", outcome=r, reference="Bob") for r in (0.0, 0.3)])
    with FaultyServer() as server:
        for call in (("cost", "igpo", tmp_path / "odd.jsonl"), ("assign", tmp_path / "odd.jsonl", "--method", "igpo")):
            code, out, err = cli(*call, "--resampler", server.url)
            assert (code, out) == (1, "")
            assert "igpo: log-probabilities of text need the policy's tokenizer" in err
            assert "--tokenizer" in err
        assert not [path for path, _, _ in server.seen if "completions" in path]


def test_a_method_whose_plan_is_empty_needs_nobody(cli, runs):
    call = ("assign", runs, "--method", "c3", "--unit", "step", "--siblings", "data")
    code, out, err = cli(*call, "--json")
    assert code == 0, err
    assert "asking" not in json.loads(out)
    code, _, err = cli("assign", runs, "--method", "c3", "--unit", "step")
    assert code == 2
    assert "c3 asks a policy; say whom" in err
    code, _, err = cli("assign", runs, "--method", "vineppo + llm_critic", "--unit", "step")
    assert code == 2
    assert "vineppo + llm_critic asks a policy and a judge; say whom: --resampler URL --judge URL. What" in err


def test_only_the_options_that_answer_are_named(cli, tmp_path):
    wanted = {who for name in names() for who in get(name).needs}
    assert wanted <= set(ANSWERED_BY)
    steps = [ap.Step(prompt_ids=[1, 2], ids=[3, 4], logp=[-1.0, -1.0])]
    ap.write(tmp_path / "ids.jsonl", [ap.Trajectory(steps, group="g", outcome=r, reference="Bob") for r in (0.0, 1.0)])
    for method, options in (("red", "--reward-model PATH"), ("treg", "--resampler URL --reference-model NAME")):
        code, _, err = cli("assign", tmp_path / "ids.jsonl", "--method", method)
        assert code == 2
        assert f"say whom: {options}. What" in err


def test_a_price_says_what_is_at_most_and_what_is_asked_once(cli, runs, tmp_path):
    def row(name, *arguments):
        code, out, err = cli("cost", *arguments)
        assert code == 0, err
        lines = (" ".join(line.replace("│", " ").split()) for line in out.splitlines())
        return next(line.removeprefix(name).strip() for line in lines if line.startswith(name))

    def answer(right):
        step = ap.Step(observation="Left or right?", action=f"I go where it is {right}")
        return ap.Trajectory([step], group="g", outcome=float(right), reference="1")

    texts = tmp_path / "texts.jsonl"
    ap.write(texts, [answer(k % 2) for k in range(4)])
    with FaultyServer() as server:
        priced = ("vineppo", texts, "--unit", "token", "--k", "1", "--resampler", server.url, "--scorer", "contains")
        assert row("prompt tokens", *priced).endswith(" at most")
        assert (
            row("exact", *priced)
            == "no: an upper bound; a byte of text is a token at most, and --tokenizer counts them"
        )
        assert "equal questions are asked once" in row("requests", *priced)
        known = ("vineppo", runs, *ASK[2:], "--resampler", server.url)
        assert row("prompt tokens", *known).isdigit()
        assert row("exact", *known) == "requests and prompt tokens"
        assert row("requests", *known).isdigit()
    guessed = ("llm_critic", texts, "--votes", "1", "--judge", "http://127.0.0.1:9/v1", "--model", "j")
    assert row("prompt tokens", *guessed).startswith("about ")
    assert row("exact", *guessed) == "no: an estimate, or an upper bound"


def test_a_server_without_the_package_is_refused_before_a_file_is_read(cli, runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    for command in (
        ("assign", "nowhere.jsonl", "--method", "llm_critic", "--judge", "http://h/v1", "--model", "j"),
        ("assign", "nowhere.jsonl", *ASK, "--resampler", "http://h/v1"),
        ("values", "nowhere.jsonl", "--resampler", "http://h/v1"),
    ):
        code, _, err = cli(*command)
        assert code != 0
        assert "asking a server needs the package 'httpx2', which is not installed" in err
        assert "apportion[ask]" in err
    assert cli("assign", runs, "--method", "grpo", "--judge", "http://h/v1")[0] == 0  # asks nobody


def test_nothing_answered_is_a_failure(cli, runs):
    with FaultyServer(lambda n, b: "400") as server:
        code, out, err = cli("assign", runs, *ASK, "--resampler", server.url, "--json")
        assert code == 1
        assert json.loads(out)["unknown_units"] > 0
        assert "nothing that was asked was answered" in err


def test_short_options_go_to_the_method_that_has_them(cli):
    for name in SHORT:
        assert f"--resampler-{name.replace('_', '-')}" in OPTIONS[name][1].param_decls
    ours = {decl.lstrip("-").replace("-", "_") for _, option in OPTIONS.values() for decl in option.param_decls}
    taken = {name: spec.name for spec in ap.methods() for name in get(spec.name).defaults}
    assert not ours & set(taken), "an option of asking hides a method's parameter"


def test_help_lists_them(cli):
    for command in ("assign", "cost"):
        code, out, _ = cli(command, "--help")
        assert code == 0
        assert all(word in out for word in ("--resampler", "--budget-tokens", "--judge", "--cache", "--scorer"))


def test_the_bar_says_how_it_goes():
    assert words_of(Progress(10, 4, 1, 2, 99, 3661.2)) == "2 cached, 1 failed, 99 tokens, 1:01:01 left"
    assert words_of(Progress(10, 0, 0, 0, 0, None)) == "0 tokens"
    assert words_of(Progress(10, 10, 0, 0, 5, 0.0)) == "5 tokens"


def test_models_of_this_process_are_asked_by_their_folders(cli, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.resources.test_hf import TEXTS, gpt2, rollout_of, train_tokenizer

    tokenizer = train_tokenizer(TEXTS * 3, size=300)
    gpt2(tokenizer).save_pretrained(tmp_path / "policy")
    gpt2(tokenizer, kind="GPT2ForSequenceClassification", num_labels=1).save_pretrained(tmp_path / "reward")
    for name in ("policy", "reward"):
        tokenizer.save_pretrained(tmp_path / name)
    ap.write(tmp_path / "runs.jsonl", [rollout_of(tokenizer, id=f"r{k}") for k in range(2)])
    asked = ("--resampler", tmp_path / "policy", "--reward-model", tmp_path / "reward", "--max-tokens", "3", "--json")
    code, out, err = cli("assign", tmp_path / "runs.jsonl", *ASK, *asked, "--scorer", "reward", "--tokenizer",
                         tmp_path / "policy")  # fmt: skip
    assert code == 0, err
    told = json.loads(out)
    assert told["asking"]["asked"] > 0
    assert told["unknown_units"] == 0


def test_a_price_says_what_it_knows(cli, runs):
    """Without a limit nothing is the most; with a judge what is set aside is more than what is written."""
    _, out, _ = cli("cost", "vineppo", runs, *ASK[2:])
    assert "as long as the rollouts go on themselves; --max-tokens gives a limit" in out
    _, out, _ = cli("cost", "vineppo", runs, *ASK[2:], "--max-tokens", "12")
    assert "612 at most" in out
    assert "a budget sets aside" in out
    judge = ("--judge", "http://127.0.0.1:9/v1", "--model", "m")
    _, out, _ = cli("cost", "llm_critic", runs, "--votes", "2", *judge, "--tokenizer", "nope")
    assert "no tokenizer can be loaded" in _
    texts = runs.parent / "texts.jsonl"
    ap.write(texts, [ap.Trajectory([ap.Step(observation="q", action="a b")], group="g", outcome=1.0)])
    _, out, _ = cli("cost", "llm_critic", texts, "--votes", "2", *judge)
    assert "2 (4 at most, if a judge has to be reminded)" in out
    assert "at most" not in out.partition("generated tokens")[2].partition("│\n")[0]
