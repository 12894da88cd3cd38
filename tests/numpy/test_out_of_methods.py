"""`out=` of methods and of funcad.numpy's functions, by name and by position, as of NumPy's functions."""

from __future__ import annotations

import numpy as np
import pytest

import funcad.numpy as fnp
from funcad import grad, jit, vmap
from funcad.errors import TracerArrayConversionError

CALLS = {
    "cumsum": lambda x, y: x.cumsum(1, None, x),
    "cumsum by name": lambda x, y: x.cumsum(axis=1, out=y),
    "cumprod": lambda x, y: fnp.cumprod(x, axis=0, out=x),
    "sum": lambda x, y: x.sum(0, None, y[0]),
    "mean": lambda x, y: x.mean(axis=1, out=y[:, 0]),
    "max": lambda x, y: fnp.max(x, 0, y[1]),
    "min": lambda x, y: x.min(axis=0, out=y[0]),
    "prod": lambda x, y: x.prod(axis=1, out=x[:, 1]),
    "std": lambda x, y: x.std(axis=0, out=y[2]),
    "var": lambda x, y: fnp.var(x, axis=0, out=y[2]),
    "clip": lambda x, y: x.clip(-0.5, 0.5, x),
    "dot": lambda x, y: x.dot(x, y),
    "dot by name": lambda x, y: fnp.dot(x, y, out=x),
    "take": lambda x, y: x.take([2, 0, 1], 0, y),
    "round": lambda x, y: x.round(1, y),
    "trace": lambda x, y: x.trace(out=y[0, 0, ...]),
    "no out": lambda x, y: x.cumsum(1, None, None),
}


@pytest.mark.share(3)
@pytest.mark.filterwarnings("ignore:grad. the output of")  # what is only written
@pytest.mark.parametrize("name", CALLS)
def test_results_are_written_where_numpy_writes_them(name: str) -> None:
    call = CALLS[name]

    def f(x, y):
        x, y = x * 1.0, y * 1.0
        found = call(x, y)
        if found is not x and found is not y:
            found = found * 2.0  # a view of one of them, or an array of its own
        return np.stack([x, y]), found

    x = np.array([[0.3, -1.2, 0.7], [2.0, 0.1, -0.4], [0.9, 1.3, -0.8]])
    y = np.linspace(1.0, 2.0, 9).reshape(3, 3)
    expected = f(x, y)
    for found in (jit(f)(x, y), [z[0] for z in vmap(f)(x[None], y[None])]):
        for a, b in zip(found, expected):
            np.testing.assert_allclose(a, b, rtol=1e-12)

    def loss(x, y):
        both, found = f(x, y)
        return np.sum(both * both) + np.sum(np.sin(found))

    v, h = np.cos(np.arange(9.0)).reshape(3, 3), 1e-6
    slope = (loss(x + h * v, y - h * v) - loss(x - h * v, y + h * v)) / (2 * h)
    for gradient in (grad(loss, argnums=(0, 1)), jit(grad(loss, argnums=(0, 1)))):
        gx, gy = gradient(x, y)
        np.testing.assert_allclose(np.sum(gx * v) - np.sum(gy * v), slope, rtol=1e-7, atol=1e-7)


def test_a_plain_array_outside_is_refused() -> None:
    outside = np.zeros(3)
    with pytest.raises(TracerArrayConversionError, match=r"np.array\(K\)"):
        grad(lambda x: x.cumsum(0, None, outside).sum())(np.ones(3))
    assert not outside.any()
