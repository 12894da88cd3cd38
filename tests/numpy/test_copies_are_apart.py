"""What NumPy copies is written alone, and what it gives as a view is written with its base: under every transformation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, jvp, scan, value_and_grad, vjp, vmap

ndimage = pytest.importorskip("scipy.ndimage", reason="SciPy is not installed")
X = np.array([1.5, -0.7, 2.2])
NEW = np.lib.NumpyVersion(np.__version__) >= "2.1.0"  # np.reshape(x, s, copy=True)


def third(f: Callable[..., Any], x: Any) -> Any:
    return [f(x) for _ in range(3)][2]


WAYS: dict[str, Callable[[Any], Any]] = {  # the value, or the value and the gradient
    "jvp": lambda f: jvp(f, (X,), (X,))[0],
    "jvp of grad": lambda f: jvp(value_and_grad(f), (X,), (X,))[0],
    "grad": lambda f: value_and_grad(f)(X),
    "vmap": lambda f: vmap(f)(X[None])[0],
    "vmap of grad": lambda f: [part[0] for part in vmap(value_and_grad(f))(X[None])],
    "scan": lambda f: scan(lambda c, x: (c + f(x), None), 0.0, X[None])[0],
    "jit at once": lambda f: jit(f)(X),
    "jit": lambda f: third(jit(f), X),
    "jit of grad at once": lambda f: jit(value_and_grad(f))(X),
    "jit of grad": lambda f: third(jit(value_and_grad(f)), X),
}


def slopes(f: Callable[[Any], Any]) -> np.ndarray:
    return np.array([(f(X + 1e-4 * e) - f(X - 1e-4 * e)) / 2e-4 for e in np.eye(len(X))])


def check(f: Callable[[Any], Any], way: str) -> None:
    found = WAYS[way](f)
    value, gradient = (found, None) if "grad" not in way else found
    np.testing.assert_allclose(value, f(X), rtol=1e-13)
    if gradient is not None:
        np.testing.assert_allclose(gradient, slopes(f), rtol=1e-6, atol=1e-6)


# -- of numbers

NUMBERS = {
    "sum": np.sum,
    "element": lambda x: x[0],
    "max": lambda x: x.max(),
    "product": lambda x: x @ x,
    "norm": np.linalg.norm,
    "in an operator": lambda x: x[1] * 2.0,
}
ARRAYS: dict[str, Callable[[Any], Any]] = {
    "array": np.array,
    "asarray": np.asarray,
    "copy": np.copy,
    "contiguous": np.ascontiguousarray,
    "if needed": lambda s: np.array(s, copy=None),
    "copy.copy": lambda s: np.array(copy.copy(np.array(s))),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", ARRAYS)
@pytest.mark.parametrize("number", NUMBERS)
def test_an_array_of_a_number_leaves_the_number_as_it_is(number: str, make: str, way: str) -> None:
    def f(x: Any) -> Any:
        s = NUMBERS[number](x)
        array, old = ARRAYS[make](s), s
        array *= 2.0
        s += 1.0
        return np.sum(array) * s * old

    check(f, way)


def test_an_argument_that_is_a_number() -> None:
    def f(s: Any) -> Any:
        array = np.array(s)
        array *= 2.0
        return array * s

    for s in (1.5, np.float64(1.5)):
        assert jvp(f, (s,), (1.0,)) == (4.5, 6.0) and grad(f)(s) == 6.0 and third(jit(grad(f)), s) == 6.0


def test_what_a_function_makes_is_asked_of_the_functions_in_its_cells() -> None:
    makers = {"array": np.array}  # whoever refers to a dictionary may change it, and is not started again

    def seen(x: Any) -> Any:
        return np.sum(x) * 2.0

    def makes(x: Any) -> Any:
        number = np.sum(x)
        array = makers["array"](number)
        array *= 2.0
        return np.sum(array) * number

    for f in (seen, makes, seen, makes):  # by one code, that of the function in WAYS
        assert WAYS["scan"](f) == f(X)


# -- of arrays

COPIES: dict[str, Callable[[Any], Any]] = {  # of a part of a matrix
    "take": lambda a: np.take(a, 0, axis=0),
    "take along columns": lambda a: np.take(a, 1, axis=1),
    "method take": lambda a: a.take(0, 0),
    "flat": lambda a: a.flat[:],
    "part of flat": lambda a: a.flat[1:3],
    "index of rank 0": lambda a: a[np.array(0)],
    "indices of rank 0": lambda a: a[np.array(0), 1:],
    "an array of a place": lambda a: a[np.array(np.argmax(a[0]))],
    "vectorize": lambda a: np.vectorize(lambda row: row, signature="(n)->(n)")(a[0]),
    "vectorize part": lambda a: np.vectorize(lambda row: row[1:], signature="(n)->(m)")(a[0]),
    "gaussian_filter": lambda a: ndimage.gaussian_filter(a, 0),
    "uniform_filter": lambda a: ndimage.uniform_filter(a, 3, axes=()),
    "concatenate": lambda a: np.concatenate(a[None]),
    "vstack": lambda a: np.vstack(a[None]),
    "meshgrid": lambda a: np.meshgrid(a[0])[0],
    "sparse meshgrid": lambda a: np.meshgrid(a[0], a[1], sparse=True)[1],
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "copy.copy of a part": lambda a: copy.copy(a[1:]),
}
if NEW:
    COPIES["reshape"] = lambda a: np.reshape(a, (-1,), copy=True)
    COPIES["reshape to the same"] = lambda a: np.reshape(a, a.shape, copy=True)
    COPIES["method reshape"] = lambda a: a.reshape(9, 1, copy=True)
VIEWS: dict[str, Callable[[Any], Any]] = {
    "index": lambda a: a[0],
    "place": lambda a: a[np.argmax(a[0])],
    "ix_": lambda a: np.ix_(a[0])[0],
    "ix_ of two": lambda a: np.ix_(np.arange(2), a[0])[1],
    "meshgrid": lambda a: np.meshgrid(a[0], copy=False)[0],
    "sparse meshgrid": lambda a: np.meshgrid(a[0], np.arange(2.0), sparse=True, copy=False)[0],
    "astype in steps": lambda a: a[0, ::2].astype(float, copy=False),
    "astype of a column": lambda a: a[:, 1].astype(float, copy=False),
    "astype of columns": lambda a: a[:, ::-1].astype(float, copy=False),
}


def written(part: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        a = np.outer(x, x)
        a[2, 2] = x[0]
        b = part(a)
        b *= 2.0
        c = part(a)
        a += x
        return np.sum(a * a) + np.sum(b) + np.sum(c * c)

    return f


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", COPIES)
def test_what_numpy_copies_is_apart(name: str, way: str) -> None:
    assert not np.shares_memory(COPIES[name](a := np.outer(X, X)), a)
    check(written(COPIES[name]), way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", VIEWS)
def test_what_is_a_view_is_written_with_its_base(name: str, way: str) -> None:
    assert np.shares_memory(VIEWS[name](a := np.outer(X, X)), a)
    check(written(VIEWS[name]), way)


def through_flat(x: Any) -> Any:
    a = np.outer(x, x)
    flat = a.flat
    flat[1:3] *= 2.0
    flat[4] += x[0]
    flat[[5, 6]] = x[:2]
    a[2] = x
    return np.sum(a * a) + flat[8]


def at_a_place_that_moves(x: Any) -> Any:
    a, place = np.outer(x, x), np.array(0)
    before = a[place]
    a[place] *= 3.0
    place += 1
    a[place] += x
    return np.sum(a * a) + np.sum(before * before)


def parts_of_complex_numbers(x: Any) -> Any:
    z = x + 1j * x * x
    re, im = np.real(z), np.imag(z)
    re[:2] *= 3.0
    im[0] = x[1]
    z *= 2.0
    return np.sum(re * x) + np.sum(im) + np.sum(z.real - z.imag * x)


def broadcast_with_others(x: Any) -> Any:
    y = x * 1.0
    a, _ = np.broadcast_arrays(y, np.ones((2, 3)))
    b, _ = np.meshgrid(y, np.ones(2), copy=False)
    c, _ = np.meshgrid(y, np.ones(2))
    y *= 2.0
    return np.sum(a * a) + np.sum(b) + np.sum(c * c)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", [through_flat, at_a_place_that_moves, parts_of_complex_numbers, broadcast_with_others])
def test_writes_that_views_and_copies_see(f: Callable[[Any], Any], way: str) -> None:
    check(f, way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("another", [copy.copy, copy.deepcopy])
def test_a_copy_of_what_was_written(another: Callable[[Any], Any], way: str) -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        y[0] = x[1] * 2.0
        z = another(y)
        z[1] = x[0] * 5.0
        y[2] = x[0] * 7.0
        return np.sum(y * y) + np.sum(z * z * x)

    check(f, way)


@pytest.mark.parametrize("order", "KACF")
@pytest.mark.parametrize("way", WAYS)
def test_astype_copies_what_lies_in_another_order(way: str, order: str) -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        part = y[::2].astype(float, order=order, copy=False)
        part *= 2.0
        return np.sum(y * y) + np.sum(part)

    check(f, way)


BESIDE_TRACED: dict[str, Callable[[Any, Any], Any]] = {
    "diff append": lambda y, x: np.diff(y, append=y[-1:]),
    "diff append a list": lambda y, x: np.diff(y, append=[y[0], 2.0]),
    "diff prepend by position": lambda y, x: np.diff(y, 1, -1, [x[1]]),
    "nan_to_num": lambda y, x: np.nan_to_num(y, nan=x[0]),
    "polyint": lambda y, x: np.polyint(y, k=x[0]),
    "histogram": lambda y, x: np.histogram(y, weights=x, bins=[-9.0, 0.0, 9.0])[0],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BESIDE_TRACED)
def test_writes_after_functions_with_traced_options(name: str, way: str) -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        made = BESIDE_TRACED[name](y, x)
        y[0] = x[1] * 7.0
        return np.sum(made * made) + np.sum(y * x)

    check(f, way)


@pytest.mark.parametrize("order", ["K", "A", "C", "F"])
@pytest.mark.parametrize("make", [lambda a: [a, 2.0 * a], lambda a: (a.T,), lambda a: [[a[::-1]], [a]]])
def test_arrays_of_lists_lie_as_numpys(make: Any, order: Any) -> None:
    for x in (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3))):
        f = lambda x: np.array(make(x), order=order)
        for found in (vjp(f, x)[0], jvp(f, (x,), (x,))[0]):
            np.testing.assert_array_equal(found, f(x))
            assert found.strides == f(x).strides
