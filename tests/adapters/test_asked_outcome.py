"""The outcome from a field that the user names: in every reader, of numbers and of words, and never in silence."""

import pytest

from apportion.adapters.readers import known, read_any
from apportion.errors import ConfigError, FormatError
from tests.adapters.foreign import lines, said, user
from tests.adapters.written import WRITTEN

TAKES = [entry.name for entry in known() if entry.rescores]


def read(path, **options):
    trajectories, report = read_any(path, **options)
    return list(trajectories), report


def chats(path, *records):
    return lines(path, [{"messages": [user("go"), said("gone")], **record} for record in records])


def outcomes(tmp_path, outcome, *records, **options):
    return [t.outcome for t in read(chats(tmp_path / "in.jsonl", *records), outcome=outcome, **options)[0]]


def marked(name, value):
    """A record of the format with the field ``mine``, where the format looks for the fields to group by."""
    mine = {"key": "mine", "value": {"stringValue": "pass"}}
    if name == "otel-genai":
        return {"resourceSpans": [{**one, "resource": {"attributes": [mine]}} for one in value["resourceSpans"]]}
    if name == "tau2-bench" and "simulations" in value:
        return {**value, "simulations": [{**one, "mine": "pass"} for one in value["simulations"]]}
    if name == "text-trace" and "trace" not in value:
        return {key: marked(name, one) if isinstance(one, dict) else one for key, one in value.items()}
    return {**value, "mine": "pass"}


@pytest.mark.parametrize("name", TAKES)
def test_every_reader_takes_the_outcome_that_was_asked_for(name, tmp_path):
    values = [marked(name, value) for value in WRITTEN[name].values if isinstance(value, dict)]
    path = lines(tmp_path / "in.jsonl", values)
    found, report = read(path, format=name, outcome="mine=pass")
    asked = [t for t in found if not any(step.failed for step in t.steps)]
    assert asked
    assert [t.outcome for t in asked] == [1.0] * len(asked)
    assert all(t.outcome is None for t in found if t not in asked)
    assert report.notes["outcome from mine, as asked for"] == report.notes["mine is 'pass': outcome 1"] == len(asked)
    found, _ = read(path, format=name, outcome="mine=fail")
    assert {t.outcome for t in found} <= {0.0, None}
    assert not any("reward missing" in note for note in report.notes)


def test_numbers_and_true_and_false_are_taken_also_as_text(tmp_path):
    values = [1, 0.25, True, False, "0.5", " -1e-1 ", "TRUE", "false", None, ""]
    records = [{"reward": 9, "eval": {"passed": value}} for value in values]
    assert outcomes(tmp_path, "eval.passed", *records, {"reward": 9}) == [
        *(1.0, 0.25, 1.0, 0.0, 0.5, -0.1, 1.0, 0.0),
        *(None, None, None),
    ]
    assert outcomes(tmp_path, "a.b", {"a.b": 2, "a": {"b": 3}}) == [2.0]


def test_of_words_one_is_1_and_every_other_0(tmp_path):
    records = [{"score": word} for word in ("pass", "fail", "error", None, "Pass")]
    assert outcomes(tmp_path, "score=pass", *records) == [1.0, 0.0, 0.0, None, 0.0]
    _, report = read(tmp_path / "in.jsonl", outcome="score=pass")
    assert [f"{note} ({times})" for note, times in report.notes.items() if "score" in note] == [
        "outcome from score, as asked for (4)",
        "score is 'pass': outcome 1 (1)",
        "score is 'fail': outcome 0 (1)",
        "score is 'error': outcome 0 (1)",
        "no field 'score' for the outcome: not scored, which is not 0 (1)",
        "score is 'Pass': outcome 0 (1)",
    ]
    codes = [{"exit": {"code": code}} for code in (0, 1, 0.0, True)]
    assert outcomes(tmp_path, "exit.code=0", *codes) == [1.0, 0.0, 1.0, 0.0]
    assert outcomes(tmp_path, "ok=false", {"ok": False}, {"ok": True}) == [1.0, 0.0]


def test_a_word_that_no_record_has_is_told(tmp_path):
    _, report = read(chats(tmp_path / "in.jsonl", {"verdict": "Pass"}, {"verdict": "x" * 50}), outcome="verdict=pass")
    assert report.notes["verdict is nowhere 'pass': every outcome is 0"] == 1
    _, report = read(tmp_path / "in.jsonl", outcome=f"verdict={'x' * 50}")
    assert not any("nowhere" in note for note in report.notes)
    many = [{"verdict": f"word {k}"} for k in range(30)]
    _, report = read(chats(tmp_path / "in.jsonl", *many), outcome="verdict=word 29")
    assert report.notes["verdict is another word: outcome 0"] == 17
    assert report.notes["verdict is 'word 29': outcome 1"] == 1


def test_words_without_the_one_that_counts_are_refused_with_the_form(tmp_path):
    records = [{"verdict": word} for word in ("pass", "fail", 1, "pass")]
    with pytest.raises(ConfigError) as refused:
        outcomes(tmp_path, "verdict", *records, skip_bad=True)
    assert str(refused.value) == (
        f"{tmp_path / 'in.jsonl'}: verdict holds words, not numbers ('pass', 'fail'); "
        "give verdict=WORD as the outcome: WORD is 1, any other 0"
    )
    for half in ("=pass", "verdict=", ""):
        with pytest.raises(ConfigError, match="has an empty half; give FIELD, or FIELD=WORD"):
            outcomes(tmp_path, half, *records)


def test_a_field_that_no_record_has_is_refused_with_those_there_are(tmp_path):
    records = [{"task": "t", "eval": {"passed": True, "seconds": 2.5, "log": []}}, {}]
    with pytest.raises(
        ConfigError, match=r"no record has the field 'eval\.pass' for the outcome; they have (.*)$"
    ) as no:
        outcomes(tmp_path, "eval.pass", *records)
    assert str(no.value).endswith("they have task, eval.passed, eval.seconds")
    assert outcomes(tmp_path, "eval.passed", *records) == [1.0, None]
    with pytest.raises(FormatError, match="line 1: eval is an object; give a number, true or false"):
        outcomes(tmp_path, "eval", *records)
    with pytest.raises(FormatError, match="line 1: eval is an object; give a string or a number"):
        outcomes(tmp_path, "eval=pass", *records)
    with pytest.raises(FormatError, match="line 1: reward is inf; give a finite number"):
        outcomes(tmp_path, "reward", {"reward": "1e999"})


def test_the_reward_that_was_not_taken_is_kept(tmp_path):
    found, _ = read(chats(tmp_path / "in.jsonl", {"reward": 0.5, "passed": True}), outcome="passed")
    assert (found[0].outcome, found[0].meta["reward"]) == (1.0, 0.5)


def test_a_log_in_which_nobody_looked_for_it_is_told(tmp_path):
    broken = {"task_id": 1, "traj": [], "reward": 0.0, "info": {"error": "timeout"}, "passed": True}
    (rollout,), report = read(lines(tmp_path / "in.jsonl", [broken]), format="tau-bench", outcome="passed")
    assert rollout.outcome is None
    told = "passed was looked for in no record: each failed, or the format's reader takes no outcome"
    assert report.notes[told] == 1
    _, report = read(chats(tmp_path / "in.jsonl", {"passed": True}), outcome="passed")
    assert report.notes[told] == 0


def test_files_without_a_field_for_it_refuse(tmp_path):
    path = lines(tmp_path / "pairs.jsonl", WRITTEN["preferences"].values)
    with pytest.raises(ConfigError, match="outcome names a field of foreign files; preferences says it itself"):
        read_any(path, outcome="mine")
