"""Every registered method against every check that its declaration asks for. Nobody is named here."""

import pytest

from apportion.methods import LAWS, get, names
from apportion.testing import ALWAYS_CHECKS, LAW_CHECKS, check_method, checks_for, levels_for, run_check

EVERY = [pytest.param(name, check, id=f"{name}-{check.__name__}") for name in names() for check in checks_for(name)]


@pytest.mark.parametrize(("name", "check"), EVERY)
def test_contract(name, check):
    run_check(check, name, seeds=range(6))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "check"), EVERY)
def test_contract_on_more_batches(name, check):
    run_check(check, name, seeds=range(100, 148))


def test_the_table_is_not_empty():
    assert len({param.values[0] for param in EVERY}) >= 10
    assert {param.values[1] for param in EVERY} >= set(ALWAYS_CHECKS)


def test_every_law_has_a_check():
    assert set(LAW_CHECKS) == set(LAWS)


@pytest.mark.parametrize("name", names())
def test_declared_laws_are_all_checked(name):
    spec = get(name)
    assert {LAW_CHECKS[law] for law in spec.holds} <= set(checks_for(name))
    assert set(levels_for(name)) >= set(spec.units)


@pytest.mark.parametrize("name", names("method"))  # a transform's laws depend on the credit it is given
def test_laws_that_hold_are_declared(name):
    # a law that no random batch breaks belongs into the table of methods
    spec = get(name)
    kept = []
    for law, check in LAW_CHECKS.items():
        if law in spec.holds or (law == "relabel_invariant" and "state_S" not in spec.reads):
            continue
        try:
            run_check(check, name, seeds=range(12))
        except AssertionError:
            continue
        kept.append(law)
    assert kept == [], f"{name} keeps {', '.join(kept)}; declare it in `holds`"


def test_check_method_runs_all_of_them(monkeypatch):
    ran = []
    monkeypatch.setattr("apportion.testing.run.run_check", lambda check, method, seeds: ran.append((check, method)))
    check_method("gigpo")
    assert [check for check, _ in ran] == list(checks_for("gigpo"))
