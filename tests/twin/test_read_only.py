"""What a function only reads is plain; whatever it may write, by whatever name, takes traced values."""

from __future__ import annotations

import ast
import functools
import operator
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import funcad
from funcad.host.conversions import WRITING_NAMES
from funcad.ir.tracer import Tracer
from funcad.twin.written import _METHODS, read_only

TURNS = 80  # more than a code is asked before its source is looked for
WRITERS: dict[str, Callable[[Any, Any], Any]] = {}
X = np.array([0.7, 1.3, 0.4])


def writer(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`f(v, t)` makes an array, writes v into it, and gives a number."""
    WRITERS[f.__name__] = f
    return f


def put_in(a: Any, v: Any) -> None:
    a[1] = v


@writer
def by_a_name(v, t):
    a = np.zeros(3)
    a[1] = v
    return a.sum()


@writer
def by_a_second_name(v, t):
    a = np.ones(3) if t % 2 else np.zeros(3)
    b = c = a
    c[0] = v
    return a.sum() + b[0]


@writer
def by_a_view(v, t):
    a = np.zeros((2, 3))
    rows = a.T[1:]
    rows[0, 1] = v
    return (a * a).sum()


@writer
def by_what_a_function_gives(v, t):
    a = np.zeros(4)
    np.reshape(a, (2, 2))[1, 1] = v
    np.atleast_2d(a)[0, 0] = 2 * v
    return a @ a


@writer
def by_rows(v, t):
    a = np.zeros((2, 2))
    for i, row in enumerate(a):
        row[0] = v * i
    return a.sum()


@writer
def from_a_list(v, t):
    arrays = [np.zeros(2), np.array([1.0, 2.0])]
    arrays[1][0] = v
    first, second = arrays
    first[1] = v * v
    return first.sum() + second.sum()


@writer
def from_a_list_that_grew(v, t):
    arrays = []
    for _ in range(2):
        arrays.append(np.zeros(2))
    arrays[-1][0] = v
    return arrays[1].sum()


@writer
def in_a_dictionary(v, t):
    held = dict(a=np.zeros(2), b={"c": np.zeros(2)})
    held["a"][0] = v
    held["b"]["c"][1] = v * v
    return held["a"].sum() + held["b"]["c"].sum()


@writer
def in_a_comprehension(v, t):
    arrays = [np.zeros(2) for _ in range(2)]
    arrays[0][0] = v
    return arrays[0].sum()


@writer
def by_a_helper(v, t):
    a = np.zeros(3)
    put_in(a, v)
    functools.partial(put_in, a)(2 * v)
    return a.sum()


@writer
def by_a_closure(v, t):
    a = np.zeros(3)

    def store(w):
        a[2] = w

    store(v)
    return a.sum()


@writer
def by_an_operator(v, t):
    a, b = np.zeros(3), np.ones(3)
    a += v
    operator.setitem(b, 1, v)
    return a.sum() * b.sum()


@writer
def by_an_output(v, t):
    a, b, c = np.zeros(2), np.zeros(2), np.zeros(2)
    np.multiply(np.ones(2), v, a)
    np.sin(a, b)
    np.add(a, b, out=c)
    return c.sum()


@writer
def by_methods(v, t):
    a = np.array([3.0, 1.0])
    a.fill(v)
    b = np.zeros(2)
    np.add.at(b, [0, 0], v)
    np.copyto(b[1:], v)
    return a.sum() + b.sum()


@writer
def by_attributes(v, t):
    a = np.zeros(4)
    a.shape = 2, 2
    a.flat[3] = v
    return a[1, 1]


@writer
def a_copy(v, t):
    a = (np.zeros(3) + 1)[[0, 1]].copy()
    a[0] = v
    b = -np.zeros(3)
    b[1:] = v
    return a.sum() + b.sum()


@writer
def by_a_function_handed_on(v, t):
    def put(row):
        row[0] = v
        return row

    return np.apply_along_axis(put, 0, np.zeros((2, 2))).sum()


@writer
def by_a_conditional(v, t):
    (np.zeros(1) if t % 2 else (a := np.zeros(2)))[0] = v
    if t % 2:
        a = np.zeros(2)
    a[1] = v
    return a.sum()


def looped(f: Callable[[Any, Any], Any], acts: bool) -> Callable[[Any], Any]:
    """Turn by turn; `acts`: what appends to a list that was there begins with everything lent."""
    seen: list[int] = []

    def plainly(x: Any) -> Any:
        return sum([f(x[t % 3] * x[0], t) for t in range(TURNS)])

    def acting(x: Any) -> Any:
        seen.append(1)
        return plainly(x)

    return acting if acts else plainly


def differences(f: Callable[[Any], Any]) -> np.ndarray:
    return np.array([(f(X + e) - f(X - e)) / 2e-6 for e in np.eye(3) * 1e-6])


@writer
def by_a_method_that_has_a_name(v, t):
    z = np.zeros(3)
    put = z.__setitem__
    put(1, v)
    return z.sum() * t


@writer
def by_functions_of_operator(v, t):
    z = np.zeros(3)
    operator.setitem(z, 0, v)
    z = operator.iadd(z, v)
    return z.sum() * t


@writer
def by_methods_in_a_list(v, t):
    z = np.zeros(3)
    [z.__setitem__(i, v) for i in range(2)]
    functools.reduce(lambda i, w: z.__setitem__(2, w), [v, v * t])
    return z.sum()


@pytest.mark.share(3)
@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")  # of NumPy 2.5
@pytest.mark.parametrize("acts", [False, True])
@pytest.mark.parametrize("name", WRITERS)
def test_what_may_be_written_takes_traced_values(name: str, acts: bool) -> None:
    f = looped(WRITERS[name], acts)
    expected = differences(f)
    for _ in range(2):
        value, slope = funcad.value_and_grad(f)(X)
        assert value == pytest.approx(f(X), rel=1e-14)
        np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(funcad.jvp(f, (X,), (np.ones(3),))[1], expected.sum(), rtol=1e-6)


KINDS: list[type] = []
POINTS = np.random.default_rng(0).normal(size=(3, 2))


def of_an_element(x: Any, points: Any = None) -> Any:
    """As finite elements are written: what is made of the points is only read."""
    out, points = np.zeros(3), POINTS if points is None else points
    for t in range(TURNS):
        p = points[[t % 3, (t + 1) % 3, (t + 2) % 3]]
        e = np.array([p[2] - p[1], p[0] - p[2], p[1] - p[0]])
        products = e @ e.T
        KINDS.extend([type(p), type(e), type(products)])
        local = x[t % 3] * products
        out[t % 3] += local[0, 1] / 4
    return out.sum()


@pytest.mark.parametrize("given", [False, True])
def test_what_is_only_read_is_numpys(given: bool) -> None:
    expected = differences(of_an_element)
    slope, more = funcad.grad(of_an_element), [POINTS] if given else []
    slope(X, *more)
    KINDS.clear()
    np.testing.assert_allclose(slope(X, *more), expected, rtol=1e-6)
    assert set(KINDS) == {np.ndarray}


CASES = {
    "a = x + 1\nb = float(a[0] * 2)": {"a[0] * 2", "a[0]", "x + 1", "float(a[0] * 2)"},
    "a = x + 1\na[0] = 2": set(),
    "a = x + 1\nb = a * 2\nb[0] = 1": {"x + 1"},
    "a = np.sin(x)\nreturn np.sum(a) > 1": {"np.sin(x)", "np.sum(a)"},
    "a = np.sin(x)\nf(a)\nreturn 1": {"f(a)"},
    "a = x + 1\nnp.cos(1, a)": {"np.cos(1, a)"},
    "a = x + 1\nnp.add(1, 2, a)": {"np.add(1, 2, a)"},
    "a = x + 1\nreturn lambda: a": set(),
    "a = x + 1\nlocals()['a'][0] = 1": set(),
    "a = [x + 1]": set(),
    "a = np.array([x + 1])": {"np.array([x + 1])", "x + 1"},
}


@pytest.mark.parametrize("text", CASES)
def test_expressions_that_are_only_read(text: str) -> None:
    module = ast.parse("import numpy as np\ndef g(x, f):\n" + textwrap.indent(text, "    "))
    assert {ast.unparse(node) for node in read_only(module)[0]} == CASES[text]


def test_no_method_that_only_reads_writes() -> None:
    assert not _METHODS & WRITING_NAMES


def test_an_array_of_many_numbers_is_one_row() -> None:
    """In all orders, of traced and plain numbers, one of them twice."""
    rows: list[int] = []

    def f(x: Any) -> Any:
        numbers = [x[i % 3] * i if i % 4 else float(i) for i in range(100)]
        numbers.append(numbers[1])
        a = np.array(numbers)
        rows.append(a.tangent - numbers[99].tangent if type(a) is Tracer and type(a.tangent) is int else 1)
        return np.sum(np.sin(a) * a[::-1])

    np.testing.assert_allclose(funcad.grad(f)(X), differences(f), rtol=1e-6)
    assert len(rows) > 1 and set(rows) == {1}
    slope = lambda x: funcad.grad(f)(x) @ np.arange(3.0)
    np.testing.assert_allclose(funcad.grad(slope)(X), differences(slope), rtol=1e-6)
    np.testing.assert_allclose(funcad.hessian(f)(X), funcad.jit(funcad.hessian(f))(X), rtol=1e-12)
    np.testing.assert_allclose(funcad.vmap(funcad.grad(f))(X * np.ones((2, 1)))[1], funcad.grad(f)(X), rtol=1e-12)
    np.testing.assert_allclose(funcad.jacobian(lambda x: np.array([f(x), f(2 * x)]))(X)[0], funcad.grad(f)(X), rtol=1e-12)


def test_blocks_are_added_into_a_sparse_matrix_that_is_being_assembled() -> None:
    """Bars in a row: blocks by np.ix_, single numbers, a block over blocks; each is read as it is by then."""
    n = 12

    def f(x: Any) -> Any:
        K = scipy.sparse.lil_matrix((n, n))
        K[0, 0] = 3.0
        K.setdiag(x[1] * np.arange(1.0, n + 1))
        for i in range(n - 1):
            at = np.ix_([i, i + 1], [i, i + 1])
            K[at] += x[i % 3] * np.array([[1.0, -1.0], [-1.0, 1.0]])
            K[i, i + 1] += x[0]
            K[i : i + 2, i] = K[i : i + 2, i].toarray() * 1.5
        K[np.ix_([0, 5], [5, 0])] = np.array([[x[0], 0.25], [x[2], 1.0]])
        return scipy.sparse.linalg.spsolve(K.tocsc(), np.ones(n)).sum() + K[5, 5] * K[0, 5] + K[np.ix_([1, 2], [1, 7])].sum()

    expected = differences(f)
    for of in (funcad.grad(f), funcad.jit(funcad.grad(f))):
        np.testing.assert_allclose(of(X), expected, rtol=2e-6)
    assert funcad.value_and_grad(f)(X)[0] == pytest.approx(f(X), rel=1e-12)
