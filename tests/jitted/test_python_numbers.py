"""What Python's `math`, `round` and the methods of numbers give in a compiled function: the same numbers, of the same types."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad as fc

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "floor": lambda x, y: math.floor(x) * y,
    "floor alone": lambda x, y: math.floor(x),
    "floor, a power": lambda x, y: math.floor(x) ** 2,
    "floor, a quotient": lambda x, y: (math.floor(x) / 2, math.floor(x) // 2, math.floor(x) % 3),
    "ceil": lambda x, y: math.ceil(x) * y,
    "trunc": lambda x, y: math.trunc(x if type(x) is int else float(x)) * y,
    "int": lambda x, y: int(x) * y,
    "round": lambda x, y: round(x) * y,
    "round alone": lambda x, y: round(x),
    "round, one digit": lambda x, y: round(x, 1) * y,
    "round, two digits": lambda x, y: round(x * 0.535, 2),
    "round to tens": lambda x, y: round(x * 100, -1) * y,
    "isnan": lambda x, y: math.isnan(x) + y,
    "isfinite": lambda x, y: math.isfinite(x) * y,
    "isclose": lambda x, y: math.isclose(x, y) + y,
    "is_integer": lambda x, y: x.is_integer() + y if hasattr(x, "is_integer") else y,
    "fsum": lambda x, y: math.fsum([x, y]),
    "prod": lambda x, y: math.prod([x, y]),
    "prod from a start": lambda x, y: math.prod((x, y), start=0.5),
    "dist": lambda x, y: math.dist([x, y], [0.0, 1.0]),
    "imag": lambda x, y: x.imag + y,
    "parts of a truth": lambda x, y: (math.isnan(x).real, math.isnan(x).conjugate(), (x > y).imag, x.real, x.conjugate()),
    "modf": lambda x, y: math.modf(x),
    "hypot": lambda x, y: math.hypot(x, y),
    "truths": lambda x, y: (math.isnan(x) + math.isfinite(y), math.isfinite(x) * math.isfinite(y)),
    "inverted": lambda x, y: ~round(x) * np.int8(3),
    "comparison": lambda x, y: ((x > y) * y, (x > y) + y, (not x) + y),
}


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    try:
        found = f(*args)
    except Exception as error:
        return type(error)
    return [(type(x), repr(x)) for x in (found if type(found) is tuple else (found,))]


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, int])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_have_pythons_types(name: str, kind: type):
    f, jitted = FUNCTIONS[name], fc.jit(FUNCTIONS[name])
    for x, y in [(-1.25, 0.5), (2.5, -3.75), (0.15, 1.0), (7.0, 2.0)] * 3:
        assert outcome(jitted, kind(x), kind(y)) == outcome(f, kind(x), kind(y))


@pytest.mark.parametrize("z", [1 + 2j, np.complex64(1 + 2j), np.complex128(1 + 2j)])
def test_a_conjugate_has_the_type_of_its_number(z: Any):
    f = lambda z: (z.conjugate(), z.conjugate() * np.ones(1, np.complex64), z.conjugate() * z)
    jitted = fc.jit(f)
    for _ in range(3):
        assert outcome(jitted, z) == outcome(f, z)


@pytest.mark.parametrize("kind", [int, bool, float, np.int64, np.int8, np.float64])
def test_a_mean_of_integers_is_what_pythons_is(kind: type):
    f = lambda a, b, c: (statistics.mean([a, b, c]), statistics.mean([a, b, 3]) * np.ones(1, np.float32))
    jitted = fc.jit(f)
    for numbers in [(1, 2, 3), (1, 2, 4), (-1, -2, -4), (0, 0, 1)] * 3:
        given = [kind(v) for v in numbers]
        assert outcome(jitted, *given) == outcome(f, *given)


@pytest.mark.parametrize("f", [np.allclose, np.array_equal, np.array_equiv])
def test_answers_of_arrays_are_pythons_truths(f: Callable[..., Any]):
    def asked(x: Any, y: Any) -> Any:
        same = f(x, y)
        return same is True, same is False, type(same) is bool, same + same, same / 2 * np.ones(1, np.float32), same

    jitted, x = fc.jit(asked), np.arange(3.0)
    for y in [x, x + 1, x, x + 1, x]:
        assert outcome(jitted, x, y) == outcome(asked, x, y)
    matched = fc.jit(fc.grad(lambda x: x.sum() * (2 if f(x, x) is True else 3)))
    for _ in range(3):
        assert matched(x).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("digits", [None, 0, 1, 2, -1])
@pytest.mark.parametrize("x", [0.15, 0.25, 2.675, -0.35, 1e300, math.nan, math.inf, np.float64(0.15), np.float32(0.15), 15])
def test_round_is_pythons(x: Any, digits: Any):
    f = lambda x: round(x) if digits is None else round(x, digits)
    jitted = fc.jit(f)
    for _ in range(4):
        assert outcome(jitted, x) == outcome(f, x)


def test_round_of_arrays_and_complex_numbers_raises_as_pythons():
    for x in (np.array(1.5), np.ones(3), 1j):
        for f in (lambda x: round(x, 1), lambda x: round(x), lambda x: round(x + 0 * x)):
            jitted = fc.jit(f)
            assert [outcome(jitted, x) for _ in range(4)] == [outcome(f, x)] * 4
    with pytest.raises(TypeError, match="doesn't define __round__ method; use np.round"):
        fc.make_jaxpr(lambda x: round(x, 1))(np.ones(3))


def test_round_has_the_derivative_zero():
    f = lambda x: round(x, 1) * x
    assert fc.grad(f)(0.15) == fc.jit(fc.grad(f))(0.15) == round(0.15, 1)
    assert fc.jvp(f, (0.15,), (1.0,)) == (round(0.15, 1) * 0.15, round(0.15, 1))
    x = np.array([0.15, 0.25, -2.35])
    assert np.array_equal(fc.vmap(f)(x), [f(v) for v in x])


def test_fsum_is_the_exact_sum_rounded_once():
    f = lambda x: math.fsum([x, 1.0, -x, 1e-3 * x / x])
    jitted = fc.jit(f)
    for x in (1e16, 3e300, 0.1, np.float64(1e17)) * 3:
        assert outcome(jitted, x) == outcome(f, x)
    g = lambda xs: math.fsum(list(xs)) * xs[1]
    xs = np.array([1e16, 2.0, -1e16])
    for grad in (fc.grad(g), fc.jit(fc.grad(g)), fc.jit(fc.grad(g))):
        np.testing.assert_array_equal(grad(xs), [2.0, 4.0, 2.0])
    rows = np.array([xs, xs[::-1] + 1.0, 2 * xs])
    expected = [g(row) for row in rows]
    for mapped in (fc.vmap(g), fc.jit(fc.vmap(g)), fc.vmap(fc.jit(g))):
        np.testing.assert_array_equal(mapped(rows), expected)
    with pytest.raises(ValueError, match="fsum"):
        jitted(math.inf)


def test_fsum_of_none_and_of_what_it_refuses():
    for f in (lambda x: x + math.fsum([]), lambda x: math.fsum([x, 1j]), lambda x: math.fsum([x] * 3)):
        jitted = fc.jit(f)
        assert [outcome(jitted, 1.5) for _ in range(3)] == [outcome(f, 1.5)] * 3


def test_pythons_complex_numbers_make_no_real_array():
    """NumPy takes the real part of its own complex numbers, and none of Python's."""
    for f in (lambda x: np.array([x, 1j], float), lambda x: np.array([[x], [1j]], int), lambda x: np.array([x, 1j], complex)):
        for g in (fc.jit(f), lambda x, f=f: fc.jvp(f, (x,), (1.0,))[0]):
            found, expected = outcome(g, 1.5), outcome(f, 1.5)
            assert found == expected, (found, expected)
