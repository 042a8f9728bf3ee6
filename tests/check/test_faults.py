"""Every check finds its planted fault and spares what only looks like it, on seeds that no threshold was chosen on."""

import importlib

import pytest

from apportion.bench.check import score
from apportion.bench.check.faults import faults, fires
from apportion.bench.check.score import CALIBRATION, SWEEPS, looked
from apportion.check import registered

FAULTS = faults()
SEEDS = (11, 12, 13)
assert max(SEEDS) < CALIBRATION


@pytest.mark.parametrize("code", FAULTS)
def test_the_fault_is_found_and_its_likeness_is_not(code):
    fault = FAULTS[code]
    found = [fires(fault, looked(fault, seed, "plant")) for seed in SEEDS]
    alike = [fires(fault, looked(fault, seed, "likeness")) for seed in SEEDS]
    clean = [fires(fault, looked(fault, seed, "clean")) for seed in SEEDS]
    assert all(found), "the fault was planted and is not found"
    assert not any(alike), "something that only looks like the fault is called one"
    assert not any(clean), "nothing is wrong, and the check says so all the same"


def test_every_check_has_a_fault():
    planted = {code.partition("/")[0] for code in FAULTS}
    missing = {entry.name for entry in registered()} - planted
    assert not missing


def test_the_world_is_clean():
    """No finding at all on the world as it is, whichever fault it was drawn for."""
    for seed in range(20):
        said = [(f.code, f.message) for f in looked(FAULTS["repetition"], seed, "clean")]
        assert not said


WITHOUT_A_PLACE = ("credit-zero", "normalised-twice", "not-finite", "broken-records")


def test_evidence_and_places_are_there():
    for code, fault in FAULTS.items():
        (finding, *_) = looked(fault, SEEDS[0], "plant").of(code)
        assert finding.evidence.get("share", 1.0) > 0, code
        assert finding.evidence, code
        assert finding.remedy
        assert finding.where or code.startswith(WITHOUT_A_PLACE), f"{code} names no place"


def test_a_sweep_moves_the_threshold_and_puts_it_back():
    from apportion.check.checks import clip_rate

    now = clip_rate.MANY
    rows = score.sweep("clip-rate", 4, 40)
    assert now == clip_rate.MANY
    recall = [row.recall for row in rows]
    assert recall == sorted(recall, reverse=True)
    assert rows[0].recall == 1.0
    assert rows[-1].recall < 1.0
    assert sum("(now)" in row.threshold for row in rows) == 1


@pytest.mark.parametrize("code", SWEEPS)
def test_every_sweep_names_a_threshold(code):
    file, name, values = SWEEPS[code]
    module = importlib.import_module(f"apportion.check.checks.{file}")
    assert code in FAULTS
    assert isinstance(getattr(module, name), float)
    assert len(values) > 3


def test_scores_are_counted():
    row = score.Score("x", runs=10, found=8, clean=1, alike=3)
    assert (row.recall, row.precision) == (0.8, 0.8)
    assert not row.good
    assert score.Score("x", runs=10, found=0, clean=0, alike=0).precision == 1.0


def test_the_bench_prints_a_row_for_each_fault(capsys):
    from apportion.bench.check.__main__ import main

    assert main(["--runs", "2", "--only", "unscored", "--only", "failed"]) == 0
    out = capsys.readouterr().out
    assert "unscored" in out
    assert "recall" in out
    with pytest.raises(SystemExit):
        main(["--runs", "0"])
