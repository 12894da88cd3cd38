"""Signal processing under SciPy's names, differentiable: convolutions, recursive filters, spectra, smoothing.

Windows are constants: `get_window` and the module `windows` are SciPy's own.

>>> import numpy as np, funcad
>>> from funcad.scipy import signal
>>> funcad.grad(lambda a: signal.lfilter(np.array([1.0]), np.stack([1.0, a]), np.ones(3))[-1])(-0.5)
np.float64(-2.0)
"""

import importlib as _importlib
import typing as _typing
from typing import Any as _Any

from funcad.scipy.door import absent as _absent
from funcad.scipy.door import by_own_code as _by_own_code

# isort: off
from funcad.scipy.ndimage.image_filters import medfilt as medfilt, medfilt2d as medfilt2d
from funcad.scipy.signal.convolutions import (
    choose_conv_method as choose_conv_method, convolve as convolve, convolve2d as convolve2d, correlate as correlate,
    correlate2d as correlate2d, correlation_lags as correlation_lags, fftconvolve as fftconvolve, oaconvolve as oaconvolve,
    upfirdn as upfirdn,
)  # fmt: skip
from funcad.scipy.signal.filters import (
    detrend as detrend, filtfilt as filtfilt, get_window as get_window, hilbert as hilbert, lfilter as lfilter,
    lfilter_zi as lfilter_zi, resample as resample, savgol_filter as savgol_filter, sosfilt as sosfilt,
    sosfilt_zi as sosfilt_zi, sosfiltfilt as sosfiltfilt,
)  # fmt: skip
from funcad.scipy.signal.spectra import (
    csd as csd, istft as istft, spectrogram as spectrogram, stft as stft,
)  # fmt: skip
# isort: on

coherence, periodogram = _by_own_code("signal.coherence"), _by_own_code("signal.periodogram")
welch = _by_own_code("signal.welch")

__all__ = [n for n, v in globals().items() if not n.startswith("_") and type(v) is not type(_importlib)]

if _typing.TYPE_CHECKING:
    from types import ModuleType as _ModuleType

    windows: _ModuleType  # SciPy's own


def _lazy(name: str) -> _Any:
    return _importlib.import_module("scipy.signal.windows") if name == "windows" else None


if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.signal", _lazy)


def __dir__() -> list[str]:
    return sorted([*__all__, "windows"])
