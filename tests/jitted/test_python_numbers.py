"""What Python's `math`, `round` and the methods of numbers give in a compiled function: the same numbers, of the same types."""

from __future__ import annotations

import math
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
    "modf": lambda x, y: math.modf(x),
    "hypot": lambda x, y: math.hypot(x, y),
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
