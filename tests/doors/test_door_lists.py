"""Lists of traced values: NumPy's functions do not look into them, so one gets a door when that was met, and f starts again."""

from __future__ import annotations

import cmath
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, jvp, value_and_grad, vmap

X = np.array([1.5, 2.5])
V = np.array([0.7, -0.4])

LISTS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: np.sum([x[0], x[1] * x[0]]),
    "max": lambda x: np.max([x[0], x[1] * 2]),
    "min of arrays": lambda x: np.sum(np.min([x, x * 2], axis=0)),
    "prod": lambda x: np.prod([x[0], x[1]]),
    "mean": lambda x: np.mean([x[0], x[1] ** 2]),
    "std": lambda x: np.std((x[0], x[1])),
    "dot": lambda x: np.dot([x[0], 1.0], [2.0, x[1]]),
    "where": lambda x: np.sum(np.where([True, False], [x[0], 1.0], 2.0)),
    "a ufunc": lambda x: np.sum(np.sin([x[0], x[1]])),
    "of two": lambda x: np.sum(np.multiply([x[0], x[1]], x)),
    "norm": lambda x: np.linalg.norm([x[0], x[1]]),
    "det": lambda x: np.linalg.det([[x[0], 1.0], [2.0, x[1]]]),
    "solve": lambda x: np.sum(np.linalg.solve([[x[0], 1.0], [2.0, x[1] + 3.0]], [1.0, 2.0])),
    "interp": lambda x: np.interp(0.5, [0.0, 1.0], [x[0], x[1]]),
    "cross": lambda x: np.sum(np.cross([x[0], 1.0, 2.0], [x[1], 2.0, 1.0])),
    "two functions": lambda x: np.median([x[0], x[1], 3.0]) * np.var([x[0], x[1]]),
    "nested": lambda x: np.trace([[x[0], 1.0], [2.0, x[1]]]),
}
COMPLEX: dict[str, Callable[[Any], Any]] = {
    "sqrt": lambda x: cmath.sqrt(x[0] - 2.0).imag,
    "exp": lambda x: abs(cmath.exp(1j * x[0]) + x[1]),
    "phase": lambda x: cmath.phase(x[0] + 1j * x[1]),
    "polar": lambda x: sum(cmath.polar(x[0] + 1j * x[1])),
    "rect": lambda x: cmath.rect(x[0], x[1]).real,
    "log": lambda x: cmath.log(x[0] + 2j, 3).real,
    "atan": lambda x: cmath.atan(0.2j * x[0]).imag,
    "sinh": lambda x: cmath.sinh(x[0] + 1j * x[1]).real,
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", [*LISTS, *COMPLEX])
def test_values_and_slopes(name: str) -> None:
    f = LISTS[name] if name in LISTS else COMPLEX[name]
    h, wanted = 1e-6, f(X)
    slope = (f(X + h * V) - f(X - h * V)) / (2 * h)
    for g in (value_and_grad(f), jit(value_and_grad(f)), value_and_grad(jit(f))):
        value, gradient = g(X)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(np.sum(gradient * V), slope, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(jvp(f, (X,), (V,))[1], slope, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(vmap(f)(np.stack([X, X]))[1], wanted, rtol=1e-12)
    assert f(X) == wanted


def test_whoever_catches_the_error_gets_numpys_answer() -> None:
    def f(x: Any) -> Any:
        try:
            return np.ptp([x[0], x[1] * 3.0])
        except TypeError:
            return x[0] * 0.0

    np.testing.assert_array_equal(grad(f)(X), [-1.0, 3.0])


def test_python_s_errors_of_complex_functions() -> None:
    for f in (lambda x: cmath.log(x * 0.0), lambda x: cmath.sqrt(np.stack([x, x]))):
        with pytest.raises((ValueError, TypeError)) as expected:
            f(1.0)
        with pytest.raises(expected.type):
            grad(lambda x, f=f: abs(f(x)))(1.0)


def test_functions_are_what_they_were(tmp_path: Path) -> None:
    """A fresh process: nothing is hung before a list was met, and what is hung answers plain calls as before."""
    program = """
import pickle, numpy as np, funcad, threading
x = np.array([1.5, 2.5])
before = np.sum.__wrapped__ if hasattr(np.sum, "__wrapped__") else None
code = np.sum._implementation.__code__ if hasattr(np.sum, "_implementation") else np.sum.__code__
funcad.grad(lambda x: np.sum(x * x))(x)
implementation = getattr(np.sum, "_implementation", np.sum)
assert implementation.__code__ is code
print(funcad.grad(lambda x: np.sum([x[0], 3.0 * x[1]]) + np.sum(np.sin([x[0]])))(x))
assert implementation.__code__ is not code
assert np.sum([1.0, 2.0]) == 3.0 and np.sin([0.0])[0] == 0.0
kept = []
def f(x):
    kept.append((np.sin, isinstance(np.sin, np.ufunc), pickle.loads(pickle.dumps(np.sin)), np.sum([1.0, 2.0])))
    return np.sum(np.sin(x))
funcad.grad(f)(x)
assert kept[0][0] is np.sin and kept[0][1] and kept[0][2] is np.sin and kept[0][3] == 3.0
funcad.config.doors = False
assert implementation.__code__ is code
try:
    funcad.grad(lambda x: np.sum([x[0], x[1]]))(x)
except TypeError as error:
    assert "funcad.numpy.sum" in str(error)
else:
    raise AssertionError
"""
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf8")
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert np.allclose([float(s) for s in done.stdout.strip("[] \n").split()], [1.0 + math.cos(1.5), 3.0])


def test_a_function_that_is_not_there_says_so() -> None:
    with pytest.raises(TypeError, match="Remedy"):
        grad(lambda x: np.datetime_as_string([x[0], x[1]]))(X)
    assert funcad.config.doors


@pytest.mark.parametrize("way", ["plain", "grad", "jvp", "vmap", "jit", "grad of jit"])
def test_apply_along_axis_of_a_list_of_traced_numbers(way: str):
    f = lambda x: np.apply_along_axis(lambda v: v[0] * v[1], 0, [[x, x * x], (1.0, 2.0)])[1]
    g = lambda x: np.apply_along_axis(lambda v, a: v * a, axis=0, arr=np.ones((2, 2)), a=x)[1, 1] ** 2
    for h in (f, g):
        slope = 8.0 if h is f else 4.0
        value = 8.0 if h is f else 4.0
        call, exact = {
            "plain": (h, value),
            "grad": (grad(h), slope),
            "jvp": (lambda x, h=h: jvp(h, (x,), (1.0,))[1], slope),
            "vmap": (lambda x, h=h: vmap(h)(np.array([x, 0.0]))[0], value),
            "jit": (jit(h), value),
            "grad of jit": (grad(jit(h)), slope),
        }[way]
        for _ in range(3):
            assert call(2.0) == exact
