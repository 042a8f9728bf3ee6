"""Every check: a planted fault is found with the right evidence, and clean rollouts give nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest

import apportion as ap
from apportion.check import SEVERITIES, Finding, Findings, check, check_credit, check_file, register, registered
from apportion.data import Batch, Step, Trajectory
from apportion.data.jsonl import write_jsonl
from apportion.errors import ConfigError, FormatError
from tests.make import random_trajectories, traj


def clean(groups=4, members=4, steps=3):
    """Rollouts that no check has anything to say about: ids, groups with spread, ends flagged, uneven lengths."""
    out = []
    for g in range(groups):
        for m in range(members):
            length = steps + (g + m) % 3
            built = []
            for s in range(length):
                tokens = [100 * g + 10 * s, 7, 9 + (m + s) % 2]
                built.append(
                    Step(
                        observation=f"task {g}" if s == 0 else f"room {g}.{s % 2}",
                        prompt_ids=[100 * g + s, 3],
                        ids=tokens[: 2 + (m + s) % 2],
                        terminated=s == length - 1,
                    )
                )
            out.append(Trajectory(built, group=f"g{g}", id=f"{g}/{m}", outcome=float(m % 2)))
    return out


def changed(rollouts, n, step=None, **fields):
    """The rollouts, with fields of trajectory n, or of one of its steps, replaced."""
    out = list(rollouts)
    if step is None:
        out[n] = replace(out[n], **fields)
    else:
        steps = list(out[n].steps)
        steps[step] = replace(steps[step], **fields)
        out[n] = replace(out[n], steps=steps)
    return out


def the(findings, code):
    (finding,) = findings.of(code)
    return finding


def evidence(finding, *names):
    return tuple(finding.evidence[name] for name in names)


def test_clean_rollouts_give_nothing():
    findings = check(clean())
    assert not findings, [finding.message for finding in findings]
    assert (findings.exit_code, findings.worst) == (0, None)
    steps = [step for t in clean() for step in t.steps]
    tokens = sum(len(step.ids) for step in steps)
    sizes = {"trajectories": 16, "groups": 4, "steps": len(steps), "sampled_tokens": tokens}
    assert findings.subject == sizes | {"broken_records": 0}


def test_clean_credit_gives_nothing():
    units = ap.by_step(Batch.from_trajectories(clean()))
    for method in ("grpo", "gigpo", "grpo(scale='none') | whiten"):
        assert not check_credit(ap.assign(method, units))


# --- what the rollouts lack -------------------------------------------------------------------------------------


def test_unscored():
    rollouts = changed(changed(clean(), 2, outcome=None), 5, outcome=None)
    finding = the(check(rollouts), "unscored")
    assert finding.severity == "warning"
    assert evidence(finding, "rollouts", "of", "share", "groups") == (2, 16, 0.125, 2)
    assert finding.where == ("0/2", "1/1")
    assert finding.message == (
        "2 of 16 rollouts in 2 groups have no reward ('0/2', '1/1'); they leave the group statistics and get no credit"
    )


def test_nothing_scored_is_an_error():
    findings = check([replace(t, outcome=None) for t in clean()])
    assert the(findings, "unscored").severity == findings.worst == "error"
    assert "there is nothing to credit" in findings[0].message
    assert not findings.of("group-of-one")  # one cause, one finding
    assert not findings.of("constant-group")


def test_an_unscored_rollout_is_not_one_of_reward_zero():
    assert not check(changed(clean(), 0, outcome=0.0)).of("unscored")


def test_group_of_one():
    finding = the(check([*clean(), traj(("A", 1.0), group="lonely", id="x")]), "group-of-one")
    assert finding.severity == "warning"
    assert evidence(finding, "groups", "of", "share", "shrunk", "without_group") == (1, 5, 0.2, 0, 0)
    assert finding.where == ("lonely",)


def test_a_group_that_shrank_to_one():
    rollouts = clean()
    for n in (0, 1):
        rollouts = changed(rollouts, n, outcome=None)
    rollouts = changed(rollouts, 2, 1, failed=True)
    finding = the(check(rollouts), "group-of-one")
    assert evidence(finding, "groups", "shrunk") == (1, 1)
    assert "because other members are unscored, empty or failed" in finding.message


@pytest.mark.parametrize("named", [True, False])
def test_case_g2_and_g10_a_fresh_id_per_rollout_leaves_only_groups_of_one(named):
    rollouts = [traj(("A", r), group=f"u{n}" if named else None) for n, r in enumerate((2.0, 0.0, 0.0, 2.0))]
    finding = the(check(rollouts), "group-of-one")
    assert finding.severity == "error"
    assert evidence(finding, "groups", "of", "share", "without_group") == (4, 4, 1.0, 0 if named else 4)
    assert "no comparable siblings at all" in finding.message


@pytest.mark.parametrize(("constant", "severity"), [(1, "info"), (2, "warning"), (4, "error")])
def test_constant_group(constant, severity):
    rollouts = [replace(t, outcome=1.0) if int(t.group[1:]) < constant else t for t in clean()]
    finding = the(check(rollouts), "constant-group")
    assert finding.severity == severity
    highest = constant if constant < 4 else 0
    assert evidence(finding, "groups", "of", "share", "at_highest_outcome") == (constant, 4, constant / 4, highest)
    assert finding.where == tuple(f"g{g}" for g in range(constant))


def test_nearly_equal_outcomes_are_no_constant_group():
    rollouts = [replace(t, outcome=0.3 + 1e-6 * n) for n, t in enumerate(clean())]
    assert not check(rollouts).of("constant-group")
    same = [replace(t, outcome=0.1 + 0.2 if n % 2 else 0.3) for n, t in enumerate(clean())]  # equal but for rounding
    assert the(check(same), "constant-group").evidence["groups"] == 4


def test_first_observation():
    rollouts = changed(changed(clean(), 5, 0, observation="task 1, other seed"), 6, 0, observation="task 7")
    finding = the(check(rollouts), "first-observation")
    assert finding.severity == "warning"
    assert evidence(finding, "groups", "of", "example_group", "example_starts", "example_members", "differs_at") == (
        1,
        4,
        "g1",
        3,
        4,
        5,
    )
    assert finding.where == ("g1",)
    assert "in 'g1' 4 members have 3 starts, from character 5 on" in finding.message


def test_first_observations_of_token_ids():
    bare = [replace(t, steps=[replace(s, observation=None) for s in t.steps]) for t in clean()]
    assert not check(bare)
    finding = the(check(changed(bare, 3, 0, prompt_ids=[8, 8])), "first-observation")
    assert evidence(finding, "groups", "example_starts", "differs_at") == (1, 2, None)


def test_later_observations_may_differ_and_unlogged_ones_say_nothing():
    assert not check(changed(clean(), 3, 1, observation="elsewhere"))
    alone = changed(clean(), 3, 0, observation=None, prompt_ids=[])
    assert not check(alone).of("first-observation")


def test_outcome_sum():
    rollouts = clean()
    for s in range(len(rollouts[1].steps)):
        rollouts = changed(rollouts, 1, s, reward=1.0)  # outcome 1, on every step: case Q1
    rollouts = changed(changed(rollouts, 6, -1, reward=0.25), 7, 0, reward=1.0)
    findings = check(rollouts)
    finding = the(findings, "outcome-sum")
    length = len(rollouts[1].steps)
    assert finding.severity == "warning"
    assert evidence(finding, "rollouts", "of", "copied", "outcome", "sum") == (2, 3, 1, 1.0, float(length))
    assert finding.where == ("0/1", "1/2")
    assert "in 1 of them every step repeats the outcome" in finding.message


def test_an_outcome_may_have_more_than_the_steps_before_an_unscored_last_one():
    """As TRL's adapter hands over what an environment told: the rest of the outcome is the last step's reward."""
    rollouts = clean()
    for n in (1, 6):
        rollouts = changed(rollouts, n, 0, reward=-0.1)
    assert not check(rollouts).of("outcome-sum")
    for s in range(len(rollouts[1].steps) - 1):
        rollouts = changed(rollouts, 1, s, reward=rollouts[1].outcome)
    assert the(check(rollouts), "outcome-sum").evidence["copied"] == 1


def test_sums_that_are_right_or_only_rounded_are_fine():
    rollouts = clean()
    for s, reward in enumerate((0.1, 0.2, 0.7 + 1e-9)):
        rollouts = changed(rollouts, 3, s, reward=reward)
    rollouts = changed(rollouts, 4, 0, reward=0.0)
    rollouts = changed(rollouts, 5, 1, reward=1.0)
    rollouts = changed(rollouts, 5, outcome=None)  # only step rewards: nothing to differ from
    assert not check(rollouts).of("outcome-sum")


def truncated(rollouts, n, **fields):
    return changed(rollouts, n, -1, terminated=False, truncated=True, **fields)


def test_truncated_without_a_final_value():
    rollouts = truncated(truncated(clean(), 2), 3)
    rollouts = changed(rollouts, 3, final_value=0.4)
    finding = the(check(rollouts), "truncation/no-final-value")
    assert finding.severity == "info"  # nothing here uses values
    assert evidence(finding, "rollouts", "of", "share") == (1, 2, 1 / 16)
    assert finding.where == ("0/2",)
    with_values = [replace(t, steps=[replace(s, value=0.5) for s in t.steps]) for t in rollouts]
    assert the(check(with_values), "truncation/no-final-value").severity == "warning"


def test_ends_that_nobody_flagged():
    rollouts = changed(clean(), 9, -1, terminated=False)
    finding = the(check(rollouts), "truncation/end-unknown")
    assert finding.severity == "warning"
    assert evidence(finding, "rollouts", "of") == (1, 16)
    assert finding.where == ("2/1",)


def unflagged(lengths):
    rollouts = []
    for n, length in enumerate(lengths):
        steps = [Step(observation=f"s{s}" if s else "start", prompt_ids=[1], ids=[n, s]) for s in range(length)]
        rollouts.append(Trajectory(steps, group="g", outcome=float(n % 2)))
    return rollouts


def test_lengths_that_pile_up_at_a_limit():
    finding = the(check(unflagged([2, 3, 5, 4, 20, 20, 20, 7])), "truncation/limit-suspected")
    assert finding.severity == "warning"
    assert evidence(finding, "rollouts", "of", "limit", "one_less", "counted") == (3, 8, 20, 0, "steps")
    assert finding.where == ("4", "5", "6")


@pytest.mark.parametrize(
    "lengths",
    [
        [2, 3, 5, 4, 20, 20, 7],  # two may be chance
        [2, 3, 5, 19, 19, 20, 20, 20],  # nearly as many one below
        [20, 20, 20, 20],  # a fixed horizon
        [1, 2, 2, 2, 2],  # too short to tell
    ],
)
def test_lengths_that_say_nothing(lengths):
    assert not check(unflagged(lengths))


def test_actions_that_pile_up_at_a_token_limit():
    rollouts = []
    for n, tokens in enumerate((5, 9, 31, 64, 64, 64, 17)):
        steps = [Step(observation="q", prompt_ids=[1], ids=list(range(tokens)))]
        rollouts.append(Trajectory(steps, group="g", outcome=float(n % 2)))
    finding = the(check(rollouts), "truncation/limit-suspected")
    assert evidence(finding, "rollouts", "limit", "counted") == (3, 64, "tokens in the last action")
    flagged = [
        truncated(rollouts, n)[n] if n in (3, 4, 5) else changed(rollouts, n, 0, terminated=True)[n] for n in range(7)
    ]
    assert not check(flagged).of("truncation/limit-suspected")


def test_empty_responses():
    rollouts = clean()
    for s in range(len(rollouts[4].steps)):
        rollouts = changed(rollouts, 4, s, ids=[])
    rollouts = changed(changed(rollouts, 8, 1, ids=[]), 9, 0, ids=[])
    findings = check(rollouts)
    finding = the(findings, "empty-response")
    assert (finding.severity, finding.where, evidence(finding, "rollouts", "of")) == ("warning", ("1/0",), (1, 16))
    step = the(findings, "empty-response/step")
    assert (step.severity, step.where, step.evidence["steps"]) == ("info", ("2/0", "2/1"), 2)


@pytest.mark.parametrize(("broken", "severity"), [(1, "info"), (4, "warning")])
def test_failed(broken, severity):
    rollouts = clean()
    for n in range(broken):
        rollouts = changed(rollouts, 3 * n, 0, failed=True)
    finding = the(check(rollouts), "failed")
    assert (finding.severity, finding.evidence["rollouts"]) == (severity, broken)


def test_text_only():
    rollouts = clean()
    text = [replace(s, prompt_ids=None, ids=None, action="go") for s in rollouts[0].steps]
    finding = the(check(changed(rollouts, 0, steps=text)), "text-only")
    assert (finding.severity, evidence(finding, "rollouts", "of")) == ("info", (1, 16))
    assert check(changed(rollouts, 0, steps=text)).exit_code == 0


def test_duplicate_ids():
    rollouts = clean()
    rollouts = changed(rollouts, 6, id="0/3")  # another rollout under the name
    rollouts = [*rollouts, rollouts[3], rollouts[9]]  # and two copies
    findings = check(rollouts)
    finding = the(findings, "duplicate-id")
    assert finding.severity == "error"
    assert evidence(finding, "ids", "rollouts", "of", "copies") == (2, 3, 18, 2)
    assert finding.where == ("0/3", "2/1")
    assert "'0/3' at 3, 6, 16" in finding.message
    assert findings.subject["trajectories"] == 18  # the rest was checked all the same


def test_what_no_batch_takes_is_a_finding_and_the_rest_is_checked():
    rollouts = changed(changed(clean(), 0, 0, reward=float("nan")), 1, 0, ids=None, prompt_ids=None, action="x")
    rollouts = changed(changed(rollouts, 2, steps=()), 3, outcome=float("inf"))
    rollouts = changed(rollouts, 8, outcome=None)
    findings = check(rollouts)
    wild, broken = the(findings, "not-finite"), the(findings, "broken-records")
    assert (wild.severity, broken.severity) == ("error", "error")
    assert evidence(wild, "records", "of") == (2, 16)
    assert evidence(broken, "records", "of") == (2, 16)
    assert "trajectory 0 ('0/0'), step 0: reward is nan; give a finite number" in wild.message
    assert len(broken.evidence["reasons"]) == 2
    assert "trajectory 2 ('0/2'): no steps" in broken.evidence["reasons"][1]
    assert "trajectory 1 ('0/1'): some steps have ids and some only text" in broken.evidence["reasons"][0]
    assert the(findings, "unscored").where == ("2/0",)


# --- files ------------------------------------------------------------------------------------------------------


def spoiled(path, *extra):
    write_jsonl(path, clean())
    with path.open("a", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in extra)
    return path


def test_a_clean_file_gives_nothing(tmp_path):
    findings = check_file(spoiled(tmp_path / "a.jsonl"))
    assert not findings
    assert findings.subject["broken_records"] == 0


def test_broken_lines_of_a_file_are_findings_with_their_sentences(tmp_path):
    (tmp_path / "no nan here").mkdir()  # the name of a folder is no evidence
    path = spoiled(
        tmp_path / "no nan here" / "nan.jsonl",
        '{"steps": [{"action": "a", "reward": NaN}]}',
        '{"steps": [{"action": "a"}], "outcome": 1e999}',
        '{"steps": []}',
        '{"steps": [{"action"',
    )
    findings = check_file(path)
    wild, broken = the(findings, "not-finite"), the(findings, "broken-records")
    assert evidence(wild, "records", "of") == (2, 20)
    assert evidence(broken, "records", "of") == (2, 20)
    assert f"{path}, line 18: " in wild.evidence["reasons"][0]
    assert "NaN is not JSON" in wild.evidence["reasons"][0]
    assert f"{path}, line 20: no steps" in broken.evidence["reasons"][0]
    assert findings.exit_code == 1
    assert findings.subject["broken_records"] == 4


def test_a_file_of_nothing_but_broken_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"steps": 1}\n' * 30)
    findings = check_file(path)
    assert evidence(the(findings, "broken-records"), "records", "of", "share") == (30, 30, 1.0)
    assert len(findings) == 1


def test_a_packed_file_that_is_cut_is_checked_as_far_as_it_goes(tmp_path):
    import gzip
    import random

    rng = random.Random(0)
    plain = spoiled(tmp_path / "a.jsonl").read_bytes()
    noise = "".join(rng.choice("abcdefgh") for _ in range(200_000))
    plain += json.dumps({"steps": [{"action": noise}]}).encode() + b"\n"
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(plain)[:-20_000])
    finding = the(check_file(path), "unreadable-rest")
    assert finding.severity == "error"
    assert finding.evidence["rollouts_before"] == 16
    assert "compressed data are damaged" in finding.message


def test_a_file_about_which_nothing_can_be_said_is_an_error(tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        check_file(tmp_path / "gone.jsonl")


def test_a_foreign_file_is_checked_through_its_reader(tmp_path):
    from apportion.adapters.readers import read_any

    chat = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    records = [{"messages": chat, "task_id": n // 2, "reward": reward} for n, reward in enumerate((1, 0, None, 1))]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in [*records, {"messages": chat, "reward": "high"}]))
    findings = check_file(path, read=lambda file, skipped: read_any(file, skip_bad=skipped).trajectories)
    assert the(findings, "unscored").evidence["rollouts"] == 1
    assert the(findings, "group-of-one").where == ("1",)
    assert "line 5: reward is a string" in the(findings, "broken-records").message
    assert the(findings, "text-only").evidence["share"] == 1.0


# --- credit -----------------------------------------------------------------------------------------------------


def test_credit_that_is_zero_everywhere():
    units = ap.by_step(Batch.from_trajectories([replace(t, outcome=1.0) for t in clean()]))
    finding = the(check_credit(ap.assign("grpo", units)), "credit-zero")
    assert finding.severity == "error"
    assert evidence(finding, "units", "constant_groups") == (len(units), 4)
    assert "(constant groups: 4)" in finding.message


@pytest.mark.parametrize(("missing", "severity"), [(1, "info"), (9, "warning"), (16, "error")])
def test_credit_that_is_unknown(missing, severity):
    rollouts = [replace(t, outcome=None) if n < missing else t for n, t in enumerate(clean())]
    units = ap.by_step(Batch.from_trajectories(rollouts))
    credit = ap.Credit(np.ones(len(units)), units)
    finding = the(check_credit(credit), "credit-unknown")
    assert finding.severity == severity
    assert finding.evidence["rollouts"] == missing
    assert finding.evidence["units"] == sum(len(t.steps) for t in rollouts[:missing])


def test_credit_that_sits_in_one_rollout():
    units = ap.by_step(Batch.from_trajectories(clean()))
    advantage = np.where(units.traj_of_S == 6, 5.0, 0.01)
    finding = the(check_credit(ap.Credit(advantage, units)), "credit-concentrated")
    tokens_S = np.bincount(units.unit_of_T[units.unit_of_T >= 0])
    mass_S = advantage * tokens_S
    assert finding.where == ("1/2",)
    assert finding.evidence["share"] == pytest.approx(mass_S[units.traj_of_S == 6].sum() / mass_S.sum())
    assert not check_credit(ap.Credit(np.where(units.traj_of_S < 8, 1.0, 0.1), units))


def test_credit_that_is_normalised_twice():
    units = ap.by_step(Batch.from_trajectories(clean()))
    finding = the(check_credit(ap.assign("grpo | whiten", units)), "normalised-twice")
    assert (finding.severity, finding.evidence["normalisations"]) == ("warning", 2)
    assert "grpo(scale='std')" in finding.message
    for fine in ("grpo", "dr_grpo | whiten", "grpo(scale='none') | whiten"):
        assert not check_credit(ap.assign(fine, units)).of("normalised-twice")


# --- the result -------------------------------------------------------------------------------------------------


def test_worst_first_and_what_a_command_exits_with():
    def one(severity, share, code="x"):
        return Finding(code, severity, "m", "r", {"share": share})

    findings = Findings([one("info", 1.0), one("error", 0.1), one("warning", 0.2), one("warning", 0.9)], {"steps": 1})
    assert [(f.severity, f.evidence["share"]) for f in findings] == [
        ("error", 0.1),
        ("warning", 0.9),
        ("warning", 0.2),
        ("info", 1.0),
    ]
    assert findings.worst == "error"
    assert [Findings([one(severity, 0)], {}).exit_code for severity in SEVERITIES] == [1, 1, 0]
    assert Findings([], {}).exit_code == 0


def test_the_document_is_versioned_and_plain():
    document = check(changed(clean(), 2, outcome=None)).to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["schema"] == "apportion.check/1"
    assert document["counts"] == {"error": 0, "warning": 1, "info": 0}
    assert document["exit_code"] == 1
    assert set(document["findings"][0]) == {"code", "severity", "message", "remedy", "evidence", "where"}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ids", [True, False])
def test_every_batch_gets_plain_findings_and_stays_as_it_was(seed, ids):
    batch = Batch.from_trajectories(random_trajectories(seed, ids=ids, logp=ids, values=ids))
    before = batch.fingerprint()
    findings = check(batch)
    json.dumps(findings.to_dict(), allow_nan=False)
    assert batch.fingerprint() == before
    codes = {entry.name for entry in registered()}
    for finding in findings:
        assert finding.severity in SEVERITIES
        assert finding.code.partition("/")[0] in codes
        assert finding.message
        assert finding.remedy
        assert len(finding.where) <= 5
    assert bool(findings.of("unscored")) == (not batch.scored_N.all())
    assert bool(findings.of("empty-response")) == (not batch.has_tokens_N.all())
    usable = {}
    for t, valid in zip(batch, batch.valid_N, strict=True):
        usable.setdefault(t.group, []).extend([t.total] if valid else [])
    alone = {name for name, outcomes in usable.items() if len(outcomes) == 1}
    alike = {name for name, outcomes in usable.items() if len(outcomes) > 1 and len(set(outcomes)) == 1}
    for code, names in (("group-of-one", alone), ("constant-group", alike)):
        found = findings.of(code)
        assert len(found) == bool(names)
        assert not found or (found[0].evidence["groups"], set(found[0].where)) == (len(names), names)
    credit_findings = check_credit(ap.assign("grpo", ap.by_step(batch)))
    json.dumps(credit_findings.to_dict(), allow_nan=False)


def test_the_order_of_the_rollouts_does_not_matter():
    rollouts = changed(changed(clean(), 2, outcome=None), 7, 0, observation="other")
    counts = [
        [(f.code, f.severity, f.evidence.get("share")) for f in check(order)] for order in (rollouts, rollouts[::-1])
    ]
    assert counts[0] == counts[1]


def test_a_check_of_ones_own_and_what_the_registry_refuses():
    from apportion.check import registry

    @register("mine", on="batch")
    def mine(batch):
        """Always."""
        yield Finding("mine/always", "info", "m", "r")

    try:
        assert the(check(clean()), "mine/always").severity == "info"

        def other(batch):
            """Another."""
            yield Finding("unscored", "info", "m", "r")

        registry._CHECKS["mine"] = replace(registry._CHECKS["mine"], call=other)
        with pytest.raises(ConfigError, match="check 'mine' yielded the code 'unscored'; begin it with its name"):
            check(clean())
        registry._CHECKS["mine"] = replace(registry._CHECKS["mine"], call=lambda batch: next(mine(batch)))
        with pytest.raises(ConfigError, match="check 'mine' returned a Finding; yield findings"):
            check(clean())
    finally:
        del registry._CHECKS["mine"]
    with pytest.raises(ConfigError, match="finding 'mine': no severity named 'warn'; there are error, warning, info"):
        Finding("mine", "warn", "m", "r")
    for name, on, doc, sentence in (
        ("unscored", "batch", "x", "the check 'unscored' is already there"),
        ("new", "tokens", "x", "no subject named 'tokens'; there are rollouts, batch, units, credit"),
        ("new", "batch", None, "check 'new' has no docstring"),
    ):

        def function(batch):
            yield from ()

        function.__doc__ = doc
        with pytest.raises(ConfigError, match=sentence):
            register(name, on=on)(function)


# --- the real files ---------------------------------------------------------------------------------------------


def real(data_root, name, **options):
    from apportion.adapters.readers import read_any

    path = data_root / "trajectories" / name
    return check_file(path, read=lambda file, skipped: read_any(file, skip_bad=skipped, **options).trajectories)


def test_the_tau_bench_sample(data_root):
    findings = real(data_root, "tau_bench")
    assert the(findings, "constant-group").where == ("49",)  # SOURCES: no spread
    assert evidence(the(findings, "first-observation"), "groups", "of") == (5, 5)  # a simulated user words it anew
    assert not findings.of("unscored")
    assert not findings.of("group-of-one")


def test_the_wordle_sample(data_root):
    findings = real(data_root, "verifiers_wordle")
    assert [finding.code for finding in findings] == ["text-only"]
    assert findings.exit_code == 0


def test_the_frozen_lake_sample(data_root):
    findings = real(data_root, "rllm_frozenlake", group_by="first_user_message")
    assert the(findings, "unscored").severity == "error"
    assert the(findings, "truncation/limit-suspected").evidence["limit"] == 20
