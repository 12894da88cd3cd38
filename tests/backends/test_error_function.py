"""erf by tables: within 1.25 units in the last place of the exact value, odd to the last bit, called by the NumPy engine."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from funcad import config, jit
from funcad.backends.emission import generate
from funcad.backends.text_rules import BLOCK, CELLS, MANY, TOP, erf
from funcad.scipy import special

mp = pytest.importorskip(
    "mpmath", reason="the exact values that code is compared with are mpmath's: pip install mpmath"
)

RNG = np.random.default_rng(29)


def points() -> np.ndarray:
    cells = np.arange(0, TOP * CELLS, 37) / CELLS
    around = [np.nextafter(cells, -1.0), cells, np.nextafter(cells, 9.0)]
    near = 10.0 ** -np.linspace(0.0, 307.0, 300)
    return np.concatenate(
        [*around, near, RNG.normal(size=2000), RNG.uniform(5.5, 6.5, 300), RNG.uniform(0.0, 0.01, 500)]
    )


def test_close_to_the_exact_value() -> None:
    x = points()
    with mp.workdps(40):
        exact = [mp.erf(mp.mpf(v)) for v in x.tolist()]
        errors = [abs(mp.mpf(v) - e) for v, e in zip(erf(x).tolist(), exact)]
        assert max([error / np.spacing(abs(float(e))) for error, e in zip(errors, exact)]) < 1.25


def test_odd_to_the_last_bit_and_special_values() -> None:
    x = points()
    assert erf(-x).tobytes() == (-erf(x)).tobytes()
    with np.errstate(invalid="ignore"):
        found = erf(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e308, -1e308]))
    expected = np.array([0.0, -0.0, 1.0, -1.0, np.nan, 5e-324, 1.0, -1.0])
    np.testing.assert_array_equal(found, expected)
    assert np.signbit(found[:2]).tolist() == [False, True]


def test_any_memory() -> None:
    """Over the operand, in parts of arrays, in the other byte order, in several blocks and a shorter last one."""
    x = RNG.normal(size=(3, BLOCK // 2 + 11))
    expected = erf(x)
    assert erf(x.T).tobytes() == np.ascontiguousarray(expected.T).tobytes()
    out = np.zeros((3, x.shape[1] * 2))[:, ::2]
    assert erf(x, out) is out and np.array_equal(out, expected)
    assert np.array_equal(erf(x.astype(">f8")), expected)
    assert erf(x, x) is x and np.array_equal(x, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [MANY - 1, MANY, 100_000])
def test_what_the_engine_calls(dtype: Any, n: int) -> None:
    x = RNG.normal(size=n).astype(dtype)
    f = lambda x: special.erf(x * 0.5) * x
    with config.set(engine="interpreter"):
        expected = f(x)
    with config.set(engine="numpy"):
        text = generate(jit(f).lower(x).jaxpr).text
        found = jit(f)(x)
    assert bool(re.search(r"\berf\(", text)) == (dtype == np.float64 and n >= MANY)
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps, atol=0)
