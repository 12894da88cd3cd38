"""Gradients whose masked zeros meet infinite factors in forward mode around them, and shares without ties."""

import numpy as np
import pytest

import funcad

X = np.array([-1.0, 2.0, 3.0])

CUBES = {
    "where": lambda x: np.sum(np.where(x > 0, x**3, 0.0)),
    "where of a number": lambda x: np.where(x[0] > 0, x[0] ** 3, 0.0) + np.sum(x[1:] ** 3),
    "where in where": lambda x: np.sum(np.where(x > 0, x**3, np.where(x < -2, x**4, 0.0))),
    "maximum": lambda x: np.sum(np.maximum(x, 0.0) ** 3),
    "clip": lambda x: np.sum(np.clip(x, -0.5, 5.0) ** 3),
    "slice": lambda x: np.sum(x[1:] ** 3),
    "slice of a product": lambda x: np.sum((x * x)[1:] * x[1:]),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", CUBES)
@pytest.mark.parametrize("outer", [np.sqrt, lambda g: g**0.3, lambda g: np.where(g > 0, np.log(g), 0.0)])
def test_forward_mode_sees_what_a_gradient_masks(name, outer):
    """At -1 the slope is zero because no path leads there, so its root has the derivative 0 there, in every mode."""

    def h(x):
        return outer(funcad.grad(CUBES[name])(x))

    with np.errstate(all="ignore"):
        found = funcad.jvp(h, (X,), (np.ones(3),))[1]
        twice = funcad.jvp(lambda x: funcad.jvp(h, (x,), (np.ones(3),))[1], (X,), (np.ones(3),))[1]
        backward = funcad.jacrev(h)(X)
        jitted = funcad.jit(funcad.jacfwd(h))(X)
        smooth = funcad.jvp(lambda x: outer(3.0 * x**2), (X[1:],), (np.ones(2),))[1]
    assert found[0] == twice[0] == 0.0 and np.isfinite(twice).all()
    np.testing.assert_allclose(found[1:], smooth, rtol=1e-12)
    np.testing.assert_allclose(backward, np.diag(found), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(jitted, np.diag(found), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("f", [np.cbrt, np.abs, np.tanh])
def test_what_is_stopped_has_no_derivative_behind_a_mask(f):
    """Not even a masked one."""

    def masked(x):
        y = np.where(x > 0, x**2, 0.0)
        return y * f(funcad.stop_gradient(y) + 0.0) + f(funcad.stop_gradient(f(y)))

    y, ones = np.where(X > 0, X**2, 0.0), np.ones(3)
    np.testing.assert_allclose(funcad.jvp(masked, (X,), (ones,))[1], 2.0 * X * (X > 0) * f(y), rtol=1e-12)
    np.testing.assert_allclose(funcad.jacrev(masked)(X), np.diag(2.0 * X * (X > 0) * f(y)), rtol=1e-12)


@pytest.mark.parametrize("f", [np.maximum, np.minimum, np.fmax, np.fmin])
def test_a_share_is_the_same_with_and_without_ties_beside_it(f):
    """What is looked at to save work, whether there are ties or NaN anywhere, changes no other element."""
    first, second = np.array([1.0, -2.0, np.inf, -np.inf]), np.array([0.0, 5.0, 1.0, 1.0])
    gradients = funcad.grad(lambda x, y: np.sum(f(x, y)), (0, 1))
    plain = gradients(first, second)
    for beside, expected in (7.0, 0.5), (np.nan, np.nan if f in (np.maximum, np.minimum) else 0.0):
        tied = gradients(np.append(first, beside), np.append(second, 7.0))
        for t, p in zip(tied, plain):
            np.testing.assert_array_equal(t[:-1], p)
        np.testing.assert_equal(tied[0][-1], expected)
    assert funcad.grad(lambda x: f(x, x))(0.5) == 1.0  # one operand twice is a tie with itself
    assert funcad.grad(lambda x: f(x, 0.0))(0.0) == 0.5


@pytest.mark.parametrize("f", [lambda x: np.maximum(x, 0.0) ** 2, lambda x: np.minimum(x, x[::-1]) ** 2])
@pytest.mark.parametrize("x", [[1.0, -2.0, 3.0], [1.0, 0.0, 1.0], [1.0, np.nan, 0.0]])
def test_second_derivatives_do_not_depend_on_what_was_looked_at(f, x):
    x, v = np.array(x), np.array([1.0, 2.0, -1.0])
    hessian = funcad.hessian(lambda x: np.sum(f(x)))
    hvp = funcad.jvp(funcad.grad(lambda x: np.sum(f(x))), (x,), (v,))[1]
    np.testing.assert_array_equal(hessian(x), funcad.jit(hessian)(x))
    np.testing.assert_array_equal(hvp, funcad.jit(lambda v: hessian(x) @ v)(v))


def test_strides_are_known_in_forward_mode_behind_a_product_of_vectors():
    """Only arrays of two axes or more can lie in memory in an order that is not NumPy's."""
    a = np.asfortranarray(np.arange(6.0).reshape(2, 3))

    def f(x):
        v = np.dot(a, x)  # computed in an order of our own, but of one axis
        return np.ravel(a * v[:, None] * x, order="K")

    value, tangent = funcad.jvp(f, (np.arange(3.0),), (np.ones(3),))
    np.testing.assert_array_equal(value, f(np.arange(3.0)))
    assert tangent.shape == (6,)


@pytest.mark.parametrize("name", CUBES)
def test_a_gradient_in_forward_mode_hands_on_masks(name):
    """Also those of what the function gives beside."""

    def h(x):
        def f(x):
            return CUBES[name](x), np.where(x > 0, x**2, 0.0)

        (value, beside), gradient = funcad.value_and_grad(f, has_aux=True)(x)
        return np.sqrt(value) + np.sqrt(gradient[::-1]) + np.sqrt(beside)

    pushed = lambda x: funcad.jvp(h, (x,), (np.ones(3),))[1]
    with np.errstate(all="ignore"):
        expected = funcad.jit(pushed)(X)
        assert np.isfinite(expected).all()
        for _ in range(4):
            np.testing.assert_allclose(pushed(X), expected, rtol=1e-12)


@pytest.mark.parametrize("n", [3, 100_000])
def test_masks_of_a_gradient_do_not_change_with_what_they_were_made_of(n):
    x = np.append(-1.0, np.ones(n - 1))

    def h(x):
        chosen = []

        def f(x):
            chosen.append(x > 0)
            return np.sum(np.where(chosen[0], x**3, 0.0))

        gradient = funcad.grad(f)(x)
        chosen[0][:] = True
        return np.sqrt(gradient)

    with np.errstate(all="ignore"):
        for _ in range(4):
            found = funcad.jvp(h, (x,), (np.ones(n),))[1]
            np.testing.assert_allclose(found, np.append(0.0, np.full(n - 1, 3.0**0.5)), rtol=1e-12)
