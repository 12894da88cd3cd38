"""CuPy's functions and funcad's own on top of them, without a GPU, beside NumPy's and SciPy's on special values.

Needs CuPy's wheel (any; `pip install cupy-cuda12x`) and g++, which compiles the C++ text of CuPy's loops: tests/cupy_loops.py.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit
from tests.cupy_loops import LoopArray, Loops, compiler, wrap
from tests.specs import OpSpec, all_specs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that it finds no GPU
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed: pip install cupy-cuda12x", exc_type=ImportError)
if not compiler():
    pytest.skip("there is no g++ to compile CuPy's loops with", allow_module_level=True)

SPECIAL = np.array(
    [0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 7, 10, 1e-300, 5e-324, -5e-324, 1e-8, 1e16, -1e16, 1e300, -1e300, 88.0, 700.0]
    + [-745.0, np.pi, np.inf, -np.inf, np.nan, 1.5, 2.5, -2.5, 0.1, 0.9999999, 1.0000001, 25.3, -0.9]
)
FEW = SPECIAL[[0, 1, 2, 3, 4, 6, 11, 15, 21, 24, 25, 26]]

# Where values differ and are left so: points that are not compared, with the reason.
Points = Callable[..., Any]
LEFT: dict[str, tuple[Points, str]] = {
    "gammaln": (
        lambda x: (np.abs(x) < 1e-307) | (np.abs(x - 1) < 1e-6),
        "SciPy overflows at denormal numbers, CuPy does not; few digits near the zero at 1",
    ),
    "poch": (lambda a, m: np.isinf(a) | np.isinf(m) | (np.abs(a) < 1e-307) | (np.abs(m) > 1e15), "SciPy's chance limits"),
    "binom": (lambda n, k: np.abs(k) > 1e15, "0 or what rounding leaves of it"),
    "expn": (lambda n, *x: ~(np.abs(n) < 1e9) if x else False, "orders that are no 32-bit integers"),
    "betaincc": (lambda a, b, x: x < 1e-7, "CuPy has no such function: digits of 1 - x are lost"),
    "gammaincc": (lambda a, x: np.abs(a) < 1e-307, "denormal results"),
    "gammainc": (lambda a, x: np.abs(a) < 1e-307, "denormal operands"),
    **dict.fromkeys(["j0", "j1", "y0", "y1"], (lambda x: (np.abs(x) > 1e8) & ~np.isinf(x), "SciPy has lost the phase")),
    **dict.fromkeys(["relu", "maximum", "minimum"], (lambda *x: np.all(np.equal(x, 0), axis=0), "NumPy leaves the sign open")),
    "beta": (lambda a, b: (a <= 0) | (b <= 0) | (a + b < 1e-300), "gamma functions at their poles"),
    "betaln": (
        lambda a, b: (a <= 0) | (b <= 0) | (a + b < 1e-300) | (np.abs(a - 1) < 1e-6) & (np.abs(b - 1) < 1e-6),
        "gamma functions at their poles; few digits near the zero",
    ),
}


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loops]:
    found = Loops(cupy, tmp_path_factory.mktemp("loops"))
    with found.registered():
        yield found


def operands(n: int, dtype: str) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        values = (SPECIAL if n < 3 else FEW).astype(dtype)
    return [np.ascontiguousarray(v.ravel()) for v in np.meshgrid(*[values] * n, indexing="ij")]


def differences(found: Any, expected: Any, tolerance: float) -> Any:
    """Where they differ: signs of zeros and NaN count, the last digits and what is denormal do not."""
    a, b = np.asarray(found), np.asarray(expected)
    if b.dtype.kind not in "fc":
        return a != b
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= tolerance * np.abs(b) + 2 * np.finfo(b.dtype).tiny
        same = (a == b) & (np.signbit(a) == np.signbit(b)) if b.dtype.kind == "f" else a == b
        return ~(same | near & (b != 0) | np.isnan(a) & np.isnan(b))


def elementwise(op: OpSpec, dtype: str) -> int:
    """How many operands it has, if all are floats and each element of the result is made of one of each; else 0."""
    args = op.samples()[0]
    if op.primitives[0].multiple or not args or not all([isinstance(a, np.ndarray) and a.dtype == np.float64 for a in args]):
        return 0
    x = [np.array([0.5, 0.15, 0.9, 0.3, 0.7], dtype) * (1 - 0.1 * i) for i in range(len(args))]
    try:
        (out,), (turned,) = op.call(*x), op.call(*[np.ascontiguousarray(a[::-1]) for a in x])
    except Exception:  # it wants a matrix, say: LAPACK has errors of its own
        return 0
    return len(x) if np.shape(out) == x[0].shape and not differences(turned[::-1], out, 1e-5).any() else 0


with np.errstate(all="ignore"):
    SPECS = [s for s in all_specs() if "cupy" in s.backends]
    CASES = [pytest.param(s, n, d, id=f"{s.id}-{d}") for s in SPECS for d in ("f8", "f4") if (n := elementwise(s, d))]


@pytest.mark.parametrize(("op", "n", "dtype"), CASES)
def test_special_values(op: OpSpec, n: int, dtype: str, loops: Loops) -> None:
    x = operands(n, dtype)
    with np.errstate(all="ignore"):
        (expected,) = op.call(*x)
        try:
            (found,) = op.call(*map(wrap, x))
        except NotImplementedError as error:
            pytest.skip(str(error).partition("\n")[0])
    assert type(found) is LoopArray and found.dtype == expected.dtype
    wrong = differences(found, expected, 1e-11 if dtype == "f8" else 2e-5)
    if op.primitives[0].name in LEFT:
        with np.errstate(all="ignore"):
            wrong &= np.logical_not(LEFT[op.primitives[0].name][0](*x))
    where = np.flatnonzero(wrong)
    examples = [(*[float(v[i]) for v in x], "CuPy", found[i], "NumPy", expected[i]) for i in where[:5]]
    assert not where.size, f"{where.size} of {wrong.size} differ: {examples}"


def test_the_table_reaches_what_differs() -> None:
    names = {case.values[0].primitives[0].name for case in CASES}  # type: ignore[union-attr]
    differing = "mod floor_divide sinc exprel xlog1py gammainc pseudo_huber rel_entr inv_boxcox expi gammasgn j0 logaddexp2"
    assert set(differing.split()) <= names and len(names) > 120


PAIRS = np.array([*itertools.product([-7.5, 7.0, 1e16, -1e16, 0.0, -0.0, np.inf, np.nan], [np.pi, -2.0, 1e-8, np.inf])]).T


@pytest.mark.parametrize("use", ["un-jitted", "jitted", "operator", "half"])
def test_remainders_are_numpys_however_they_are_asked_for(use: str, loops: Loops) -> None:
    x, y = PAIRS if use != "half" else [np.clip(v, -60000, 60000).astype(np.float16) for v in PAIRS]
    program = (lambda a, b: (a % b, a // b)) if use == "operator" else lambda a, b: (np.remainder(a, b), np.floor_divide(a, b))
    with np.errstate(all="ignore"):
        expected = program(x, y)
        if use == "jitted":
            found = jit(program)(wrap(x), wrap(y))
        else:  # seen by a transformation, which runs the operations one by one
            box: list[Any] = []
            grad(lambda a: [box.append(program(a, wrap(y))), np.sum(a)][1])(wrap(x))
            found = [getattr(v, "primal", v) for v in box[0]]
    for a, b in zip(found, expected):
        np.testing.assert_array_equal(np.asarray(a), b)
        np.testing.assert_array_equal(np.signbit(np.asarray(a)), np.signbit(b))
