"""When two engines agree on a result: one meaning, two backends.

Bitwise for exact operations, 2 ulp for transcendental ones, n * eps * sum|x| for reductions and contractions; always the same
dtype and type, the same pattern of NaN and infinities, the same signs of zero.
"""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np

__all__ = ["assert_agree", "assert_close", "bits", "places_of", "same_bits"]


def _parts(x: np.ndarray) -> list[np.ndarray]:
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def bits(a: Any) -> bytes:
    """The bytes of the numbers. x86's long doubles have ten of them in sixteen; the others are whatever was there before."""
    a = np.asarray(a)
    if a.dtype.char not in "gG" or np.finfo(a.dtype).nmant != 63:
        return a.tobytes()
    part = np.dtype(np.longdouble).itemsize
    return np.ascontiguousarray(a).reshape(-1).view(np.uint8).reshape(-1, part)[:, :10].tobytes()


def same_bits(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)


def assert_agree(found: Any, expected: Any, *, ulps: int = 2, scale: float = 0.0, what: str = "") -> None:
    """`scale`: n * sum|x| of a reduction's operand, 0 for everything else."""
    assert type(found) is type(expected), f"{what}: {type(found)} and {type(expected)}"
    a, b = np.asarray(found), np.asarray(expected)
    assert a.dtype == b.dtype and a.shape == b.shape, f"{what}: {a.dtype}{a.shape} and {b.dtype}{b.shape}"
    if same_bits(a, b):
        return
    assert a.dtype.kind in "fc", f"{what}: {a} and {b}"
    for x, y in zip(_parts(a), _parts(b)):
        assert np.array_equal(np.isnan(x), np.isnan(y)), f"{what}: NaN at other places: {x} and {y}"
        assert np.array_equal(np.isinf(x), np.isinf(y)), f"{what}: infinities at other places: {x} and {y}"
        zero = (x == 0) & (y == 0)
        assert np.array_equal(np.signbit(x[zero]), np.signbit(y[zero])), f"{what}: signs of zero differ: {x} and {y}"
        finite = np.isfinite(y)
        x, y = x[finite], y[finite]
        bound = ulps * np.spacing(np.maximum(np.abs(x), np.abs(y))) + scale * np.finfo(y.dtype).eps
        assert np.all(np.abs(x - y) <= bound), f"{what}: {x} and {y} differ by {np.max(np.abs(x - y)):.3g}"


def assert_close(found: Any, expected: Any, *, rtol: float, what: str = "") -> None:
    """Equal up to rtol times the largest finite element; same shape, NaN equal to NaN."""
    a, b = np.asarray(found), np.asarray(expected)
    assert a.shape == b.shape, f"{what}: shapes {a.shape} and {b.shape}"
    if b.dtype.kind not in "fc":
        assert np.array_equal(a, b), f"{what}: {a} and {b}"
        return
    finite = np.abs(b[np.isfinite(b)])
    largest = float(finite.max()) if finite.size else 0.0
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(largest, 1.0), equal_nan=True, err_msg=what)


def places_of(error: BaseException) -> str:
    """Where an error says that it comes from: its traceback's files and lines, and its notes."""
    frames = traceback.extract_tb(error.__traceback__)
    return "\n".join([*[f"{frame.filename}:{frame.lineno} " for frame in frames], *getattr(error, "__notes__", [])])
