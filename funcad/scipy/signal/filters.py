"""Filters: recursive ones, and those that smooth.

Idea: filtering is a convolution with b and the all-pole filter of a. The initial state of SciPy's (transposed direct form II)
is added to the convolution's first samples; the final state is what the two convolutions, of b with x and of a with y, leave
beyond the signal's end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.trace import plain_values
from funcad.numpy.dispatch import where_am_i
from funcad.numpy.fft import floating
from funcad.numpy.promote import array_of, axis_of, promote_dtype, result_dtype
from funcad.primitives.conversion import convert
from funcad.primitives.fourier import all_pole, causal, weighted
from funcad.primitives.placement import capture_as_inputs
from funcad.primitives.shape import broadcast_to, move_axis, pad_p, reshape, static_slice
from funcad.scipy.constants import constant, moved
from funcad.scipy.door import implements, scipy_function


def _floats(*args: Any) -> list[Any]:
    """The operands as arrays of one float or complex dtype; None stays."""
    arrays = [array_of(a) for a in args if a is not None]
    dtype = np.result_type(result_dtype(arrays)[0], np.float32)
    found = iter([convert(x, dtype) for x in promote_dtype(arrays, dtype)])
    return [None if a is None else next(found) for a in args]


def _line(x: Any, n: int) -> Any:
    """A vector (k,) as (1, n), padded with zeros."""
    return reshape(pad_p(x, low=(0,), high=(n - shape_of(x)[0],), interior=(0,)), shape=(1, n))


def run_filter(b: Any, a: Any, x: Any, state: Any) -> tuple[Any, Any]:
    """y and the final state for x (L, N), vectors b and a, and a state (L, K - 1) or None; all of one dtype."""
    lines, n = shape_of(x)
    k = max(shape_of(b)[0], shape_of(a)[0])
    b, a = b / a[:1], a / a[:1]
    tail = 0 if state is None else k - 1
    x = reshape(x, shape=(1, lines, n))
    v = causal(x, _line(b, k), tail)
    if state is not None:
        v = v + reshape(pad_p(state, low=(0, 0), high=(0, n), interior=(0, 0)), shape=(1, lines, n + tail))
    y = all_pole(static_slice(v, 0, n, 2), _line(a, k)) if shape_of(a)[0] > 1 else static_slice(v, 0, n, 2)
    y_lines = reshape(y, shape=(lines, n))
    if state is None:
        return y_lines, None
    left = static_slice(v, n, n + tail, 2)
    if shape_of(a)[0] > 1:
        left = left - static_slice(causal(y, _line(a, k), tail), n, n + tail, 2)
    return y_lines, reshape(left, shape=(lines, tail))


def _along(x: Any, axis: int) -> tuple[Any, tuple]:
    """x as lines (L, N) of one axis, and the shape to come back to."""
    x = move_axis(x, axis, len(shape_of(x)) - 1)
    shape = shape_of(x)
    size = 1
    for m in shape[:-1]:
        size *= m
    return reshape(x, shape=(size, shape[-1])), shape


def _back(lines: Any, shape: tuple, axis: int) -> Any:
    return move_axis(reshape(lines, shape=(*shape[:-1], shape_of(lines)[1])), len(shape) - 1, axis)


def _state_of(zi: Any, shape: tuple, axis: int, size: int) -> Any:
    """An initial state with SciPy's axes, broadcast, as lines."""
    if len(shape_of(zi)) != len(shape) or shape_of(zi)[axis] != size:
        raise ValueError(f"the initial state zi must have x's axes and {size} elements along axis {axis}, got {shape_of(zi)}")
    zi = move_axis(zi, axis, len(shape) - 1)
    return reshape(broadcast_to(zi, (*shape[:-1], size)), shape=(int(np.prod(shape[:-1])), size))


@implements("signal.lfilter", lift=True)
def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    b, a, x, zi = _floats(b, a, x, zi)
    b, a = np.atleast_1d(b), np.atleast_1d(a)
    if len(shape_of(b)) != 1 or len(shape_of(a)) != 1 or not shape_of(a)[0] or not shape_of(b)[0]:
        raise ValueError(f"lfilter: b and a must be vectors that are not empty, got shapes {shape_of(b)} and {shape_of(a)}")
    axis = axis_of(axis, len(shape_of(x)))
    lines, shape = _along(x, axis)
    size = max(shape_of(a)[0], shape_of(b)[0]) - 1
    y, state = run_filter(b, a, lines, None if zi is None else _state_of(zi, shape, axis, size))
    y = _back(y, shape, axis)
    return y if zi is None else (y, _back(state, shape, axis))


@implements("signal.lfilter_zi", lift=True)
def lfilter_zi(b: Any, a: Any) -> Any:
    """`scipy.signal.lfilter_zi`: the state in which a step's response is steady."""
    b, a = [np.atleast_1d(v) for v in _floats(b, a)]
    b, a = b / a[:1], a / a[:1]
    k = max(shape_of(a)[0], shape_of(b)[0])  # of 1: no state, as in SciPy 1.18; older versions raise
    b, a = _line(b, k)[0], _line(a, k)[0]
    rest = (b - a * (np.sum(b) / np.sum(a)))[1:]
    return np.flip(np.cumsum(np.flip(rest)))


def _sections(sos: Any) -> Any:
    if len(shape_of(sos)) != 2 or shape_of(sos)[1] != 6:
        raise ValueError(f"sos array must be shape (n_sections, 6), got {shape_of(sos)}")
    return sos


@implements("signal.sosfilt", lift=True)
def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    sos, x, zi = _floats(sos, x, zi)
    n = shape_of(_sections(sos))[0]
    axis = axis_of(axis, len(shape_of(x)))
    lines, shape = _along(x, axis)
    if zi is not None and (shape_of(zi)[:1] != (n,) or len(shape_of(zi)) != len(shape) + 1):
        raise ValueError(f"Invalid zi shape: expected ({n}, ...) with 2 elements along x's axis {axis}, got {shape_of(zi)}")
    states = []
    for i in range(n):
        state = None if zi is None else _state_of(zi[i], shape, axis, 2)
        lines, state = run_filter(sos[i, :3], sos[i, 3:], lines, state)
        states.append(state)
    y = _back(lines, shape, axis)
    return y if zi is None else (y, np.stack([_back(s, shape, axis) for s in states]))


@implements("signal.sosfilt_zi", lift=True)
def sosfilt_zi(sos: Any) -> Any:
    """`scipy.signal.sosfilt_zi`: the states in which a step's response is steady."""
    (sos,) = _floats(sos)
    scale: Any = 1.0
    states = []
    for i in range(shape_of(_sections(sos))[0]):
        b, a = sos[i, :3], sos[i, 3:]
        states.append(scale * lfilter_zi(b, a))
        scale = scale * (np.sum(b) / np.sum(a))
    return np.stack(states)


# ---- forwards and backwards


def _extended(x: Any, axis: int, padtype: Any, edge: int) -> Any:
    """x continued by `edge` samples at both ends of an axis."""
    n = shape_of(x)[axis]
    if padtype not in ("even", "odd", "constant", None):
        raise ValueError(f"Unknown value '{padtype}' given to padtype. padtype must be 'even', 'odd', 'constant', or None.")
    if padtype is None or edge == 0:
        return x
    if edge < 0 or n <= edge:
        raise ValueError(f"The length of the input vector x must be greater than padlen, which is {edge}.")
    first, last = static_slice(x, 0, 1, axis), static_slice(x, n - 1, n, axis)
    if padtype == "constant":
        before, after = [broadcast_to(e, _resized(shape_of(x), axis, edge)) for e in (first, last)]
    else:
        before = np.flip(static_slice(x, 1, edge + 1, axis), axis)
        after = np.flip(static_slice(x, n - 1 - edge, n - 1, axis), axis)
        if padtype == "odd":
            before, after = 2 * first - before, 2 * last - after
    return np.concatenate([before, x, after], axis=axis)


def _resized(shape: tuple, axis: int, n: int) -> tuple:
    return (*shape[:axis], n, *shape[axis + 1 :])


def _both_ways(x: Any, axis: int, edge: int, step: Any) -> Any:
    """`step(lines, first samples) -> lines`, forwards and backwards, and without the continuation."""
    lines, shape = _along(x, axis)
    for _ in range(2):
        lines = np.flip(step(lines, lines[:, :1]), 1)
    n = shape_of(lines)[1]
    return _back(static_slice(lines, edge, n - edge, 1), shape, axis)


@implements("signal.filtfilt", lift=True)
def filtfilt(
    b: Any,
    a: Any,
    x: Any,
    axis: int = -1,
    padtype: Any = "odd",
    padlen: Any = None,
    method: str = "pad",
    irlen: Any = None,
) -> Any:
    """`scipy.signal.filtfilt` with method "pad"."""
    if method != "pad":
        raise NotImplementedError(
            f"scipy.signal.filtfilt(method={method!r}) is not there for traced values{where_am_i()}.\n"
            'Remedy: method="pad" is, with the padlen of your choice.'
        )
    b, a, x = _floats(b, a, x)
    axis = axis_of(axis, len(shape_of(x)))
    b, a = np.atleast_1d(b), np.atleast_1d(a)
    edge = 0 if padtype is None else 3 * max(shape_of(a)[0], shape_of(b)[0]) if padlen is None else int(padlen)
    x = _extended(x, axis, padtype, edge)
    zi = lfilter_zi(b, a)
    return _both_ways(x, axis, edge, lambda lines, first: run_filter(b, a, lines, first * zi)[0])


@implements("signal.sosfiltfilt")
def sosfiltfilt(sos: Any, x: Any, axis: int = -1, padtype: Any = "odd", padlen: Any = None) -> Any:
    """`scipy.signal.sosfiltfilt`; with traced coefficients give `padlen`, whose default looks at their zeros."""
    if padlen is None and padtype is not None:
        padlen = _default_edge(sos)
    sos, x = _floats(*capture_as_inputs([sos, x], [sos, x]))
    axis = axis_of(axis, len(shape_of(x)))
    edge = 0 if padtype is None else int(padlen)
    x = _extended(x, axis, padtype, edge)
    zi = sosfilt_zi(sos)

    def step(lines: Any, first: Any) -> Any:
        for i in range(shape_of(sos)[0]):
            lines, _ = run_filter(sos[i, :3], sos[i, 3:], lines, first * zi[i])
        return lines

    return _both_ways(x, axis, edge, step)


def _default_edge(sos: Any) -> int:
    (sos,) = plain_values([sos])
    if not is_a(sos, (np.ndarray, list, tuple)):
        raise TypeError(
            f"scipy.signal.sosfiltfilt has traced coefficients{where_am_i()}, and its default of padlen depends on which "
            "of them are zero.\nRemedy: give padlen."
        )
    coefficients = np.asarray(sos)
    n = 2 * len(coefficients) + 1
    return 3 * int(n - min((coefficients[:, 2] == 0).sum(), (coefficients[:, 5] == 0).sum()))


# -- detrending, smoothing, the analytic signal and resampling


@implements("signal.get_window")
def get_window(window: Any, Nx: int, fftbins: bool = True, *, xp: Any = None, device: Any = None) -> Any:
    """`scipy.signal.get_window`: its parameters are known numbers."""
    raise TypeError(
        "funcad.scipy.signal.get_window takes known numbers, not traced values.\n"
        "Remedy: scipy.signal.get_window, or the function of that window in scipy.signal.windows."
    )


@implements("signal.detrend")
def detrend(data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False) -> Any:
    x = floating(data)
    axis = axis_of(axis, len(shape_of(x)))
    if type in ("constant", "c"):
        return x - np.mean(x, axis=axis, keepdims=True)
    if type not in ("linear", "l"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    x = x if dtype_of(x).char in "fdFD" else convert(x, np.dtype(float))
    n = shape_of(x)[axis]
    ends = sorted({0, *np.atleast_1d(bp).tolist(), n})
    if ends[-1] > n:
        raise ValueError("Breakpoints must be less than length of data along given axis.")
    last = len(shape_of(x)) - 1
    lines = move_axis(x, axis, last)
    parts = []
    for start, stop in zip(ends, ends[1:]):
        m = stop - start
        trend = np.stack([np.arange(1, m + 1) / m, np.ones(m)], 1)
        basis = constant(np.linalg.qr(trend)[0] if m > 1 else np.ones((1, 1)), x, dtype_of(x))
        part = static_slice(lines, start, stop, last)
        parts.append(part - np.matmul(np.matmul(part, basis), basis.T))
    return move_axis(np.concatenate(parts, axis=last), last, axis)


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
        raise NotImplementedError(
            f"scipy.signal.savgol_filter has a window of even length, and traced values{where_am_i()}.\n"
            "Remedy: take window_length + 1."
        )
    x = array_of(x)
    x = x if dtype_of(x).char in "fd" else convert(x, np.dtype(float))  # of complex numbers, SciPy takes the real parts
    axis = axis_of(axis, len(shape_of(x)))
    coefficients_at = scipy_function("signal.savgol_coeffs")
    half, dtype = window_length // 2, dtype_of(x)

    def weights(position: int) -> Any:
        return coefficients_at(window_length, polyorder, deriv, delta, position, use="dot").astype(dtype)

    last = len(shape_of(x)) - 1
    lines = move_axis(x, axis, last)
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
    inner = static_slice(out, window_length - 1, shape[-1], last)
    if mode == "interp":
        first = np.stack([weights(i) for i in range(half)], 1) if half else np.zeros((window_length, 0), dtype)
        final = np.stack([weights(half + 1 + i) for i in range(half)], 1) if half else first
        left = np.matmul(static_slice(lines, 0, window_length, last), moved(first, lines))
        right = np.matmul(static_slice(lines, n - window_length, n, last), moved(final, lines))
        inner = np.concatenate([left, inner, right], axis=last)
    return move_axis(inner, last, axis)


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


def _of_frequencies(window: Any, spectrum: Any, axis: int, n: int) -> Any:
    """A window over the frequencies of n samples; over half of them that of a frequency and of its negative, together."""
    if callable(window):
        window = window(np.fft.fftfreq(n))
    elif not hasattr(window, "shape"):
        window = np.fft.fftshift(scipy_function("signal.get_window")(window, n))
    elif shape_of(window) != (n,):
        raise ValueError(f"{window.shape=} != ({n},), i.e., window length is not equal to number of frequency bins!")
    size = shape_of(spectrum)[axis]
    if size < n:
        window = np.concatenate([window[:1], (window[1:size] + np.flip(window[n - size + 1 :])) / 2])
    shape = [1] * len(shape_of(spectrum))
    shape[axis] = size
    return reshape(array_of(window), shape=tuple(shape))


@implements("signal.resample")
def resample(x: Any, num: int, t: Any = None, axis: int = 0, window: Any = None, domain: str = "time") -> Any:
    """`scipy.signal.resample` of samples in time."""
    if t is not None:
        times = np.arange(0, num) * (t[1] - t[0]) * shape_of(x)[axis] / float(num) + t[0]
        return resample(x, num, None, axis, window, domain), times
    if domain != "time":
        raise NotImplementedError(
            f"scipy.signal.resample(domain={domain!r}) is not there for traced values{where_am_i()}.\n"
            'Remedy: domain="time", of np.fft.ifft(x).'
        )
    x = floating(x)
    axis = axis_of(axis, len(shape_of(x)))
    n = shape_of(x)[axis]
    num = int(num)
    least = min(n, num)
    real = dtype_of(x).kind != "c"
    spectrum = np.fft.rfft(x, axis=axis) if real else np.fft.fft(x, axis=axis)
    if window is not None:
        spectrum = spectrum * _of_frequencies(window, spectrum, axis, n)
    half = least // 2 + 1
    low = static_slice(spectrum, 0, half, axis)
    if least % 2 == 0 and num != n:  # the highest frequency of the shorter signal stands for a pair, or for one of two
        low = weighted(low, axis, ((half - 1, half),), 0.5 if n < num else 2.0 if real else 1.0)
    if real:
        return np.fft.irfft(low, num, axis=axis) * (num / n)
    m = shape_of(spectrum)[axis]
    high = static_slice(spectrum, m - (least - 1) // 2, m, axis)
    if least % 2 == 0 and num != n:
        last = static_slice(low, half - 1, half, axis)
        if n < num:
            high = np.concatenate([last, high], axis=axis)
        else:
            twin = static_slice(spectrum, m - least // 2, m - least // 2 + 1, axis)
            low = np.concatenate([static_slice(low, 0, half - 1, axis), last + twin], axis=axis)
    size = num - shape_of(low)[axis] - shape_of(high)[axis]
    gap = constant(np.zeros((*shape_of(x)[:axis], size, *shape_of(x)[axis + 1 :])), low, dtype_of(low))
    return np.fft.ifft(np.concatenate([low, gap, high], axis=axis), axis=axis) * (num / n)
