"""Discrete Fourier, cosine and sine transforms.

Idea: one primitive `fft` with the kind as a parameter, closed under transposition. The matrix of fft and ifft is symmetric,
so each is its own transpose, of the same norm; rfft and irfft are each other's, with the norm exchanged, up to the weight 2
of the frequencies that stand for a pair. `trigonometric` (dct and dst of types 1 to 4) is its own transpose or that of types
2 and 3, up to a weight of the end elements. Transforms of length n are of exactly n elements here: cropping and padding are
equations of their own. Nothing conjugates but where a real result is made of half a spectrum.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, aval_of
from funcad.ir.primitive import Primitive
from funcad.primitives.conversion import complex_dtype, conj, real
from funcad.primitives.families import structural

__all__ = ["fft", "fft_p", "trigonometric", "trigonometric_p", "weighted", "weighted_p", "SWAPPED"]

SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
_REAL = {np.dtype(c): np.dtype(r) for c, r in (("F", "f"), ("D", "d"), ("G", "g"))}


def _weighted_impl(xp: Any, x: Any, *, axis: int, ranges: tuple, factor: float) -> Any:
    out = x.copy()
    for start, stop in ranges:
        out[(*[slice(None)] * axis, slice(start, stop))] *= factor
    return out


weighted_p: Primitive = structural(
    "weighted",
    _weighted_impl,
    lambda x, **params: Aval(x.shape, x.dtype),
    lambda ct, x, **params: weighted_p(ct, **params),
    lambda size, x, *, axis, **params: weighted_p(x, axis=axis + 1, **params),
)


def weighted(x: Any, axis: int, ranges: tuple, factor: float) -> Any:
    """x with the elements of the ranges (start, stop) along one axis multiplied by a constant."""
    return weighted_p(x, axis=axis, ranges=ranges, factor=factor)


def _fft_impl(xp: Any, x: Any, *, kind: str, axes: tuple, n: int, norm: str) -> Any:
    dtype = _fft_abstract(aval_of(x), kind=kind, axes=axes, n=n, norm=norm).dtype
    if kind in ("rfft", "irfft"):
        out = getattr(xp.fft, kind)(x, n, axis=axes[0], norm=norm)
    elif len(axes) == 1:
        out = getattr(xp.fft, kind)(x, axis=axes[0], norm=norm)
    else:
        out = getattr(xp.fft, f"{kind}n")(x, axes=axes, norm=norm)
    return out if out.dtype == dtype else out.astype(dtype)  # NumPy 1 transforms in double precision only


def _fft_abstract(x: Aval, *, kind: str, axes: tuple, n: int, norm: str) -> Aval:
    if kind == "irfft":
        if x.dtype not in _REAL or x.shape[axes[0]] != n // 2 + 1:
            raise ValueError(f"irfft: {x} is not half the spectrum of {n} real values along axis {axes[0]}")
        return Aval(_with_size(x.shape, axes[0], n), _REAL[x.dtype])
    dtype = complex_dtype(x.dtype)
    if kind == "rfft":
        if x.dtype.kind == "c" or x.shape[axes[0]] != n:
            raise ValueError(f"rfft: {x} does not hold {n} real values along axis {axes[0]}")
        return Aval(_with_size(x.shape, axes[0], n // 2 + 1), dtype)
    return Aval(x.shape, dtype)


def _with_size(shape: tuple, axis: int, n: int) -> tuple:
    return (*shape[:axis], n, *shape[axis + 1 :])


def _pairs(n: int) -> tuple:
    """The range of the frequencies of half a spectrum that stand for two of the whole."""
    return ((1, (n + 1) // 2),)


def _fft_transpose(ct: Any, x: Aval, *, kind: str, axes: tuple, n: int, norm: str) -> Any:
    if kind == "rfft":
        half = weighted(conj(ct), axes[0], _pairs(n), 0.5)
        return fft_p(half, kind="irfft", axes=axes, n=n, norm=SWAPPED[norm])
    if kind == "irfft":
        half = conj(fft_p(ct, kind="rfft", axes=axes, n=n, norm=SWAPPED[norm]))
        return weighted(half, axes[0], _pairs(n), 2.0)
    out = fft_p(ct, kind=kind, axes=axes, n=n, norm=norm)
    return out if x.dtype.kind == "c" else real(out)


def _shift(axes: tuple) -> tuple:
    return tuple([a + 1 for a in axes])


fft_p: Primitive = structural(
    "fft",
    _fft_impl,
    _fft_abstract,
    _fft_transpose,
    lambda size, x, *, kind, axes, n, norm: fft_p(x, kind=kind, axes=_shift(axes), n=n, norm=norm),
)


def fft(x: Any, kind: str, axes: tuple, *, n: int = 0, norm: str = "backward") -> Any:
    """The transform of one kind over non-negative axes: fft and ifft over several, rfft and irfft over one.

    `n` is the number of real values, for rfft and irfft; irfft takes n // 2 + 1 complex ones.
    """
    return fft_p(x, kind=kind, axes=axes, n=n, norm=norm)


# ---- cosine and sine transforms


def _scipy_fft(xp: Any) -> Any:
    """The one door to scipy.fft."""
    return importlib.import_module("scipy.fft")


def _trigonometric_impl(xp: Any, x: Any, *, kind: str, type: int, axis: int, norm: str, orthogonalize: bool) -> Any:
    if xp is not np:
        return _by_fft(xp, x, kind, type, axis, norm, orthogonalize)
    out = getattr(_scipy_fft(xp), kind)(x, type, axis=axis, norm=norm, orthogonalize=orthogonalize)
    return out if out.dtype == x.dtype else out.astype(x.dtype)


# Per kind and type, each element is 2 cos (or sin) of 2 pi * position * frequency / length:
# (step and offset of the positions, step and offset of the frequencies, length as (factor, offset) of n)
_PLAN = {
    ("dct", 1): ((1, 0), (1, 0), (2, -2)),
    ("dct", 2): ((2, 1), (1, 0), (4, 0)),
    ("dct", 3): ((1, 0), (2, 1), (4, 0)),
    ("dct", 4): ((2, 1), (2, 1), (8, 0)),
    ("dst", 1): ((1, 1), (1, 1), (2, 2)),
    ("dst", 2): ((2, 1), (1, 1), (4, 0)),
    ("dst", 3): ((1, 1), (2, 1), (4, 0)),
    ("dst", 4): ((2, 1), (2, 1), (8, 0)),
}


def _ends(kind: str, type: int) -> list[int]:
    """The input elements that count once while all others count twice (in types 1 and 3)."""
    if type == 1:
        return [0, -1] if kind == "dct" else []
    return [0 if kind == "dct" else -1] if type == 3 else []


def _by_fft(xp: Any, x: Any, kind: str, type: int, axis: int, norm: str, orthogonalize: bool) -> Any:
    """The same from the device's FFT, for libraries that lack some types."""
    if x.dtype.kind == "c":
        parts = [_by_fft(xp, part, kind, type, axis, norm, orthogonalize) for part in (x.real, x.imag)]
        return parts[0] + 1j * parts[1]
    (step, first), (out_step, out_first), (factor, offset) = _PLAN[kind, type]
    x = xp.moveaxis(x, axis, -1)
    n = x.shape[-1]
    length = factor * n + offset
    root = 2.0**0.5
    spread = xp.zeros((*x.shape[:-1], length), x.dtype)
    spread[..., first : first + (n - 1) * step + 1 : step] = x
    for end in _ends(kind, type):
        at = first + (end % n) * step
        spread[..., at] *= root / 2 if orthogonalize else 0.5
    spectrum = xp.fft.fft(spread)[..., out_first : out_first + (n - 1) * out_step + 1 : out_step]
    out = 2 * spectrum.real if kind == "dct" else -2 * spectrum.imag
    if orthogonalize and type in (1, 2):
        for end in _ends(kind, 1 if type == 1 else 3):
            out[..., end] *= 1 / root
    total = 2 * (n - 1 if (kind, type) == ("dct", 1) else n + 1 if type == 1 else n)
    out = out * {"backward": 1.0, "ortho": total**-0.5, "forward": 1.0 / total}[norm]
    return xp.moveaxis(out.astype(x.dtype), -1, axis)


def _trigonometric_transpose(ct: Any, x: Aval, *, kind: str, type: int, axis: int, norm: str, orthogonalize: bool) -> Any:
    other = {1: 1, 2: 3, 3: 2, 4: 4}[type]

    def rescaled(y: Any, at: int, factor: float) -> Any:
        n = x.shape[axis]
        ranges = tuple([(end % n, end % n + 1) for end in _ends(kind, at)])
        return y if orthogonalize or not ranges else weighted(y, axis, ranges, factor)

    before = rescaled(ct, other, 2.0)
    out = trigonometric_p(before, kind=kind, type=other, axis=axis, norm=norm, orthogonalize=orthogonalize)
    return rescaled(out, type, 0.5)


trigonometric_p: Primitive = structural(
    "trigonometric",
    _trigonometric_impl,
    lambda x, **params: Aval(x.shape, x.dtype),
    _trigonometric_transpose,
    lambda size, x, *, axis, **params: trigonometric_p(x, axis=axis + 1, **params),
)


def trigonometric(x: Any, kind: str, type: int, axis: int, *, norm: str = "backward", orthogonalize: bool = False) -> Any:
    """SciPy's `dct` or `dst` of x (float or complex) along one non-negative axis."""
    return trigonometric_p(x, kind=kind, type=type, axis=axis, norm=norm, orthogonalize=orthogonalize)
