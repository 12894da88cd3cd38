"""Loops over few numbers as lines of Python's arithmetic agree with the reference, and are taken where they should be."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import funcad
from funcad import tree
from funcad.backends import number_lines
from funcad.backends.emission import generate
from funcad.backends.engines import EngineProgram
from funcad.backends.interpreter import Program
from tests.agreement import assert_agree


def written(f, *args):
    """The NumPy engine's program, and what it takes."""
    lowered = funcad.jit(f).lower(*args)
    program = generate(EngineProgram(lowered.jaxpr, "numpy").fused)
    return program, [*lowered._entry.consts, *tree.leaves(args)], lowered.jaxpr


def check(f, *args, ulps=0, scale=1.0, lines=True, reference=False):
    """Agreement with the reference, bit by bit; `lines`: by lines about numbers; `reference`: the loop ends up there."""
    program, values, jaxpr = written(f, *args)
    assert ("except (ValueError" in program.text) == lines, program.text
    called = []
    for name, function in list(program.scope.items()):
        if name.startswith(("scan_", "while_loop_")) and callable(function):
            program.scope[name] = lambda *a, function=function: called.append(1) or function(*a)
    expected = Program(jaxpr).run(list(values))
    with np.errstate(all="ignore"):
        found = program.function(list(values))
    assert bool(called) == reference
    for x, y in zip(found, expected, strict=True):
        assert type(x) is type(y)
        assert_agree(x, y, ulps=ulps, scale=scale)
    return program


X = np.random.default_rng(3).normal(size=(20, 3))


def repeated(step, n=30):
    return lambda x: funcad.fori_loop(0, n, lambda i, c: step(c), x)


ARITHMETIC = {
    "numbers": (lambda c: 1.01 * c - 0.1 * c * c + 0.3, np.float64(0.4)),
    "an array": (lambda c: c + 0.01 * np.stack([c[1] - c[0], c[0] * (2.0 - c[2]), c[0] * c[1]]), X[0]),
    "rows": (lambda c: c * 0.5 + np.sum(c, axis=1, keepdims=True) * 0.1, X[:2]),
    "columns": (lambda c: c[::-1].T.reshape(2, 3) * 0.9 + np.concatenate([c[:1], c[1:] * 2.0]), X[:2]),
    "extrema": (lambda c: np.maximum(c, np.min(c) * 0.5) * 0.9 + np.minimum(c, 0.1), X[1]),
    "masks": (lambda c: np.where(c > 0.5, c * 0.3, c + 1.0), X[1]),
    "signs": (lambda c: np.sign(c) * 0.3 + np.abs(c) * 0.5 - np.copysign(0.1, c), X[1]),
    "roots and quotients": (lambda c: np.sqrt(np.abs(c)) / (1.0 + c * c), X[1]),
    "written elements": (lambda c: funcad.numpy.at(c * 0.5)[1].set(c[0] - 1.0), X[1]),
    "added elements": (lambda c: funcad.numpy.at(c * 0.5)[:2].add(c[1:] - 1.0), X[1]),
    "padded": (lambda c: np.pad(c[1:], (1, 0)) + np.roll(c, 1) * 0.5, X[1]),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_is_numpys_to_the_bit(name):
    step, x = ARITHMETIC[name]
    check(repeated(step), x, ulps=0 if "row" not in name else 4)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_gradients_are_lines_too(name):
    step, x = ARITHMETIC[name]
    f = repeated(step)
    check(funcad.grad(lambda x: np.sum(f(x))), x, ulps=64, scale=8.0)


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "exp", "log", "log1p", "expm1", "tanh", "arctan", "cbrt", "floor"])
def test_functions(name):
    f = getattr(np, name)
    check(lambda x: funcad.scan(lambda c, v: (c * 0.5 + v, f(np.abs(c) + 0.1)), 0.0, x), X[:, 0], ulps=4, scale=8.0)


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e308, 5e-324, 709.5, 800.0, -800.0])


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: x / y,
        lambda x, y: 1.0 / x + y,
        lambda x, y: np.log(x) * y,
        lambda x, y: np.sqrt(x) - y,
        lambda x, y: np.exp(x) * y,
        lambda x, y: np.maximum(x, y + 1.0) - np.minimum(x, y - 1.0),
        lambda x, y: np.sign(x) + y,
        lambda x, y: np.where(x == 0.0, y, y / x),
        lambda x, y: x * y * 1e10,
        lambda x, y: np.log(x * x - y) / np.exp(-y * x),
    ],
)
def test_infinities_and_nans_without_the_reference(f):
    x, y = map(np.ravel, np.meshgrid(SPECIAL, SPECIAL))
    step = lambda c, v: (c + 1.0, f(np.where(c >= 0.0, v[0], 7.0), v[1]))  # or it would be done before the loop
    check(lambda x, y: funcad.scan(step, 0.0, (x, y)), x, y, ulps=2)


@pytest.mark.parametrize("f", [np.sin, np.cosh, np.expm1, np.log1p, lambda x: x**7, np.arcsin])
def test_what_python_refuses_is_done_by_the_reference(f):
    xs = np.array([0.5, 1.0, np.inf, 1e300, -1e300, -1.0, 0.25])
    g = lambda x: funcad.scan(lambda c, v: (c + 1.0, f(np.where(c >= 0.0, v, 7.0)) + c), 0.0, x)
    check(g, xs, ulps=4, reference=True)
    check(g, xs[:2] * 0.5, ulps=4)


def test_nothing_warns():
    f = lambda x: funcad.scan(lambda c, v: (c + v, np.log(v) / c), 0.0, x)
    funcad.config.update("engine", "numpy")
    try:
        jitted = funcad.jit(f)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                jitted(SPECIAL)
    finally:
        funcad.config.update("engine", "auto")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_what_goes_in_and_comes_out_row_by_row(reverse, length):
    def step(carry, row):
        a, b, flag, n = carry
        x, m, k, both = row
        new = a * 0.5 + x
        return (new, b + np.sum(x), flag | m, n + 1), (new, b, m, k, both * 2.0, flag, n, x)

    rows = (X[:length], X[:length, 0] > 0, np.arange(length), X[: 2 * length, :2].reshape(length, 2, 2))
    init = (np.zeros(3), np.float64(0.5), np.bool_(False), 0)
    check(lambda init, rows: funcad.scan(step, init, rows, reverse=reverse), init, rows, ulps=4)


def test_orders_of_memory():
    step = lambda c, row: (c * 0.5 + row, c)
    for rows in (np.asfortranarray(X), X[::-2], np.broadcast_to(X[0], (5, 3)), X[:, ::-1], X.astype(">f8")):
        foreign = not rows.dtype.isnative
        check(lambda c, rows: funcad.scan(step, c, rows), X[0], rows, reference=foreign)
        for reverse in (False, True):
            f = lambda c, rows, reverse=reverse: funcad.scan(lambda c, v: (c * 0.5 + v, c), c, rows, reverse=reverse)
            check(f, np.float64(0.5), rows[:, 1], reference=foreign)


def test_an_argument_is_not_written_and_a_result_is_new():
    program, _, _ = written(lambda c, x: funcad.scan(lambda c, v: (c, c * v), c, x), X[0], X)
    c = X[0].copy()
    last, _ = program.function([c, X])
    np.testing.assert_array_equal(last, X[0])
    f = funcad.jit(repeated(lambda c: c * 0.5))
    for _ in range(3):
        x = X[0].copy()
        y = f(x)
        assert not np.shares_memory(x, y)
        y[:] = 7.0
        np.testing.assert_array_equal(x, X[0])


def test_integers():
    check(lambda x: funcad.fori_loop(0, 9, lambda i, c: c * 0.5 + i, x), X[0])
    check(lambda x, n: funcad.fori_loop(n, n + 9, lambda i, c: np.where(i < 4, c * 0.5, c + 1.0), x), X[0], 2, lines=True)
    check(lambda x, n: funcad.scan(lambda c, i: (c * 0.5 + i, i), x, n), np.float64(0.5), np.arange(9))
    wrapping = lambda x: funcad.scan(lambda c, i: (c * 3, c), x, None, length=60)  # beyond 64 bits
    check(wrapping, np.int64(7), lines=False)


def test_arrays_that_are_added_in_their_places():
    slope = funcad.grad(lambda c: np.sum(c[1:] * c[:-1] * 0.1 + c[0] * c[2]))
    check(repeated(lambda c: c - 0.1 * slope(c)), X[0])
    zeros = np.array([-0.0, 0.0, -0.0])
    check(repeated(lambda c: slope(c) * -0.5), zeros)


def test_loops_and_branches_in_loops():
    inner = lambda c: funcad.fori_loop(0, 4, lambda i, d: d * 0.7 + c * 0.1, c)
    check(repeated(inner), X[0])
    collecting = lambda c: funcad.scan(lambda d, v: (d * 0.5 + v, d - v), np.sum(c), c, reverse=True)[1]
    check(repeated(collecting), X[0], ulps=64, scale=4.0)
    check(repeated(lambda c: funcad.cond(c[0] > 0.1, lambda c: c * 0.5, lambda c: c + 1.0, c)), X[0])
    choice = lambda c: funcad.switch(funcad.numpy.astype(np.abs(c[0]) < 2, np.int64), [lambda c: c * 0.5, lambda c: c + 1.0], c)
    check(repeated(choice), X[0])
    halved = lambda c: funcad.while_loop(lambda d: d > 0.3, lambda d: d * 0.5, c + 1.0)
    check(repeated(halved), np.float64(0.3))
    check(lambda x: funcad.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, inner(c[1])), (0, x)), X[0])


def test_a_while_loop_and_its_derivatives():
    f = lambda x: np.sum(funcad.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1] * c[1] * 0.5 + 0.1), (0, x))[1])
    check(f, X[0], ulps=4)
    check(funcad.grad(f), X[0], ulps=4)
    check(lambda x: funcad.jvp(funcad.grad(f), (x,), (x,)), X[0], ulps=16)
    check(funcad.hessian(f), X[0], ulps=16, lines=True)


def test_vmap_of_a_loop_and_a_loop_of_gradients():
    f = repeated(lambda c: np.sin(c) * 1.1)
    check(funcad.vmap(f), X[0], ulps=64, scale=4.0)
    slope = funcad.grad(lambda w: np.sum(w**4 - w[0] * w[1]))
    check(repeated(lambda w: w - 0.01 * slope(w)), X[0], ulps=64, scale=4.0)


def test_other_dtypes_stay_as_they_are():
    for dtype in (np.float32, np.complex128, np.float16, np.int32):
        x = np.ones(3, dtype)
        check(repeated(lambda c: c * c - c), x, lines=False)
        assert funcad.jit(repeated(lambda c: c * c - c))(x).dtype == dtype


def test_many_numbers_stay_arrays():
    check(repeated(lambda c: c * 0.5 + 1.0), np.ones(200), lines=False)
    check(repeated(lambda c: c @ c * 0.01), np.ones((12, 12)), lines=False, ulps=64)


def test_no_elements():
    check(repeated(lambda c: (c[0] * 0.5, c[1] * 2.0)), (X[0], np.zeros((0, 3))))
    check(lambda x, e: funcad.scan(lambda c, v: (c * 0.5, (c, v)), x, e), X[0], np.zeros((4, 0)))
    check(lambda x, e: funcad.scan(lambda c, v: (c * 0.5, c), x, e), X[0], np.zeros((0, 2)), lines=False)


def test_without_jit():
    f = repeated(lambda c: c + 0.01 * np.stack([c[1] - c[0], c[0] * (2.0 - c[2]), c[0] * c[1]]))
    g = funcad.grad(lambda x: np.sum(f(x)))
    first = g(X[0])
    funcad.config.update("engine", "numpy")
    try:
        for _ in range(3):
            assert_agree(g(X[0]), first, ulps=8)
    finally:
        funcad.config.update("engine", "auto")


def test_a_loop_is_costed():
    """What is predicted to be quicker as calls of NumPy is left to them."""
    assert number_lines.LINE < number_lines.CALL
    check(repeated(lambda c: np.maximum.reduce(c[:, None] + c[None, :], axis=0) * 0.5, n=5), np.linspace(0, 1, 40), lines=False)


def test_long_lists_are_arrays(monkeypatch):
    monkeypatch.setattr(number_lines, "LONG", 8)
    step = lambda c, v: ((c[0] * 0.5 + v, ~c[1], c[2] + 1), (c[0], c[1], c[2], c[0] > v))
    program = check(lambda x: funcad.scan(step, (np.zeros(3), np.bool_(True), 0), x), X)
    assert program.text.count(" = array(") == 3


def test_loops_in_many_loops():
    f = lambda c: c * 0.5 + 1.0
    for _ in range(15):
        f = lambda c, f=f: funcad.fori_loop(0, 2, lambda i, c: f(c), c)
    lowered = funcad.jit(f).lower(np.float64(0.3))
    found = generate(lowered.jaxpr).function([np.float64(0.3)])
    assert abs(found[0] - 2.0) < 1e-9


def test_texts_that_other_lengths_take_over():
    """The loop by the reference is made anew for them, too."""
    f = funcad.jit(lambda x: funcad.scan(lambda c, v: (c * 0.5 + np.cosh(np.where(c > -1e300, v, 7.0)), c), 0.0, x))
    with funcad.config.set(engine="numpy"):
        for n in (10, 20, 30, 40, 50, 60, 70):
            for scale in (0.1, 0.1, 1e4):  # the last one is beyond `math`
                x = np.linspace(-1.0, 1.0, n) * scale
                with np.errstate(over="ignore"):
                    last, ys = f(x)
                    terms = np.cosh(x)
                c, expected = 0.0, []
                for t in terms:
                    expected.append(c)
                    c = c * 0.5 + t
                np.testing.assert_allclose(ys, expected, rtol=1e-13)
                np.testing.assert_allclose(last, c, rtol=1e-13)
