"""Masks of tangents go through loops and branches (see masks/masks.py): forward mode gives what reverse mode gives."""

from __future__ import annotations

import numpy as np
import pytest

from funcad import cond, fori_loop, grad, hessian, jacfwd, jacrev, jit, jvp, scan, vmap, while_loop

X = np.array([-1.0, 0.0, 1.0, 2.0])
DIRECTION = np.array([1.0, 2.0, 3.0, 4.0])


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):  # the branches that are not taken
        yield


def positive(x):
    return np.where(x > 0, x, 0.0)


def root_of_carry(x):
    return np.sum(np.sqrt(scan(lambda c, _: (c * 1.5, None), positive(x), None, 2)[0]))


def masked_in_the_body(x):
    return np.sum(np.sqrt(scan(lambda c, _: (np.where(c > 0, c * 1.5, 0.0), None), x, None, 2)[0]))


def root_of_const(x):
    m = positive(x)
    return np.sum(np.sqrt(scan(lambda c, _: (c + 1.0, m * 2.0), 0.0, None, 2)[1]))


def root_in_the_body(x):
    m = positive(x)
    return np.sum(scan(lambda c, _: (c + np.sqrt(m), None), np.zeros(4), None, 2)[0])


def root_of_xs(x):
    return np.sum(np.sqrt(scan(lambda c, v: (c, v * 2.0), 0.0, positive(x), reverse=True)[1]))


def root_of_xs_in_the_body(x):
    return np.sum(scan(lambda c, v: (c + v, np.sqrt(v)), 0.0, positive(x))[1])


def two_parts(x):
    """Beside a part of the carry whose mask ends, one that is masked from the first iteration on."""
    def body(c, _):
        a, b = c
        return (a + np.sum(b), positive(b) * 1.5), None

    a, b = scan(body, (positive(x), x), None, 3)[0]
    return np.sum(np.sqrt(b)) + np.sum(a**2)


def branch(x):
    return np.sum(np.sqrt(cond(x[2] > 0, lambda v: positive(v), lambda v: v * 3.0, x)))


def around_a_branch(x):
    return np.sum(np.sqrt(cond(x[2] > 0, lambda v: v * 2.0, lambda v: v * 3.0, positive(x))))


def counted(x):
    return np.sum(np.sqrt(while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * 1.5), (0, positive(x)))[1]))


def masked_while(x):
    body = lambda c: (c[0] + 1, np.where(c[1] > 0, c[1] * 1.5, 0.0))
    return np.sum(np.sqrt(while_loop(lambda c: c[0] < 2, body, (0, x))[1]))


def for_loop(x):
    return np.sum(np.sqrt(fori_loop(0, 3, lambda i, c: positive(c) * 1.1, x)))


def nested(x):
    def body(c, _):
        return cond(np.sum(c) > 0, lambda c: scan(lambda c, _: (positive(c) * 1.5, None), c, None, 2)[0], positive, c), None

    return np.sum(np.sqrt(scan(body, x, None, 2)[0]))


FUNCTIONS = [
    *(root_of_carry, masked_in_the_body, root_of_const, root_in_the_body, root_of_xs, root_of_xs_in_the_body, two_parts),
    *(branch, around_a_branch, counted, masked_while, for_loop, nested),
]


def directional(f):
    return lambda x: jvp(f, (x,), (DIRECTION,))[1]


@pytest.mark.share(3)
@pytest.mark.parametrize("f", FUNCTIONS)
def test_forward_mode_gives_what_reverse_mode_gives(f):
    gradient = grad(f)(X)
    assert np.isfinite(gradient).all()
    for around in (lambda f: f, jit):
        np.testing.assert_allclose(around(directional(f))(X), gradient @ DIRECTION, rtol=1e-12)
        for rows in (jacfwd(f), jacrev(f), lambda x: vmap(lambda t: jvp(f, (x,), (t,))[1])(np.eye(4))):
            np.testing.assert_allclose(around(rows)(X), gradient, rtol=1e-12, atol=1e-14)


@pytest.mark.share(8)
@pytest.mark.parametrize("f", FUNCTIONS)
def test_second_derivatives(f):
    expected = hessian(f)(X)
    assert np.isfinite(expected).all()
    for around in (lambda f: f, jit):
        hessians = (jacfwd(grad(f)), jacrev(grad(f)), jacrev(jacfwd(f)), jacfwd(jacfwd(f)))
        for second in (*hessians, grad(directional(f)), lambda x: jvp(grad(f), (x,), (DIRECTION,))[1]):
            found = around(second)(X)
            np.testing.assert_allclose(found, expected if found.ndim == 2 else expected @ DIRECTION, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(around(directional(directional(f)))(X), DIRECTION @ expected @ DIRECTION, rtol=1e-10)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: scan(lambda c, _: (c * np.log(x), None), 0.0, None, 2)[0],
        lambda x: np.sum(scan(lambda c, v: (c, np.sqrt(v) ** 2), 0.0, x * np.ones(2))[1]),
        lambda x: scan(lambda c, _: (np.where(x > 1, 0.0, np.sqrt(c)), None), x, None, 1)[0] ** 2,
        lambda x: scan(lambda c, _: (np.where(x > 0, c, 2 * c), None), np.sqrt(x), None, 2)[0] ** 2,
        lambda x: (lambda y: scan(lambda c, _: (c + 0.0 * y, None), np.where(x > 0, y, 0.0), None, 2)[0])(np.log(x)),
    ],
)
def test_numbers_that_are_zero_hide_nothing(f):
    for derivative in (grad(f), lambda x: jvp(f, (x,), (1.0,))[1], jit(lambda x: jvp(f, (x,), (1.0,))[1])):
        assert not np.isfinite(derivative(0.0))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_dtypes_and_empty_loops(dtype):
    x = X.astype(dtype)

    def f(x, n):
        body = lambda c, _: (np.where(np.real(c) > 0, c * 1.5, 0.0), None)
        return np.sum(np.sqrt(scan(body, np.where(np.real(x) > 0, x, 0.0), None, n)[0]))

    for n in (0, 1, 3):
        out, tangent = jvp(lambda x, n=n: f(x, n), (x,), (np.ones_like(x),))
        assert tangent.dtype == out.dtype == x.dtype
        np.testing.assert_allclose(tangent, np.sum(np.sqrt(1.5**n / x[2:]) / 2), rtol=1e-5)


def test_loops_without_masks_carry_none():
    f = lambda x: scan(lambda c, v: (np.tanh(c * v), c + v), 0.5, x)
    text = str(jit(lambda x: jvp(f, (x,), (x,))).lower(X).jaxpr)
    assert "bool" not in text and "select" not in text
