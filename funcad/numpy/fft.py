"""Discrete Fourier transforms under NumPy's names, differentiable.

Idea: `transform` brings the operand to the length that is asked for and binds the one primitive `fft`; all names, SciPy's too,
are combinations of its four kinds. A real operand stays real for fft and ifft: NumPy transforms it in half the time. hfft and
ihfft are irfft and rfft with a conjugation and the norm exchanged.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.configuration import OnDemand, public_names
from funcad.host.real_types import FLOAT32, is_narrow
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.dispatch import implements
from funcad.numpy.promote import array_of, axes_of, fresh, library
from funcad.primitives.conversion import complex_dtype, conj, convert
from funcad.primitives.fourier import SWAPPED
from funcad.primitives.fourier import fft as _transform
from funcad.primitives.shape import pad_p, slice_p

creation = OnDemand("funcad.numpy.creation")

__all__ = [
    "fft",
    "ifft",
    "rfft",
    "irfft",
    "hfft",
    "ihfft",
    "fft2",
    "ifft2",
    "rfft2",
    "irfft2",
    "fftn",
    "ifftn",
    "rfftn",
    "irfftn",
    "fftfreq",
    "rfftfreq",
    "fftshift",
    "ifftshift",
]
__dir__ = public_names(globals())


def norm_of(norm: Any) -> str:
    if norm is None:
        return "backward"
    if norm not in SWAPPED:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return norm


def resized(x: Any, sizes: Sequence[int], axes: Sequence[int]) -> Any:
    """x cropped or padded with zeros, at the end, to the given sizes along the given axes."""
    shape = list(shape_of(x))
    limits, high = list(shape), [0] * len(shape)
    for n, axis in zip(sizes, axes):
        limits[axis], high[axis] = min(n, shape[axis]), max(n - shape[axis], 0)
    if limits != shape:
        x = slice_p(x, start=(0,) * len(shape), limit=tuple(limits), strides=None)
    if any(high):
        x = pad_p(x, low=(0,) * len(shape), high=tuple(high), interior=(0,) * len(shape))
    return x


def _checked(n: int) -> int:
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    return n


def floating(x: Any) -> Any:
    """Integers and bools become float64, as in NumPy's transforms."""
    x = array_of(x)
    return x if dtype_of(x).kind in "fc" else convert(x, FLOAT32 if is_narrow(dtype_of(x)) else np.dtype(float))


def real_operand(x: Any, name: str) -> Any:
    x = floating(x)
    if dtype_of(x).kind == "c":
        raise TypeError(f"{name} takes real input, got {dtype_of(x)}; use its real part, or fft")
    return x


def one_axis(kind: str, a: Any, n: Any, axis: Any, norm: Any) -> Any:
    """One transform over one axis, of NumPy's six kinds."""
    norm = norm_of(norm)
    x = real_operand(a, kind) if kind in ("rfft", "ihfft") else floating(a)
    shape = shape_of(x)
    if not shape:
        raise IndexError(f"{kind}: the operand must have at least one axis")
    (axis,) = axes_of(operator.index(axis), len(shape))
    if kind in ("irfft", "hfft"):
        n = _checked(2 * (shape[axis] - 1) if n is None else operator.index(n))
        own = dtype_of(x)
        if own.kind != "c":
            x = convert(x, complex_dtype(own))
        elif kind == "hfft":
            x = conj(x)
        out = _transform(
            resized(x, [n // 2 + 1], [axis]), "irfft", (axis,), n=n, norm=norm if kind == "irfft" else SWAPPED[norm]
        )
        return out if own.kind == "c" or dtype_of(out) == own else convert(out, own)
    n = _checked(shape[axis] if n is None else operator.index(n))
    x = resized(x, [n], [axis])
    if kind == "ihfft":
        return conj(_transform(x, "rfft", (axis,), n=n, norm=SWAPPED[norm]))
    return _transform(x, kind, (axis,), n=n if kind == "rfft" else 0, norm=norm)


def shape_and_axes(x: Any, s: Any, axes: Any, inverse_real: bool = False) -> tuple[list[int], list[int]]:
    """NumPy's `s` and `axes`, made definite; -1 in `s` stands for the operand's own size."""
    shape = shape_of(x)
    if axes is None:
        axes = range(len(shape)) if s is None else range(len(shape) - len(s), len(shape))
    axes = [operator.index(a) for a in axes]
    axes = [a + len(shape) if a < 0 else a for a in axes]
    for a in axes:
        if not 0 <= a < len(shape):
            raise IndexError(f"axis {a - len(shape) if a < 0 else a} is out of bounds for an array of {len(shape)} axes")
    if s is None:
        sizes = [shape[a] for a in axes]
        if inverse_real and axes:
            sizes[-1] = 2 * (sizes[-1] - 1)
    else:
        sizes = list(s)
        if len(sizes) != len(axes):
            raise ValueError("Shape and axes have different lengths.")
        sizes = [shape[a] if n is None or n == -1 else operator.index(n) for n, a in zip(sizes, axes)]
    return [_checked(n) for n in sizes], axes


def several_axes(kind: str, x: Any, sizes: Sequence[int], axes: Sequence[int], norm: Any) -> Any:
    """fft or ifft over several axes, the last first; an axis that is named twice is transformed twice."""
    norm = norm_of(norm)
    if len(set(axes)) == len(axes):
        return _transform(resized(x, sizes, axes), kind, tuple(axes), norm=norm) if axes else x
    for n, axis in zip(sizes[::-1], axes[::-1]):
        x = _transform(resized(x, [n], [axis]), kind, (axis,), norm=norm)
    return x


def _last_axis(axes: Sequence[int], name: str) -> int:
    if not axes:
        raise IndexError(f"{name} needs at least one axis")
    return axes[-1]


def complex_n(kind: str, a: Any, s: Any, axes: Any, norm: Any) -> Any:
    x = array_of(a)
    sizes, axes = shape_and_axes(x, s, axes)
    return several_axes(kind, floating(x), sizes, axes, norm) if axes else x


def rfft_n(a: Any, s: Any, axes: Any, norm: Any) -> Any:
    x = real_operand(a, "rfftn")
    sizes, axes = shape_and_axes(x, s, axes)
    last = _last_axis(axes, "rfftn")
    x = one_axis("rfft", x, sizes[-1], last, norm)
    return several_axes("fft", x, sizes[:-1], axes[:-1], norm)


def irfft_n(a: Any, s: Any, axes: Any, norm: Any) -> Any:
    x = floating(a)
    own = dtype_of(x)
    sizes, axes = shape_and_axes(x, s, axes, inverse_real=True)
    last = _last_axis(axes, "irfftn")
    x = several_axes("ifft", x, sizes[:-1], axes[:-1], norm)
    out = one_axis("irfft", x, sizes[-1], last, norm)
    return out if own.itemsize != 2 else convert(out, np.dtype(np.float32 if len(axes) > 1 else own))


def _one(kind: str) -> Any:
    def transform(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
        return one_axis(kind, a, n, axis, norm)

    return implements(f"fft.{kind}")(transform)


def _several(name: str, rule: Any, default: Any, alias: str = "copy") -> Any:
    def transform(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Any:
        return rule(a, s, axes, norm)

    return implements(f"fft.{name}", alias=alias)(transform)


def _fft_n(a: Any, s: Any, axes: Any, norm: Any) -> Any:
    return complex_n("fft", a, s, axes, norm)


def _ifft_n(a: Any, s: Any, axes: Any, norm: Any) -> Any:
    return complex_n("ifft", a, s, axes, norm)


fft, ifft, rfft, irfft, hfft, ihfft = [_one(kind) for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")]
fftn, ifftn = _several("fftn", _fft_n, None, "same"), _several("ifftn", _ifft_n, None, "same")
rfftn, irfftn = _several("rfftn", rfft_n, None), _several("irfftn", irfft_n, None)
fft2, ifft2 = _several("fft2", _fft_n, (-2, -1), "same"), _several("ifft2", _ifft_n, (-2, -1), "same")
rfft2, irfft2 = _several("rfft2", rfft_n, (-2, -1)), _several("irfft2", irfft_n, (-2, -1))


def _shifts(x: Any, axes: Any, sign: int) -> Any:
    x = array_of(x)
    shape = shape_of(x)
    if axes is None:
        axes = tuple(range(len(shape)))
    elif not isinstance(axes, (tuple, list)):
        axes = (operator.index(axes),)
    shifts = tuple([n // 2 if sign > 0 else -(n // 2) for n in [shape[a] for a in axes]])
    return np.roll(x, shifts, tuple(axes)) if axes else fresh(x)


@implements("fft.fftshift")
def fftshift(x: Any, axes: Any = None) -> Any:
    return _shifts(x, axes, 1)


@implements("fft.ifftshift")
def ifftshift(x: Any, axes: Any = None) -> Any:
    return _shifts(x, axes, -1)


def _frequencies(name: str, n: int, d: Any, device: Any, dtype: Any) -> Any:
    if dtype is not None and np.dtype(dtype).kind != "f":
        raise ValueError(f"np.fft.{name}: dtype must be a real floating-point one, got {np.dtype(dtype)}")
    traced = type(d) is Tracer
    frequencies = getattr(library(device, None if device is not None else 1.0 if traced else d).fft, name)
    result = frequencies(n) / d if traced else frequencies(n, d)
    return result if dtype is None else creation.astype(result, dtype)


@implements("fft.fftfreq", always=True)
def fftfreq(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """`numpy.fft.fftfreq`; the sample spacing may be traced. `dtype` is the array API standard's.

    >>> from funcad.numpy import fft
    >>> fft.fftfreq(4, dtype="f4")
    array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    return _frequencies("fftfreq", n, d, device, dtype)


@implements("fft.rfftfreq", always=True)
def rfftfreq(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """`numpy.fft.rfftfreq`; the sample spacing may be traced. `dtype` is the array API standard's.

    >>> from funcad.numpy import fft
    >>> fft.rfftfreq(4, dtype="f4")
    array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    return _frequencies("rfftfreq", n, d, device, dtype)
