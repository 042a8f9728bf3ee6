"""``apportion check`` and ``apportion recommend`` on the command line: what they print, and how they leave."""

import json
from dataclasses import replace

import numpy as np
import pytest

import apportion as ap
from apportion.bench.check.texts import repetition as loops
from apportion.bench.check.world import every, rollouts


@pytest.fixture
def clean(tmp_path):
    ap.write(tmp_path / "clean.jsonl", rollouts(np.random.default_rng(0)))
    return tmp_path / "clean.jsonl"


@pytest.fixture
def looping(tmp_path):
    rng = np.random.default_rng(1)
    ap.write(tmp_path / "loops.jsonl", loops(rng, rollouts(rng)))
    return tmp_path / "loops.jsonl"


def test_a_clean_file_leaves_with_0_and_shows_how_states_recur(cli, clean):
    code, out, _ = cli("check", clean)
    assert code == 0
    assert out.startswith("clean.jsonl: nothing found (60 trajectories, 10 groups")
    assert "of 305 steps are in a state that another rollout of the group visits" in out
    assert "first half of the file" in out


def test_a_file_of_one_group_has_no_halves(cli, tmp_path):
    door = [
        ap.Trajectory([ap.Step(observation="a door", action=a, reward=r)], group="d")
        for a, r in (("push", 0.0), ("pull", 1.0))
    ]
    ap.write(tmp_path / "one.jsonl", door)
    out = cli("check", tmp_path / "one.jsonl")[1]
    assert "share of the state groups by size" in out
    assert "half" not in out


def test_findings_name_the_step_and_leave_with_1(cli, looping):
    code, out, _ = cli("check", looping)
    assert code == 1
    first = out.index("repetition")
    assert "at rollout '" in out[first:]
    assert ", step " in out[first:]
    code, out, _ = cli("check", looping, "--json")
    document = json.loads(out)
    assert (code, document["exit_code"], document["schema"]) == (1, 1, "apportion.check/1")
    assert [f["severity"] for f in document["findings"]] == sorted(
        (f["severity"] for f in document["findings"]), key=["error", "warning", "info"].index
    )
    assert "state-groups" in document["measures"]


def test_methods_are_credited_checked_and_compared(cli, clean):
    _, out, _ = cli("check", clean, "--methods", "grpo, gigpo(gamma=0.9, step_weight=1.0)", "--json")
    document = json.loads(out)
    (pair,) = [f for f in document["findings"] if f["code"] == "method-disagreement"]
    assert pair["evidence"]["methods"] == ["grpo", "gigpo(gamma=0.9, step_weight=1.0)"]
    assert 0 < pair["evidence"]["rank_correlation"] <= 1
    assert {"credit-mass: grpo", "credit-mass: gigpo(gamma=0.9, step_weight=1.0)"} <= set(document["measures"])
    _, out, _ = cli("check", clean, "--methods", "grpo,gigpo")
    assert "credit   grpo: half of the mass is in" in out
    _, out, _ = cli("check", clean, "--methods", "grpo | whiten", "--json")
    (finding,) = [f for f in json.loads(out)["findings"] if f["code"] == "normalised-twice"]
    assert finding["message"].startswith("grpo | whiten: ")


@pytest.mark.parametrize("name", ["credit.jsonl", "credit.parquet"])
def test_a_file_of_credit_is_checked_with_its_rollouts(cli, looping, tmp_path, name):
    credit = ap.assign("grpo | whiten", ap.by_step(ap.read(looping)))
    ap.write(tmp_path / name, credit)
    code, out, _ = cli("check", tmp_path / name, "--json")
    document = json.loads(out)
    codes = {finding["code"] for finding in document["findings"]}
    assert code == 1
    assert {"repetition", "normalised-twice"} <= codes
    assert "credit-mass: grpo | whiten" in document["measures"]


def test_a_method_that_the_data_do_not_carry_is_left_out_with_a_word(cli, clean):
    code, out, err = cli("check", clean, "--methods", "grpo,step_gae", "--json")
    assert code == 0
    assert "step_gae is left out: step_gae reads value_S" in err
    assert "credit-mass: grpo" in json.loads(out)["measures"]


def test_the_plan_prints_its_assumptions(cli, clean):
    _, out, _ = cli("check", clean, "--plan", 50)
    assert "plan     D(w) for T = " in out
    assert "beta0 is a guess of yours" in " ".join(out.split())
    assert "the true gradient is 0" in " ".join(out.split())


def test_states_are_checked_under_the_rule_that_is_asked_for(cli, tmp_path):
    texts = [[f"Session {g}a{m}b{k}: room {k % 2}" for k in range(4)] for g in range(4) for m in range(4)]
    made = [
        ap.Trajectory(
            [ap.Step(observation=t, action="go", prompt_ids=[1], ids=[2]) for t in row],
            group=str(n // 4),
            outcome=n % 2,
        )
        for n, row in enumerate(texts)
    ]
    ap.write(tmp_path / "a.jsonl", made)
    assert "under-grouped/volatile" in cli("check", tmp_path / "a.jsonl")[1]
    assert "under-grouped" not in cli("check", tmp_path / "a.jsonl", "--states", "learned")[1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--states", "fuzzy"), "no state rule named 'fuzzy'"),
        (("--methods", "grqo"), "no credit method named 'grqo'"),
        (("--methods", "vineppo"), "vineppo asks a policy; check compares methods that ask nobody"),
        (("--plan", "-1"), "--plan is -1.0"),
    ],
)
def test_wrong_use_of_check(cli, clean, options, sentence):
    code, _, err = cli("check", clean, *options)
    assert code == 2
    assert sentence in err


def test_recommend_prints_methods_rules_and_prices(cli, clean):
    code, out, _ = cli("recommend", clean, "--policy", "--environment", "--budget-tokens", 10)
    assert code == 0
    assert "gigpo              free" in out
    assert "rule states-recur (question 4 of the guide): recurring >= 0.05 (here 0." in " ".join(out.split())
    assert "vineppo" not in out
    _, out, _ = cli("recommend", clean, "--policy", "--environment", "--budget-tokens", 10, "--all")
    assert "more than the budget of 10" in " ".join(out.split())


def test_recommend_says_a_rule_s_reason_once_for_all_its_methods(cli, tmp_path):
    """And whom a caution is for, where it is not for all of them."""
    ap.write(tmp_path / "few.jsonl", rollouts(np.random.default_rng(0), groups=4, members=4))
    code, out, _ = cli("recommend", tmp_path / "few.jsonl")
    words = " ".join(out.split())
    assert code == 0
    assert "".join(f"{name:<18} free\n" for name in ("dr_grpo", "grpo", "rloo", "opo")) + "    several" in out
    assert words.count("compare their outcomes") == 1
    assert words.count("rule groups-only (question 9 of the guide)") == 1
    assert words.count("mind (grpo): with so few rollouts to a group") == 1
    looped = [
        replace(t, steps=(*t.steps[:1], *[t.steps[1]] * 20, *t.steps[1:])) for t in ap.read(tmp_path / "few.jsonl")
    ]
    ap.write(tmp_path / "looped.jsonl", looped)
    words = " ".join(cli("recommend", tmp_path / "looped.jsonl")[1].split())
    assert words.count("mind (gigpo, anchor, hgpo): single rollouts fill state groups") == 1
    ap.write(tmp_path / "alike.jsonl", [replace(t, outcome=1.0) for t in ap.read(tmp_path / "few.jsonl")])
    assert "mind: most groups end alike" in cli("recommend", tmp_path / "alike.jsonl")[1]


def test_a_price_names_the_cut_that_it_is_made_for(cli, tmp_path):
    """One answer is one step, whose question alone is valued: segments of it would be dearer."""
    made = [
        ap.Trajectory([ap.Step(observation="1 + 1?", action=f"{n} or two", terminated=True)], group="g", outcome=n % 2)
        for n in range(4)
    ]
    ap.write(tmp_path / "math.jsonl", made)
    out = cli("recommend", tmp_path / "math.jsonl", "--policy", "--reward-model")[1]
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert lines["vineppo"].endswith(" tokens, cut by step")
    assert lines["red"].endswith(" tokens, cut by token")
    assert "cut by" not in lines["dr_grpo"]


def test_recommend_as_json_is_the_same_advice(cli, clean):
    code, out, _ = cli("recommend", clean, "--judge", "--json")
    document = json.loads(out)
    advice = ap.recommend(ap.read(clean), have=["judge"])
    assert code == 0
    assert document == json.loads(json.dumps(advice.to_dict()))
    assert document["best"] == advice.best.name


def test_recommend_without_anything_that_fits_leaves_with_1(cli, tmp_path):
    made = [every(replace(t, outcome=None), ids=None, prompt_ids=None) for t in rollouts(np.random.default_rng(0))][:6]
    ap.write(tmp_path / "a.jsonl", [replace(t, group=None, steps=t.steps[-1:]) for t in made])
    code, out, _ = cli("recommend", tmp_path / "a.jsonl")
    assert code == 1
    assert "none of which has an outcome" in out
    assert "no method fits\n" in out
    assert out.count("--all says why") == 1


def test_recommend_says_that_nobody_can_be_compared(cli, tmp_path):
    made = rollouts(np.random.default_rng(0))[:6]
    ap.write(tmp_path / "a.jsonl", [replace(t, group=None) for t in made])
    _, out, _ = cli("recommend", tmp_path / "a.jsonl")
    assert out.startswith("6 rollouts, each alone in its group")
    ap.write(tmp_path / "b.jsonl", [replace(t, group="one") for t in made])
    _, out, _ = cli("recommend", tmp_path / "b.jsonl")
    assert out.startswith("6 rollouts, 1 group of several (median 6")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [(("--states", "fuzzy"), "no state rule named 'fuzzy'"), (("--budget-tokens", "-5"), "budget_tokens is -5")],
)
def test_wrong_use_of_recommend(cli, clean, options, sentence):
    code, _, err = cli("recommend", clean, *options)
    assert code == 2
    assert sentence in err


def test_recommend_says_where_nothing_tells_rollouts_apart(cli, tmp_path):
    steps = [ap.Step(observation="1 + 1?", action="2")]
    ap.write(tmp_path / "runs.jsonl", [ap.Trajectory(steps, group="g", outcome=1.0) for _ in range(4)])
    code, out, _ = cli("recommend", tmp_path / "runs.jsonl")
    assert code == 1
    assert "1 group of several (median 4, none with different outcomes: take tasks that are sometimes solved" in out
