import pytest


@pytest.fixture(params=["numpy", "numba"])
def both_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with the NumPy twins and with the compiled kernels, whatever the size of the input."""
    if request.param == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv("APPORTION_NUMBA", "1" if request.param == "numba" else "0")
    return str(request.param)
