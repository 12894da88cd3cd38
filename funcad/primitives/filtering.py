"""Recursive filters.

Idea: of a rational filter only the denominator needs an operation of its own: `all_pole(v, a)` solves a[0] y[n] + a[1] y[n-1]
+ ... = v[n] from rest. It is linear in v; its transpose is itself, backwards in time; the derivative in a is the same filter
applied to the convolution of the change of a with y. The numerator is a convolution. `spline_filter` turns samples into the
coefficients of a B-spline through them; by the symmetry of its boundary conditions it is its own transpose, up to the weight
of the end elements with mode "mirror".

Canonical form of all_pole: v is (G, L, N) and a is (G, K), the filters of G groups, each for L lines of N samples.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, shape_of
from funcad.ir.primitive import Primitive
from funcad.primitives.arithmetic import add, neg
from funcad.primitives.convolution import conv
from funcad.primitives.families import avals_text, structural
from funcad.primitives.fourier import weighted
from funcad.primitives.shape import broadcast_leading, reshape, rev, transpose

__all__ = ["all_pole", "spline_filter", "spline_filter_p", "causal"]


def _scipy(name: str) -> Any:
    """The one door to scipy.signal and scipy.ndimage."""
    return importlib.import_module(f"scipy.{name}")


def causal(x: Any, taps: Any, tail: int = 0) -> Any:
    """The convolution of lines (G, L, N) with (G, K) from their starts, of the lines' length and `tail` samples more."""
    (groups, lines, n), k = shape_of(x), shape_of(taps)[1]
    kernel = reshape(rev(taps, axes=(1,)), shape=(groups, 1, 1, k))
    out = conv(reshape(x, shape=(groups, lines, 1, n)), kernel, strides=(1,), padding=((k - 1, tail),))
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
