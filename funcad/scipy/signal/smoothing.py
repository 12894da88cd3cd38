"""Detrending, smoothing, the analytic signal and resampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy.axes import array_of, axis_of, move
from funcad.numpy.fft import floating
from funcad.numpy.shaping import piece
from funcad.primitives.filtering import causal
from funcad.primitives.fourier import weighted
from funcad.primitives.shape import reshape
from funcad.scipy.constants import constant, moved
from funcad.scipy.door import implements, refuse, scipy_function

__all__ = ["detrend", "savgol_filter", "hilbert", "resample", "get_window"]


@implements("signal.get_window")
def get_window(window: Any, Nx: int, fftbins: bool = True, *, xp: Any = None, device: Any = None) -> Any:
    """`scipy.signal.get_window`: its parameters are known numbers."""
    raise TypeError("get_window takes known numbers, not traced values: the windows have no derivative in their parameters")


@implements("signal.detrend")
def detrend(data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False) -> Any:
    x = floating(data)
    axis = axis_of(axis, len(shape_of(x)))
    if type in ("constant", "c"):
        return x - np.mean(x, axis=axis, keepdims=True)
    if type not in ("linear", "l"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    n = shape_of(x)[axis]
    ends = sorted({0, *np.atleast_1d(bp).tolist(), n})
    if ends[-1] > n:
        raise ValueError("Breakpoints must be less than length of data along given axis.")
    last = len(shape_of(x)) - 1
    lines = move(x, axis, last)
    parts = []
    for start, stop in zip(ends, ends[1:]):
        m = stop - start
        trend = np.stack([np.arange(1, m + 1) / m, np.ones(m)], 1)
        basis = constant(np.linalg.qr(trend)[0] if m > 1 else np.ones((1, 1)), x, dtype_of(x))
        part = piece(lines, start, stop, last)
        parts.append(part - np.matmul(np.matmul(part, basis), basis.T))
    return move(np.concatenate(parts, axis=last), last, axis)


_PADDING = {"mirror": "reflect", "constant": "constant", "nearest": "edge", "wrap": "wrap"}


@implements("signal.savgol_filter")
def savgol_filter(
    x: Any,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: float = 1.0,
    axis: int = -1,
    mode: str = "interp",
    cval: float = 0.0,
) -> Any:
    """`scipy.signal.savgol_filter` with windows of odd length."""
    if mode not in ("mirror", "constant", "nearest", "interp", "wrap"):
        raise ValueError("mode must be 'mirror', 'constant', 'nearest' 'wrap' or 'interp'.")
    if window_length % 2 == 0:
        raise NotImplementedError("savgol_filter supports windows of odd length with traced values; take window_length + 1")
    x = floating(x)
    axis = axis_of(axis, len(shape_of(x)))
    coefficients_at = scipy_function("signal.savgol_coeffs")
    half, dtype = window_length // 2, dtype_of(x)

    def weights(position: int) -> Any:
        return coefficients_at(window_length, polyorder, deriv, delta, position, use="dot").astype(dtype)

    last = len(shape_of(x)) - 1
    lines = move(x, axis, last)
    n = shape_of(lines)[last]
    padded = lines
    if mode != "interp":
        options: Any = {"constant_values": cval} if mode == "constant" else {}
        widths = [(0, 0)] * last + [(half, half)]
        padded = np.pad(lines, widths, mode=_PADDING[mode], **options)  # type: ignore[call-overload]
    elif window_length > n:
        raise ValueError("If mode is 'interp', window_length must be less than or equal to the size of x.")
    shape = shape_of(padded)
    flat = reshape(padded, shape=(1, int(np.prod(shape[:-1])), shape[-1]))
    out = causal(flat, moved(weights(half)[None, ::-1], flat))
    out = reshape(out, shape=shape)
    inner = piece(out, window_length - 1, shape[-1], last)
    if mode == "interp":
        first = np.stack([weights(i) for i in range(half)], 1) if half else np.zeros((window_length, 0), dtype)
        final = np.stack([weights(half + 1 + i) for i in range(half)], 1) if half else first
        left = np.matmul(piece(lines, 0, window_length, last), moved(first, lines))
        right = np.matmul(piece(lines, n - window_length, n, last), moved(final, lines))
        inner = np.concatenate([left, inner, right], axis=last)
    return move(inner, last, axis)


@implements("signal.hilbert")
def hilbert(x: Any, N: Any = None, axis: int = -1) -> Any:
    x = array_of(x)
    if dtype_of(x).kind == "c":
        raise ValueError("x must be real.")
    axis = axis_of(axis, len(shape_of(x)))
    n = shape_of(x)[axis] if N is None else int(N)
    if n <= 0:
        raise ValueError("N must be positive.")
    spectrum = np.fft.fft(x, n, axis=axis)
    kept = np.zeros(n)
    kept[: n // 2 + 1] = 1.0
    kept[1 : (n + 1) // 2] = 2.0
    kept = kept.reshape([-1 if i == axis else 1 for i in range(len(shape_of(x)))])
    kept = constant(kept, spectrum, dtype_of(spectrum))
    return np.fft.ifft(spectrum * kept, axis=axis)


@implements("signal.resample")
def resample(x: Any, num: int, t: Any = None, axis: int = 0, window: Any = None, domain: str = "time") -> Any:
    """`scipy.signal.resample` of samples in time, without a window."""
    refuse("signal.resample", t=t, window=window)
    if domain != "time":
        raise NotImplementedError(f'resample supports domain="time" with traced values, got {domain!r}')
    x = floating(x)
    axis = axis_of(axis, len(shape_of(x)))
    n = shape_of(x)[axis]
    num = int(num)
    least = min(n, num)
    real = dtype_of(x).kind != "c"
    spectrum = np.fft.rfft(x, axis=axis) if real else np.fft.fft(x, axis=axis)
    half = least // 2 + 1
    low = piece(spectrum, 0, half, axis)
    if least % 2 == 0 and num != n:  # the highest frequency of the shorter signal stands for a pair, or for one of two
        low = weighted(low, axis, ((half - 1, half),), 0.5 if n < num else 2.0 if real else 1.0)
    if real:
        return np.fft.irfft(low, num, axis=axis) * (num / n)
    m = shape_of(spectrum)[axis]
    high = piece(spectrum, m - (least - 1) // 2, m, axis)
    if least % 2 == 0 and num != n:
        twin = piece(low, half - 1, half, axis) if n < num else piece(spectrum, m - least // 2, m - least // 2 + 1, axis)
        if n < num:
            high = np.concatenate([twin, high], axis=axis)
        else:
            low = np.concatenate([piece(low, 0, half - 1, axis), piece(low, half - 1, half, axis) + twin], axis=axis)
    size = num - shape_of(low)[axis] - shape_of(high)[axis]
    gap = constant(np.zeros((*shape_of(x)[:axis], size, *shape_of(x)[axis + 1 :])), low, dtype_of(low))
    return np.fft.ifft(np.concatenate([low, gap, high], axis=axis), axis=axis) * (num / n)
