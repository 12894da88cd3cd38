"""`x[mask]` where the mask has no value: elementwise functions, sums and `x[mask] = ...` are NumPy's, all else says why not."""

from __future__ import annotations

import copy
import functools
import warnings

import numpy as np
import pytest
import scipy.special

from funcad import grad, jit, jvp, scan, vmap
from funcad.errors import TracerBoolConversionError
from funcad.numpy import at

X = np.array([[-1.0, 0.5, 2.0], [0.25, -2.0, 0.0]])
C = np.linspace(0.5, 3.0, 6).reshape(2, 3)


def written_back(x, c):
    m = x > 0.1
    x[m] = x[m] ** 2 + c[m]
    return x


def mask_computed_twice(x, c):
    x[x > 0] = x[x > 0] ** -1.5 * 2.0
    return x


def in_place(x, c):
    x[x < 0.3] *= c[x < 0.3]
    m = c > 1.0
    x[m] -= 1.0
    selected = x[m]
    again = selected
    selected += 5.0
    return x, np.sum(again)


def functions(x, c):
    m = np.logical_and(x > 0, c > 0.6)
    x[m] = np.sqrt(x[m]) + np.arctan2(x[m], c[m]) - np.where(True, 1.0, 2.0)
    return x


def sums(x, c):
    m = x > 0
    s = x[m]
    return np.sum(s), s.mean(), np.prod(s * 2.0), s.var(), np.std(s, ddof=1), (s > 1).any(), np.all(s > 0), s.size, s.ndim


def rows(x, c):
    m = x[:, 0] < 0
    x[m] = x[m] * np.array([1.0, 2.0, 3.0]) + np.ones((1, 3))
    return x, x[m].sum(axis=0), c[m].sum(), c[m].size


def operators(x, c):
    m = x != 0
    s = 1.0 / (3.0 - x[m]) + -abs(x[m]) % 0.7 - 2.0 // (c[m] + 1.0)
    whole = x[m].astype(int)
    x[m] = s * ((whole & 1) ^ 1) + (s > 0.2) - (s == 7.0) + ~whole
    return x


def integers(x, c):
    k = x.astype(int)
    k[k > 0] += 3
    k[k < 0] <<= 1
    return k, k[k != 0].mean()


def by_at(x, c):
    return at(x)[x > 0].add(c[x > 0]), at(x)[x > 0].apply(np.exp)


def not_selected(x, c):
    """Logarithms and quotients of what is not selected neither warn nor reach a derivative."""
    m = x > 0
    x[m] = np.log(x[m]) / np.sqrt(x[m])
    return x


def functions_in_python(x, c):
    m = c > 0.6
    s = np.clip(x[m], -1.5, c[m]) + np.interp(x[m], [-2.0, 0.3, 2.0], [1.0, 0.0, 4.0]) * np.ones_like(x[m])
    x[m] = np.where(s > 0.0, s * c[m], np.full_like(s, 0.5)) + np.sinc(np.where(x[m] > 0.1, x[m], 0.3))
    return x, np.isclose(s, 0.5).any(), np.nan_to_num(s).sum()


FUNCTIONS = [written_back, mask_computed_twice, in_place, functions, functions_in_python, sums, rows, operators, integers]
FUNCTIONS += [by_at, not_selected]
functions_of_masks = pytest.mark.parametrize("f", FUNCTIONS, ids=[f.__name__ for f in FUNCTIONS])


def seen(f):
    """What f gives, as a tuple, and its arguments afterwards."""

    def run(x, c):
        x, c = x * 1.0, c * 1.0
        found = f(x, c)
        return (*(found if isinstance(found, tuple) else (found,)), x, c)

    return run


def loss(f):
    return lambda x, c: sum([np.sum(y * y) for y in seen(f)(x, c) if np.result_type(y).kind == "f"])


def compare(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert np.result_type(a) == np.result_type(b)
        np.testing.assert_allclose(a, b, rtol=1e-12)


@functions_of_masks
def test_values(f):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = seen(f)(X, C)
        compare(jit(seen(f))(X, C), expected)
        lanes = vmap(seen(f))(np.stack([X, X + 0.1]), np.stack([C, C]))
        compare([y[0] for y in lanes], expected)
        compare([y[1] for y in lanes], seen(f)(X + 0.1, C))
        turns = scan(lambda carry, x: (carry, seen(f)(x, C * 1.0 + 0.0 * x)), 0.0, np.stack([X, X - 0.1]))[1]
        compare([y[1] for y in turns], seen(f)(X - 0.1, C))


@functions_of_masks
def test_derivatives(f):
    expected = grad(loss(f), argnums=(0, 1))(X, C)  # the mask has a value there
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sums and integers do not depend on all of it
        compare(jit(grad(loss(f), argnums=(0, 1)))(X, C), expected)
        compare(grad(jit(loss(f)), argnums=(0, 1))(X, C), expected)
        compare([g[0] for g in vmap(grad(loss(f), argnums=(0, 1)))(X[None], C[None])], expected)
        slope = jit(lambda x, c: jvp(loss(f), (x, c), (x, c))[1])(X, C)
    np.testing.assert_allclose(slope, np.sum(expected[0] * X) + np.sum(expected[1] * C), rtol=1e-9)


REFUSED = {
    "returned": lambda x: x[x > 0],
    "in a list": lambda x: [x, x[x > 0]],
    "another mask": lambda x: x[x > 0] + x[x > 1],
    "an array": lambda x: x[x > 0] + np.ones(3),
    "sorted": lambda x: np.sort(x[x > 0]),
    "an element": lambda x: x[x > 0][0],
    "length": lambda x: len(x[x > 0]),
    "shape": lambda x: np.zeros(x[x > 0].shape),
    "largest": lambda x: x[x > 0].max(),
    "dot": lambda x: np.dot(x[x > 0], x[x > 0]),
    "matmul": lambda x: x[x > 0] @ x[x > 0],
    "iterated": lambda x: sum(x[x > 0]),
    "truth": lambda x: x if x[x > 0] else -x,
    "size in a condition": lambda x: x if x[x > 0].size else -x,
    "another axis": lambda x: x[x[:, 0] > 0].sum(axis=1),
    "kept axes": lambda x: x[x > 0].sum(keepdims=True),
    "written by another mask": lambda x: at(x)[x > 1].set(x[x > 0]),
    "as an index": lambda x: x[x.astype(int)[x > 0]],
    "to NumPy": lambda x: np.asarray(x[x > 0]),
    "float": lambda x: float(x[x > 0]),
    "written": lambda x: x[x > 0].__setitem__(0, 1.0),
    "reduced by a ufunc": lambda x: np.add.reduce(x[x > 0]),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_count_is_refused(name):
    for run in (jit(REFUSED[name], guards=False), jit(lambda x: vmap(REFUSED[name])(x[None]))):
        with pytest.raises(TracerBoolConversionError):
            run(X * 1.0)


AS_AN_ARRAY = {  # what meets it without being asked for it first
    "dot of another": lambda x: x[:2].dot(x[x > 0]),
    "dot of itself": lambda x: (z := x[x > 0]).dot(z),
    "dot of all": lambda x: x.dot(x[x > -9]),
    "sum where": lambda x: np.sum(z := x[x > 0], where=z > 1),
    "sum where of another": lambda x: x[:2].sum(where=x[x > 0] > 1),
    "product where": lambda x: np.prod(z := x[x > 0], where=z > 1),
    "largest where": lambda x: (z := x[x > 0]).max(where=z > 1, initial=0.0),
    "largest where of another": lambda x: np.max(x[:2], where=x[x > 0] > 1, initial=0.0),
    "searched": lambda x: x[x > 0].searchsorted(x[x > 1]) * x[0],
    "searched in another": lambda x: x[:2].searchsorted(x[x > 1]) * x[0],
    "product": lambda x: (z := x[x > 0]) @ z,
    "np.array": lambda x: np.array(x[x > 0]) ** 2,
    "np.asarray": lambda x: np.asarray(x[x > 0]) ** 2,
    "np.asanyarray": lambda x: np.asanyarray(x[x > 0]) ** 2,
    "np.ascontiguousarray": lambda x: np.ascontiguousarray(x[x > 0]) ** 2,
    "np.asfortranarray": lambda x: np.asfortranarray(x[x > 0]) ** 2,
    "np.copy": lambda x: np.copy(x[x > 0]) ** 2,
    "of another dtype": lambda x: np.array(x[x > 0], dtype=np.float32, copy=True),
    "by its name": lambda x: np.array(object=x[x > 0]),
    "rows": lambda x: np.array([x[x > 0], x[:2]]),
    "filled": lambda x: np.full((2, 2), x[x > 0]),
    "vectorized": lambda x: np.vectorize(lambda t: t * 2.0)(x[x > 0]),
    "SciPy's": lambda x: scipy.special.logsumexp(x[x > 0]),
}


def ways(f, x):
    """f of x in each way, and its gradient."""
    for transformed in (f, grad(lambda x: np.sum(f(x)))):
        expected, jitted = transformed(x), jit(transformed)
        yield from [(found, expected) for found in (jitted(x), jitted(x), jitted(x), jitted(x + 0.0))]
        yield from [(lane, expected) for lane in vmap(transformed)(np.stack([x, x]))]
    slopes = [jvp(g, (x,), (np.ones_like(x),))[1] for g in (f, jit(f))]
    yield from [(np.sum(slope), np.sum(expected)) for slope in slopes]


@pytest.mark.parametrize("name", AS_AN_ARRAY)
def test_it_is_an_operand_as_arrays_are(name):
    for found, expected in ways(AS_AN_ARRAY[name], np.array([1.5, -0.7, 2.2])):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_it_is_compared_as_arrays_are():
    x = np.array([[1.5, -0.7, 2.2]])
    assert vmap(lambda x: np.testing.assert_allclose(x[x > 0], [1.5, 2.2]) or x.sum())(x).shape == (1,)
    with pytest.raises(AssertionError):
        vmap(lambda x: np.testing.assert_allclose(x[x > 0], [1.5, 2.0]) or x.sum())(x)


@functools.singledispatch
def by_type(x):
    return 0.0 * x


@by_type.register(np.ndarray)
def of_array(x):
    return x.sum()


def matched(x):
    match x:
        case np.ndarray():
            return np.sum(x) * 3.0
    return np.sum(x)


ASKED = {
    "isinstance": lambda x: np.sum(z * 3.0 if isinstance(z := x[x > 0], np.ndarray) else z),
    "class": lambda x: np.sum(z * 3.0 if (z := x[x > 0]).__class__ is np.ndarray else z),
    "match": lambda x: matched(x[x > 0]),
    "singledispatch": lambda x: by_type(x[x > 0]),
    "a number": lambda x: np.sum(z * 3.0 if not np.isscalar(z := x[x > 0]) else z),
    "copy": lambda x: np.sum(copy.copy(x[x > 0])),
    "deepcopy": lambda x: np.sum(copy.deepcopy([x[x > 0]])[0]),
}


@pytest.mark.parametrize("name", ASKED)
def test_it_answers_type_tests_as_arrays_do(name):
    f, x = ASKED[name], np.array([1.5, -0.7, 2.2])
    turns = scan(lambda carry, x: (carry, f(x)), 0.0, np.stack([x, x]))[1]
    for found, expected in (*ways(f, x), (turns[1], f(x))):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_type_of_it_in_the_code_of_a_jitted_function():
    f = lambda x: x[0] * (type(x[x > 0]) is np.ndarray)
    jitted, x = jit(f), np.array([1.5, -0.7, 2.2])
    assert [jitted(x), jitted(x), jitted(x)] == [f(x)] * 3


def test_what_is_written_after_a_copy_is_not_in_it():
    def f(x):
        z = x[x > 0]
        z[0] = 5.0
        other = copy.copy(z)
        z[0] = 7.0
        return np.sum(other)

    for found, expected in ways(f, np.array([1.5, -0.7, 2.2])):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def added(x):
    y = x[:2] * 1.0
    alias = y
    y += x[x > 0]
    return alias


def multiplied(x):
    y = np.ones((2, 3))
    rows = y[:, 1:]
    rows *= x[x > 0]
    return y


def powers(x):
    z = x[x > 0]
    alias = z
    z **= x[1:]
    return alias


@pytest.mark.parametrize("f", [added, multiplied, powers])
def test_what_is_written_in_place_is_seen_elsewhere(f):
    for found, expected in ways(f, np.array([1.5, -0.7, 2.2])):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def columns(y, m, x):
    y[:, m] = x[0]


def scaled_columns(y, m, x):
    y[..., m] *= x[1]


def elements(y, m, x):
    y[m, 1] = 7.0


def parts_of_rows(y, m, x):
    y[m, 1:] = x[m][:, None]


def of_a_view(y, m, x):
    y.T[m, 0] += x[2]


def with_other_places(y, m, x):
    y[[[0], [2]], m] = y[0, m] ** 2


def columns_of_a_buffer(y, m, x):
    z = np.zeros((3, 3))
    z[:, m] = y[:, m]
    y[...] = z


WRITES = [columns, scaled_columns, elements, parts_of_rows, of_a_view, with_other_places, columns_of_a_buffer]


@pytest.mark.parametrize("write", WRITES)
def test_a_mask_among_other_entries_is_written(write):
    def f(x):
        y = np.outer(x, x)
        write(y, x > 0, x)
        return y * C.reshape(3, 2)[:, :1]

    x = np.array([1.5, -0.7, 2.2])
    lanes, slopes = np.stack([x, x, -x, x]), grad(lambda x: np.sum(f(x)))
    of_lanes = grad(lambda lanes: np.sum(vmap(f)(lanes)))(lanes), np.stack([slopes(lane) for lane in lanes])
    for found, expected in (*ways(f, x), (vmap(f)(lanes)[2], f(-x)), of_lanes):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(IndexError, match="boolean index did not match"):
        jit(lambda x: write(np.outer(x, x), x[:2] > 0, x))(x)


def test_a_masked_array_is_no_operand():
    f = lambda x: x.dot(np.ma.masked_array(x, x > 1))
    for g in (grad(f), jit(f), lambda x: vmap(f)(np.stack([x, x]))):
        with pytest.raises(TypeError, match="no plain array"):
            g(np.arange(3.0))


def test_errors_are_numpys():
    with pytest.raises(IndexError, match="boolean index did not match"):
        jit(lambda x, m: x[m] + 1.0)(X, np.array([True, False, True]))
    with pytest.raises(TypeError, match="same_kind"):
        jit(in_place_of_integers)(np.arange(4))
    with pytest.raises(AttributeError):
        jit(lambda x: x[x > 0].no_such_thing)(X)


def in_place_of_integers(k):
    k[k > 1] += 0.5
    return k


def test_a_written_mask_is_another_one():
    def f(x):
        m = x > 0
        before = x[m]
        m[0] = True
        return before + x[m]

    with pytest.raises(TracerBoolConversionError):
        jit(f, guards=False)(X)


def test_an_array_written_later_is_not_seen():
    def f(x):
        s = x[x > 0]
        y = x > 0
        x[...] = 5.0
        x[y] = s * 2.0
        return x

    np.testing.assert_array_equal(jit(f)(X * 1.0), f(X * 1.0))


def test_a_range_is_an_index():
    def f(x):
        square = np.zeros((4, 4))
        square[range(2), range(1, 3)] = x[range(0, 4, 2)]
        square[range(1)] += x[3]
        return np.sum(square**2) + np.sum(np.outer(x, x)[range(2), :] ** 2) + np.take(x, range(1, 3)).sum() + x[range(0)].sum()

    x = np.array([0.5, 1.5, -1.0, 2.0])
    step = 1e-6 * np.cos(np.arange(4.0))
    slope = (f(x + step) - f(x - step)) / 2e-6
    for g in (grad(f), jit(grad(f)), lambda x: vmap(grad(f))(np.stack([x, x]))[1]):
        assert np.dot(g(x), step) * 1e6 == pytest.approx(slope, rel=1e-7)
    with pytest.raises(IndexError):
        grad(lambda x: x[range(9)].sum())(x)


def test_item_is_a_number_with_its_derivative():
    x = np.array([0.5, 1.5, -1.0])
    f = lambda x: x[0] * x[:1].item() + x.item(2) ** 2 + 3.0 * x.reshape(3, 1).item(1, 0)
    for g in (grad(f), jit(grad(f)), lambda x: vmap(grad(f))(np.stack([x, x]))[1]):
        np.testing.assert_allclose(g(x), [1.0, 3.0, -2.0])
    assert jit(f)(x) == f(x)
    single = x.astype(np.float32)  # beside which Python's float is weak
    assert jvp(lambda x: x * x.item(1), (single,), (single,))[0].dtype == np.float32
    with pytest.raises(ValueError, match="size 1"):
        grad(lambda x: x.item())(x)
    with pytest.raises(IndexError):
        grad(lambda x: x.item(7))(x)
