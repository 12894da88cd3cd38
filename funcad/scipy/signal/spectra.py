"""Spectra of windowed segments: stft, welch and their relatives, and the inverse of the first.

Idea: `_spectra` cuts the signal into overlapping segments, takes off their trend, multiplies them by the window and transforms
them; what the public functions differ in is scaling and averaging. The window and the segmentation are constants.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from funcad.host.real_types import is_a
from funcad.host.where import outside
from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy.fft import floating
from funcad.numpy.indexing import at
from funcad.numpy.promote import axis_of
from funcad.primitives.conversion import conj
from funcad.primitives.fourier import weighted
from funcad.primitives.placement import capture_as_inputs
from funcad.scipy.constants import constant, moved
from funcad.scipy.door import implements
from funcad.scipy.signal.filters import _extended, get_window
from funcad.scipy.signal.filters import detrend as _detrend


def _window(window: Any, nperseg: Any, length: int) -> tuple[np.ndarray, int]:
    """The window's values and its length."""
    if isinstance(window, (str, tuple)):
        nperseg = 256 if nperseg is None else int(nperseg)
        if nperseg < 1:
            raise ValueError("nperseg must be a positive integer")
        if nperseg > length:
            warnings.warn(
                f"nperseg = {nperseg} is greater than input length  = {length}, using nperseg = {length}", stacklevel=outside(2)
            )
            nperseg = length
        return get_window(window, nperseg), nperseg
    values = np.asarray(window)
    if values.ndim != 1:
        raise ValueError("window must be 1-D")
    if values.shape[0] > length:
        raise ValueError("window is longer than input signal")
    if nperseg is not None and nperseg != values.shape[0]:
        raise ValueError("value specified for nperseg is different from length of window")
    return values, values.shape[0]


def _overlap(noverlap: Any, nperseg: int) -> int:
    noverlap = nperseg // 2 if noverlap is None else int(noverlap)
    if noverlap >= nperseg:
        raise ValueError("noverlap must be less than nperseg.")
    return noverlap


def _without_trend(segments: Any, detrend: Any) -> Any:
    if not detrend:
        return segments
    return detrend(segments) if callable(detrend) else _detrend(segments, -1, detrend)


def _scale(scaling: str, window: np.ndarray, fs: Any, names: tuple) -> Any:
    if scaling not in names:
        raise ValueError(f"Unknown scaling: {scaling!r}")
    return 1.0 / float(window.sum()) ** 2 if scaling == "spectrum" else 1.0 / (fs * float((window * window).sum()))


class _Segments(NamedTuple):
    """How a signal is cut into segments, and these are transformed: SciPy's options of that name."""

    window: Any
    nperseg: Any
    noverlap: Any
    nfft: Any
    detrend: Any
    onesided: bool
    boundary: Any = None
    padded: bool = False


def _spectra(
    signals: list[Any],
    axis: int,
    fs: Any,
    options: _Segments,
) -> tuple[Any, Any, list[Any], np.ndarray, bool, int]:
    """(frequencies, times, transforms (..., segments, frequencies) of each signal, window, is onesided, nfft)."""
    window, nperseg, noverlap, nfft, detrend, onesided, boundary, padded = options
    if boundary not in ("even", "odd", "constant", "zeros", None):
        raise ValueError(f"Unknown boundary option '{boundary}', must be one of: ['even', 'odd', 'constant', 'zeros', None]")
    lines = [np.moveaxis(x, axis_of(axis, len(shape_of(x))), -1) for x in signals]
    length = max([shape_of(x)[-1] for x in lines])
    lines = [_zeros_behind(x, length - shape_of(x)[-1]) for x in lines]
    values, nperseg = _window(window, nperseg, length)
    nfft = nperseg if nfft is None else int(nfft)
    if nfft < nperseg:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    noverlap = _overlap(noverlap, nperseg)
    step = nperseg - noverlap
    if boundary is not None:
        edge = nperseg // 2
        if boundary == "zeros":
            lines = [np.pad(x, [(0, 0)] * (len(shape_of(x)) - 1) + [(edge, edge)]) for x in lines]
        else:
            lines = [_extended(x, len(shape_of(x)) - 1, boundary, edge) for x in lines]
    if padded:
        missing = (-(shape_of(lines[0])[-1] - nperseg) % step) % nperseg
        lines = [_zeros_behind(x, missing) for x in lines]
    n = shape_of(lines[0])[-1]
    starts = np.arange(0, n - nperseg + 1, step)
    places = starts[:, None] + np.arange(nperseg)
    if onesided and any(dtype_of(x).kind == "c" for x in lines):
        warnings.warn("Input data is complex, switching to return_onesided=False", stacklevel=outside(2))
        onesided = False
    transforms = []
    for x in lines:
        segments = _without_trend(x[..., places], detrend)
        segments = segments * constant(values, segments)
        transforms.append(np.fft.rfft(segments, nfft) if onesided else np.fft.fft(segments, nfft))
    frequencies = moved(np.fft.rfftfreq(nfft) if onesided else np.fft.fftfreq(nfft), lines[0]) * fs
    times = moved(starts + nperseg / 2, lines[0]) / fs
    if boundary is not None:
        times = times - (nperseg / 2) / fs
    return frequencies, times, transforms, values, onesided, nfft


def _zeros_behind(x: Any, n: int) -> Any:
    return np.pad(x, [(0, 0)] * (len(shape_of(x)) - 1) + [(0, n)]) if n else x


def _placed(result: Any, axis: int) -> Any:
    """(..., segments, frequencies) with the frequencies where the signal's axis was and the segments last."""
    return np.moveaxis(result, -1, axis - 1 if axis < 0 else axis)


def _density(x: Any, y: Any, scale: Any, onesided: bool, nfft: int) -> Any:
    """conj(x) y, scaled, with the energy of the frequencies that stand for a pair."""
    power = conj(x) * y
    if onesided and nfft > 1:
        m = shape_of(power)[-1]
        power = weighted(power, len(shape_of(power)) - 1, ((1, m if nfft % 2 else m - 1),), 2.0)
    return power * scale


def _cross(x: Any, y: Any, fs: Any, options: _Segments, scaling: str, axis: int) -> tuple[Any, Any, Any]:
    same = y is x
    signals = [floating(x)] if same else [floating(v) for v in capture_as_inputs([x, y], [x, y])]
    f, t, transforms, window, onesided, nfft = _spectra(signals, axis, fs, options)
    power = _density(transforms[0], transforms[-1], _scale(scaling, window, fs, ("density", "spectrum")), onesided, nfft)
    return f, t, _placed(np.real(power) if same else power, axis)


def _averaged(power: Any, average: str) -> Any:
    m = shape_of(power)[-1]
    if m <= 1:
        return power[..., 0]
    if average == "mean":
        return np.mean(power, axis=-1)
    if average != "median":
        raise ValueError(f'average must be "median" or "mean", got {average}')
    bias = 1.0 + sum([1.0 / (k + 1) - 1.0 / k for k in range(2, m, 2)])
    if dtype_of(power).kind == "c":
        return (np.median(np.real(power), axis=-1) + 1j * np.median(np.imag(power), axis=-1)) / bias
    return np.median(power, axis=-1) / bias


@implements("signal.csd")
def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> Any:
    options = _Segments(window, nperseg, noverlap, nfft, detrend, return_onesided)
    f, _, power = _cross(x, y, fs, options, scaling, axis)
    return f, _averaged(power, average)


@implements("signal.spectrogram")
def spectrogram(
    x: Any,
    fs: Any = 1.0,
    window: Any = ("tukey", 0.25),
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    mode: str = "psd",
) -> Any:
    if mode not in ("psd", "complex", "magnitude", "angle", "phase"):
        raise ValueError(f"unknown value for mode {mode}, must be one of psd, complex, magnitude, angle, phase")
    x = floating(x)
    _, nperseg = _window(window, nperseg, shape_of(x)[axis])
    noverlap = nperseg // 8 if noverlap is None else noverlap
    options = _Segments(window, nperseg, noverlap, nfft, detrend, return_onesided)
    if mode == "psd":
        return _cross(x, x, fs, options, scaling, axis)
    f, t, (transform,), values, _, _ = _spectra([x], axis, fs, options)
    result = _placed(transform * _root(_scale(scaling, values, fs, ("density", "spectrum"))), axis)
    if mode == "magnitude":
        result = np.abs(result)
    elif mode != "complex":
        result = np.angle(result)
        if mode == "phase":
            result = np.unwrap(result, axis=axis - 1 if axis < 0 else axis)
    return f, t, result


def _root(x: Any) -> Any:
    """The square root; of a known number as a number, which adapts to the dtype that it meets."""
    return math.sqrt(x) if is_a(x, float) else np.sqrt(x)


@implements("signal.stft")
def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Any = 256,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: Any = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> Any:
    options = _Segments(window, nperseg, noverlap, nfft, detrend, return_onesided, boundary, padded)
    f, t, (transform,), values, _, _ = _spectra([floating(x)], axis, fs, options)
    scale = _root(_scale({"psd": "density"}.get(scaling, scaling), values, fs, ("density", "spectrum")))
    return f, t, _placed(transform * scale, axis)


@implements("signal.istft")
def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: str = "spectrum",
) -> Any:
    z = floating(Zxx)
    ndim = len(shape_of(z))
    if ndim < 2:
        raise ValueError("Input stft must be at least 2d!")
    time_axis, freq_axis = axis_of(time_axis, ndim), axis_of(freq_axis, ndim)
    if time_axis == freq_axis:
        raise ValueError("Must specify differing time and frequency axes!")
    m = shape_of(z)[freq_axis]
    default = 2 * (m - 1) if input_onesided else m
    nperseg = default if nperseg is None else int(nperseg)
    if nfft is None:
        nfft = nperseg if input_onesided and nperseg == default + 1 else default
    elif nfft < nperseg:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    noverlap = _overlap(noverlap, nperseg)
    step = nperseg - noverlap
    values, _ = _window(window, nperseg, nperseg)
    rest = [i for i in range(ndim) if i not in (time_axis, freq_axis)]
    z = np.transpose(z, [*rest, time_axis, freq_axis])
    segments = np.fft.irfft(z, int(nfft)) if input_onesided else np.fft.ifft(z, int(nfft))
    segments = segments[..., :nperseg]
    if scaling not in ("spectrum", "psd"):
        raise ValueError(f"Parameter scaling={scaling!r} not in ['spectrum', 'psd']!")
    factor = float(values.sum()) if scaling == "spectrum" else _root(fs * float((values**2).sum()))
    count = shape_of(segments)[-2]
    length = nperseg + (count - 1) * step
    places = step * np.arange(count)[:, None] + np.arange(nperseg)
    segments = segments * constant(values, segments) * factor
    empty = constant(np.zeros((*shape_of(segments)[:-2], length)), segments, dtype_of(segments))
    out = at(empty)[..., places].add(segments)
    norm = np.zeros(length)
    np.add.at(norm, places, np.broadcast_to(values**2, places.shape))
    if boundary:
        edge = nperseg // 2
        out, norm = out[..., edge : length - edge], norm[edge : length - edge]
    if not np.all(norm > 1e-10):
        hint = "" if boundary else " Possibly due to missing boundary"
        warnings.warn(f"NOLA condition failed, STFT may not be invertible.{hint}", stacklevel=outside(2))
    out = out / constant(np.where(norm > 1e-10, norm, 1.0), out)
    out = np.moveaxis(out, -1, time_axis - 1 if freq_axis < time_axis else time_axis)
    return moved(np.arange(shape_of(out)[0]), out) / fs, out  # the first axis, whichever the time's is: so SciPy
