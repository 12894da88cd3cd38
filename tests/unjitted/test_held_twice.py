"""An array that is written in place may be several operands of one operation."""

from __future__ import annotations

import numpy as np
import pytest

from funcad import grad, jvp

TWICE = {
    "product": lambda x: x * x,
    "sum": lambda x: x + x,
    "quotient": lambda x: x / x,
    "dot": lambda x: np.dot(x, x),
    "outer": lambda x: np.outer(x, x),
    "matmul": lambda x: x @ x,
    "concatenate": lambda x: np.concatenate([x, x]),
    "stack": lambda x: np.stack([x, x, x]),
    "where": lambda x: np.where(x > 1.0, x, x),
    "maximum": lambda x: np.maximum(x, x),
    "einsum": lambda x: np.einsum("i,i,i->i", x, x, x),
    "index": lambda x: x[0] * x + x[1:2] * x,
    "written": lambda x: np.add(x, x, out=x),
}


def program(use):
    def f(x):
        y = x
        y[1:] += y[:-1]
        y *= 0.5
        first = use(x)
        x[0] = 3.0 * x[2]
        return np.sum(first * first) + np.sum(use(x))

    return f


@pytest.mark.parametrize("name", TWICE)
def test_both_operands_are_the_same_array(name: str) -> None:
    f = program(TWICE[name])
    x, v = np.array([0.5, 1.5, 2.0, -1.0]), np.array([1.0, -0.5, 0.25, 2.0])
    h = 1e-6
    expected = (f(x + h * v) - f(x - h * v)) / (2 * h)
    value, slope = jvp(f, (x.copy(),), (v,))
    np.testing.assert_allclose(value, f(x.copy()))
    np.testing.assert_allclose(slope, expected, rtol=1e-6)
    np.testing.assert_allclose(grad(f)(x) @ v, expected, rtol=1e-6)
    np.testing.assert_array_equal(x, [0.5, 1.5, 2.0, -1.0])
