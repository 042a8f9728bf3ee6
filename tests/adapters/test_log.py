import stat

import pytest

import apportion as ap
from apportion.adapters.log import TokenLog
from apportion.adapters.readers import read_any
from apportion.errors import ConfigError, FormatError
from apportion.testing import random_units


@pytest.mark.parametrize("form", [".parquet", ".jsonl", ".jsonl.gz"])
def test_what_a_run_was_can_be_credited_again(tmp_path, form):
    units = random_units(3, "step")
    credit = ap.assign("gigpo", units)
    log = TokenLog(tmp_path / "a" / "log", form=form)
    for step in (0, 1, 1):
        log(credit, step)
    files = sorted(path.name for path in log.folder.iterdir())
    assert files == sorted([f"step-000000{form}", f"step-000001{form}", f"step-000001-2{form}"])
    again = ap.read_credit(log.folder / files[0])
    assert again.advantage_S.tolist() == credit.advantage_S.tolist()
    assert (
        ap.assign("grpo", ap.by_step(again.units.batch)).advantage_S.tolist()
        == ap.assign("grpo", units).advantage_S.tolist()
    )
    assert again.units.batch.logp_T.tolist() == units.batch.logp_T.tolist()
    assert stat.S_IMODE(log.folder.stat().st_mode) == 0o700


def test_rollouts_alone_and_not_every_step(tmp_path):
    credit = ap.assign("grpo", random_units(4, "step"))
    log = TokenLog(tmp_path / "log", credit=False, every=5, form=".jsonl")
    for step in range(11):
        log(credit, step)
    assert sorted(p.name for p in log.folder.iterdir()) == [f"step-0000{s}.jsonl" for s in ("00", "05", "10")]
    assert ap.read(log.folder / "step-000000.jsonl").fingerprint() == credit.units.batch.fingerprint()


def test_what_it_refuses(tmp_path):
    with pytest.raises(ConfigError, match=r"TokenLog: form is '\.csv'; it takes"):
        TokenLog(tmp_path, form=".csv")
    with pytest.raises(ConfigError, match="TokenLog: every is 0"):
        TokenLog(tmp_path, every=0)


@pytest.mark.parametrize("form", [".parquet", ".jsonl"])
def test_a_folder_of_logs_is_told_apart_from_one_without_rollouts(tmp_path, form):
    log = TokenLog(tmp_path / "log", form=form)
    for step in (0, 1):
        log(ap.assign("grpo", random_units(step, "step")), step)
    with pytest.raises(
        FormatError, match=rf"hold credit; .* read it one by one, so give one, such as .*step-000000{form}"
    ):
        list(read_any(log.folder).trajectories)
