"""The Laplacian in one pass, and the diagonals of Hessians."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, hessian, hessian_diagonal, jet, jit, laplacian, vmap
from funcad.errors import NonDifferentiableInputError, NonScalarOutputError
from tests.standin import DeviceArray, registered, to_device, to_host

rng = np.random.default_rng(0)
W = rng.normal(size=(4, 4))
X = 0.5 * rng.normal(size=4) + 1
FUNCTIONS = {
    "polynomial": lambda x: np.sum(x**3) + x[0] * x[1],
    "layer": lambda x: np.tanh(W @ x),
    "layers": lambda x: np.tanh(W @ np.tanh(W @ x)),
    "norm": lambda x: np.linalg.norm(x),
    "determinant": lambda x: np.linalg.det(W + np.outer(x, x)),
    "solve": lambda x: np.linalg.solve(W + np.diag(x), x),
    "scan": lambda x: funcad.lax.scan(lambda c, z: (np.sin(c) * z + x, c.sum()), x, np.arange(3.0))[1],
    "while": lambda x: funcad.while_loop(lambda c: c[1] < 3, lambda c: (c[0] * np.sin(x), c[1] + 1), (x, 0))[0],
    "cond": lambda x: funcad.cond(x[0] > 0, lambda y: y**3, lambda y: y, x),
    "jit inside": lambda x: jit(lambda y: y**2 * x)(x),
    "kinks": lambda x: np.where(x > 1, x**2, np.sin(x)) + np.max(x) ** 2 + np.sort(x) ** 2,
    "linear": lambda x: np.sum(W @ x),
    "constant": lambda x: np.ones(2),
    "Python's if": lambda x: x**3 if x[0] > 0 else x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_the_trace_of_the_hessian(name: str) -> None:
    f = FUNCTIONS[name]
    expected = np.trace(hessian(f)(X), axis1=-2, axis2=-1)
    np.testing.assert_allclose(laplacian(f)(X), expected, rtol=1e-10, atol=1e-12)


def test_of_pytrees() -> None:
    f = lambda p, s: {"y": s * np.sum(p["a"] ** 3) * p["b"] ** 2}
    p = {"a": np.array([1.0, 2.0]), "b": 3.0}
    np.testing.assert_allclose(laplacian(f)(p, 2.0)["y"], 2 * (6 * 3 * 9 + 9 * 2))


def test_compositions() -> None:
    f = lambda x: np.sum(np.sin(x)) * x[0]
    points = rng.normal(size=(3, 4))
    expected = [np.trace(hessian(f)(x)) for x in points]
    np.testing.assert_allclose(vmap(laplacian(f))(points), expected)
    np.testing.assert_allclose(jit(vmap(laplacian(f)))(points), expected)
    np.testing.assert_allclose(laplacian(jit(f))(points[0]), expected[0])
    slopes = grad(lambda x: np.trace(hessian(f)(x)))(X)
    for g in (grad(laplacian(f)), jit(grad(laplacian(f))), grad(jit(laplacian(f)))):
        np.testing.assert_allclose(g(X), slopes)
    biharmonic = laplacian(laplacian(lambda x: np.sum(x**2) ** 2))
    np.testing.assert_allclose(biharmonic(X), 8 * 4 * 6)  # of r^4: the Laplacian of (8 + 4 n) r^2 with n = 4 is 24 * 8


@pytest.mark.parametrize("method", ["jet", "sparse"])
def test_diagonal_of_a_hessian(method: str) -> None:
    f = lambda x: np.sum(np.sin(x[1:]) * x[:-1] ** 2)
    np.testing.assert_allclose(hessian_diagonal(f, method=method)(X), np.diag(hessian(f)(X)), atol=1e-12)
    tree = lambda p: np.sum(p["a"] ** 3) * p["b"]
    found = hessian_diagonal(tree, method=method)({"a": X, "b": 2.0})
    np.testing.assert_allclose(found["a"], 12 * X)
    assert found["b"] == 0.0


def test_of_the_arguments_that_are_chosen() -> None:
    f = lambda x, y, scale=1.0: scale * np.sum(x**2) * np.sum(np.sin(y))
    Y = np.array([0.3, 0.5])
    for given in (0, 1, -1, (0,), (1, 0), [0, 1]):
        blocks = hessian(f, argnums=given)(X, Y, scale=3.0)
        single = type(given) is int
        blocks = [blocks] if single else [row[i] for i, row in enumerate(blocks)]
        diagonals = [np.diag(block) for block in blocks]
        for g in (laplacian(f, given), jit(laplacian(f, argnums=given))):
            np.testing.assert_allclose(g(X, Y, scale=3.0), sum(map(np.sum, diagonals)))
        for method in ("jet", "sparse"):
            found = hessian_diagonal(f, given, method=method)(X, Y, scale=3.0)
            assert type(found) is (np.ndarray if single else tuple)
            for a, b in zip([found] if single else found, diagonals, strict=True):
                np.testing.assert_allclose(a, b, atol=1e-12)
    assert laplacian(f, argnums=())(X, Y) == 0.0 and hessian_diagonal(f, argnums=())(X, Y) == ()
    assert vmap(hessian_diagonal(lambda x, y: x**2 * y, 1))(X, X).tolist() == [0.0] * 4


def test_estimated_diagonal() -> None:
    f = lambda x: np.sum(x**4) + 0.1 * x[0] * x[1]
    found = hessian_diagonal(f, method="hutchinson", key=funcad.random.key(0), samples=400)(X)
    np.testing.assert_allclose(found, 12 * X**2, atol=0.1)
    exact = hessian_diagonal(lambda x: np.sum(x**4), method="hutchinson", key=funcad.random.key(1))(X)
    np.testing.assert_allclose(exact, 12 * X**2)  # one sample is enough where nothing stands beside the diagonal


def test_on_a_device() -> None:
    f = lambda x: np.sum(np.tanh(np.sin(x) * x)) * x[0]
    with registered():
        x = to_device(X)
        for g, h in (
            (laplacian(f), laplacian(f)),
            (jit(laplacian(f)), laplacian(f)),
            (hessian_diagonal(f), hessian_diagonal(f)),
            (lambda x: jet(f, (x,), ([x, x * 0.0],))[1][1], lambda x: jet(f, (x,), ([x, x * 0.0],))[1][1]),
        ):
            found = g(x)
            assert type(found) is DeviceArray
            np.testing.assert_allclose(to_host(found), h(X), rtol=1e-12)
        one = hessian_diagonal(f, method="hutchinson", key=funcad.random.key(0))
        np.testing.assert_allclose(to_host(one(x)), one(X), rtol=1e-12)


def by_sign(x: Any) -> Any:
    total = x[0] * 0.0
    for v in x:
        total = total + (v**4 if v > 0 else 2.0 * v**3)
        if total > 50.0:
            break
    return total


TRANSFORMS: dict[str, Any] = {
    "laplacian": laplacian(by_sign),
    "diagonal": lambda x: np.sum(hessian_diagonal(by_sign)(x) * x),
    "jet": lambda x: jet(by_sign, (x,), ([x**2, 0.0 * x],))[1][1],
    "of what is closed over": lambda w: laplacian(lambda x: np.sum(w * x**3) if w[0] * x[0] > 0 else np.sum(x**2 * w))(X),
}


@pytest.mark.parametrize("f", TRANSFORMS.values(), ids=TRANSFORMS)
def test_python_decides_under_the_other_transformations(f: Any) -> None:
    rows = np.array([[0.7, -0.4, 0.2, 0.3], [-0.7, 0.4, -0.2, 0.5], [0.3, 0.2, 0.6, -0.1]])
    values = [f(x) for x in rows]
    np.testing.assert_allclose(vmap(f)(rows), values, rtol=1e-12, atol=1e-14)
    slopes = [[(f(x + e) - f(x - e)) / 2e-6 for e in 1e-6 * np.eye(4)] for x in rows]
    for g in (grad(f), jit(grad(f)), lambda x: funcad.jacfwd(f)(x)):
        np.testing.assert_allclose([g(x) for x in rows], slopes, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(vmap(grad(f))(rows), slopes, rtol=1e-6, atol=1e-8)
    jitted = jit(f)
    np.testing.assert_allclose([jitted(x) for x in (*rows, *rows)], [*values, *values], rtol=1e-12, atol=1e-14)


def test_what_is_refused() -> None:
    calls: list[tuple[Any, type]] = [
        (lambda: laplacian(np.sum)(np.array([1, 2])), NonDifferentiableInputError),
        (lambda: laplacian(np.sum)(np.array([1j, 2])), NonDifferentiableInputError),
        (lambda: hessian_diagonal(np.sin)(X), NonScalarOutputError),
        (lambda: hessian_diagonal(np.sum, method="exact"), ValueError),
        (lambda: laplacian(np.multiply, argnums=2)(X, X), ValueError),
        (lambda: hessian_diagonal(np.sum, X), TypeError),  # for hessian_diagonal(np.sum)(X)
        (lambda: hessian_diagonal(np.sum, method="hutchinson"), TypeError),
        (lambda: hessian_diagonal(np.sum, key=funcad.random.key(0)), TypeError),
    ]
    for call, error in calls:
        with pytest.raises(error):
            call()
