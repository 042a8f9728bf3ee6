"""Which kernels run, what that costs, and that compiled and NumPy ones are the same function."""

import builtins
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import apportion.numerics
from apportion.errors import MissingExtra
from apportion.numerics import (
    AdvantagesAndReturns,
    _numpy,
    blocked_scan,
    gae_returns_whitened,
    gae_returns_whitened_padded,
    kernels,
    to_go,
)

SOURCE = Path(apportion.numerics.__file__).parents[2]
numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="needs numba")


@pytest.fixture
def no_numba(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest, **named):
        if name == "numba" or name.startswith("numba."):
            raise ImportError(f"no module named {name}")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.delitem(sys.modules, "apportion.numerics._numba", raising=False)
    kernels._compiled.cache_clear()
    yield
    kernels._compiled.cache_clear()


@numba
@pytest.mark.parametrize(
    ("setting", "size", "compiled"),
    [
        (None, kernels.THRESHOLD - 1, False),
        (None, kernels.THRESHOLD, True),
        ("", kernels.THRESHOLD, True),
        ("0", 10**9, False),
        ("1", 0, True),
    ],
)
def test_the_choice_depends_on_size_and_environment_alone(monkeypatch, setting, size, compiled):
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    if setting is not None:
        monkeypatch.setenv(kernels.VARIABLE, setting)
    for _ in range(2):
        assert (kernels.pick(size) is not _numpy) is compiled


def test_without_numba_large_inputs_run_on_numpy(no_numba, monkeypatch):
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    n = kernels.THRESHOLD
    assert kernels.pick(n) is _numpy
    assert to_go(np.ones(n), np.zeros(n, int))[0] == n


def test_asking_for_numba_without_having_it_names_the_extra(no_numba, monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, "1")
    with pytest.raises(MissingExtra) as caught:
        to_go(np.ones(3), np.zeros(3, int))
    assert str(caught.value) == (
        "APPORTION_NUMBA=1 needs the package 'numba', which is not installed; run `pip install 'apportion[fast]'`"
    )


def run(code: str, **environment: str) -> str:
    env = {k: v for k, v in os.environ.items() if k != kernels.VARIABLE and not k.startswith("NUMBA_")}
    env |= {"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"} | environment
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


BELOW = "import numpy as np, sys; from apportion import numerics as n; n.to_go(np.ones({size}), np.zeros({size}, int))"


@numba
def test_small_inputs_never_load_numba():
    """And the probe can fail: the same call above the threshold does load it."""
    probe = "; print('numba' in sys.modules)"
    assert run(BELOW.format(size=kernels.THRESHOLD - 1) + probe) == "False"
    assert run(BELOW.format(size=kernels.THRESHOLD) + probe) == "True"


@numba
@pytest.mark.slow
def test_the_first_call_of_a_cached_kernel_is_quick(tmp_path, record_property):
    code = (
        "import time, numpy as np; from apportion.numerics import to_go; x = np.ones(600_000); s = x.astype(int);"
        "c = time.process_time(); to_go(x, s); print(time.process_time() - c)"
    )
    seconds = [float(run(code, NUMBA_CACHE_DIR=str(tmp_path))) for _ in range(2)]
    record_property("reported", f"first call: {seconds[0]:.2f} s compiled, {seconds[1]:.2f} s from the cache")
    assert any(tmp_path.rglob("*.nbi"))
    assert seconds[1] < seconds[0]


@numba
@pytest.mark.slow
@pytest.mark.parametrize("blocked", ["in a file's place", "everywhere"])
def test_no_writable_cache_folder_is_no_error(tmp_path, blocked):
    """A read-only installation. Root may write anywhere, so a file stands where the folders would be."""
    package = tmp_path / "site" / "apportion"
    numerics = package / "numerics"
    numerics.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "errors.py").write_text((SOURCE / "apportion" / "errors.py").read_text())
    for file in (SOURCE / "apportion" / "numerics").glob("*.py"):
        (numerics / file.name).write_text(file.read_text())
    (numerics / "__pycache__").touch()
    (tmp_path / "home").touch()
    environment = {"PYTHONPATH": str(package.parent), "APPORTION_NUMBA": "1"}
    environment |= {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home")}
    if blocked == "in a file's place":
        environment |= {"NUMBA_CACHE_DIR": str(tmp_path / "home")}
    code = (
        "import numpy as np; from apportion.numerics import to_go, _numba;"
        "print(to_go(np.ones(3), np.zeros(3, int)), _numba.__file__)"
    )
    out = run(code, **environment)
    assert out == f"[3. 2. 1.] {numerics / '_numba.py'}"
    assert not list(tmp_path.rglob("*.nbi"))


@numba
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lam", [0.0, 1e-12, 0.95, 1.0])
def test_both_kinds_of_kernel_agree_on_a_large_ragged_batch(monkeypatch, dtype, lam):
    rng = np.random.default_rng(0)
    seg = np.repeat(np.arange(400), rng.integers(1, 400, size=400))
    reward, value = rng.standard_normal((2, len(seg))).astype(dtype)
    where = np.repeat(rng.random(len(seg) // 20 + 1) < 0.6, 20)[: len(seg)]
    results = []
    for setting in "01":
        monkeypatch.setenv(kernels.VARIABLE, setting)
        for chosen in (None, where):
            results.append(gae_returns_whitened(reward, value, seg, gamma=0.99, lam=lam, where=chosen))
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for plain, compiled in zip(results[:2], results[2:], strict=True):
        np.testing.assert_allclose(compiled.advantage, plain.advantage, rtol=0, atol=tolerance)
        np.testing.assert_allclose(compiled.returns, plain.returns, rtol=tolerance, atol=tolerance)


@numba
@pytest.mark.parametrize("setting", [None, "0"])
def test_exact_kernels_that_a_large_input_loaded_serve_small_ones(monkeypatch, setting):
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    if setting is not None:
        monkeypatch.setenv(kernels.VARIABLE, setting)
    twin = importlib.import_module("apportion.numerics._numpy_prefix")
    with monkeypatch.context() as loaded:
        loaded.delitem(sys.modules, "apportion.numerics._numba_prefix", raising=False)
        assert kernels.pick(1, "prefix", exact=True) is twin
    compiled = importlib.import_module("apportion.numerics._numba_prefix")
    assert kernels.pick(1, "prefix", exact=True) is (twin if setting == "0" else compiled)
    assert kernels.pick(1, "prefix") is twin


@numba
@pytest.mark.parametrize("seed", range(6))
def test_stretches_of_a_mask_of_any_length_around_those_looked_at_together(monkeypatch, seed):
    """Observations and samples of 1 to 700 positions in turn, rows padded on the right, garbage outside the mask."""
    rng = np.random.default_rng(seed)
    near = [1, 2, 7, 8, 9, 255, 256, 257, 511, 512, 513, 700]
    rows = [np.repeat(np.arange(8) % 2 == seed % 2, rng.choice(near, size=8)) for _ in range(7)]
    mask = np.zeros((8, max(map(len, rows)) + 300), bool)  # the last row selects nothing
    for row, own in zip(mask, rows, strict=False):
        row[: len(own)] = own
    reward, value = rng.standard_normal((2, *mask.shape))
    reward[~mask] = value[~mask] = np.nan
    results = []
    for setting in "01":
        monkeypatch.setenv(kernels.VARIABLE, setting)
        kept = AdvantagesAndReturns(np.full(mask.shape, np.nan), np.full(mask.shape, np.nan))
        results.append(gae_returns_whitened_padded(reward, value, mask, gamma=0.99, lam=0.9))
        again = gae_returns_whitened_padded(reward, value, mask, gamma=0.99, lam=0.9, out=kept)
        for x, y in zip(again, results[-1], strict=True):
            np.testing.assert_array_equal(x, y)
    plain, compiled = results
    for x, y in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-12)
        assert not x[~mask].any()
    assert abs(compiled.advantage[mask].mean()) < 1e-12


@pytest.mark.parametrize("fault", ["leak", "short power", "lost carry"])
def test_the_comparison_with_the_plain_loop_can_fail(monkeypatch, fault):
    """Three faults planted into the block scan; each must be visible at the tolerance the tests use."""
    monkeypatch.setenv(kernels.VARIABLE, "0")
    x, seg = np.random.default_rng(0).standard_normal(300), np.repeat([0, 1, 2], 100)
    want = to_go(x, seg, gamma=0.9)
    whole = blocked_scan.scan
    broken = {
        "leak": lambda x, bounds, f, *_: whole(x, np.array([0, len(x)]), f),
        "short power": lambda x, bounds, f, *_: whole(x, bounds, f / 0.9 if f < 0.5 else f),
        "lost carry": lambda x, bounds, f, *_: whole(x, bounds, f) if f > 0.5 else x.fill(0),
    }[fault]
    for module in (_numpy, blocked_scan):  # the call from outside, and the one for the heads of blocks
        monkeypatch.setattr(module, "scan", broken)
    assert not np.allclose(to_go(x, seg, gamma=0.9), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("setting", "01")
@pytest.mark.parametrize("gamma", [0.5, 0.95, 1.0])
def test_a_run_gets_the_same_bits_whatever_stands_beside_it(monkeypatch, setting, gamma):
    monkeypatch.setenv(kernels.VARIABLE, setting)
    rng = np.random.default_rng(1)
    size = rng.integers(1, 200, size=300)
    seg, end = np.repeat(np.arange(300), size), np.cumsum(size)
    x = rng.standard_normal(len(seg))
    want = to_go(x, seg, gamma=gamma)
    for first in range(0, 290, 7):
        lo, hi = end[first] - size[first], end[first + rng.integers(1, 9)]
        assert np.array_equal(to_go(x[lo:hi], seg[lo:hi], gamma=gamma), want[lo:hi])


def test_the_choice_can_be_held_so_that_it_does_not_depend_on_the_size(monkeypatch):
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    monkeypatch.setattr(kernels, "THRESHOLD", 10)
    assert kernels.pick(10) is not _numpy
    with kernels.one_for_all_sizes():
        assert kernels.pick(10) is _numpy is kernels.pick(9)
        monkeypatch.setenv(kernels.VARIABLE, "1")  # what the user says goes first
        assert kernels.pick(9) is not _numpy
        monkeypatch.delenv(kernels.VARIABLE)
    assert kernels.pick(10) is not _numpy
