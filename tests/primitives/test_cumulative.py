"""Reductions and cumulative operations at their edges: ties, NaN, zeros, -inf, long and short axes, dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import funcad
from funcad.primitives import reduction as c
from funcad.primitives.reduction import _doubling, linear_recurrence, reduce_max, reduce_min, reduce_prod, reduce_sum

RNG = np.random.default_rng(0)


def total(x):
    return reduce_sum(x, axes=tuple(range(len(x.shape))))


def test_ties_of_reductions_share():
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    gradient = funcad.grad(lambda x: total(reduce_max(x, axes=(1,))))(x)
    np.testing.assert_allclose(gradient, [[0, 1 / 2, 1 / 2], [1 / 3, 1 / 3, 1 / 3]])
    gradient = funcad.grad(lambda x: reduce_min(x, axes=(0, 1)))(x)
    np.testing.assert_array_equal(gradient, [[1, 0, 0], [0, 0, 0]])
    infinite = np.array([np.inf, 1.0])
    _, tangent = funcad.jvp(lambda x: reduce_max(x, axes=(0,)), (infinite,), (np.array([2.0, np.inf]),))
    assert tangent == 2.0  # selected: no 0 * inf


def test_nan_is_tied_with_the_nans():
    x = np.array([1.0, np.nan, 2.0, np.nan])
    assert np.isnan(reduce_max(x, axes=(0,)))
    np.testing.assert_array_equal(funcad.grad(lambda x: reduce_max(x, axes=(0,)))(x), [0, 0.5, 0, 0.5])
    jacobian = funcad.jacrev(lambda x: c.cummax(x, 0))(x)
    np.testing.assert_array_equal(jacobian, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0.5, 0, 0.5]])


def test_empty_reductions():
    for reduce in (reduce_max, reduce_min):
        for run in (reduce, funcad.jit(reduce, static_argnames=("axes",))):
            with pytest.raises(ValueError, match="zero-size array to reduction operation m..imum which has no identity"):
                run(np.ones((0, 2)), axes=(0,))
    assert reduce_max(np.ones((2, 0)), axes=(0,)).shape == (0,)
    np.testing.assert_array_equal(reduce_prod(np.ones((0, 2)), axes=(0,)), [1, 1])


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_products_at_zeros(zeros):
    x = RNG.uniform(0.5, 2, 4)
    x[:zeros] = 0.0
    others = np.array([np.prod(np.delete(x, i)) for i in range(4)])
    pairs = np.array([[0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(4)] for i in range(4)])

    def product(x):
        return reduce_prod(x, axes=(0,))

    np.testing.assert_allclose(funcad.grad(product)(x), others)
    np.testing.assert_allclose(funcad.hessian(product)(x), pairs)

    def square(x):
        return reduce_prod(funcad.numpy.indexing.getitem(x, ([[0, 1], [2, 3]],)), axes=(0, 1))

    np.testing.assert_allclose(funcad.hessian(square)(x), pairs)
    for reverse in (False, True):
        last = 0 if reverse else 3
        rows = funcad.jacrev(lambda x, r=reverse: c.cumprod(x, 0, r))(x)
        np.testing.assert_allclose(rows[last], others)
        np.testing.assert_allclose(funcad.jacfwd(funcad.jacrev(lambda x, r=reverse: c.cumprod(x, 0, r)))(x)[last], pairs)


@pytest.mark.parametrize("reverse", [False, True])
def test_running_extrema_end_as_the_reduction(reverse):
    x = RNG.integers(0, 3, (5, 7)).astype(float)
    last = 0 if reverse else -1
    for running, reduction in ((c.cummax, reduce_max), (c.cummin, reduce_min)):
        _, pull = funcad.vjp(lambda x, f=running: c_last(f(x, 1, reverse), last), x)
        _, expected = funcad.vjp(lambda x, f=reduction: f(x, axes=(1,)), x)
        np.testing.assert_allclose(pull(np.arange(5.0))[0], expected(np.arange(5.0))[0])


def c_last(x, last):
    return funcad.numpy.indexing.getitem(x, (slice(None), last))


def test_logsumexp_of_nothing_yet():
    x = np.array([-np.inf, -np.inf, 1.0, 2.0])
    p = np.exp(1.0) / (np.exp(1.0) + np.exp(2.0))
    expected = np.zeros((4, 4))
    expected[2, 2], expected[3, 2:] = 1.0, (p, 1 - p)
    np.testing.assert_allclose(funcad.jacrev(lambda x: c.cumlogsumexp(x, 0))(x), expected)
    hessian = funcad.hessian(lambda x: total(c.cumlogsumexp(x, 0)))(x)
    q = p * (1 - p)
    np.testing.assert_allclose(hessian[2:, 2:], [[q, -q], [-q, q]])
    assert not hessian[:2].any()
    large = np.array([1000.0, 1000.0])
    np.testing.assert_allclose(c.cumlogsumexp(large, 0), [1000.0, 1000.0 + np.log(2.0)])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("special", [np.inf, np.nan])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_logsumexp_beside_infinity_and_nan(special: float, at: int, reverse: bool) -> None:
    """As of a chain of logaddexp: infinity takes all, equal ones share; what NaN was summed into has no derivative."""
    x = np.array([1.0, 2.0, 3.0])
    x[at] = special
    f = lambda x: c.cumlogsumexp(x, 0, reverse)
    chain = lambda x: np.flip(np.logaddexp.accumulate(np.flip(x))) if reverse else np.logaddexp.accumulate(x)
    known = ~np.isnan(chain(x))
    for derivative in (funcad.jacfwd, funcad.jacrev):
        found = derivative(f)(x)
        np.testing.assert_allclose(found[known], derivative(chain)(x)[known])
        assert np.isnan(found[~known]).all()
    if special == np.inf:
        x[:] = np.inf
        np.testing.assert_allclose(funcad.jacrev(f)(x), funcad.jacrev(chain)(x))


@pytest.mark.parametrize("shape", [(7,), (7, 1), (7, 3), (7, 40), (1, 2), (0, 2), (2, 0)])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "c8", "c16"])
def test_recurrence_in_every_way(shape, dtype):
    b, a = RNG.normal(size=shape).astype(dtype), RNG.normal(size=shape).astype(dtype)
    h, expected = np.zeros(shape[1:], dtype), []
    for k in range(shape[0]):
        h = a[k] * h + b[k]
        expected.append(h)
    expected = np.array(expected, dtype).reshape(shape)
    tolerance = {"rtol": 50 * np.finfo(dtype).eps, "atol": 50 * np.finfo(dtype).eps}
    for got in (linear_recurrence(b, a, 0), linear_recurrence(b[::-1], a[::-1], 0, True)[::-1], _doubling(np, b, a)):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, expected, **tolerance)


@pytest.mark.parametrize("dtype", ["f2", "f4", "g", "c8"])
def test_dtypes_are_kept(dtype):
    x = RNG.integers(1, 3, (3, 4)).astype(dtype)
    functions = [lambda x, n=n: getattr(c, n)(x, 1) for n in ("cumsum", "cumprod", "cummax", "cummin")]
    functions += [lambda x: reduce_prod(x, axes=(0,)), lambda x: reduce_max(x, axes=(0, 1))]
    for f in functions:
        out, tangent = funcad.jvp(f, (x,), (x,))
        cotangent = funcad.vjp(f, x)[1](out)[0]
        assert out.dtype == tangent.dtype == cotangent.dtype == funcad.jit(f)(x).dtype == dtype
    assert c.cumsum(np.ones(3, np.int8), 0).dtype == np.int8


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("factors", [[1.0], [0.0, 1.0], [0.0, 0.5, 1.0], [-2.0, 1.0], [np.nan, 1.0]], ids=str)
def test_recurrences_that_are_mostly_sums(factors, reverse):
    """Runs of factors 1 are sums of NumPy's; the same as step by step."""
    rng = np.random.default_rng(5)
    for n in (1, 2, 30, 400):
        b = rng.normal(size=n)
        a = np.where(rng.random(n) < 0.02, rng.choice(factors, size=n), 1.0)
        steps = range(n)[::-1] if reverse else range(n)
        expected, last = np.zeros(n), 0.0
        for k in steps:
            expected[k] = last = b[k] + (a[k] * last if k != steps[0] else 0.0)
        for found in (linear_recurrence(b, a, 0, reverse), linear_recurrence(b[:, None], a[:, None], 0, reverse)[:, 0]):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("extremum", [np.maximum, np.minimum])
def test_running_extrema_without_ties_and_with_them(extremum):
    x, weights = np.random.default_rng(6).normal(size=300), np.cos(np.arange(300.0))
    f = lambda y: np.sum(weights * extremum.accumulate(y))
    for y in (x, np.round(x, 1), np.zeros(300)):
        tied = np.tril(extremum.accumulate(y)[:, None] == y)  # with the i-th result: equal shares
        expected = weights @ (tied / tied.sum(axis=1, keepdims=True))
        np.testing.assert_allclose(funcad.grad(f)(y), expected, atol=1e-12)
        np.testing.assert_allclose(funcad.jit(funcad.grad(f))(y), expected, atol=1e-12)
