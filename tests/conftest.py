"""What all tests share: determinism, no network, and where the sample data lies."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Before any test imports torch or transformers: one thread, so that sums have one order, and no downloads.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
    os.environ[name] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# The same examples on every run; HYPOTHESIS_PROFILE=explore draws new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real samples, which is not part of the repository: $APPORTION_DATA or ../shared/data."""
    beside = Path(__file__).parents[1] / ".." / "shared" / "data"
    root = Path(os.environ.get("APPORTION_DATA", beside))
    if not root.is_dir():
        pytest.skip("no sample data: set APPORTION_DATA to its folder")
    return root


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests measured without asserting it (`record_property("reported", sentence)`)."""
    for report in terminalreporter.getreports("passed"):
        for key, sentence in report.user_properties:
            if key == "reported":
                terminalreporter.write_line(str(sentence))
