"""Values that end in a result are computed in its memory; zeros of which little is written come from the system."""

from __future__ import annotations

import numpy as np
import pytest

from funcad import cond, config, fori_loop, grad, jit
from funcad.numpy import at


def written(x, n=3, value=1.5):
    return fori_loop(0, n, lambda i, x: at(x)[i].set(value), x)


def doubled(x):
    return fori_loop(0, 3, lambda i, x: at(x)[i].set(2.0 * x[-1 - i]), x)


def chosen(x):
    return cond(np.sum(x) > 0, lambda x: at(x)[0].set(x[-1] + 1.0), lambda x: x[::-1] * 2.0, x)


PROGRAMS = {
    "elements": lambda x: 3.0 * np.sin(2.0 * x + 1.0),
    "loops": lambda x: written(2.0 * written(x)),
    "between": lambda x: np.sin(2.0 * written(2.0 * written(x) * x + 1.0) * 3.0) + x,
    "read again": lambda x: (lambda y: written(y) + y[::-1])(written(3.0 * x)),
    "turned": lambda x: (lambda y: 2.0 * y.T + written(y))(written(np.outer(x, x))[:5]) if len(x) == 5 else x,
    "branches": lambda x: 2.0 * chosen(3.0 * doubled(2.0 * x)),
    "two results": lambda x: (lambda y: (written(y), 2.0 * y, written(2.0 * y)))(doubled(x * 2.0)),
    "reshaped": lambda x: (2.0 * written(np.reshape(2.0 * written(x), (-1, 1)))).ravel(),
    "rows": lambda x: fori_loop(0, 4, lambda i, c: (written(c[1] * 2.0) * 0.25, written(2.0 * written(c[0]))), (x, x + 1.0)),
    "gradient": grad(lambda x: np.sum(doubled(written(x)) ** 2)),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("n", [4, 5, 7, 13, 100, 1003])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_engines_agree(name: str, n: int, sign: float) -> None:
    x = sign * np.linspace(0.1, 1.0, n)
    x[-1] = np.nan if n == 13 else x[-1]
    before = x.copy()
    with config.set(engine="numpy"):
        expected = jit(PROGRAMS[name])(x)
    f = jit(PROGRAMS[name])
    for _ in range(2):
        found = f(x)
        for a, b in zip(found if type(found) is tuple else [found], expected if type(expected) is tuple else [expected]):
            np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("engine", ["numpy", "auto"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_of_which_little_is_written(engine: str, dtype: type) -> None:
    x = np.random.default_rng(0).normal(size=(700, 600)).astype(dtype)

    def diagonal(x):
        total = np.tanh(x[3, 4]) - x[0, 0]
        for i in range(5):
            total = total + np.tanh(x[i, i]) * np.cos(x[i, -1])
        return total + np.sum(x[5:8, 2:9])

    with config.set(engine=engine):
        f = jit(grad(diagonal))
        found = f(x)
        found[...] = 7.0  # the caller's
        found = f(x)
    expected = grad(diagonal)(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype is np.float32 else 1e-13)
    assert np.count_nonzero(found) == np.count_nonzero(expected)
