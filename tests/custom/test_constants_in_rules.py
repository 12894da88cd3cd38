"""Rules of custom_jvp that begin with plain arrays (floats of a mask, a broadcast table, a buffer) go backwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import custom_jvp, grad, hessian, jit, vmap
from funcad.testing import check_grads

X = np.array([0.3, -0.7, 1.1])
COUNTS, TABLE, MATRIX = np.array([1, 2, 3]), np.array([1.0, -2.0, 3.0]), np.array([[1, 2, 0], [0, 1, 0], [3, 0, 1]])


def written(x: Any, t: Any) -> Any:
    out = np.zeros(3)
    out[0] = t[0]
    out[1:] = t[1:] * COUNTS[1:]
    return out


RULES: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray]] = {  # tangents, and the matrix that they amount to at X
    "a mask": (lambda x, t: (x > 0) * t, np.diag([1.0, 0.0, 1.0])),
    "a mask behind": (lambda x, t: t * (x > 0), np.diag([1.0, 0.0, 1.0])),
    "a share": (lambda x, t: np.dot(x > 0, t) / np.count_nonzero(x > 0) * (x > 0), np.outer([1, 0, 1], [0.5, 0, 0.5])),
    "integers": (lambda x, t: COUNTS * t, np.diag([1.0, 2.0, 3.0])),
    "a matrix of integers": (lambda x, t: MATRIX @ t, MATRIX.astype(float)),
    "a buffer": (written, np.diag([1.0, 2.0, 3.0])),
    "a loop": (lambda x, t: funcad.scan(lambda c, _: (c * COUNTS, None), t, None, length=2)[0], np.diag([1.0, 4.0, 9.0])),
}  # fmt: skip


def ruled(rule: Callable[[Any, Any], Any]) -> Any:
    f = custom_jvp(lambda x: np.sin(x))
    f.defjvp(lambda primals, tangents: (np.sin(primals[0]), rule(primals[0], tangents[0])))
    return f


@pytest.mark.parametrize("name", RULES)
def test_rules_of_plain_arrays_go_backwards(name: str) -> None:
    rule, matrix = RULES[name]
    f = ruled(rule)
    weighted = lambda x: np.sum(f(x) * TABLE)
    expected = matrix.T @ TABLE
    for gradient in (grad(weighted), jit(grad(weighted)), grad(jit(weighted)), lambda x: funcad.vjp(f, x)[1](TABLE)[0]):
        np.testing.assert_allclose(gradient(X), expected, rtol=1e-14)
        np.testing.assert_allclose(gradient(X), expected, rtol=1e-14)  # found again
    np.testing.assert_allclose(funcad.jacfwd(f)(X), matrix, rtol=1e-14)
    np.testing.assert_allclose(funcad.jacrev(f)(X), matrix, rtol=1e-14)
    np.testing.assert_allclose(vmap(grad(weighted))(np.stack([X, X])), [expected, expected], rtol=1e-14)
    np.testing.assert_allclose(jit(vmap(grad(weighted)))(np.stack([X, X])), [expected, expected], rtol=1e-14)
    if name != "a buffer":
        np.testing.assert_allclose(hessian(lambda x: 0.5 * np.sum(f(x) ** 2))(X), matrix.T * np.cos(X), rtol=1e-14)


def test_tables_that_are_broadcast_to_the_tangents() -> None:
    f = ruled(lambda x, t: TABLE * t)
    for transform in (lambda g: g, jit):
        np.testing.assert_array_equal(transform(grad(lambda x: np.sum(f(x))))(np.ones((2, 3))), [TABLE, TABLE])


def test_captured_arrays_are_read_at_each_call() -> None:
    counts = np.array([1, 2, 3])
    f = ruled(lambda x, t: counts * t)
    for gradient in (jit(grad(lambda x: np.sum(f(x)))), grad(jit(lambda x: np.sum(f(x)))), grad(lambda x: np.sum(f(x)))):
        for first in (1, 10):
            counts[0] = first
            np.testing.assert_array_equal(gradient(X), [first, 2.0, 3.0])


def test_linear_functions_of_plain_arrays() -> None:
    g = lambda t: COUNTS * t + TABLE[None] * t
    for transform in (lambda h: h, jit):
        transposed = transform(lambda ct: funcad.linear_transpose(g, X)(ct)[0])
        np.testing.assert_array_equal(transposed(np.ones((1, 3))), COUNTS + TABLE)
    check_grads(lambda x: funcad.linearize(lambda y: np.sin(y) * COUNTS, x)[1](TABLE), (X,), order=1)
