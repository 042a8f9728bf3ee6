"""The front door: names, sums, transforms, records that make the same credit again, and every refusal."""

import json
import sys

import numpy as np
import pytest

from apportion.asks import KINDS
from apportion.assign import assign, check_level, remake, required_cut
from apportion.errors import ConfigError, DataError, UnknownName
from apportion.methods import get
from apportion.resources import Asker, BaseResource
from apportion.units import by_episode, by_segment, by_step, by_token
from tests.make import random_batch, random_units, units_of


def units():
    return random_units(3, forks=False)


def test_a_name_with_parameters():
    credit = assign("gigpo", units(), gamma=0.9)
    assert credit.method == "gigpo"
    assert credit.params == {**get("gigpo").defaults, "gamma": 0.9}
    assert credit.params["step_weight"] == 1.0
    same = assign("gigpo(gamma=0.9)", units())
    assert same.advantage_S.tolist() == credit.advantage_S.tolist()
    assert same.record() == credit.record()
    # outside beats inside
    assert assign("gigpo(gamma=0.5)", units(), gamma=0.9).advantage_S.tolist() == credit.advantage_S.tolist()


def test_a_parameter_goes_to_the_only_name_that_takes_it():
    got = assign("grpo + anchor | clip", units(), gamma=0.5, limit=0.7)
    want = assign("grpo + anchor(gamma=0.5) | clip(limit=0.7)", units())
    assert got.advantage_S.tolist() == want.advantage_S.tolist()
    assert got.record() == want.record()


def test_a_record_of_any_length_makes_the_same_credit_again():
    grams = [[k, k + 1] for k in range(1000)]  # longer than any expression that is read from text
    credit = assign("dr_grpo | hicra", units(), grams=grams)
    again = remake(json.loads(json.dumps(credit.record())), units())
    assert again.advantage_S.tolist() == credit.advantage_S.tolist()
    assert again.record() == credit.record()


def test_a_sum_is_the_sum():
    u = units()
    a, b = assign("grpo", u), assign("anchor", u, gamma=0.9)
    credit = assign("grpo - 0.5*anchor(gamma=0.9)", u)
    np.testing.assert_allclose(credit.advantage_S, a.advantage_S - 0.5 * b.advantage_S)
    np.testing.assert_allclose(credit.parts["anchor"], -0.5 * b.advantage_S)
    assert list(credit.parts) == ["grpo", "anchor"]
    assert credit.method == "grpo - 0.5*anchor"
    assert credit.params["anchor"]["gamma"] == 0.9


def test_parts_inside_parts_keep_their_names():
    credit = assign("gigpo + 2*gigpo(gamma=0.5) + (gigpo | clip(limit=1))", units())
    assert list(credit.parts) == [
        "gigpo.episode",
        "gigpo.step",
        "gigpo.episode#2",
        "gigpo.step#2",
        "gigpo+clip.episode",
        "gigpo+clip.step",
        "gigpo+clip.clip",
    ]
    assert list(credit.params) == ["gigpo", "gigpo#2", "gigpo#3", "clip"]


def test_a_bar_takes_the_whole_sum():
    u = units()
    whole = assign("grpo + anchor | clip(limit=0.5)", u)
    inner = assign("grpo + (anchor | clip(limit=0.5))", u)
    total = assign("grpo + anchor", u).advantage_S
    np.testing.assert_allclose(whole.advantage_S, np.clip(total, -0.5, 0.5))
    np.testing.assert_allclose(
        inner.advantage_S, assign("grpo", u).advantage_S + np.clip(assign("anchor", u).advantage_S, -0.5, 0.5)
    )


def test_a_unit_is_known_and_trained_where_all_summands_say_so(monkeypatch):
    from apportion.credit import Credit

    u = units_of([0, 0, 0, 0], [1] * 4, [("A", 1)] * 4)
    masks = {"grpo": ([1, 1, 0, 0], [1, 0, 1, 0]), "anchor": ([1, 1, 1, 0], [1, 1, 1, 1])}

    def masked(name):
        known, train = (np.array(m, dtype=bool) for m in masks[name])
        return lambda units, **_: Credit(np.ones(4), units, known_S=known, train_S=train)

    import dataclasses

    for name in masks:
        monkeypatch.setitem(get.__globals__["_SPECS"], name, dataclasses.replace(get(name), call=masked(name)))
    credit = assign("grpo + anchor", u)
    assert credit.known_S.tolist() == [True, True, False, False]
    assert credit.train_S.tolist() == [True, False, True, False]
    assert credit.advantage_S.tolist() == [2, 2, 0, 0]


def test_notes_of_summands_meet():
    u = units_of([0, 0, 1], [1, 1, 1], [("A", 1), ("A", 0), ("A", 1)])
    notes = assign("grpo + 0.5*anchor", u).notes
    assert notes["groups_of_one"] == 1  # grpo's
    assert notes["units_without_company"] == 1  # anchor's


EXPRESSIONS = [
    "gigpo",
    "gigpo(gamma=0.9, scale='std')",
    "grpo(scale='batch', epsilon=1e-6)",
    "grpo + 0.5*anchor(gamma=0.9)",
    "-grpo + -0.25*anchor + 3*rloo",
    "grpo + anchor | whiten(over='unit', shift=False)",
    "0.1*(grpo | clip(limit=0.5)) + (anchor | scale(by='rms')) | whiten",
    "gigpo(gamma=0.3) - gigpo(gamma=0.7) + 2*gigpo(gamma=0.5)",
    "gae(lam=0.5) | whiten | clip(limit=1) | clip(limit=0.5) | scale(by=-2)",
    "grpo | clip(limit=1e99)",
    " + ".join(f"{k}*gigpo(gamma={k / 20})" for k in range(1, 14)),
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_record_makes_the_same_credit_again(text):
    credit = assign(text, units())
    record = credit.record()
    for stored in (record, json.loads(json.dumps(record)), json.loads(json.dumps(record, sort_keys=True))):
        again = remake(stored, units())
        assert again.advantage_S.tolist() == credit.advantage_S.tolist()
        assert again.train_S.tolist() == credit.train_S.tolist()
        assert {k: v.tolist() for k, v in again.parts.items()} == {k: v.tolist() for k, v in credit.parts.items()}
        assert json.dumps(again.record(), sort_keys=True) == json.dumps(record, sort_keys=True)


def test_a_transform_called_by_hand_records_what_it_stands_on():
    credit = get("grpo").call(units(), scale="none")
    for name, params in (("clip", {"limit": 0.5}), ("whiten", {}), ("clip", {"limit": 2})):
        credit = get(name).call(credit, **params)
    spelled = assign("grpo(scale='none') | clip(limit=0.5) | whiten | clip(limit=2)", units())
    assert credit.record() == spelled.record()
    assert remake(credit.record(), units()).advantage_S.tolist() == credit.advantage_S.tolist()


def test_numbers_of_numpy_are_recorded_as_numbers():
    credit = assign("gigpo", units(), gamma=np.float32(0.5), ddof=np.int64(0), step_weight=np.float64(0.3))
    record = credit.record()
    assert json.loads(json.dumps(record)) == record
    assert remake(record, units()).advantage_S.tolist() == credit.advantage_S.tolist()


def test_no_parameter_is_infinite():
    with pytest.raises(ConfigError, match="clip: limit is inf; give a finite number"):
        assign("grpo | clip(limit=1e999)", units())


def test_a_record_names_cut_version_and_rollouts():
    from apportion import __version__

    batch = random_batch(3, forks=False)
    record = assign("gae", by_segment(batch, "fixed", count=2)).record()
    assert record["cut"] == {"level": "segment", "by": "fixed", "count": 2}
    assert record["version"] == __version__
    assert record["rollouts"] == batch.fingerprint()
    with pytest.raises(DataError, match="these are not the rollouts of the record"):
        remake(record, by_segment(random_batch(4, forks=False), "fixed", count=2))
    with pytest.raises(
        DataError, match=r"the record credits \{'level': 'segment', .*, the units are \{'level': 'token'\}"
    ):
        remake(record, by_token(batch))
    with pytest.raises(DataError, match="cut the batch the same way"):
        remake(record, by_segment(batch, "fixed", count=3))


@pytest.mark.parametrize(
    ("text", "params", "error", "sentence"),
    [
        ("gipgo", {}, UnknownName, r"no credit method named 'gipgo'; did you mean 'gigpo'"),
        ("zzz", {}, UnknownName, r"no credit method named 'zzz'; see `apportion methods`"),
        ("nobody/zzz", {}, UnknownName, r"no credit method named 'nobody/zzz'"),
        ("GRPO", {}, UnknownName, r"no credit method named 'GRPO'; did you mean 'grpo'\?"),  # as papers write them
        ("grpo + zzz", {}, UnknownName, r"no credit method named 'zzz'"),
        (
            "gigpo",
            {"gama": 0.9},
            ConfigError,
            r"gigpo: unknown parameter 'gama'; it takes gamma, .*; did you mean 'gamma'",
        ),
        ("dr_grpo", {"x": 1}, ConfigError, r"dr_grpo: unknown parameter 'x'; it takes no parameters"),
        ("grpo | clip", {}, ConfigError, r"clip needs the parameter 'limit'"),
        ("whiten", {}, ConfigError, r"whiten is a transform and needs credit to work on; write 'grpo \| whiten'"),
        ("grpo + whiten", {}, ConfigError, r"whiten is a transform and needs credit"),
        (
            "grpo | anchor",
            {},
            ConfigError,
            r"anchor is a method, not a transform; add it with \+, a bar takes transforms",
        ),
        (
            "grpo + anchor",
            {"scale": "std"},
            ConfigError,
            r"'grpo \+ anchor' has several names, so scale could belong to any",
        ),
        ("clip | clip", {"limit": 1}, ConfigError, r"write it inside"),
        (
            "gae | whiten",
            {"alpha": 1},
            ConfigError,
            r"none of the names in 'gae \| whiten' takes alpha; see `apportion",
        ),
        ("grpo +", {}, ConfigError, r"cannot read 'grpo \+'"),
    ],
)
def test_a_wrong_expression_is_refused_before_any_work(text, params, error, sentence, monkeypatch):
    ran = []
    monkeypatch.setattr(sys.modules["apportion.assign.assign"], "run", lambda *a: ran.append(a))
    with pytest.raises(error, match=sentence):
        assign(text, units(), **params)
    assert ran == []


def test_units_of_the_wrong_kind_are_refused():
    u = units()
    with pytest.raises(DataError, match=r"assign credits units, got Batch; cut the batch first, e.g. by_step\(batch\)"):
        assign("grpo", u.batch)
    with pytest.raises(
        DataError, match="gigpo credits steps, the units are episodes; cut the batch with by_step or by_t"
    ):
        assign("gigpo", by_episode(u.batch))
    with pytest.raises(DataError, match="grpo reads reward_S, which the units"):
        assign("grpo", units_of([0], [1], [("A", None)]))
    with pytest.raises(DataError, match=r"grpo is a method and takes apportion.Units, got list"):
        get("grpo").call([1])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("vineppo + gae", "gae reads value_S, which the units"),
        ("vineppo + 2*(grpo + otb)", "otb credits tokens, the units are steps; cut the batch with by_token"),
        ("vineppo | entropy_mask", "entropy_mask reads entropy_S, which the units"),
    ],
)
def test_nobody_is_asked_where_a_later_name_cannot_work(text, sentence):
    class Asked(BaseResource):
        name, kinds, identity = "asked", frozenset(KINDS.values()), "asked"

        def answer(self, requests):
            raise AssertionError("somebody was asked")

    with pytest.raises(DataError, match=sentence):
        assign(text, units_of([0, 0], [1, 1], [("A", 1.0), ("A", 0.0)]), ask=Asker(Asked()))


@pytest.mark.parametrize(
    ("text", "level", "sentence"),
    [
        ("gigpo", "token", "gigpo credits steps, the units are tokens; cut the batch with by_step or by_turn"),
        ("grpo + otb", "step", "otb credits tokens, the units are steps; cut the batch with by_token"),
        ("(grpo | critical_only) + rloo", "agent", "critical_only credits steps, the units are agents; cut"),
    ],
)
def test_a_level_is_refused_before_there_are_units(text, level, sentence):
    with pytest.raises(ConfigError, match=sentence):
        check_level(text, level)


def test_a_level_that_fits_or_may_become_fine_enough():
    check_level("grpo + rloo | whiten", "agent")
    check_level("grpo | hicra | critical_only", "agent")  # hicra may have gone to tokens


def test_the_cut_a_method_is_made_for():
    assert required_cut("gigpo | whiten") == "step"
    assert required_cut("gae") == "token"
    assert required_cut("grpo + 0.5*anchor | whiten") == "step"  # grpo credits steps too, anchor no episodes
    assert required_cut("grpo + 0.5*rloo") == "episode"
    assert required_cut("otb + gigpo") == "token"  # none suits both: the first one's, and check_level says the other


def test_the_same_errors_are_standard_errors():
    with pytest.raises(ValueError, match="unknown parameter"):
        assign("gigpo", units(), gama=1)
    with pytest.raises(KeyError) as problem:
        assign("gipgo", units())
    assert str(problem.value).startswith("no credit method named")


def test_credit_of_steps_is_the_same_through_every_door():
    u = units()
    assert assign("grpo", u).advantage_S.tolist() == get("grpo").call(u).advantage_S.tolist()
    assert by_step(u.batch).reward_S.tolist() == u.reward_S.tolist()


def test_masks_of_tokens_meet_in_a_sum():
    u = by_step(random_batch(2, forks=False))
    one, two = (assign(f"grpo | probability_mask(rho={rho})", u).train_T for rho in (0.4, 0.8))
    assert assign("(grpo | probability_mask(rho=0.8)) + anchor", u).train_T.tolist() == two.tolist()
    both = assign("(grpo | probability_mask(rho=0.8)) + (anchor | probability_mask(rho=0.4))", u)
    assert both.train_T.tolist() == (one & two).tolist()
    assert one.sum() < two.sum()


def test_a_summand_on_finer_units_takes_the_others_along():
    u = by_step(random_batch(2, forks=False))
    marked = "hicra(grams=[[1, 2]], alpha=0)"  # changes nothing but goes to tokens
    plain = assign("grpo + 0.5*anchor", u)
    for expression in (f"grpo + 0.5*(anchor | {marked})", f"(grpo | {marked}) + 0.5*(anchor | {marked})"):
        credit = assign(expression, u)
        assert credit.units.level == "token"
        np.testing.assert_allclose(credit.to_tokens().advantage_T, plain.to_tokens().advantage_T, atol=1e-12)
        assert credit.record()["cut"] == {"level": "step"}
        np.testing.assert_array_equal(remake(credit.record(), u).advantage_S, credit.advantage_S)
