"""Donated arguments of large programs: results go into their memory, and all numbers are those of the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.backends import engines
from tests.agreement import same_bits

PROGRAMS: dict[str, Callable[..., tuple]] = {
    "exchanged": lambda a, b: (b * 2, a * 3),
    "chosen": lambda a, b: (np.where(a > b, a, b) * a - b,),
    "handed through": lambda a, b: (a, a + b),
    "one element read by all": lambda a, b: (a * b[0] + a[-1],),
    "reversed": lambda a, b: (a + a[::-1], b + 1),
    "more results than arguments": lambda a, b: (a + b, a - b, a * b),
    "other dtype": lambda a, b: (a.astype(np.float32) + 1, b - a),
}
RUNS = 4  # the reference first, then what is compiled
DTYPES = ["float64", "float32", "int32", "uint8", "complex64"]


@pytest.fixture(params=["numpy", "native"])
def engine(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Programs run as groups, as larger ones do: one native function of a whole program writes into no argument."""
    if request.param == "native":
        pytest.importorskip("llvmlite", reason="the native engine needs llvmlite")
        monkeypatch.setattr(engines.EngineProgram, "_whole", lambda self: False)
    with funcad.config.set(engine=request.param):
        yield request.param


@pytest.mark.share(6)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("n", [300_001, 1 << 18])
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_results_are_those_of_the_function(engine: str, name: str, dtype: str, n: int) -> None:
    rng = np.random.default_rng(0)
    given = [(rng.normal(size=n) * 10).astype(dtype) for _ in range(2)]
    f = PROGRAMS[name]
    with np.errstate(all="ignore"):
        expected = f(*given)
    for donated in ((0,), (1,), (0, 1)):
        jitted = funcad.jit(f, donate_argnums=donated)
        for _ in range(RUNS):
            arrays = [a.copy() for a in given]
            found = jitted(*arrays)
        assert all([same_bits(a, b) for a, b in zip(found, expected, strict=True)])
        assert all([same_bits(a, b) for i, (a, b) in enumerate(zip(arrays, given)) if i not in donated])


def test_steps_of_an_optimiser_stay_in_their_memory(engine: str) -> None:
    def step(p: Any, m: Any, v: Any, g: Any) -> tuple:
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g * g
        return p - 0.1 * m / (np.sqrt(v) + 1e-8), m, v

    n = 200_003
    g = np.linspace(-1.0, 1.0, n)
    expected = state = (np.ones(n), np.zeros(n), np.zeros(n))
    before = [a.copy() for a in state]
    places = {a.ctypes.data for a in before}
    jitted = funcad.jit(step, donate_argnums=(0, 1, 2))
    for _ in range(5):
        expected = step(*expected, g)
        before = jitted(*before, g)
    assert {a.ctypes.data for a in before} == places
    assert all([same_bits(a, b) for a, b in zip(before, expected)])


def test_views_of_a_donated_array_are_not_written_over_each_other(engine: str) -> None:
    f = lambda x: (x + x.T, x.reshape(-1)[::2] * 2.0)
    x = np.random.default_rng(1).normal(size=(512, 512))
    jitted = funcad.jit(f, donate_argnums=0)
    for _ in range(RUNS):
        found = jitted(x.copy())
    assert all([same_bits(a, b) for a, b in zip(found, f(x))])


def test_threads_write_over_their_own_parts_only(engine: str) -> None:
    f = lambda a, b: (np.sin(a) * np.cos(b) + np.exp(-a * a), a - b)
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=1_000_003), rng.normal(size=1_000_003)
    results = []
    for threads in (1, 2):
        with funcad.config.set(threads=threads):
            jitted = funcad.jit(lambda a, b: f(a, b), donate_argnums=(0, 1))
            for _ in range(RUNS):
                found = jitted(a.copy(), b.copy())
            results.append(found)
    assert all([same_bits(x, y) for x, y in zip(*results)])
    np.testing.assert_allclose(results[0][0], f(a, b)[0], rtol=1e-13, atol=1e-15)
