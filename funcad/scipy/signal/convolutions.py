"""Convolution and correlation of any rank, directly or by Fourier transforms.

Direct convolution binds the primitive `conv`, so all its derivatives are convolutions; the results of both methods agree up to
rounding. Modes as in SciPy: "full", "same" (centred, in the first operand's shape) and "valid".
"""

from __future__ import annotations

from math import log2, prod
from typing import Any

import numpy as np

from funcad.configuration import mirrors
from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy.dispatch import refuse
from funcad.numpy.promote import array_of, promote_dtype, result_dtype
from funcad.primitives.conversion import conj, convert
from funcad.primitives.convolution import conv
from funcad.primitives.shape import reshape, rev, slice_p
from funcad.scipy import fft as _fft
from funcad.scipy.door import implements, in_c_order


def together(*args: Any) -> list[Any]:
    """The operands as arrays of one dtype."""
    arrays = [array_of(a) for a in args]
    return promote_dtype(arrays, result_dtype(arrays)[0])


def _check(x: Any, y: Any, mode: str, name: str) -> None:
    if mode not in ("full", "same", "valid"):
        raise ValueError("acceptable mode flags are 'valid', 'same', or 'full'")
    if len(shape_of(x)) != len(shape_of(y)):
        raise ValueError(f"{name}: the inputs should have the same dimensionality, got {shape_of(x)} and {shape_of(y)}")


def _swapped(sx: tuple, sy: tuple, mode: str) -> bool:
    """Mode "valid" slides the smaller operand over the larger, whichever comes first."""
    if mode != "valid" or all(n >= m for n, m in zip(sx, sy)):
        return False
    if not all(m >= n for n, m in zip(sx, sy)):
        raise ValueError("For 'valid' mode, one must be at least as large as the other in every dimension")
    return True


def _direct(x: Any, y: Any, mode: str) -> Any:
    sx, sy = shape_of(x), shape_of(y)
    if mode == "full" and prod(sy) > prod(sx):
        x, y, sx, sy = y, x, sy, sx
    padding = []
    for k in sy:
        start = {"full": 0, "same": (k - 1) // 2, "valid": k - 1}[mode]
        padding.append((k - 1 - start, {"full": k - 1, "same": start, "valid": 0}[mode]))
    kernel = rev(y, axes=tuple(range(len(sy))))
    out = conv(
        reshape(x, shape=(1, 1, 1, *sx)),
        reshape(kernel, shape=(1, 1, 1, *sy)),
        strides=(1,) * len(sx),
        padding=tuple(padding),
    )
    return reshape(out, shape=shape_of(out)[3:])


def _by_fft(x: Any, y: Any, mode: str, axes: list[int]) -> Any:
    sx, sy = shape_of(x), shape_of(y)
    full = [sx[a] + sy[a] - 1 for a in axes]
    real = dtype_of(x).kind != "c"
    sizes = [_fft.next_fast_len(n, real) for n in full]
    forward, back = (np.fft.rfftn, np.fft.irfftn) if real else (np.fft.fftn, np.fft.ifftn)
    out = back(forward(x, s=sizes, axes=axes) * forward(y, s=sizes, axes=axes), s=sizes, axes=axes)
    kept = dict(zip(axes, full))
    return _cropped(out, [kept.get(a, n) for a, n in enumerate(shape_of(out))], sx, sy, mode, axes)


def _cropped(out: Any, full: list[int], sx: tuple, sy: tuple, mode: str, axes: list[int]) -> Any:
    """The part of a full convolution, of shape `full` at the start of `out`, that the mode asks for."""
    start, limit = [], []
    for a, n in enumerate(full):
        size = sx[a] if mode == "same" else sx[a] - sy[a] + 1 if mode == "valid" and a in axes else n
        start.append((n - size) // 2)
        limit.append(start[a] + size)
    return in_c_order(slice_p(out, start=tuple(start), limit=tuple(limit), strides=None))


def _convolve(x: Any, y: Any, mode: str, method: str, name: str) -> Any:
    _check(x, y, mode, name)
    if method not in ("auto", "direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    sx, sy = shape_of(x), shape_of(y)
    if not sx:
        return x * y
    if 0 in sx or 0 in sy:
        if name == "convolve" and len(sx) == 1:
            raise ValueError("a cannot be empty" if 0 in sx else "v cannot be empty")
        return np.zeros(0, dtype_of(x))
    if _swapped(sx, sy, mode):
        x, y, sx, sy = y, x, sy, sx
    if dtype_of(x).kind not in "fc":
        return convert(_direct(convert(x, np.dtype(int)), convert(y, np.dtype(int)), mode), dtype_of(x))
    if method == "fft" or method == "auto" and _fft_is_quicker(sx, sy, mode):
        return _by_fft(x, y, mode, list(range(len(sx))))
    return _direct(x, y, mode)


def _fft_is_quicker(sx: tuple, sy: tuple, mode: str) -> bool:
    """By counts: the direct method multiplies a matrix of windows, the other transforms three arrays."""
    full = prod([n + m - 1 for n, m in zip(sx, sy)])
    rows = {"full": full, "same": prod(sx), "valid": prod([n - m + 1 for n, m in zip(sx, sy)])}[mode]
    return rows * min(prod(sx), prod(sy)) > 1e5 + 20.0 * full * log2(full + 1)


def choose_conv_method(in1: Any, in2: Any, mode: str = "full", measure: bool = False) -> Any:
    """Which method, "direct" or "fft", is quicker for these shapes; integers are convolved directly, exactly.

    Differs from SciPy's in its estimate, and refuses `measure`.

    >>> import numpy as np
    >>> choose_conv_method(np.ones(3), np.ones(3))
    'direct'
    """
    if measure:
        raise NotImplementedError(
            "scipy.signal.choose_conv_method(measure=True) is not supported.\nRemedy: time both methods with your own data."
        )
    x, y = together(in1, in2)
    _check(x, y, mode, "choose_conv_method")
    sx, sy = (shape_of(y), shape_of(x)) if _swapped(shape_of(x), shape_of(y), mode) else (shape_of(x), shape_of(y))
    return "fft" if dtype_of(x).kind in "fc" and sx and _fft_is_quicker(sx, sy, mode) else "direct"


@implements("signal.convolve", lift=True)
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    x, y = together(in1, in2)
    return _convolve(x, y, mode, method, "convolve")


def _reversed(y: Any) -> Any:
    return rev(conj(y) if dtype_of(y).kind == "c" else y, axes=tuple(range(len(shape_of(y)))))


@implements("signal.correlate", lift=True)
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    x, y = together(in1, in2)
    _check(x, y, mode, "correlate")
    if _swapped(shape_of(x), shape_of(y), mode):
        return _reversed(_convolve(y, _reversed(x), mode, method, "correlate"))
    return _convolve(x, _reversed(y), mode, method, "correlate")


def _flat(x: Any, y: Any, mode: str, boundary: str, fillvalue: Any, name: str) -> Any:
    """The two-dimensional convolution; mode "same" of even kernels is centred one later for correlate2d, so SciPy."""
    _check(x, y, mode, name)
    if len(shape_of(x)) != 2:
        raise ValueError(f"{name} inputs must both be 2-D arrays")
    if boundary not in ("fill", "pad", "wrap", "circular", "symm", "symmetric"):
        raise ValueError("Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric' (or 'symm').")
    if mode == "valid":
        return _direct(x, y, mode)
    widths = []
    for k in shape_of(y):
        start = 0 if mode == "full" else k // 2 if name == "correlate2d" else (k - 1) // 2
        widths.append((k - 1 - start, k - 1 if mode == "full" else start))
    if boundary in ("fill", "pad"):
        x = np.pad(x, widths, mode="constant", constant_values=fillvalue)
    else:
        x = np.pad(x, widths, mode="wrap" if boundary in ("wrap", "circular") else "symmetric")
    return _direct(x, y, "valid")


@implements("signal.convolve2d", lift=True)
def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    x, y = together(in1, in2)
    if _swapped(shape_of(x), shape_of(y), mode):
        x, y = y, x
    return _flat(x, y, mode, boundary, fillvalue, "convolve2d")


@implements("signal.correlate2d", lift=True)
def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    x, y = together(in1, in2)
    if _swapped(shape_of(x), shape_of(y), mode):
        return rev(_flat(y, _reversed(x), mode, boundary, fillvalue, "correlate2d"), axes=(0, 1))
    return _flat(x, _reversed(y), mode, boundary, fillvalue, "correlate2d")


def _fft_convolve(in1: Any, in2: Any, mode: str, axes: Any, name: str) -> Any:
    x, y = together(in1, in2)
    _check(x, y, mode, name)
    sx, sy = shape_of(x), shape_of(y)
    if not sx:
        return x * y
    if 0 in sx or 0 in sy:
        return np.zeros(0, dtype_of(x))
    ndim = len(sx)
    places = range(ndim) if axes is None else [axes] if is_a(axes, int) else axes
    chosen = sorted({a + ndim if a < 0 else a for a in places})
    if not chosen or not 0 <= chosen[0] <= chosen[-1] < ndim:
        raise ValueError("when provided, axes cannot be empty" if not chosen else "axes exceeds dimensionality of input")
    for a in range(ndim):
        if a not in chosen and sx[a] != sy[a] and 1 not in (sx[a], sy[a]):
            raise ValueError(f"incompatible shapes for in1 and in2: {sx} and {sy}")
    chosen = [a for a in chosen if sx[a] != 1 and sy[a] != 1]  # along the others one operand has one element: a product
    if _swapped(tuple([sx[a] for a in chosen]), tuple([sy[a] for a in chosen]), mode):
        x, y, sx, sy = y, x, sy, sx
    if not chosen:
        return _cropped(x * y, list(np.broadcast_shapes(sx, sy)), sx, sy, mode, chosen)
    if dtype_of(x).kind not in "fc":
        x, y = convert(x, np.dtype(float)), convert(y, np.dtype(float))
    return _by_fft(x, y, mode, chosen)


@implements("signal.fftconvolve", lift=True)
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    return _fft_convolve(in1, in2, mode, axes, "fftconvolve")


@implements("signal.oaconvolve", lift=True)
def oaconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """`scipy.signal.oaconvolve`; traced values are transformed in one piece, with the same result up to rounding."""
    return _fft_convolve(in1, in2, mode, axes, "oaconvolve")


@implements("signal.correlation_lags")
def correlation_lags(in1_len: int, in2_len: int, mode: str = "full") -> Any:
    """`scipy.signal.correlation_lags`: lengths are known integers."""
    raise TypeError(
        "scipy.signal.correlation_lags takes lengths that are known integers, not traced values.\n"
        "Remedy: take them from x.shape."
    )


@implements("signal.upfirdn")
def upfirdn(h: Any, x: Any, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant", cval: Any = 0) -> Any:
    """`scipy.signal.upfirdn`: zeros between the samples, the filter h, and each `down`-th of what comes out.

    >>> import numpy as np, funcad
    >>> f = lambda h: funcad.scipy.signal.upfirdn(h, np.ones(2), 2)[0]
    >>> funcad.grad(f)(np.ones(2))
    array([1., 0.])
    """
    if mode != "constant" or cval != 0:
        refuse("scipy.signal.upfirdn", mode=None if mode == "constant" else mode, cval=cval or None)
    h, x = together(h, x)
    if len(shape_of(h)) != 1 or not shape_of(h)[0]:
        raise ValueError("h must be 1-D with non-zero length")
    if up < 1 or down < 1:
        raise ValueError("Both up and down must be >= 1")
    x = np.moveaxis(x, axis, -1)
    *lead, n = shape_of(x)
    apart = np.reshape(np.pad(x[..., None], [(0, 0)] * (len(lead) + 1) + [(0, up - 1)]), (*lead, n * up))
    filtered = convolve(apart[..., : n * up - up + 1], np.reshape(h, (1,) * len(lead) + shape_of(h)), method="direct")
    return np.moveaxis(filtered[..., ::down], -1, axis)


mirrors([choose_conv_method], "scipy.signal")
