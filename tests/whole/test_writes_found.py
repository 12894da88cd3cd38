"""Writes that random programs found to be wrong once."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from funcad import grad, hessian, jacfwd, jacrev, jit, jvp, vmap
from funcad.errors import WriteError


def exchanged(x, y):
    x[...], y[...] = y.copy(), x.copy()


def kept_copies(x, y):
    before = x.flatten(), x.copy(), np.array(x), x.ravel().copy()
    np.copyto(x, 0.5, where=x > 0.1)
    return before


def rotated(x, y):
    first = x[0].copy()
    x[0] = y[0]
    y[0] = x[1]
    x[1] = first


def the_other_one(x, y):
    x[...] = y
    y *= 2.0


def no_imaginary_part(x, y):
    try:
        x.imag[...] = 0.5
    except ValueError:
        x[...] = 0.25
    return x.imag + y


def ravel_of_a_diagonal(x, y):
    piece = x * 2.0
    diagonal = np.einsum("ii->i", piece)
    apart, along = np.ravel(diagonal, order="F"), diagonal.reshape(-1)
    diagonal[...] = 0.25
    return piece, apart, along


def reshaped_buffer(x, y):
    b = np.zeros((2, 3))
    b.reshape(-1)[4] = x[0, 0]
    c = np.zeros((2, 3), order="F")
    c.reshape(-1)[0] = y[0, 1]
    c.T.reshape(-1)[1] = x[0, 1]
    return b, c


def view_of_the_same_kind(x, y):
    z = x.view()
    z[0] = y[1]
    z.shape = (4,)
    z[3] *= 2.0
    return z


def doubt_before_layout(x, y):
    made = np.diag(x[0])
    flat = x.reshape(-1)
    flat[1] = y[0, 1]
    return made, x.ravel(order="K")


def rank_0_views(x, y):
    a = np.zeros(())
    b = a[...]
    c = b.view()
    c += x[0, 1]
    v = np.ones(3)
    w = v[1, ...]
    w *= y[0, 0]
    return a, b, v


def a_buffer_like_a_transpose(x, y):
    product = np.outer(x[0], y[0])
    ones = np.ones_like(product.T)
    np.fill_diagonal(ones, 2.0)
    return product * ones


def wide_numbers(x, y):
    v, w = np.ravel(x[0], order="F"), np.ravel(x[:, 1])
    np.multiply(y[0, 0], 0.5, x[0])
    np.copyto(x[:, 1], y[1, 1])
    return v, w


FOUND = [
    wide_numbers,
    a_buffer_like_a_transpose,
    doubt_before_layout,
    rank_0_views,
    view_of_the_same_kind,
    exchanged,
    kept_copies,
    rotated,
    the_other_one,
    no_imaginary_part,
    ravel_of_a_diagonal,
    reshaped_buffer,
]
X, Y = np.array([[0.3, -0.5], [0.9, 0.2]]), np.array([[1.5, 0.4], [-0.7, 2.0]])


def seen(f):
    def run(x, y):
        found = f(x, y)
        return (*(() if found is None else found if isinstance(found, tuple) else (found,)), x, y)

    return run


@pytest.mark.share(3)
@pytest.mark.parametrize("f", FOUND, ids=[f.__name__ for f in FOUND])
def test_numpy_says_what_is_right(f) -> None:
    expected = seen(f)(X.copy(), Y.copy())
    compiled = jit(f)
    for _ in range(3):
        x, y = X.copy(), Y.copy()
        seen_now = seen(compiled)(x, y)
        for a, b in zip(seen_now, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(vmap(seen(f))(X[None], Y[None]), expected, strict=True):
        np.testing.assert_array_equal(a[0], b)
    for a, b in zip(jvp(seen(f), (X, Y), (X, Y))[0], expected, strict=True):
        np.testing.assert_array_equal(a, b)

    def loss(x, y):
        return sum([np.sum(np.sin(z) * (1.0 + k)) for k, z in enumerate(seen(f)(x, y))])

    v, h = np.cos(np.arange(4.0)).reshape(2, 2), 1e-6
    slope = (loss(X + h * v, Y - h * v) - loss(X - h * v, Y + h * v)) / (2 * h)
    for gradient in (grad(loss, argnums=(0, 1)), jit(grad(loss, argnums=(0, 1)))):
        gx, gy = gradient(X, Y)
        np.testing.assert_allclose(np.sum(gx * v) - np.sum(gy * v), slope, rtol=1e-7, atol=1e-8)


def test_a_shape_that_is_set_is_the_callers_too() -> None:
    def flat(x):
        x.shape = (-1,)
        x[1] *= 3.0

    for _ in range(3):
        x, expected = X.copy(), X.copy()
        with warnings.catch_warnings(record=True) as plain:  # NumPy 2.5 warns of it
            warnings.simplefilter("always")
            flat(expected)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            jit(flat)(x)
        told, wanted = [{(w.category, w.filename, w.lineno) for w in ws} for ws in (found, plain)]
        assert told <= wanted  # not of funcad's line
        assert x.shape == expected.shape
        np.testing.assert_array_equal(x, expected)


def test_an_order_that_is_not_known_raises() -> None:
    """Whether np.ascontiguousarray copies depends on how NumPy lays out what it is given."""

    def f(x, made):
        product = x[[1, 0]] if made else x * 2.0
        other = np.ascontiguousarray(product)
        product[0] = 7.0
        return other

    np.testing.assert_array_equal(jit(f, static_argnums=1)(X, False), f(X, False))
    np.testing.assert_array_equal(grad(lambda x: np.sum(f(x, False)))(X), [[0.0, 0.0], [2.0, 2.0]])
    with pytest.raises(WriteError, match="whether NumPy copies there"):
        jit(f, static_argnums=1)(X, True)


@pytest.mark.parametrize("second", [hessian, lambda f: jacfwd(jacrev(f)), lambda f: jacrev(jacfwd(f))])
@pytest.mark.parametrize("argnums", [0, 1])
def test_hessians_of_what_writes_its_arguments(second, argnums):
    """An argument is no second argument of the function that writes it, though two traces know it."""

    def f(x, y):
        x[0] = x[1] * x[0]
        y *= x
        return np.sum(x * x * x) + np.sum(y * y)

    g = second(f) if argnums == 0 else second(lambda x, y: f(y, x))
    x, y = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25, 2.0])
    found = g(*((x, y) if argnums == 0 else (y, x)))
    if argnums == 1:
        found = second(lambda y: f(x.copy(), y))(y)
        np.testing.assert_allclose(found, np.diag(2.0 * np.array([4.0, 4.0, 9.0])))
    else:
        first = 2.0 * y * y
        np.testing.assert_allclose(
            found,
            [
                [48.0 + 4.0 * first[0], 36.0 + 4.0 * first[0], 0.0],
                [36.0 + 4.0 * first[0], 24.0 + first[0] + first[1], 0.0],
                [0.0, 0.0, 18.0 + first[2]],
            ],
        )
    np.testing.assert_array_equal(x, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(y, [0.5, 0.25, 2.0])
