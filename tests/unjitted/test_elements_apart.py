"""Elements of small arrays, which become numbers together: beside differences, in every way back."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, hessian, jacfwd, jacrev, jit, jvp, linearize, value_and_grad, vmap

X = np.linspace(0.4, 1.7, 9)
STEP = 1e-5
PROGRAMS: dict[str, Callable[[Any], Any]] = {}


def program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[f.__name__] = f
    return f


@program
def determinant(x):
    a = x.reshape(3, 3) * 1.5
    return a[0, 0] * (a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1]) - a[0, -1] * a[np.int64(1), 0] * a[-1, -2]


@program
def alone_and_whole(x):
    y = np.sin(x[:4])
    return y[2] * y.sum() + y[-1] ** 2 + (y * y)[0]


@program
def written_between(x):
    y = x[:3] + 0.0
    first = y[0] * y[1]
    y[0] = first * x[5]
    return y[0] * y[2] + first


@program
def unread(x):
    y = np.exp(x[:5])
    return y[1] * x[0]  # nothing asks the others


@program
def selected(x):
    y = x[:3] - 1.0
    z = np.where(y > 0, np.sqrt(np.where(y > 0, y, 1.0)), y)  # a mask begins behind the elements
    return z[0] * z[1] + z[2]


@program
def masked_infinity(x):
    y = (x[:3] - x[3]) ** 2 * (x[:3] > 0.5)
    r = np.where(y > 0, np.sqrt(y), 0.0)
    return r[1] + r[2] * r[1] + r[0]


@program
def put_together(x):
    y = x.reshape(3, 3)
    z = y @ y.T
    return np.array([z[i, j] * (i + 1) for i in range(3) for j in range(3)]) @ x


@program
def listed_in_many_orders(x):
    """More numbers than are remembered: whole arrays, arrays twice and backwards, a part of one, and numbers between."""
    y, z, numbers = x[:4] * x[4], np.outer(x[:3], x[3:6]), [x[0] * x[1], 2.0]
    for turn in range(3):
        numbers.extend(y)
        numbers += [z[i, j] for i in range(3) for j in range(3)]
        numbers += [*z.T.ravel(), y[0] * turn, *z[1], 1.0, *(z + y[0]).flatten(), *reversed(list(y))]
    return np.sum(np.sin(np.array(numbers)) * np.arange(len(numbers))) + z.sum() * y[1]


@program
def of_larger_matrices(x):
    """Elements that are read one by one from arrays of which few are, and then all."""
    total, numbers = 0.0, []
    for k in range(3):
        a = np.outer(x, x) * (x[k] + 0.5)
        total = total + a[-1, -2] * a[0, np.int64(3)]
        if k:
            numbers += [a[i, j] for i in range(9) for j in range(9)]
    rest = np.concatenate([x, x * x] * 10)
    return total + np.array(numbers) @ np.cos(np.arange(len(numbers))) + rest[-1] * rest[3] * rest[np.int64(170)] * rest[7]


@program
def iterated(x):
    total = 0.0
    for v in x[:4] * x[4]:
        total = total + v**3
    return total


def differences(f: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    return np.array([(f(x + d) - f(x - d)) / (2 * STEP) for d in STEP * np.eye(len(x))])


@pytest.mark.share(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives(name: str) -> None:
    f = PROGRAMS[name]
    value, g = value_and_grad(f)(X)
    expected = differences(f, X)
    assert value == f(X)
    assert np.allclose(g, expected, rtol=1e-6, atol=1e-8)
    assert np.allclose(jvp(f, (X,), (X,))[1], g @ X)
    assert np.allclose(jit(grad(f))(X), g, rtol=1e-12, atol=1e-14)
    rows = np.stack([X, X * 1.1, X + 0.1])
    assert np.allclose(vmap(grad(f))(rows), [grad(f)(r) for r in rows])
    h = hessian(f)(X)
    assert np.allclose(h, jacfwd(grad(f))(X)) and np.allclose(h, jacrev(grad(f))(X))
    assert np.allclose(
        h,
        np.array([differences(lambda x, i=i: grad(f)(x)[i], X) for i in range(9)]),
        rtol=1e-5,
        atol=1e-6,
    )
    both = lambda x: np.array([f(x), f(x * x), f(x + 1)])
    assert np.allclose(jacrev(both)(X), jacfwd(both)(X))


def test_errors_are_numpys_at_the_line() -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        grad(lambda x: (x * 2)[9])(X)
    with pytest.raises(IndexError):
        grad(lambda x: x.reshape(3, 3)[0, 3])(X)
    with pytest.raises(IndexError, match="integers, slices"):
        grad(lambda x: (x * 2)[1.0])(X)
    assert (grad(lambda x: (x * 2)[True].sum())(X) == 2).all()  # a mask, not the number 1


def test_errors_are_numpys_where_numbers_are_known() -> None:
    def f(x: Any, index: Any) -> Any:
        y = x * 2
        return np.sum(y[0] + y[index])

    with pytest.raises(IndexError, match="out of bounds"):
        grad(f)(X, 9)
    with pytest.raises(IndexError, match="integers, slices"):
        grad(f)(X, 1.0)
    assert grad(f)(X, True).tolist() == [20, *[2] * 8]
    assert grad(f)(X, np.array([1, 1])).tolist() == [4, 4, *[0] * 7]
    assert grad(f)(X, slice(1, 3)).tolist() == [4, 2, 2, *[0] * 6]


def test_the_collector_rests_while_there_are_many_numbers_and_no_longer() -> None:
    before, found = gc.get_threshold(), []

    def f(x: Any, fails: bool = False) -> Any:
        numbers = []
        for _ in range(4000):
            y = x * x
            numbers += [y[0], y[1], y[2]]
        found.append(gc.get_threshold())
        if fails:
            raise KeyError
        return np.sum(np.array(numbers))

    assert grad(f)(np.ones(3)).tolist() == [8000] * 3
    with pytest.raises(KeyError):
        grad(f)(X[:3], True)
    assert grad(lambda x: grad(f)(x).sum())(X[:3]).tolist() == [8000] * 3
    assert before not in found[:2] and gc.get_threshold() == before


def test_kinds_of_floats() -> None:
    g = grad(lambda x: x[0] * x[1])(np.array([2.0, 3.0], np.float32))
    assert g.dtype == np.float32 and g.tolist() == [3, 2]
    z = grad(lambda x: (x[0] * x[1]).real)(np.array([2.0 + 1j, 3.0]))
    assert z.dtype == np.complex128


def test_one_row_for_all() -> None:
    """Two elements or all of a small array: one row has the pull; those of a large array have one each."""
    tapes: list[Any] = []

    def f(x: Any, n: int) -> Any:
        tapes.append(x.owner.tape)
        y = x * 2
        total = sum([y[i] for i in range(n)])
        tapes.append([p for p in tapes[-1].pulls if p is not None])
        return total

    grad(f)(X, 2)
    grad(f)(X, 9)
    grad(f)(np.ones(100), 50)  # once an eighth has been read, one after the other
    grad(f)(np.ones(200), 9)
    few, all_, larger, large = [len(pulls) for pulls in tapes[1::2]]
    assert (few, all_, larger, large) == (1 + 1 + 2, 1 + 1 + 9, 1 + 14 + 1 + 50, 1 + 9 + 9)


def _blocks(x: Any, write: Callable[[Any, Any, Any], None]) -> Any:
    a = np.zeros((6, 6))
    places = np.array([0, 2, 3])
    for e in range(3):
        write(a, places + e, np.outer(x[e : e + 3], x[:3]))
        places[1] = 1  # what was written is where it was
    return ((a @ a) * np.arange(36.0).reshape(6, 6)).sum() + (a[0, 1:3] * x[:2]).sum()


def _add_ix(a: Any, i: Any, k: Any) -> None:
    a[np.ix_(i, i)] += k


def _add_column(a: Any, i: Any, k: Any) -> None:
    a[i[:, None], i - 6] += k * k


def _set_twice(a: Any, i: Any, k: Any) -> None:
    a[i] = np.concatenate([k, k], axis=1)  # whole rows
    a[i, i] = a[i, i] * a[i, 0] + a[np.ix_(i, i)].sum()


def _at_one_place(a: Any, i: Any, k: Any) -> None:
    a[np.array([1, 1, 2]), np.array([0, 0, 3])] = k[0]  # the last one stays
    a[i, 0] += 1.0
    a[a > 0.5] *= 0.5


@pytest.mark.parametrize("write", [_add_ix, _add_column, _set_twice, _at_one_place])
def test_blocks_are_written_in_place(write: Any) -> None:
    f = lambda x: _blocks(x, write)
    value, g = value_and_grad(f)(X)
    assert value == f(X)
    assert np.allclose(g, differences(f, X), rtol=1e-6, atol=1e-7)
    assert np.allclose(jvp(f, (X,), (X,))[1], g @ X)
    assert np.allclose(jit(grad(f))(X), g)
    rows = np.stack([X, X * 1.01])
    assert np.allclose(vmap(grad(f))(rows), [grad(f)(r) for r in rows])
    h = hessian(f)(X)
    assert np.allclose(h, jacfwd(grad(f))(X)) and np.allclose(h, jacrev(grad(f))(X))
    pulled = funcad.vjp(f, X)[1]
    assert np.allclose(vmap(pulled)(np.array([1.0, 2.0]))[0], [g, 2 * g])
    both = lambda x: np.array([f(x), f(x * x)])
    assert np.allclose(jacrev(both)(X), jacfwd(both)(X))


def test_a_block_that_is_written_costs_its_size() -> None:
    """The array is copied once, and not at each write."""
    n, places = 1000, np.array([3, 5, 8])
    copied = []

    def f(x: Any) -> Any:
        a = np.zeros((n, n))
        for e in range(20):
            a[np.ix_(places + e, places + e)] += x * np.ones((3, 3))
            copied.append(a.primal.ctypes.data)
        return a.sum()

    assert np.isclose(grad(f)(2.0), 180)
    assert len(set(copied[1:])) == 1


TWICE = {  # operands of one row that are two objects
    "product": lambda x: x[0] * x[0],
    "quotient": lambda x: x[1] / x[1],
    "power": lambda x: x[0] ** x[0],
    "largest": lambda x: np.maximum(x[1], x[1]) * np.hypot(x[0], np.copy(x[0])),
    "remainder": lambda x: x[-1] % x[1],
    "sum of squares": lambda x: sum(x[i] * x[i] for i in range(2)),
    "parts": lambda x: np.sum(x[:2] * x[:2]),
    "a float": lambda x: x[0] * x.item(0),
}


@pytest.mark.parametrize("name", TWICE)
def test_two_reads_of_one_element_are_linearized(name):
    f, x, t = TWICE[name], np.array([0.3, 0.2]), np.array([1.0, 10.0])
    expected, slope = jvp(f, (x,), (t,))

    def both(x):
        value, push = linearize(f, x)
        return value, push(t)

    jitted = jit(both)
    for found in (both(x), jitted(x), jitted(x), jitted(x), [y[1] for y in vmap(both)(np.stack([x, x]))]):
        np.testing.assert_allclose(found, (expected, slope), rtol=1e-12)
    np.testing.assert_allclose(jacfwd(f)(x), grad(f)(x), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(linearize(grad(f), x)[1](t), jvp(grad(f), (x,), (t,))[1], rtol=1e-9, atol=1e-12)
