"""Discrete Fourier, cosine and sine transforms, and recursive filters.

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

from funcad.configuration import OnDemand
from funcad.host.real_types import FLOAT32
from funcad.ir.aval import Aval, aval_of, dtype_of, shape_of
from funcad.ir.primitive import Primitive
from funcad.primitives.arithmetic import add, neg
from funcad.primitives.conversion import complex_dtype, conj, convert, real
from funcad.primitives.families import avals_text, structural
from funcad.primitives.shape import broadcast_leading, reshape, rev, transpose

convolution = OnDemand("funcad.primitives.convolution")

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
    x = convert(x, FLOAT32) if dtype_of(x) == np.float16 else x  # whose cotangent has its dtype then
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


# -- recursive filters
#
# Idea: of a rational filter only the denominator needs an operation of its own: `all_pole(v, a)` solves a[0] y[n] + a[1] y[n-1]
# + ... = v[n] from rest. It is linear in v; its transpose is itself, backwards in time; the derivative in a is the same filter
# applied to the convolution of the change of a with y. The numerator is a convolution. `spline_filter` turns samples into the
# coefficients of a B-spline through them; by the symmetry of its boundary conditions it is its own transpose, up to the weight
# of the end elements with mode "mirror".
#
# Canonical form of all_pole: v is (G, L, N) and a is (G, K), the filters of G groups, each for L lines of N samples.


def _scipy(name: str) -> Any:
    """The one door to scipy.signal and scipy.ndimage."""
    return importlib.import_module(f"scipy.{name}")


def causal(x: Any, taps: Any, tail: int = 0) -> Any:
    """The convolution of lines (G, L, N) with (G, K) from their starts, of the lines' length and `tail` samples more."""
    (groups, lines, n), k = shape_of(x), shape_of(taps)[1]
    kernel = reshape(rev(taps, axes=(1,)), shape=(groups, 1, 1, k))
    out = convolution.conv(reshape(x, shape=(groups, lines, 1, n)), kernel, strides=(1,), padding=((k - 1, tail),))
    return reshape(out, shape=(groups, lines, n + tail))


def _all_pole_impl(xp: Any, v: Any, a: Any) -> Any:
    out = xp.empty(v.shape, v.dtype)
    if xp is np:
        one = np.ones(1, v.dtype)
        for g in range(v.shape[0] if v.size else 0):
            out[g] = _scipy("signal").lfilter(one, a[g], v[g])
        return out
    order = a.shape[1] - 1
    backwards = a[:, None, :0:-1]
    for n in range(v.shape[2]):  # one step for all lines
        past = min(n, order)
        feedback = (backwards[..., order - past :] * out[..., n - past : n]).sum(-1)
        out[..., n] = (v[..., n] - feedback) / a[:, :1]
    return out


def _all_pole_abstract(v: Aval, a: Aval) -> Aval:
    if v.dtype != a.dtype or v.ndim != 3 or a.ndim != 2 or v.shape[0] != a.shape[0] or not a.shape[1]:
        raise ValueError(f"all_pole: {avals_text([v, a])} are not lines (G, L, N) and coefficients (G, K) of one dtype")
    return Aval(v.shape, v.dtype)


def _all_pole_jvp(tangents: Any, out: Any, v: Any, a: Any) -> Any:
    tv, ta = tangents
    if ta is not None:
        change = neg(causal(out, ta))
        tv = change if tv is None else add(tv, change)
    return all_pole(tv, a)


def _all_pole_transpose(ct: Any, v: Any, a: Any) -> list:
    return [rev(all_pole(rev(ct, axes=(2,)), a), axes=(2,)), None]


def _all_pole_batch(size: int, args: Any, batched: Any) -> tuple[Any, bool]:
    v, a = args
    groups, lines, n = shape_of(v)[-3:]
    if not batched[1]:  # more lines of the same filters
        v = v if groups == 1 else _exchanged(v)
        out = all_pole(reshape(v, shape=(groups, size * lines, n)), a)
        out = reshape(out, shape=(size, 1, lines, n) if groups == 1 else (groups, size, lines, n))
        return (out if groups == 1 else _exchanged(out)), True
    if not batched[0]:
        v = broadcast_leading(v, size)
    out = all_pole(reshape(v, shape=(size * groups, lines, n)), reshape(a, shape=(size * groups, shape_of(a)[2])))
    return reshape(out, shape=(size, groups, lines, n)), True


def _exchanged(x: Any) -> Any:
    return transpose(x, perm=(1, 0, 2, 3))


# The response y of sum over k of a[g, k] * y[g, l, n - k] = v[g, l, n], from rest.
all_pole = Primitive(
    "all_pole", _all_pole_impl, _all_pole_abstract, jvp=_all_pole_jvp, transpose=_all_pole_transpose, batch=_all_pole_batch
)

# ---- coefficients of B-splines


_SHORT = 64  # SciPy's start values for mode "reflect" are exact to the last bit on longer lines only


def _spline_impl(xp: Any, x: Any, *, order: int, axis: int, mode: str, transposed: bool) -> Any:
    if xp is not np:
        raise NotImplementedError(
            "spline interpolation of order 2 or more has no implementation for arrays on the GPU.\n"
            "Remedy: use order=0 or order=1, or compute on the CPU: funcad.device_get(x), then funcad.device_put of the result."
        )
    n = x.shape[axis]
    if transposed and n < _SHORT and mode == "reflect":
        matrix = _scipy("ndimage").spline_filter1d(np.eye(n), order, 1, mode=mode)  # its rows are the transposed's columns
        return np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis).astype(x.dtype)
    out = np.empty(x.shape, x.dtype)
    wide = np.dtype(np.complex128 if x.dtype.kind == "c" else np.float64)
    out[...] = _scipy("ndimage").spline_filter1d(x.astype(wide, copy=False), order, axis, output=wide, mode=mode)
    return out


def _spline_transpose(ct: Any, x: Aval, *, order: int, axis: int, mode: str, transposed: bool) -> Any:
    n = x.shape[axis]
    if mode != "mirror" or n < 2:
        return spline_filter_p(ct, order=order, axis=axis, mode=mode, transposed=not transposed)
    ends = ((0, 1), (n - 1, n))  # the others have two mirror images
    out = spline_filter_p(weighted(ct, axis, ends, 2.0), order=order, axis=axis, mode=mode, transposed=transposed)
    return weighted(out, axis, ends, 0.5)


spline_filter_p: Primitive = structural(
    "spline_filter",
    _spline_impl,
    lambda x, **params: Aval(x.shape, x.dtype),
    _spline_transpose,
    lambda size, x, *, axis, **params: spline_filter_p(x, axis=axis + 1, **params),
)


def spline_filter(x: Any, *, order: int, axis: int, mode: str) -> Any:
    """Coefficients of the B-spline of order 2 to 5 through the samples x along an axis; mode: mirror, reflect, grid-wrap."""
    return spline_filter_p(x, order=order, axis=axis, mode=mode, transposed=False)
