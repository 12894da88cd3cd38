"""Issue 2, point 3: each way to turn a traced value into a plain one is right, or raises with the remedy for that spelling.

A row: name, function of one float, and what `grad` of it must give at 1.5 (a number), or the class of the error.
"""

import cmath
import decimal
import json
import math
import operator
import random

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
from funcad.errors import TracerArrayConversionError, TracerBoolConversionError, TracerIntegerConversionError

A = np.zeros(3)
SQUARE = np.eye(2)
CUT = TracerArrayConversionError


def assign(x):
    a = np.zeros(3)
    a[0] = x
    return a.sum()


def assign_slice(x):
    a = np.zeros(3)
    a[:] = x
    return a.sum()


def assign_complex(x):
    a = np.zeros(3, complex)
    a[1] = x
    return a.sum().real


def add_in_place(x):
    a = np.zeros(3)
    a += x
    return a.sum()


def assign_outside(x):
    A[0] = x
    return A.sum()


def add_outside(x):
    a = A
    a += x
    return a.sum()


def add_to_scalar(x):
    a = np.float64(0.0)
    a += x
    return a


def fill(x):
    a = np.zeros(3)
    a.fill(x)
    return a.sum()


SPELLINGS = [
    ("float", lambda x: float(x), CUT),
    ("complex", lambda x: complex(x).real, CUT),
    ("item", lambda x: x.item(), 1.0),
    ("tolist", lambda x: x.tolist(), 1.0),
    ("math.sin", lambda x: math.sin(x), math.cos(1.5)),
    ("math.floor", lambda x: x * math.floor(x), 1.0),
    ("math.fsum", lambda x: math.fsum([x, x]), 2.0),
    ("math.hypot", lambda x: math.hypot(x, x), 2.0**0.5),
    ("math.pow", lambda x: math.pow(x, 2), 3.0),
    ("math.isclose", lambda x: x * math.isclose(x, x), 1.0),
    ("math.isnan", lambda x: x * math.isnan(x), 0.0),
    ("math.trunc", lambda x: x * math.trunc(x), 1.0),
    ("math.prod", lambda x: math.prod([x, x]), 3.0),
    ("cmath", lambda x: cmath.sin(x).real, math.cos(1.5)),
    ("np.float64", lambda x: np.float64(x), CUT),
    ("np.float32", lambda x: np.float32(x), CUT),
    ("np.int64", lambda x: np.int64(x) * x, 1.0),
    ("np.bool_", lambda x: np.bool_(x) * x, 1.0),
    ("np.complex128", lambda x: np.complex128(x), CUT),
    ("np.array", lambda x: np.array(x), 1.0),
    ("np.array of a list", lambda x: np.array([x, 1.0]).sum(), 1.0),
    ("np.array of objects", lambda x: np.array([x, x], dtype=object).sum(), 2.0),
    ("np.asarray", lambda x: np.asarray(x), 1.0),
    ("np.ascontiguousarray", lambda x: np.ascontiguousarray(x).sum(), 1.0),
    ("np.fromiter", lambda x: np.fromiter([x, x], float).sum(), 2.0),
    ("np.full", lambda x: np.full(3, x).sum(), 3.0),
    ("np.full dtype", lambda x: np.full(3, x, dtype=float).sum(), 3.0),
    ("np.arange", lambda x: np.arange(0, x, 0.5).sum(), CUT),
    ("np.zeros", lambda x: np.zeros(x), TypeError),
    ("np.vectorize", lambda x: np.vectorize(lambda v: v * 2)(x), 2.0),
    ("np.frompyfunc", lambda x: np.frompyfunc(lambda v: v * 2, 1, 1)(x), 2.0),
    ("object array", lambda x: (np.array([1.0, 2.0], dtype=object) * x).sum(), TypeError),
    ("a[i] = x", assign, 1.0),
    ("a[:] = x", assign_slice, 3.0),
    ("complex a[i] = x", assign_complex, 1.0),
    ("a.fill(x)", fill, 3.0),
    ("a += x", add_in_place, 3.0),
    ("a[i] = x of an array from outside", assign_outside, CUT),
    ("a += x of an array from outside", add_outside, CUT),
    ("scalar += x", add_to_scalar, 1.0),
    ("out=", lambda x: np.sin(x, out=A[:1]), CUT),
    ("sum out=", lambda x: np.sum(x, out=A[:1]), CUT),
    ("np.add.at", lambda x: np.add.at(A, [0], x), CUT),
    ("np.copyto", lambda x: np.copyto(A, x), CUT),
    ("np.put", lambda x: np.put(A, [0], x), CUT),
    ("np.place", lambda x: np.place(A, [True] * 3, x), CUT),
    ("np.putmask", lambda x: np.putmask(A, [True] * 3, x), CUT),
    ("np.fill_diagonal", lambda x: np.fill_diagonal(SQUARE, x), CUT),
    ("np.sum of a list", lambda x: np.sum([x, x]), 2.0),
    ("np.sin of a list", lambda x: np.sin([x, x]).sum(), 2.0 * math.cos(1.5)),
    ("np.stack of a list", lambda x: np.stack([x, x]).sum(), 2.0),
    ("fnp.sum of a list", lambda x: fnp.sum([x, x]), 2.0),
    ("fnp.array of a list", lambda x: fnp.array([x, 1.0]).sum(), 1.0),
    ("fnp.asarray", lambda x: fnp.asarray(x), 1.0),
    ("fnp.full", lambda x: fnp.full(3, x).sum(), 3.0),
    ("fnp.at set", lambda x: fnp.at(A)[0].set(x).sum(), 1.0),
    ("np.random", lambda x: np.random.default_rng(0).normal(x), CUT),
    ("random.gauss", lambda x: random.Random(0).gauss(x, 1), 1.0),
    ("np.ma", lambda x: (np.ma.array([1.0, 2.0]) * x).sum(), 3.0),
    ("np.nditer", lambda x: list(np.nditer(x)), TypeError),
    ("np.linspace", lambda x: np.linspace(0, x, 3).sum(), 1.5),
    ("where=", lambda x: np.sin(x * np.ones(2), where=[True, False]).sum(), TypeError),
    ("reduceat", lambda x: np.add.reduceat(x * np.ones(3), [0, 2]).sum(), 3.0),
    ("np.save", lambda x: np.save("/dev/null", x), TypeError),
    ("json", lambda x: json.dumps(x), TypeError),
    ("Decimal", lambda x: decimal.Decimal(x), TypeError),
    ("memoryview", lambda x: memoryview(x), TypeError),
    ("bytes", lambda x: bytes(x), TypeError),
    ("hash", lambda x: hash(x), TypeError),
    ("key of a dict", lambda x: {x: 1}, TypeError),
    ("operator.index", lambda x: operator.index(x), TypeError),
    ("x[...] = 1", lambda x: operator.setitem(x, Ellipsis, 1), TypeError),
    ("x.sort()", lambda x: x.sort(), TypeError),
    ("int", lambda x: int(x) * x, 1.0),
    ("bool", lambda x: x if x else 0.0, 1.0),
    ("str", lambda x: x * len(str(x)), 3.0),
    ("format", lambda x: x * len(f"{x:.3f}"), 5.0),
    ("repr", lambda x: x if repr(x) else 0.0, 1.0),
    ("range", lambda x: sum([x for _ in range(int(x))]), 1.0),
    ("max()", lambda x: max(x, 1.0), 1.0),
    ("sorted", lambda x: sorted([x, 2.0])[0], 1.0),
    ("sum()", lambda x: sum([x, x]), 2.0),
    ("abs()", lambda x: abs(x), 1.0),
    ("divmod", lambda x: divmod(x, 2.0)[1], 1.0),
    ("pow()", lambda x: pow(x, 2), 3.0),
    ("in a list", lambda x: x * (x in [1.5, 2.0]), 1.0),
    ("in an array", lambda x: x * (1.5 in x * np.ones(2)), 1.0),
    ("np.allclose", lambda x: x * np.allclose(x, 1.5), 1.0),
    ("boolean mask", lambda x: x * np.ones(3)[np.ones(3) * x > 1].sum(), 3.0),
    ("isinstance", lambda x: x if isinstance(x, fnp.ndarray) else 0.0, 1.0),
]


@pytest.mark.parametrize("name, f, expected", SPELLINGS, ids=[s[0] for s in SPELLINGS])
def test_right_or_raised(name, f, expected):
    if isinstance(expected, float):
        np.testing.assert_allclose(funcad.grad(f)(1.5), expected)
        return
    with pytest.raises(expected) as caught:
        funcad.grad(f)(1.5)
    if expected is CUT:
        assert "Remedy: " in str(caught.value) and __file__ in str(caught.value)


@pytest.mark.share(3)
@pytest.mark.parametrize("name, f, expected", SPELLINGS, ids=[s[0] for s in SPELLINGS])
def test_inside_jit_right_or_raised(name, f, expected):
    """Without a value the same spellings raise, or give what they give without jit."""
    try:
        result = funcad.jit(funcad.grad(f))(1.5)
    except (CUT, TracerBoolConversionError, TracerIntegerConversionError):
        return
    except TypeError:
        assert not isinstance(expected, float)
        return
    if name in ("str", "format"):  # the text of a value that does not exist
        return
    np.testing.assert_allclose(result, expected)


@pytest.mark.parametrize(
    "f", [float, complex, lambda x: x.item(), lambda x: x.tolist(), math.sin, np.float64, np.asarray, np.array, np.int64]
)
def test_allowed_after_stop_gradient(f):
    from funcad.primitives.conversion import stop_gradient

    g = funcad.grad(lambda x: np.real(x * f(stop_gradient(x))))(np.float64(1.5))
    np.testing.assert_allclose(g, np.real(f(np.float64(1.5))))


def test_remedies_name_the_spelling():
    for f, remedy in [
        (lambda x: float(x), "keep x as it is"),
        (assign_outside, "K = np.array(K)"),
        (add_outside, "K = np.array(K)"),
        (lambda x: np.add.at(A, [0], x), "funcad.numpy.at(K)[indices].add(values)"),
        (lambda x: np.sin(x, out=A), "use the result, y = np.sin("),
    ]:
        with pytest.raises(TracerArrayConversionError) as caught:
            funcad.grad(f)(1.5)
        assert remedy in str(caught.value)


def test_writing_into_an_array_of_objects_keeps_the_derivative():
    def f(x):
        a = np.empty(2, dtype=object)
        a[0], a[1] = x, 2.0 * x
        return a[0] * a[1]

    np.testing.assert_allclose(funcad.grad(f)(1.5), 6.0)
